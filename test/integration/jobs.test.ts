// When runs begin: plans, run requests, and what follows a run, on a real queue.

import { PassThrough } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { whatFollows } from '../../src/worker/kinds.ts'
import { placed, Queue } from '../../src/worker/queue/driver.ts'
import type { Scheduled } from '../../src/worker/queue/plan.ts'
import { planName } from '../../src/worker/queue/planner.ts'
import { nameInDriver } from '../../src/worker/queue/requests.ts'
import { describeJobs, incremental, nothing, outcomeOf, type Run } from '../support/jobs.ts'
import { plannedBy } from '../support/planned.ts'

const every = (stream: string, everyMs: number, kind: Scheduled['kind'] = 'incremental') => ({
  ...{ stream, kind },
  schedule: { everyMs },
})
const often = { everyMs: 500, rhythmMs: 15_000 }

/** Times of a schedule are counted from the beginning of time, so that each comes round now and then. */
const rarelyMs = 365 * 86_400_000

describeJobs('the jobs', (openIn) => {
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

  it('plans by schedule; a changed schedule holds after a restart, and a removed one is gone', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const seen: string[] = []
    const run: Run = async (request) => {
      seen.push(request.stream)
      return outcomeOf(request)
    }
    const first = await start(run, plannedBy([every('assignment', rarelyMs), every('gone', 1_000)]))
    await expect.poll(() => seen.filter((stream) => stream === 'gone').length).toBeGreaterThan(1)
    expect(seen.filter((stream) => stream === 'assignment').length).toBe(1)
    await first.stop()
    seen.length = 0
    await start(run, plannedBy([every('assignment', 1_000)]))
    await expect.poll(() => seen.filter((stream) => stream === 'assignment').length).toBeGreaterThan(2)
    expect(seen).not.toContain('gone')
  })

  it('asks of what is due whether there is anything to do, and takes an error for yes', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    let asked = 0
    const kinds: string[] = []
    const run: Run = async (request) => {
      kinds.push(request.kind)
      return outcomeOf(request)
    }
    await start(run, {
      ...plannedBy([every('assignment', 1_000, 'lookback'), every('assignment', rarelyMs, 'probe')]),
      isDue: async ({ kind }) => {
        if (kind === 'probe') throw new Error('the database is away')
        return ++asked === 2
      },
    })
    await expect.poll(() => asked).toBeGreaterThan(2)
    expect(kinds.toSorted()).toEqual(['lookback', 'probe'])
  })

  it('plans anew within seconds after the queue was flushed under a live worker, and nothing is late', async (test) => {
    const { expect } = test
    const { start, openQueue, flush } = await openIn(test)
    const begun: number[] = []
    const queue = await openQueue()
    const run: Run = async (request) => {
      begun.push(performance.now())
      return outcomeOf(request)
    }
    await start(run, { queue, ...plannedBy([every('assignment', rarelyMs)]), canaries: often })
    await expect.poll(() => begun.length).toBe(1)
    await flush(queue)
    const flushedMs = performance.now()
    // Nobody knows any more when it was last done.
    await expect.poll(() => begun.length).toBe(2)
    expect((begun[1] ?? 0) - flushedMs).toBeLessThan(15_000)
  })

  it('makes a plan anew that is lost, and goes on where it was when it is late', async (test) => {
    const { expect } = test
    const { start, openQueue } = await openIn(test)
    let runs = 0
    const queue = await openQueue()
    const run: Run = async (request) => {
      runs++
      return outcomeOf(request)
    }
    await start(run, { queue, ...plannedBy([every('assignment', 1_000)]), canaries: often })
    await expect.poll(() => runs).toBeGreaterThan(0)
    const polls = new Queue(nameInDriver('polls'), placed(queue.driver))
    test.onTestFinished(() => polls.close())
    const remove = async () => (await polls.getJob(planName))?.remove()
    await expect
      .poll(() =>
        remove().then(
          () => true,
          () => false,
        ),
      )
      .toBe(true)
    const before = runs
    await expect.poll(() => runs).toBeGreaterThan(before + 1)
  })

  it('says so once when two workers have other schedules', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const stream = new PassThrough()
    const run: Run = async (request) => outcomeOf(request)
    const log = openLog({ level: 'warn', stream })
    const more = { canaries: often, log }
    await start(run, { ...plannedBy([every('assignment', 1_000)]), ...more })
    await start(run, { ...plannedBy([every('assignment_note', 1_000)]), ...more })
    let told = ''
    const isTold = () => {
      told += String(stream.read() ?? '')
      return told.includes('All need the same STREAMS')
    }
    await expect.poll(isTold).toBe(true)
  })

  it('keeps loads from the places of polls, and a poll from a stream that is being loaded', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const order: string[] = []
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    test.onTestFinished(() => letGo())
    const asked = ['one', 'two', 'three'].map((stream) => ({
      ...{ stream, kind: 'incremental' as const, dueMs: 0, askedMs: 0, cause: 'tick' as const },
    }))
    const run: Run = async (request) => {
      order.push(request.stream)
      if (request.isLoad) await held
      return outcomeOf(request)
    }
    const loading = new Set(['one', 'two', 'three'])
    const jobs = await start(run, { ...plannedBy([], { asked, loading }), slots: { polls: 1, loads: 2 } })
    await expect.poll(() => order.length).toBe(2)
    await jobs.requestRun(incremental(order[0] ?? ''))
    await jobs.requestRun(incremental('short'))
    await expect.poll(() => order.at(-1)).toBe('short')
    // The poll of the stream that is loaded waits for the load.
    expect(order).toHaveLength(3)
    letGo()
    await expect.poll(() => new Set(order).size).toBe(4)
  })

  it.for(['reconcile', 'incremental'] as const)(
    'lets a long %s give way when all places are taken, and takes it up again',
    async (kind, test) => {
      const { expect } = test
      const { start } = await openIn(test)
      const order: string[] = []
      const run: Run = async (request, { shouldYield }) => {
        order.push(`${request.stream}${request.isLoad ? ' as a load' : ''}`)
        if (request.stream !== 'long' || order.length > 1) return outcomeOf(request)
        await expect.poll(shouldYield).toBe(true)
        return outcomeOf(request, { isComplete: false, yielded: true })
      }
      const jobs = await start(run, { slots: { polls: 1, loads: 1 } })
      await jobs.requestRun({ ...incremental('long'), kind })
      await expect.poll(() => order.length).toBe(1)
      await jobs.requestRun({ ...incremental('short'), kind })
      const inTurn = ['long', 'short', 'long as a load']
      // What is left of a poll waits for no poll.
      const seen = () => (kind === 'incremental' ? order.toSorted() : order)
      await expect.poll(seen).toEqual(kind === 'incremental' ? inTurn.toSorted() : inTurn)
    },
  )

  it('has other places for polls that hang, so that those of others go on (P19)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const begun: string[] = []
    let letGo = () => {}
    const answered = new Promise<void>((resolve) => (letGo = resolve))
    const jobs = await start(
      async (request) => {
        begun.push(request.stream)
        if (request.stream.startsWith('hanging')) await answered
        return outcomeOf(request)
      },
      { slots: { polls: 2, loads: 1 }, slowAfterMs: 300 },
    )
    for (const stream of ['hanging.a', 'hanging.b']) await jobs.requestRun(incremental(stream))
    await expect.poll(() => begun).toHaveLength(2)
    for (const stream of ['one', 'two', 'three']) await jobs.requestRun(incremental(stream))
    await expect.poll(() => begun.slice(2).toSorted(), { timeout: 5_000 }).toEqual(['one', 'three', 'two'])
    letGo()
    for (const stream of ['four', 'five', 'six']) await jobs.requestRun(incremental(stream))
    await expect.poll(() => begun.slice(5).toSorted(), { timeout: 5_000 }).toEqual(['five', 'four', 'six'])
  })

  it.for([
    ['of one host', ['a.1', 'a.2', 'a.3', 'a.4', 'a.5', 'a.6'], 2],
    ['of several hosts', ['a.1', 'b.1', 'c.1', 'a.2', 'b.2', 'a.3'], 3],
  ] as const)(
    'leaves a place to others when as many polls %s hang as there are places, and more wait (P19)',
    async ([, hanging, mostBegun], test) => {
      const { expect } = test
      const { start } = await openIn(test)
      const begun: string[] = []
      let letGo = () => {}
      const answered = new Promise<void>((resolve) => (letGo = resolve))
      const hostOf = (stream: string) => stream.split('.')[0] ?? ''
      const ofHanging = () => begun.filter((stream) => stream.includes('.'))
      const jobs = await start(
        async (request) => {
          begun.push(request.stream)
          if (request.stream.includes('.')) await answered
          return outcomeOf(request)
        },
        { slots: { polls: 2, loads: 1 }, slowAfterMs: 300, hostOf },
      )
      for (const stream of hanging) await jobs.requestRun(incremental(stream))
      await expect.poll(() => begun.length).toBeGreaterThanOrEqual(2)
      const others = ['one', 'two', 'three']
      for (const stream of others) await jobs.requestRun(incremental(stream))
      await expect.poll(() => begun, { timeout: 5_000 }).toEqual(expect.arrayContaining(others))
      expect(ofHanging().length).toBeLessThanOrEqual(mostBegun)
      letGo()
      await expect.poll(() => ofHanging().toSorted(), { timeout: 15_000 }).toEqual(hanging.toSorted())
    },
  )

  it('leaves a place to others, and goes on planning, when another host begins to hang later (P19)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const begun: string[] = []
    let letGo = () => {}
    const answered = new Promise<void>((resolve) => (letGo = resolve))
    let plans = 0
    const planned = plannedBy([])
    const jobs = await start(
      async (request) => {
        begun.push(request.stream)
        if (request.stream.includes('.')) await answered
        return outcomeOf(request)
      },
      {
        ...{ slots: { polls: 2, loads: 1 }, slowAfterMs: 1_000 },
        look: () => {
          plans++
          return planned.look()
        },
        hostOf: (stream: string) => stream.split('.')[0] ?? '',
      },
    )
    for (const stream of ['a.1', 'a.2']) await jobs.requestRun(incremental(stream))
    await expect.poll(() => begun.length).toBe(2)
    await wait(1_200)
    for (const stream of ['b.1', 'b.2', 'b.3']) await jobs.requestRun(incremental(stream))
    await expect.poll(() => begun.length).toBe(3)
    for (const stream of ['one', 'two']) await jobs.requestRun(incremental(stream))
    await expect.poll(() => begun, { timeout: 5_000 }).toEqual(expect.arrayContaining(['one', 'two']))
    expect(begun.filter((stream) => stream.startsWith('b.'))).toHaveLength(1)
    // All places are taken then, and the plan goes on.
    await jobs.requestRun(incremental('c.1'))
    await expect.poll(() => begun).toContain('c.1')
    const plansBefore = plans
    await jobs.planNow()
    await expect.poll(() => plans, { timeout: 5_000 }).toBeGreaterThan(plansBefore)
    letGo()
    await expect.poll(() => begun, { timeout: 15_000 }).toEqual(expect.arrayContaining(['b.2', 'b.3']))
  })

  it('leaves what still waited for a place when its worker ended to the next one (P8)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const begun: string[] = []
    const untilStopped: Run = (request, { signal }) => {
      begun.push(request.stream)
      const { promise, resolve } = Promise.withResolvers<ReturnType<typeof outcomeOf>>()
      signal.addEventListener('abort', () => resolve(outcomeOf(request, { status: 'stopped' })))
      return promise
    }
    const slots = { polls: 2, loads: 1 }
    const first = await start(untilStopped, { slots, slowAfterMs: 4_500 })
    for (const stream of ['a', 'b']) await first.requestRun(incremental(stream))
    await expect.poll(() => begun).toHaveLength(2)
    for (const stream of ['c', 'd', 'e']) await first.requestRun(incremental(stream))
    // Two are slow by then, two others have their places, and the last one was taken from the queue.
    await expect.poll(() => begun, { timeout: 8_000 }).toHaveLength(4)
    await expect.poll(first.counts).toMatchObject({ active: 5, waiting: 0 })
    await first.stop()
    const ended: string[] = []
    await start(async (request) => {
      ended.push(request.stream)
      return outcomeOf(request)
    })
    await expect.poll(() => ended.toSorted(), { timeout: 5_000 }).toEqual(['a', 'b', 'c', 'd', 'e'])
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
      { slots: { polls: 1, loads: 1 }, whatFollows: whatFollows(false) },
    )
    await jobs.requestRun({ ...incremental('assignment'), kind: 'lookback' })
    await expect.poll(() => order).toEqual(['lookback', 'deletions'])
    await jobs.requestRun({ ...incremental('assignment'), kind: 'lookback' })
    await jobs.requestRun(incremental('assignment'))
    await expect.poll(() => order).toEqual(['lookback', 'deletions', 'lookback', 'incremental'])
  })
})
