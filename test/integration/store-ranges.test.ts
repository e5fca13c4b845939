// What a reading in ranges has left is kept beside the position, in the same transactions, and whoever puts a position back has
// everything above it read again.

import { beforeEach, describe, expect, it } from 'vitest'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { readProgress } from '../../src/store/book/progress.ts'
import type { Unread } from '../../src/sync/ports/store.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

const left: Unread = {
  upTo: 2n ** 62n,
  ranges: [
    { above: 9n, upTo: 20n },
    { above: 2n ** 60n, upTo: 2n ** 61n },
  ],
}
const nothingLeft: Unread = { upTo: 30n, ranges: [] }
const record = (id: number, version: number) => assignments({ AssignmentId: id, RowVersion: version })

describe.skipIf(!hasPostgres)('a reading in ranges', () => {
  const database = createTestDatabase({ forEach: true })

  const kept = async () => {
    const { rows } = await database.pool.query(
      `select position::text, unread is not null as has_unread from tidemark.stream where name = 'assignment'`,
    )
    return rows[0]
  }
  const nextRun = async () => {
    const run = await begin(storeOf(database))
    await run.finish(done)
    return run.position
  }

  beforeEach(async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(record(1, 25), null, { unread: { ...left, ranges: [{ above: 5n, upTo: 20n }] } })
    await run.pages.commit(record(2, 9), 9n, { unread: left })
    await run.finish(done)
  })

  it('leaves to the next run what it has not read, also where the position stays (P1, P8)', async () => {
    expect(await nextRun()).toMatchObject({ start: 9n, unread: left })
    const run = await begin(storeOf(database))
    await run.pages.commit(record(3, 12), null, { unread: { ...left, ranges: [{ above: 9n, upTo: 12n }] } })
    await run.pages.commit(record(4, 11), 11n)
    await run.finish(done)
    expect(await nextRun()).toMatchObject({ start: 11n, unread: { ranges: [{ above: 9n, upTo: 12n }] } })
    expect((await database.pool.query('select count(*)::int as n from tidemark.checkpoint')).rows).toEqual([
      { n: 2 },
    ])
  })

  it('keeps nothing when all is read', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(record(3, 30), 30n, { unread: nothingLeft })
    await run.finish(done)
    expect(await kept()).toEqual({ position: '30', has_unread: false })
    expect((await nextRun()).unread).toBe(null)
  })

  it('writes nothing of it without the lease (P2)', async () => {
    const run = await begin(storeOf(database))
    await rewindStream(database.pool, { stream: 'assignment', position: 3n, reason: 'a test', by: 'test' })
    await expect(run.pages.commit(record(3, 12), null, { unread: left })).rejects.toThrow('lost its turn')
    await run.finish({ ...done, status: 'failed', error: 'fenced' }).catch(() => {})
    expect(await kept()).toEqual({ position: '3', has_unread: false })
  })

  it.each([
    ['a rewind', 3n],
    ['a rewind to where it is', 9n],
  ])('is forgotten by %s (P6)', async (_, position) => {
    await rewindStream(database.pool, { stream: 'assignment', position, reason: 'a test', by: 'test' })
    expect((await nextRun()).unread).toBe(null)
  })

  it.each([
    ['goes back', 3n],
    ['stays where it was', 9n],
  ])('is forgotten when what rests on the order is taken back, and the position %s (P6)', async (_, to) => {
    const run = await begin(storeOf(database))
    await run.position.retreat('nothing is sorted', to)
    await run.finish(done)
    expect(await nextRun()).toMatchObject({ start: to, unread: null })
  })

  it('is forgotten when nothing is sorted any more, whoever finds that', async () => {
    const run = await begin(storeOf(database), 'assignment', 'lookback')
    const belief = { name: 'sorting', evidence: 'a test', testedAt: new Date() }
    await run.findings.learn([{ ...belief, value: 'proven' }])
    expect(await kept()).toMatchObject({ has_unread: true })
    await run.findings.learn([{ ...belief, value: 'refused' }])
    expect(await kept()).toMatchObject({ has_unread: false })
    await run.finish(done)
  })

  it('is forgotten when somebody changed the table, in the run that mends it (P15)', async () => {
    await database.pool.query('delete from mirror.assignment')
    const run = await begin(storeOf(database))
    expect(run.position).toMatchObject({ start: 0n, unread: null })
    await run.finish(done)
    expect(await kept()).toEqual({ position: '0', has_unread: false })
  })

  it('is forgotten by whatever else puts the position back', async () => {
    await database.pool.query(`update tidemark.stream set position = 8 where name = 'assignment'`)
    expect((await nextRun()).unread).toBe(null)
  })

  it('of a backfill is kept with the backfill', async () => {
    const store = storeOf(database)
    await requestBackfill(database.pool, { stream: 'assignment', from: 0n, to: 50n, by: 'test' })
    const id = (await store.nextBackfill('assignment'))?.id ?? ''
    const open = async () => {
      const run = await store.openRun('backfill', 'assignment', { id })
      if ('busy' in run) throw new Error(run.busy)
      return run
    }
    const run = await open()
    expect(run.position.unread).toBe(null)
    const half: Unread = { upTo: 50n, ranges: [{ above: 7n, upTo: 40n }] }
    await run.pages.commit(record(5, 7), 7n, { unread: half })
    await run.finish({ ...done, isComplete: false, isCutShort: true })
    await database.pool.query(
      `insert into tidemark.progress (stream, reading, run_id, subject, began_at, updated_at)
       values ('assignment', 'backfill', 1, $1, now(), now())`,
      [id],
    )
    const progress = await readProgress(database.pool, ['assignment'])
    expect(progress.map(({ reading, unread }) => [reading, unread])).toEqual([['backfill', [[0.14, 0.8]]]])
    const again = await open()
    expect(again.position).toMatchObject({ start: 7n, unread: half })
    await again.finish(done)
    expect((await nextRun()).unread).toEqual(left)
  })
})
