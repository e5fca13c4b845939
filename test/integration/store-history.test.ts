// What is known of a stream's past, and what of it is forgotten.

import { beforeEach, describe, expect, it } from 'vitest'
import { readCheckpoints } from '../../src/store/book/checkpoints.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('the history of a stream', () => {
  const database = createTestDatabase()
  const query = async (sql: string) => (await database.pool.query(sql)).rows

  beforeEach(async () => {
    await query(
      'truncate mirror.assignment, tidemark.checkpoint, tidemark.run, tidemark.lease, tidemark.late_arrival',
    )
  })

  it('tells which position was held when, and when a version was reached', async () => {
    await query(`insert into tidemark.checkpoint (stream, position, reached_at, reason) values
      ('assignment', 10, '2024-01-01T10:00Z', null), ('assignment', 20, '2024-01-01T11:00Z', null),
      ('assignment', 5, '2024-01-01T12:00Z', 'rewind'), ('assignment_note', 99, '2024-01-01T09:00Z', null)`)
    const store = storeOf(database)
    const at = (time: string) => store.history.positionAt('assignment', new Date(time))
    expect(await at('2024-01-01T09:59Z')).toBeNull()
    expect(await at('2024-01-01T10:00Z')).toBe(10n)
    expect(await at('2024-01-01T11:59Z')).toBe(20n)
    expect(await at('2024-01-02T00:00Z')).toBe(5n)
    expect(await store.history.reachedAt('assignment', [11n, 21n])).toEqual([
      new Date('2024-01-01T11:00Z'),
      null,
    ])
  })

  it('lists the newest positions first, also when their ids have grown by a digit', async () => {
    await query(`insert into tidemark.checkpoint (id, stream, position) overriding system value
      select n, 'assignment', n from generate_series(8, 12) as n`)
    const newest = await readCheckpoints(database.pool, { stream: 'assignment', limit: 3 })
    expect(newest.map(({ id }) => id)).toEqual(['12', '11', '10'])
  })

  it('knows the rows with the highest versions that the upstream should show', async () => {
    const store = storeOf(database)
    expect(await store.history.anchors('assignment', 100n, 2)).toEqual([])
    const run = await begin(store)
    const rows = [1, 2, 3, 4].map((id) => ({ AssignmentId: id, RowVersion: id * 10, SysDeleted: id === 3 }))
    await run.pages.commit(assignments(...rows), null)
    await run.finish(done)
    expect(await store.history.anchors('assignment', 39n, 2)).toEqual([
      { key: '3', version: 30n },
      { key: '2', version: 20n },
    ])
    expect(await store.history.anchors('tracker_object', 39n, 2)).toEqual([])
  })

  it('keeps every checkpoint for a day, the last of an hour for a month, then the last of a day; rewinds stay (P10)', async () => {
    await query(`insert into tidemark.checkpoint (stream, position, reached_at)
      select 'assignment', n, now() - n * interval '10 minutes' from generate_series(1, 6 * 24 * 100) as n`)
    await query(`insert into tidemark.checkpoint (stream, position, reached_at, reason)
      values ('assignment', 1, now() - interval '200 days', 'rewind'), ('assignment', 1, now() - interval '200 days', 'rewind')`)
    await query(`insert into tidemark.run (stream, kind, status, host, pid, started_at)
      values ('assignment', 'incremental', 'done', 'h', 1, now() - interval '91 days'), ('assignment', 'incremental', 'failed', 'h', 1, now() - interval '89 days')`)
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 1 }), null)
    await run.finish(done)
    const [kept] = await query(`
      select
        count(*) filter (where reached_at > now() - interval '1 day') as day,
        count(*) filter (where reached_at between now() - interval '29 days' and now() - interval '2 days') as month,
        count(distinct date_trunc('hour', reached_at)) filter (where reached_at between now() - interval '29 days' and now() - interval '2 days') as hours,
        count(*) filter (where reached_at < now() - interval '32 days' and reason is null) as old,
        count(distinct date_trunc('day', reached_at)) filter (where reached_at < now() - interval '32 days' and reason is null) as days,
        count(*) filter (where reason is not null) as rewinds
      from tidemark.checkpoint`)
    expect(kept.day).toBe('143')
    expect(kept.month).toBe(kept.hours)
    expect(Number(kept.month)).toBeGreaterThan(27 * 24 - 3)
    expect(kept.old).toBe(kept.days)
    expect(Number(kept.old)).toBeGreaterThan(66)
    expect(kept.rewinds).toBe('2')
    expect(await query('select status from tidemark.run order by id')).toEqual([
      { status: 'failed' },
      { status: 'done' },
    ])
    const thinned = (await query('select count(*) from tidemark.checkpoint'))[0]
    const again = await begin(storeOf(database))
    await again.pages.commit(assignments({ AssignmentId: 1, RowVersion: 2 }), null)
    await again.finish(done)
    expect((await query('select count(*) from tidemark.checkpoint'))[0]).toEqual(thinned)
  })
})
