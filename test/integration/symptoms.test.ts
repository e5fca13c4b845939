// What Postgres tells about the health of streams, after runs that made it so.

import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { cancelBackfill } from '../../src/store/book/backfills.ts'
import { readSymptoms, type StreamSymptoms } from '../../src/store/book/symptoms.ts'
import type { Store } from '../../src/sync/ports/store.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, failed, storeOf, writeAll } from '../support/runs.ts'

const dayMs = 86_400_000

describe.skipIf(!hasPostgres)('the symptoms of a stream', () => {
  const database = createTestDatabase()
  let store: Store
  beforeAll(() => {
    store = storeOf(database)
  })
  beforeEach(async () => {
    await database.pool.query(
      `truncate tidemark.run, tidemark.belief, tidemark.quarantine, tidemark.missed_rows;
       update tidemark.stream set read_through_at = null, first_read_through_at = null, blocked_deletions = null`,
    )
  })

  async function symptoms(stream = 'assignment'): Promise<StreamSymptoms> {
    const [found] = await readSymptoms(database.pool, [stream], dayMs)
    if (!found) throw new Error('no such stream')
    return found
  }
  async function fail(kind: 'incremental' | 'lookback', errorCode: string | null = null): Promise<void> {
    await (await begin(store, 'assignment', kind)).finish({ ...failed, errorCode })
  }

  it('counts the failures of a kind of run since the last that succeeded', async () => {
    await fail('incremental')
    await fail('lookback')
    await (await begin(store)).finish(done)
    expect((await symptoms()).failing).toMatchObject([{ kind: 'lookback', failures: 1 }])
    await fail('incremental')
    await fail('incremental', 'UPSTREAM_SIGN_IN')
    const { failing } = await symptoms()
    expect(failing).toMatchObject([
      {
        kind: 'incremental',
        failures: 2,
        error: 'a test ended it',
        code: 'UPSTREAM_SIGN_IN',
        since: expect.any(Date),
      },
      { kind: 'lookback', failures: 1 },
    ])
  })

  it('P18: takes a backfill for failing only as long as one is to be done', async () => {
    await database.pool.query(
      `insert into tidemark.backfill (id, stream, position_from, position_to, position, requested_by)
       overriding system value values (7, 'assignment', 0, 9, 0, 'a test')`,
    )
    // As of a run that failed, after which the backfill waits to be tried again.
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, started_at, finished_at, error)
       values ('assignment', 'backfill', 'failed', 'here', 1, now(), now(), 'it answered 500')`,
    )
    expect((await symptoms()).failing).toMatchObject([{ kind: 'backfill', failures: 1 }])
    expect(await cancelBackfill(database.pool, '7', 'a test')).toBe(true)
    expect((await symptoms()).failing).toEqual([])
  })

  it('takes a run that asked for nothing for no success', async () => {
    await (await begin(store)).finish(done)
    const { lastSuccessAt } = await symptoms()
    expect(lastSuccessAt).toBeInstanceOf(Date)
    await (await begin(store, 'assignment', 'lookback')).finish({ ...done, requests: 0 })
    expect((await symptoms()).lastSuccessAt).toEqual(lastSuccessAt)
  })

  it('takes no field of the first reading for drift, and every later one', async () => {
    await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 1, Count: 1, Name: 'x' }))
    expect(await symptoms()).toMatchObject({ drift: [], readThroughAt: expect.any(Date) })
    const page = assignments({
      AssignmentId: 2,
      RowVersion: 2,
      Count: JSON.rawJSON('9223372036854775808'),
      Name: true,
      Added: 'new',
    })
    await writeAll(store, 'assignment', page)
    const { drift } = await symptoms()
    expect(drift.map(({ field, change }) => `${field} ${change}`).toSorted()).toEqual([
      'Added new',
      'Count widened',
      'Name values do not fit',
    ])
    await database.pool.query(`update tidemark.field set first_seen_at = now() - interval '25 hours',
      widened_at = now() - interval '25 hours', rescued_since = now() - interval '25 hours'`)
    await database.pool.query(`update tidemark.stream set first_read_through_at = now() - interval '2 days'`)
    expect((await symptoms()).drift).toEqual([])
  })

  it('takes the first value of a field that was null until then for no drift', async () => {
    const page = (id: number, fields: object) =>
      assignments({ AssignmentId: id, RowVersion: id, Name: 'x', ...fields })
    await writeAll(store, 'assignment', page(1, { Nullable: null, Other: null }))
    expect(await symptoms()).toMatchObject({ drift: [] })
    await writeAll(store, 'assignment', page(2, { nullable: 'its first value', Other: null }))
    expect((await symptoms()).drift).toEqual([])
    const { rows } = await database.pool.query(
      `select source_name, column_name, column_type, records_seen::int, nulls_seen::int from tidemark.field
       where stream = 'assignment' and folded in ('nullable', 'other') order by folded`,
    )
    expect(rows).toEqual([
      {
        source_name: 'nullable',
        column_name: 'nullable',
        column_type: 'text',
        records_seen: 2,
        nulls_seen: 1,
      },
      { source_name: 'Other', column_name: null, column_type: null, records_seen: 2, nulls_seen: 2 },
    ])
    expect((await database.pool.query('select nullable from bi.assignment order by 1')).rows).toEqual([
      { nullable: 'its first value' },
      { nullable: null },
    ])
    await writeAll(store, 'assignment', page(3, { Nullable: 'y', Other: null, Later: null, Once: 1 }))
    await writeAll(store, 'assignment', page(4, { Nullable: 'y', Other: 'z', Later: 2, Once: 1 }))
    expect((await symptoms()).drift.map(({ field, change }) => `${field} ${change}`).toSorted()).toEqual([
      'Later new',
      'Once new',
    ])
  })

  it('tells a belief that is another one now, and no larger answer', async () => {
    const run = await begin(store)
    const belief = { evidence: 'seen', testedAt: new Date() }
    const learn = (sorting: string, largest: string) =>
      run.findings.learn([
        { ...belief, name: 'sorting', value: sorting },
        { ...belief, name: 'largest_answer', value: largest },
      ])
    await learn('proven', '10')
    expect((await symptoms()).flippedBeliefs).toEqual([])
    await learn('ignored', '20')
    await run.finish(done)
    expect((await symptoms()).flippedBeliefs).toMatchObject([
      { name: 'sorting', value: 'ignored', previousValue: 'proven', changedAt: expect.any(Date) },
    ])
  })

  it('tells what is put aside and blocked, and since when', async () => {
    await writeAll(store, 'assignment', assignments({ RowVersion: 1, Name: 'without a key' }))
    await database.pool.query(
      `update tidemark.stream set blocked_deletions = '{"missing": 3, "living": 4, "at": "2026-01-02T03:04:05Z"}' where name = 'assignment'`,
    )
    await database.pool.query(
      `insert into tidemark.missed_rows (stream, run_id, rows, samples) values ('assignment', 1, 7, '[]')`,
    )
    expect(await symptoms()).toMatchObject({
      quarantined: 1,
      quarantinedSince: expect.any(Date),
      blockedDeletions: { missing: 3, living: 4, at: new Date('2026-01-02T03:04:05Z') },
      missedRows: 7,
      missedSince: expect.any(Date),
    })
    expect(await symptoms('tracker_object')).toMatchObject({
      quarantined: 0,
      blockedDeletions: null,
    })
  })
})
