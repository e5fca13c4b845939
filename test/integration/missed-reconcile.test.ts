// A reconcile that was missed is made up for, once, and by nobody's help.

import { describe, expect, it } from 'vitest'
import { lastSlot, type Schedule } from '../../src/config/parsers.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { verifyStream } from '../../src/sync/reconcile/verify.ts'
import { isTaken, missedReconciles, restMs } from '../../src/worker/look.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { type Backend, hasBackend, redisUrlOf } from '../support/queues.ts'
import { begin, failed, storeOf } from '../support/runs.ts'
import { startTestWorker } from '../support/worker.ts'

const [assignment] = streams
const inTime = { timeout: 20_000, interval: 100 }
const hourMs = 3_600_000
// Its last slot is past, and its next one does not come during a test.
const everyYear = '0 3 1 2 *'
const schedule = { everyMs: 2 * hourMs }
const lookbackMs = () => hourMs / 2

describe.skipIf(!hasPostgres)('a reconcile that was missed', () => {
  describe('by the ledger', () => {
    const database = createTestDatabase({ forEach: true })
    const set = (column: string, hoursAgo: number) =>
      database.pool.query(
        `update tidemark.stream set ${column} = now() - $1::float8 * interval '1 hour' where name = 'assignment'`,
        [hoursAgo],
      )
    const attempt = (status: string, minutesAgo: number) =>
      database.pool.query(
        `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to, started_at, finished_at)
         select 'assignment', 'reconcile', $1, 'there', 1, 0, 0, at, case when $1 <> 'running' then at end
         from (select now() - $2::float8 * interval '1 minute' as at) as moment`,
        [status, minutesAgo],
      )
    const asked = (by: { schedule: Schedule; now: Date } = { schedule, now: new Date() }) =>
      missedReconciles(
        { pool: database.pool, schedule: by.schedule, lookbackMs },
        ['assignment', 'assignment_note'],
        by.now,
      )

    it('is asked for when none was taken since the slot, and once after a first load (P13)', async () => {
      expect(await asked()).toEqual([])
      await set('first_read_through_at', 1)
      expect(await asked()).toEqual(['assignment'])
      await set('first_read_through_at', 30)
      expect(await asked()).toEqual(['assignment'])
      await set('last_reconcile_at', 26)
      expect(await asked()).toEqual(['assignment'])
      await set('last_reconcile_at', 1)
      expect(await asked()).toEqual([])
    })

    it.each([
      ['that has no 02:30', '2026-03-29T01:30:00Z', '2026-03-29T10:00:00Z'],
      ['before', '2026-03-28T01:30:00Z', '2026-03-28T10:00:00Z'],
      ['after', '2026-03-30T00:30:00Z', '2026-03-30T10:00:00Z'],
    ])('is asked for in the morning after a night %s, when no worker ran then', async (_, slot, morning) => {
      const zone = process.env.TZ
      process.env.TZ = 'Europe/Oslo'
      try {
        const nightly = { cron: '30 2 * * *' }
        expect(lastSlot(nightly, new Date(morning))).toEqual(new Date(slot))
        const askedAfter = async (lastReconcile: number) => {
          await database.pool.query(
            `update tidemark.stream set first_read_through_at = '2026-03-01', last_reconcile_at = $1 where name = 'assignment'`,
            [new Date(lastReconcile)],
          )
          return await asked({ schedule: nightly, now: new Date(morning) })
        }
        expect(await askedAfter(Date.parse(slot) - hourMs)).toEqual(['assignment'])
        expect(await askedAfter(Date.parse(slot) + hourMs)).toEqual([])
      } finally {
        if (zone === undefined) delete process.env.TZ
        else process.env.TZ = zone
      }
    })

    it('is taken once more when a first load was compared before its look-back had gone by (P13)', async () => {
      const minutes = (ago: number) => ago / 60
      await set('first_read_through_at', minutes(29))
      await set('last_reconcile_at', minutes(28))
      await attempt('done', 28)
      expect(await asked()).toEqual([])
      await set('first_read_through_at', minutes(31))
      expect(await asked()).toEqual(['assignment'])
      await database.pool.query(`update tidemark.stream set lookback_ms = 3600000 where name = 'assignment'`)
      expect(await asked()).toEqual([])
      await database.pool.query(`update tidemark.stream set lookback_ms = null where name = 'assignment'`)
      const run = await begin(storeOf(database), 'assignment', 'reconcile')
      expect(await asked()).toEqual([])
      await run.finish(failed)
      await database.pool.query(`delete from tidemark.run where status = 'failed'`)
      await database.pool.query(
        `update tidemark.stream set settled_through_version = 7 where name = 'assignment'`,
      )
      expect(await asked()).toEqual([])
      await database.pool.query(
        `update tidemark.stream set settled_through_version = null where name = 'assignment'`,
      )
      await set('last_reconcile_at', 0)
      expect(await asked()).toEqual([])
    })

    it('is taken once more as soon as something can be settled, however soon after the first that is (P13)', async () => {
      const minutes = (ago: number) => ago / 60
      await database.pool.query(`update tidemark.stream set lookback_ms = 60000 where name = 'assignment'`)
      const askedSoon = () =>
        missedReconciles(
          { pool: database.pool, schedule, lookbackMs: () => 60_000 },
          ['assignment'],
          new Date(),
        )
      await set('first_read_through_at', minutes(1.1))
      await set('last_reconcile_at', minutes(1))
      await attempt('done', 1)
      expect(await askedSoon()).toEqual(['assignment'])
      // One that could have settled something and did not is not repeated at once.
      await attempt('done', 0.05)
      expect(await askedSoon()).toEqual([])
      await database.pool.query(
        `update tidemark.run set status = 'failed', started_at = now() - interval '1 minute'`,
      )
      expect(await askedSoon()).toEqual([])
    })

    it('is taken when polls have been inconclusive for longer than a replica lags, once', async () => {
      await set('first_read_through_at', 30)
      await set('last_reconcile_at', 1)
      await attempt('done', 60)
      const inconclusive = async (runs: number, minutes: number) => {
        await database.pool.query('update tidemark.stream set inconclusive_runs = $1', [runs])
        await set('inconclusive_since', minutes / 60)
      }
      await inconclusive(2, 7)
      expect(await asked()).toEqual([])
      await inconclusive(20, 5)
      expect(await asked()).toEqual([])
      await inconclusive(20, 7)
      expect(await asked()).toEqual(['assignment'])
      await set('last_reconcile_at', 6 / 60)
      expect(await asked()).toEqual([])
      // It ended without proving anything.
      await set('last_reconcile_at', 1)
      await inconclusive(200, 60)
      await attempt('done', 50)
      expect(await asked()).toEqual([])
    })

    it('is taken when a search has blocked deletions for longer than a replica lags: it sees the whole list (P7)', async () => {
      const blocked = (minutes: number, more: object = {}) =>
        database.pool.query(
          `update tidemark.stream set blocked_deletions = $2::jsonb
             || jsonb_build_object('living', 1355, 'missing', 379, 'seen', 976, 'at', now() - $1::float8 * interval '1 minute')
           where name = 'assignment'`,
          [minutes, JSON.stringify(more)],
        )
      await set('first_read_through_at', 30)
      await set('last_reconcile_at', 1)
      await attempt('done', 60)
      await blocked(5)
      expect(await asked()).toEqual([])
      await blocked(7)
      expect(await asked()).toEqual(['assignment'])
      await blocked(7, { rejected: 'now' })
      expect(await asked()).toEqual([])
      // It found as much missing.
      await blocked(70)
      await attempt('done', 60)
      expect(await asked()).toEqual([])
      await attempt('done', 121)
      await database.pool.query(`delete from tidemark.run where finished_at > now() - interval '2 hours'`)
      expect(await asked()).toEqual(['assignment'])
    })

    it('is not taken again at once because it has blocked deletions itself: it saw the whole list', async () => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      const reconcile = () => reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
      await reconcile()
      for (let id = 101; id <= 200; id++) simulator.source.remove('assignment', id, 'hard')
      expect((await reconcile()).findings).toMatchObject({ marked: 0, blocked: { missing: 100 } })
      await database.pool.query(`
        update tidemark.run set started_at = started_at - interval '1 hour', finished_at = finished_at - interval '1 hour';
        update tidemark.stream set last_reconcile_at = last_reconcile_at - interval '1 hour',
          first_read_through_at = first_read_through_at - interval '1 hour', settled_through_version = 1,
          blocked_deletions = blocked_deletions || jsonb_build_object('at', (blocked_deletions->>'at')::timestamptz - interval '1 hour')`)
      expect(await asked()).toEqual([])
    })

    it('lifts what a search has blocked because rights were lost for a moment', async () => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      const reconcile = () => reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
      await reconcile()
      const isBlocked = async () =>
        (
          await database.pool.query(
            `select blocked_deletions is not null as found from tidemark.stream where name = 'assignment'`,
          )
        ).rows[0].found
      const run = await begin(storeOf(database), 'assignment', 'deletions')
      await run.shown.block({ living: 300, missing: 80, seen: 220 })
      await run.finish(failed)
      expect(await isBlocked()).toBe(true)
      simulator.source.remove('assignment', 7, 'hard')
      expect((await reconcile()).findings).toMatchObject({ marked: 1 })
      expect(await isBlocked()).toBe(false)
    })

    it('ends polls that are inconclusive because dozens of the newest records were deleted', async () => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator)
      const poll = () => context.read(assignment, 'incremental', { signal })
      const reconcile = () => reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
      await poll()
      await reconcile()
      for (const { key } of await context.store.history.anchors(
        'assignment',
        await positionOf(database.pool),
        50,
      ))
        simulator.source.remove('assignment', Number(key), 'hard')
      simulator.source.insert('assignment', {})
      for (let polls = 0; polls < 3; polls++) expect(await poll()).toMatchObject({ status: 'inconclusive' })
      await set('inconclusive_since', 7 / 60)
      await set('last_reconcile_at', 1)
      await database.pool.query(
        `update tidemark.run set started_at = now() - interval '1 hour', finished_at = now() - interval '1 hour'`,
      )
      expect(await asked()).toEqual(['assignment'])
      expect((await reconcile()).findings).toMatchObject({ marked: 50 })
      // A program remembers for half a minute which rows are the highest.
      await using later = await openTestContext(database, simulator)
      expect(await later.read(assignment, 'incremental', { signal })).toMatchObject({
        status: 'done',
        isComplete: true,
      })
    })

    it('is left to whoever takes it at the moment, and to an operator who has paused the stream', async () => {
      await set('first_read_through_at', 30)
      const run = await begin(storeOf(database), 'assignment', 'reconcile')
      expect(await asked()).toEqual([])
      await run.finish(failed)
      await database.pool.query('delete from tidemark.run')
      await set('paused_at', 1)
      expect(await asked()).toEqual([])
    })

    it('is taken although somebody had begun it by hand whose program was killed (P8)', async () => {
      await set('first_read_through_at', 30)
      await attempt('running', 90)
      expect(await asked()).toEqual(['assignment'])
    })

    it('is not tried at each of many starts when it fails, or proves nothing', async () => {
      await set('first_read_through_at', 30)
      await attempt('failed', restMs / 60_000 + 1)
      expect(await asked()).toEqual(['assignment'])
      await attempt('failed', 1)
      expect(await asked()).toEqual([])
      await database.pool.query('delete from tidemark.run')
      await attempt('done', 60)
      expect(await asked()).toEqual([])
      await database.pool.query('delete from tidemark.run')
      // What was shown of the upstream may be whole again.
      await attempt('done', 121)
      expect(await asked()).toEqual(['assignment'])
    })

    it('is over for all who owe it when one has taken it; what an operator or a tick asks for is done', async () => {
      const owed = { pool: database.pool, schedule, lookbackMs }
      await set('first_read_through_at', 30)
      const reconcile = { stream: 'assignment', kind: 'reconcile' } as const
      const taken = (cause: 'again' | 'operator' | 'tick') =>
        isTaken(owed, { ...reconcile, cause }, new Date())
      expect(await taken('again')).toBe(false)
      await set('last_reconcile_at', 1)
      expect(await taken('again')).toBe(true)
      expect([await taken('operator'), await taken('tick')]).toEqual([false, false])
    })
  })

  describe.each([null, 1])('after a verification of %s rows', (sample) => {
    const database = createTestDatabase()
    it('is still missed: whoever only looks has not reconciled', async () => {
      await using simulator = await startSimulator({ assignments: 30 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      await database.pool.query(
        `update tidemark.stream set first_read_through_at = now() - interval '2 years'`,
      )
      const wanted = { ...context.contextOf(assignment), signal, repair: false, sample, onDifference() {} }
      expect(await verifyStream(wanted)).toMatchObject({ status: 'done', kind: 'verify' })
      const reconciles = { pool: database.pool, schedule, lookbackMs }
      expect(await missedReconciles(reconciles, ['assignment'], new Date())).toEqual(['assignment'])
    })
  })

  describe.each<Backend>(['postgres', 'redis'])('with the queue in %s', (backend) => {
    const database = createTestDatabase()
    it.skipIf(!hasBackend(backend))('is taken once by several workers that start (P8)', async () => {
      await using simulator = await startSimulator({ assignments: 30 })
      {
        await using context = await openTestContext(database, simulator)
        await context.read(assignment, 'incremental', { signal })
      }
      await database.pool.query(
        `update tidemark.stream set first_read_through_at = now() - interval '2 years'`,
      )
      await writeAsTidemark(database.pool, 'delete from mirror.assignment where assignment_id = 5')
      const start = () =>
        startTestWorker(simulator, database, {
          STREAMS: 'assignment',
          SCHEDULE_ASSIGNMENT: '1h',
          SCHEDULE_RECONCILE: everyYear,
          REDIS_URL: redisUrlOf(backend) ?? undefined,
        })
      const workers = await Promise.all([start(), start(), start()])
      try {
        const reconciles = async () => {
          const { rows } = await database.pool.query(
            `select status, sum(polls)::int as taken from tidemark.run where kind = 'reconcile' group by status`,
          )
          return rows
        }
        await expect.poll(reconciles, inTime).toEqual([{ status: 'done', taken: 1 }])
        const { rowCount } = await database.pool.query('select from bi.assignment where assignment_id = 5')
        expect(rowCount).toBe(1)
        await expect
          .poll(async () => (await workers[0].get('/metrics')).text(), inTime)
          .toMatch(/tidemark_queue_jobs\{state="active"\} 0/)
        expect(await reconciles()).toEqual([{ status: 'done', taken: 1 }])
      } finally {
        await Promise.all(workers.map((worker) => worker.stop()))
      }
    })
  })
})
