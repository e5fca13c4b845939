// The whole worker against the stand-in, with the queue in Postgres and in Redis.

import { describe, type ExpectStatic, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { openRunQueue } from '../../src/worker/queue/requests.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { deliver } from '../support/deliveries.ts'
import { type Backend, hasBackend, openTestQueue, redisUrlOf } from '../support/queues.ts'
import { differences } from '../support/same-as-source.ts'
import { adminToken, startTestWorker, type TestWorker, webhookSecret } from '../support/worker.ts'

const hook = `/hooks/${webhookSecret}`
const hourly = { SCHEDULE_ASSIGNMENT: '1h', SCHEDULE_ASSIGNMENT_NOTE: '1h' }

const backends: readonly Backend[] = ['postgres', 'redis']
// Most of it is waiting, so the backends are tried side by side.
describe.concurrent.each(backends)('the worker with its queue in %s', (backend) => {
  describe.skipIf(!hasBackend(backend))('as it runs', { concurrent: false }, () => {
    type World = {
      /** That of the test, which tests side by side need. */
      expect: ExpectStatic
      database: TestDatabase
      startOn: StartOn
      equal: (simulator: Simulator) => () => Promise<string[]>
    }
    type StartOn = (simulator: Simulator, variables?: Record<string, string>) => Promise<TestWorker>
    /** A test with a database of its own. */
    const itAlone = (title: string, test: (world: World) => Promise<void>) =>
      describe('alone', () => {
        const database = createTestDatabase()
        const startOn: StartOn = (simulator, variables = {}) =>
          startTestWorker(simulator, database, { REDIS_URL: redisUrlOf(backend) ?? undefined, ...variables })
        const equal = (simulator: Simulator) => () => differences(database.pool, simulator, 'assignment')
        it(title, ({ expect }) => test({ expect, database, startOn, equal }))
      })

    itAlone(
      'mirrors by itself, follows webhooks and what an operator asks for, and stops',
      async ({ expect, startOn, equal }) => {
        await using simulator = await startSimulator({ assignments: 300, notes: 50, trackers: 5, objects: 5 })
        const worker = await startOn(simulator, hourly)
        try {
          await expect.poll(equal(simulator)).toEqual([])
          // What changed while the first run still reads, or the reconcile after it, would be found by these.
          for (const kind of ['incremental', 'reconcile']) {
            const runs = `tidemark_runs_total{stream="assignment",kind="${kind}",status="done"}`
            await expect.poll(() => worker.metric(runs)).toBeGreaterThan(0)
          }
          // A stream that is listed whole has runs of the kind that the ledger names.
          const lists = 'tidemark_runs_total{stream="tracker_object",kind="list",status="done"}'
          await expect.poll(() => worker.metric(lists)).toBeGreaterThan(0)
          await expect.poll(async () => (await worker.get('/readyz')).status).toBe(200)
          simulator.source.change('assignment', 7)
          expect((await worker.post(hook)).status).toBe(202)
          await expect.poll(equal(simulator)).toEqual([])
          simulator.source.change('assignment', 8)
          const headers = { authorization: `Bearer ${adminToken}` }
          expect((await worker.post('/streams/assignment/sync', headers)).status).toBe(202)
          await expect.poll(equal(simulator)).toEqual([])
          expect(await worker.metric('tidemark_up{part="queue"}')).toBe(1)
          // Counted when the run has ended, which is after its rows are there.
          const announced = 'tidemark_webhook_changes_total{stream="assignment",announced="true"}'
          const announce = async () => {
            const counted = await worker.metric(announced)
            // A look-back or a search may have been there first.
            if (counted === null) {
              simulator.source.change('assignment', 9)
              await worker.post(hook)
            }
            return counted
          }
          await expect.poll(announce, { interval: 1_000 }).toBeGreaterThan(0)
        } finally {
          await worker.stop()
        }
        await expect(worker.get('/healthz')).rejects.toThrow()
      },
    )

    itAlone('turns ten thousand deliveries into a handful of runs', async ({ expect, startOn, equal }) => {
      await using simulator = await startSimulator({ assignments: 20, notes: 20 })
      const worker = await startOn(simulator, { ...hourly, STREAMS: 'assignment,assignment_note' })
      try {
        await expect.poll(equal(simulator)).toEqual([])
        const runs = () =>
          worker.metric('tidemark_runs_total{stream="assignment",kind="incremental",status="done"}')
        const before = (await runs()) ?? 0
        simulator.requests.start()
        const startedMs = performance.now()
        const senders = Array.from({ length: 20 }, () => deliver(`${worker.url}${hook}`, 500))
        expect((await Promise.all(senders)).flat()).toEqual(new Array(10_000).fill(202))
        simulator.source.change('assignment', 3)
        await worker.post(hook)
        await expect.poll(equal(simulator)).toEqual([])
        const seconds = (performance.now() - startedMs) / 1000
        // One at once and one each two seconds; the last announcement has a run after it.
        expect(((await runs()) ?? 0) - before).toBeLessThanOrEqual(seconds / 2 + 3)
        // Searches and look-backs that the beginning asked for have requests of their own.
        const polled = simulator.requests.entries.filter(({ path }) =>
          path.includes('/Assignment/neworchanged/'),
        )
        expect(polled.length).toBeLessThan(20 * (seconds / 2 + 3))
        expect(await worker.metric('tidemark_webhook_deliveries_total')).toBe(10_001)
      } finally {
        await worker.stop()
      }
    })

    itAlone(
      'leaves an upstream that is down alone, says so once, and is back by itself',
      async ({ expect, startOn, equal }) => {
        await using simulator = await startSimulator({ assignments: 20, notes: 20 })
        simulator.faults.add({ kind: 503 })
        const worker = await startOn(simulator, {
          STREAMS: 'assignment,assignment_note',
          SCHEDULE_ASSIGNMENT: '1s',
        })
        try {
          const lines = (part: string) => worker.logged().filter((line) => line.includes(part)).length
          await expect.poll(() => worker.metric('tidemark_up{part="assignment"}')).toBe(0)
          // Postgres and the queue are fine, so the worker is ready: what it has is served.
          await expect.poll(async () => (await worker.get('/readyz')).status).toBe(200)
          await expect.poll(() => lines('the assignment service: ')).toBe(1)
          simulator.faults.clear()
          await expect.poll(equal(simulator)).toEqual([])
          await expect.poll(() => lines('the assignment service works again')).toBe(1)
          expect(lines('the assignment service: ')).toBe(1)
        } finally {
          await worker.stop()
        }
      },
    )

    itAlone(
      'passes over what was asked for before it was switched off, and goes on with the rest',
      async ({ expect, database, startOn, equal }) => {
        await using simulator = await startSimulator({ assignments: 20 })
        const worker = await startOn(simulator, { STREAMS: 'assignment', SCHEDULE_ASSIGNMENT: '1s' })
        const queue = await openTestQueue(backend, database)
        const runs = openRunQueue(queue.driver, () => {})
        try {
          await expect.poll(equal(simulator)).toEqual([])
          await runs.requestRun({ stream: 'assignment', kind: 'related', cause: 'tick' })
          await runs.requestRun({ stream: 'tracker_object', kind: 'incremental', cause: 'tick' })
          await expect.poll(async () => (await runs.counts()).waiting).toBe(0)
          const incrementalRuns = () =>
            worker.metric('tidemark_runs_total{stream="assignment",kind="incremental",status="done"}')
          const before = (await incrementalRuns()) ?? 0
          await expect.poll(incrementalRuns).toBeGreaterThan(before + 2)
          expect(worker.logged().filter((line) => line.includes('"level":40'))).toEqual([])
        } finally {
          await runs.close()
          await queue.close()
          await worker.stop()
        }
      },
    )

    itAlone(
      'subscribes itself once for each kind of event, however many workers start',
      async ({ expect, database, startOn }) => {
        // It knows the address by another name than the one that is tried first.
        await using simulator = await startSimulator({ look: 'recorded', assignments: 5, notes: 5 })
        const publicUrl = 'http://127.0.0.1:9/away'
        const ours = () =>
          simulator.source
            .records('webhook_subscription')
            .map(({ webhookDefinitionId, url }) => [Number(webhookDefinitionId), url])
            .sort()
        const wanted = [1, 2, 3, 4, 5, 6].map((definition) => [definition, `${publicUrl}${hook}`])
        const workers = await Promise.all([
          startOn(simulator, { PUBLIC_URL: publicUrl }),
          startOn(simulator, { PUBLIC_URL: publicUrl }),
        ])
        await expect
          .poll(() =>
            workers.map(
              (worker) => worker.logged().filter((line) => line.includes('subscribed to 6')).length,
            ),
          )
          .toEqual([1, 1])
        expect(ours()).toEqual(wanted)
        // P9: the address holds the secret, and subscriptions are mirrored.
        await expect
          .poll(async () => {
            const { rows } = await database.pool.query(
              `select to_regclass('mirror.webhook_subscription') is not null as is_there`,
            )
            return rows[0]?.is_there
          })
          .toBe(true)
        await Promise.all(workers.map((worker) => worker.stop()))
        const { rows } = await database.pool.query(
          'select t::text as text from mirror.webhook_subscription as t',
        )
        expect(JSON.stringify(rows)).not.toContain(webhookSecret)
        const again = await startOn(simulator, {
          PUBLIC_URL: publicUrl,
          WEBHOOK_SECRET: 'another-secret-of-the-tests',
        })
        await expect
          .poll(() => ours().map(([, url]) => url))
          .toEqual(wanted.map(() => `${publicUrl}/hooks/another-secret-of-the-tests`))
        await again.stop()
      },
    )
  })
})
