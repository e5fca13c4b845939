// Schedules, run requests and runs on a real queue, on both backends.

import { PassThrough } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { afterEach, describe, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import type { RunRequest } from '../../src/streams/catalog.ts'
import type { RunOutcome } from '../../src/sync/perform-run.ts'
import { backoff } from '../../src/util/backoff.ts'
import { whatFollows } from '../../src/worker/kinds.ts'
import { type FailureScope, openCircuitBreaker } from '../../src/worker/queue/circuit-breaker.ts'
import type { Driver } from '../../src/worker/queue/driver.ts'
import { type Jobs, type JobsOptions, startJobs } from '../../src/worker/queue/jobs.ts'
import { openRunQueue } from '../../src/worker/queue/requests.ts'
import { type RunHooks, startRunWorker } from '../../src/worker/queue/run-worker.ts'
import { startTickWorker } from '../../src/worker/queue/schedules.ts'
import { createTestDatabase, quietLog } from '../support/database.ts'
import { type Backend, flushQueue, hasBackend, openTestQueue } from '../support/queues.ts'

const nothing = { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 1, bytes: 0 }
const outcomeOf = ({ stream, kind }: RunRequest, more: Partial<RunOutcome> = {}): RunOutcome => ({
  ...{ stream, kind, status: 'done', runId: '1', note: null, error: null, tally: nothing },
  ...{ isComplete: true, yielded: false, ...more },
})
const failServiceScope: JobsOptions['failureScope'] = (error): FailureScope => ({
  ...{ scope: 'service', notBefore: null, policy: backoff.circuit, level: 'warn', message: 'down' },
  error: error instanceof Error ? error : null,
})
const incremental = (stream: string, cause: RunRequest['cause'] = 'operator'): RunRequest => ({
  stream,
  kind: 'incremental',
  cause,
})

/** Returns a switch: whether the queue answers each command with an error, as a Redis does that is full. */
function refusing(driver: Driver): (isRefusing: boolean) => void {
  let isRefusing = false
  const refuse = () => Promise.reject(new Error('OOM command not allowed'))
  if (driver.kind === 'postgres') {
    const { pool } = driver
    const [connect, query] = [pool.connect, pool.query]
    Object.assign(pool, {
      connect: (...given: Parameters<typeof connect>) => (isRefusing ? refuse() : connect.apply(pool, given)),
      query: (...given: Parameters<typeof query>) => (isRefusing ? refuse() : query.apply(pool, given)),
    })
  } else {
    const { redis } = driver
    // BullMQ's scripts are commands of a connection of its own.
    const duplicate = redis.duplicate
    const refuseFor = (one: typeof redis) => {
      const send = one.sendCommand
      const isScript = (name: string) => name === 'evalsha' || name === 'eval'
      one.sendCommand = (command, stream) => {
        if (isRefusing && isScript(command.name)) command.reject(new Error('OOM command not allowed'))
        else send.call(one, command, stream)
        return command.promise
      }
      return one
    }
    refuseFor(redis).duplicate = (...given) => refuseFor(duplicate.apply(redis, given))
  }
  return (is) => {
    isRefusing = is
  }
}

const backends: readonly Backend[] = ['postgres', 'redis']
// Most of it is waiting, so the backends are tried side by side.
describe.concurrent.each(backends)('the jobs in %s', (backend) => {
  describe.skipIf(!hasBackend(backend))('with a queue', { concurrent: false }, () => {
    const database = createTestDatabase()
    const started: Jobs[] = []
    afterEach(async () => {
      await Promise.all(started.splice(0).map((jobs) => jobs.stop()))
      const queue = await openTestQueue(backend, database)
      await flushQueue(queue, database)
      await queue.close()
    })

    type Run = (request: RunRequest, hooks: RunHooks) => Promise<RunOutcome>
    async function start(run: Run, more: Partial<JobsOptions> = {}): Promise<Jobs> {
      const jobs = await startJobs({
        queue: await openTestQueue(backend, database),
        schedules: [],
        isDue: async () => true,
        run,
        failureScope: failServiceScope,
        serviceOf: () => 'assignment',
        onOutcome: () => {},
        log: quietLog,
        ...more,
      })
      started.push(jobs)
      return jobs
    }

    it('is not busy any more with a tick that failed', async ({ expect }) => {
      const queue = await openTestQueue(backend, database)
      const tick = { stream: 'assignment', kind: 'incremental' } as const
      const ticked: string[] = []
      const ticks = await startTickWorker({
        driver: queue.driver,
        schedules: [{ ...tick, schedule: { everyMs: 60_000 } }],
        async onTick({ stream }) {
          ticked.push(stream)
          await wait(200)
          throw new Error('the queue is full')
        },
        onError: () => {},
      })
      try {
        await expect.poll(() => ticked.length).toBeGreaterThan(0)
        expect(ticks.isFull()).toBe(true)
        await expect.poll(ticks.isFull).toBe(false)
      } finally {
        await ticks.close()
        await queue.close()
      }
    })

    it('makes a thousand run requests one run and one after it, which begins after the last run request', async ({
      expect,
    }) => {
      const begun: number[] = []
      let letGo = () => {}
      const held = new Promise<void>((resolve) => {
        letGo = resolve
      })
      const jobs = await start(async (request) => {
        begun.push(performance.now())
        if (begun.length === 1) await held
        return outcomeOf(request)
      })
      await jobs.requestRun(incremental('assignment'))
      await expect.poll(() => begun.length).toBe(1)
      await Promise.all(
        Array.from({ length: 1_000 }, () => jobs.requestRun(incremental('assignment', 'webhook'))),
      )
      const requestedMs = performance.now()
      letGo()
      await expect.poll(async () => begun.length === 2 && (await jobs.counts()).active === 0).toBe(true)
      expect(begun[1]).toBeGreaterThan(requestedMs)
      await expect.poll(jobs.counts).toEqual({ waiting: 0, active: 0, delayed: 0 })
    })

    it('runs one stream at a time across workers, and different streams at once', async ({ expect }) => {
      const active = new Map<string, number>()
      let most = 0
      let overlaps = 0
      let runs = 0
      const run: Run = async (request) => {
        const now = (active.get(request.stream) ?? 0) + 1
        if (now > 1) overlaps++
        active.set(request.stream, now)
        most = Math.max(most, [...active.values()].filter(Boolean).length)
        await wait(30)
        active.set(request.stream, now - 1)
        runs++
        return outcomeOf(request)
      }
      const workers = [await start(run), await start(run), await start(run)]
      const streams = ['assignment', 'assignment_note', 'tracker_object']
      for (let round = 0; round < 20; round++)
        for (const worker of workers)
          for (const stream of streams) await worker.requestRun(incremental(stream))
      await expect.poll(async () => (await workers[0]?.counts())?.waiting).toBe(0)
      await expect.poll(() => runs).toBeGreaterThan(streams.length)
      expect(overlaps).toBe(0)
      expect(most).toBeGreaterThan(1)
    })

    it('ticks by schedule; a changed schedule holds after a restart, and a removed one is gone', async ({
      expect,
    }) => {
      const seen: string[] = []
      const run: Run = async (request) => {
        seen.push(request.stream)
        return outcomeOf(request)
      }
      const every = (stream: string, everyMs: number) =>
        ({ stream, kind: 'incremental', schedule: { everyMs } }) as const
      const first = await start(run, { schedules: [every('assignment', 3_600_000), every('gone', 1_000)] })
      await expect
        .poll(() => seen.filter((stream) => stream === 'gone').length, { timeout: 10_000 })
        .toBeGreaterThan(1)
      expect(seen.filter((stream) => stream === 'assignment').length).toBe(1)
      await first.stop()
      started.splice(0)
      seen.length = 0
      await start(run, { schedules: [every('assignment', 1_000)] })
      await expect
        .poll(() => seen.filter((stream) => stream === 'assignment').length, { timeout: 10_000 })
        .toBeGreaterThan(2)
      expect(seen).not.toContain('gone')
    })

    it('asks at each tick whether the run is due', async ({ expect }) => {
      let asked = 0
      let runs = 0
      await start(
        async (request) => {
          runs++
          return outcomeOf(request)
        },
        {
          schedules: [{ stream: 'assignment', kind: 'lookback', schedule: { everyMs: 1_000 } }],
          isDue: async () => ++asked === 2,
        },
      )
      await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(2)
      expect(runs).toBe(1)
    })

    it('asks for the run all the same when nobody can tell whether it is due', async ({ expect }) => {
      let runs = 0
      await start(
        async (request) => {
          runs++
          return outcomeOf(request)
        },
        {
          schedules: [{ stream: 'assignment', kind: 'reconcile', schedule: { everyMs: 3_600_000 } }],
          isDue: () => Promise.reject(new Error('the database is away')),
        },
      )
      await expect.poll(() => runs, { timeout: 10_000 }).toBe(1)
    })

    it('ticks again after the queue was flushed under a live worker', async ({ expect }) => {
      let runs = 0
      const queue = await openTestQueue(backend, database)
      const jobs = await start(
        async (request) => {
          runs++
          return outcomeOf(request)
        },
        { queue, schedules: [{ stream: 'assignment', kind: 'incremental', schedule: { everyMs: 1_000 } }] },
      )
      await expect.poll(() => runs, { timeout: 10_000 }).toBeGreaterThan(0)
      await flushQueue(queue, database)
      await jobs.keepSchedules()
      const before = runs
      await expect.poll(() => runs, { timeout: 15_000 }).toBeGreaterThan(before + 1)
    })

    it('says so once when two workers want other schedules and undo what each other does', async ({
      expect,
    }) => {
      const stream = new PassThrough()
      const tick = (name: string) => ({
        stream: name,
        kind: 'incremental' as const,
        schedule: { everyMs: 3_600_000 },
      })
      const run: Run = async (request) => outcomeOf(request)
      const one = await start(run, {
        schedules: [tick('assignment')],
        log: openLog({ level: 'warn', stream }),
      })
      const other = await start(run, { schedules: [tick('assignment_note')] })
      for (let round = 0; round < 5; round++) for (const jobs of [one, other]) await jobs.keepSchedules()
      const told = String(stream.read()).split('\n').filter(Boolean)
      expect(told).toEqual([expect.stringContaining('all need the same STREAMS')])
    })

    it('lets a long run give way when all places are taken, and takes it up again', async ({ expect }) => {
      const order: string[] = []
      const jobs = await start(
        async (request, { shouldYield }) => {
          order.push(request.stream)
          if (request.stream !== 'long' || order.length > 1) return outcomeOf(request)
          await expect.poll(shouldYield, { timeout: 20_000 }).toBe(true)
          return outcomeOf(request, { isComplete: false, yielded: true })
        },
        { runsAtOnce: 1 },
      )
      await jobs.requestRun(incremental('long'))
      await expect.poll(() => order.length).toBe(1)
      await jobs.requestRun(incremental('short'))
      await expect.poll(() => order, { timeout: 30_000 }).toEqual(['long', 'short', 'long'])
    })

    it('searches for deletions when a look-back has brought rows, which hid as many that vanished (P7)', async ({
      expect,
    }) => {
      const order: string[] = []
      const jobs = await start(
        async (request) => {
          order.push(request.kind)
          return outcomeOf(request, { tally: { ...nothing, inserted: order.length === 1 ? 2 : 0 } })
        },
        { runsAtOnce: 1, whatFollows },
      )
      await jobs.requestRun({ ...incremental('assignment'), kind: 'lookback' })
      await expect.poll(() => order).toEqual(['lookback', 'deletions'])
      await jobs.requestRun({ ...incremental('assignment'), kind: 'lookback' })
      await jobs.requestRun(incremental('assignment'))
      await expect.poll(() => order).toEqual(['lookback', 'deletions', 'lookback', 'incremental'])
    })

    it('asks a queue that refuses everything now and then, and goes on when it no longer does', async ({
      expect,
    }) => {
      const queue = await openTestQueue(backend, database)
      const errors: Error[] = []
      const outcomes: string[] = []
      const letRefuse = refusing(queue.driver)
      letRefuse(true)
      const runs = openRunQueue(queue.driver, () => {})
      const breaker = openCircuitBreaker({
        serviceOf: () => 'assignment',
        requestRun: runs.requestRun,
        log: quietLog,
      })
      const worker = startRunWorker({
        driver: queue.driver,
        queue: runs,
        run: async (request) => outcomeOf(request),
        failureScope: () => null,
        breaker,
        runsAtOnce: 1,
        log: quietLog,
        onOutcome: ({ stream }) => void outcomes.push(stream),
        whatFollows: () => null,
        onError(error) {
          errors.push(error)
          // Without a pause nothing else would happen any more, not even the end of this test.
          if (errors.length > 1_000) throw new Error('the queue is asked without a pause')
        },
      })
      try {
        await wait(2_500)
        expect(errors.length).toBeGreaterThan(0)
        expect(errors.length).toBeLessThan(20)
        letRefuse(false)
        await runs.requestRun(incremental('assignment'))
        await expect.poll(() => outcomes, { timeout: 10_000 }).toEqual(['assignment'])
      } finally {
        breaker.close()
        await worker.close()
        await runs.close()
        await queue.close()
      }
    })

    it('has as many runs as ever after its consumer was made anew, and ends after all of them', async ({
      expect,
    }) => {
      const queue = await openTestQueue(backend, database)
      const runs = openRunQueue(queue.driver, () => {})
      const breaker = openCircuitBreaker({
        serviceOf: () => 'assignment',
        requestRun: runs.requestRun,
        log: quietLog,
      })
      const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
      const [begun, ended]: [string[], string[]] = [[], []]
      const worker = startRunWorker({
        ...{ driver: queue.driver, queue: runs, breaker, runsAtOnce: 1, log: quietLog },
        async run(request) {
          begun.push(request.stream)
          if (request.stream === 'assignment') await held
          ended.push(request.stream)
          return outcomeOf(request)
        },
        ...{ failureScope: () => null, onOutcome: () => {}, whatFollows: () => null, onError: () => {} },
      })
      try {
        await runs.requestRun(incremental('assignment'))
        await expect.poll(() => begun).toEqual(['assignment'])
        worker.leave()
        worker.begin()
        await runs.requestRun(incremental('assignment_note'))
        await expect.poll(async () => (await runs.counts()).active).toBe(2)
        await wait(100)
        expect(begun).toEqual(['assignment'])
        const closed = worker.close().then(() => void ended.push('closed'))
        await wait(200)
        letGo()
        await closed
        expect(ended).toEqual(['assignment', 'assignment_note', 'closed'])
      } finally {
        letGo()
        breaker.close()
        await worker.close()
        await runs.close()
        await queue.close()
      }
    })

    it('blames neither the database nor the run when the queue does not take it up again', async ({
      expect,
    }) => {
      const queue = await openTestQueue(backend, database)
      const runs = openRunQueue(queue.driver, () => {})
      const breaker = openCircuitBreaker({
        serviceOf: () => 'assignment',
        requestRun: runs.requestRun,
        log: quietLog,
      })
      const blamed: unknown[] = []
      let isAway = true
      const outcomes: string[] = []
      const worker = startRunWorker({
        driver: queue.driver,
        queue: {
          ...runs,
          requestRun: (request) =>
            isAway ? Promise.reject(new Error('Connection is closed.')) : runs.requestRun(request),
        },
        run: async (request) => outcomeOf(request, { isComplete: false, yielded: outcomes.length === 0 }),
        failureScope(error) {
          blamed.push(error)
          return null
        },
        breaker,
        runsAtOnce: 1,
        log: quietLog,
        onOutcome: ({ stream }) => void outcomes.push(stream),
        whatFollows: () => null,
        onError: () => {},
      })
      try {
        await runs.requestRun(incremental('assignment'))
        await expect.poll(() => outcomes).toEqual(['assignment'])
        await runs.requestRun(incremental('assignment_note'))
        await expect.poll(() => outcomes).toEqual(['assignment', 'assignment_note'])
        isAway = false
        // It is owed, and taken up when it is asked for again.
        await expect.poll(() => outcomes, { timeout: 10_000 }).toHaveLength(3)
        expect([outcomes[2], blamed]).toEqual(['assignment', []])
      } finally {
        breaker.close()
        await worker.close()
        await runs.close()
        await queue.close()
      }
    })

    it('hands back what it owes when it ends while a service is down, for whoever works next (P8)', async ({
      expect,
    }) => {
      const reconcile: RunRequest = { stream: 'assignment', kind: 'reconcile', cause: 'tick' }
      const stopped = await start(async (request) =>
        outcomeOf(request, { status: 'failed', error: new Error('down') }),
      )
      await stopped.requestRun(reconcile)
      await expect.poll(() => stopped.breaker.outageOf('assignment')).not.toBeNull()
      // Not even tried, and owed all the same.
      await stopped.requestRun({ ...reconcile, stream: 'assignment_note' })
      await expect.poll(stopped.counts).toEqual({ waiting: 0, active: 0, delayed: 0 })
      started.splice(0)
      await stopped.stop()
      const done: string[] = []
      await start(async (request) => {
        done.push(`${request.stream}/${request.kind}`)
        return outcomeOf(request)
      })
      await expect.poll(() => done.toSorted()).toEqual(['assignment/reconcile', 'assignment_note/reconcile'])
    })

    it('leaves a service that is down alone, and owes no stream its run when it is back', async ({
      expect,
    }) => {
      let isDown = true
      const attempts: string[] = []
      const jobs = await start(async (request) => {
        attempts.push(request.stream)
        return isDown
          ? outcomeOf(request, { status: 'failed', error: new Error('no answer'), isComplete: false })
          : outcomeOf(request)
      })
      await jobs.requestRun(incremental('assignment', 'tick'))
      await expect.poll(() => jobs.breaker.outageOf('assignment')).not.toBeNull()
      // While it is left alone, run requests are remembered and not tried.
      for (const stream of ['assignment_note', 'tracker_object', 'assignment'])
        await jobs.requestRun(incremental(stream, 'tick'))
      await expect.poll(async () => (await jobs.counts()).waiting + (await jobs.counts()).active).toBe(0)
      expect(attempts).toEqual(['assignment'])
      isDown = false
      await expect.poll(() => new Set(attempts).size, { timeout: 20_000 }).toBe(3)
      expect(jobs.breaker.outageOf('assignment')).toBeNull()
    })

    it('stops a long run after the page in hand, within its time, and leaves it to whoever works next', async ({
      expect,
    }) => {
      let [hasBegun, wasStopped] = [false, false]
      const jobs = await start(async (request, { signal }) => {
        hasBegun = true
        await wait(60_000, undefined, { signal }).catch(() => {})
        wasStopped = signal.aborted
        return outcomeOf(request, { status: 'stopped', isComplete: false })
      })
      await jobs.requestRun({ ...incremental('assignment'), kind: 'reconcile' })
      await expect.poll(() => hasBegun).toBe(true)
      started.splice(0)
      const startedMs = performance.now()
      await jobs.stop()
      expect(wasStopped).toBe(true)
      expect(performance.now() - startedMs).toBeLessThan(15_000)
      const kinds: string[] = []
      await start(async (request) => {
        kinds.push(request.kind)
        return outcomeOf(request)
      })
      await expect.poll(() => kinds, { timeout: 10_000 }).toEqual(['reconcile'])
    })
  })
})
