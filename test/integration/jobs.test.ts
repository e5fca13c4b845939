// When runs begin: schedules and their ticks, run requests, and what follows a run, on a real queue.

import { PassThrough } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { whatFollows } from '../../src/worker/kinds.ts'
import { startTickWorker } from '../../src/worker/queue/schedules.ts'
import { describeJobs, incremental, nothing, outcomeOf, type Run } from '../support/jobs.ts'

describeJobs('the jobs', (openIn) => {
  it('is not busy any more with a tick that failed', async (test) => {
    const { expect } = test
    const { openQueue } = await openIn(test)
    const queue = await openQueue()
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

  it('makes a thousand run requests one run and one after it, which begins after the last run request', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const begun: number[] = []
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    const jobs = await start(async (request) => {
      begun.push(performance.now())
      if (begun.length === 1) await held
      return outcomeOf(request)
    })
    await jobs.requestRun(incremental('assignment'))
    await expect.poll(() => begun.length).toBe(1)
    test.onTestFinished(() => letGo())
    for (let round = 0; round < 20; round++)
      await Promise.all(
        Array.from({ length: 50 }, () => jobs.requestRun(incremental('assignment', 'webhook'))),
      )
    const requestedMs = performance.now()
    letGo()
    await expect.poll(async () => begun.length === 2 && (await jobs.counts()).active === 0).toBe(true)
    expect(begun[1]).toBeGreaterThan(requestedMs)
    await expect.poll(jobs.counts).toEqual({ waiting: 0, active: 0, delayed: 0 })
  })

  it('runs one stream at a time across workers, and different streams at once', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
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
      for (const worker of workers) for (const stream of streams) await worker.requestRun(incremental(stream))
    await expect.poll(async () => (await workers[0]?.counts())?.waiting).toBe(0)
    await expect.poll(() => runs).toBeGreaterThan(streams.length)
    expect(overlaps).toBe(0)
    expect(most).toBeGreaterThan(1)
  })

  it('ticks by schedule; a changed schedule holds after a restart, and a removed one is gone', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const seen: string[] = []
    const run: Run = async (request) => {
      seen.push(request.stream)
      return outcomeOf(request)
    }
    const every = (stream: string, everyMs: number) =>
      ({ stream, kind: 'incremental', schedule: { everyMs } }) as const
    const first = await start(run, { schedules: [every('assignment', 3_600_000), every('gone', 1_000)] })
    await expect.poll(() => seen.filter((stream) => stream === 'gone').length).toBeGreaterThan(1)
    expect(seen.filter((stream) => stream === 'assignment').length).toBe(1)
    await first.stop()
    seen.length = 0
    await start(run, { schedules: [every('assignment', 1_000)] })
    await expect.poll(() => seen.filter((stream) => stream === 'assignment').length).toBeGreaterThan(2)
    expect(seen).not.toContain('gone')
  })

  it('asks at each tick whether the run is due', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
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
    await expect.poll(() => asked).toBeGreaterThan(2)
    expect(runs).toBe(1)
  })

  it('asks for the run all the same when nobody can tell whether it is due', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
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
    await expect.poll(() => runs).toBe(1)
  })

  it('ticks again after the queue was flushed under a live worker', async (test) => {
    const { expect } = test
    const { start, openQueue, flush } = await openIn(test)
    let runs = 0
    const queue = await openQueue()
    const jobs = await start(
      async (request) => {
        runs++
        return outcomeOf(request)
      },
      { queue, schedules: [{ stream: 'assignment', kind: 'incremental', schedule: { everyMs: 1_000 } }] },
    )
    await expect.poll(() => runs).toBeGreaterThan(0)
    await flush(queue)
    await jobs.keepSchedules()
    const before = runs
    await expect.poll(() => runs).toBeGreaterThan(before + 1)
  })

  it('says so once when two workers want other schedules and undo what each other does', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
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

  it('lets a long run give way when all places are taken, and takes it up again', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const order: string[] = []
    const jobs = await start(
      async (request, { shouldYield }) => {
        order.push(request.stream)
        if (request.stream !== 'long' || order.length > 1) return outcomeOf(request)
        await expect.poll(shouldYield).toBe(true)
        return outcomeOf(request, { isComplete: false, yielded: true })
      },
      { runsAtOnce: 1 },
    )
    await jobs.requestRun(incremental('long'))
    await expect.poll(() => order.length).toBe(1)
    await jobs.requestRun(incremental('short'))
    await expect.poll(() => order).toEqual(['long', 'short', 'long'])
  })

  it('searches for deletions when a look-back has brought rows, which hid as many that vanished (P7)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
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
})
