// What becomes of runs when something fails or ends: the queue that refuses, a service that is down, a worker that stops.

import { setTimeout as wait } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { it } from 'vitest'
import type { RunRequest } from '../../src/streams/catalog.ts'
import type { Driver } from '../../src/worker/queue/driver.ts'
import { describeJobs, incremental, outcomeOf, type Run } from '../support/jobs.ts'
import { plannedBy } from '../support/planned.ts'

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
    const { redis } = driver as { readonly redis: Redis }
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

describeJobs('the jobs', (openIn) => {
  it('asks a queue that refuses everything now and then, and goes on when it no longer does', async (test) => {
    const { expect } = test
    const { openQueue, startRuns } = await openIn(test)
    const queue = await openQueue()
    const errors: Error[] = []
    const outcomes: string[] = []
    const letRefuse = refusing(queue.driver)
    letRefuse(true)
    const onError = (error: Error) => {
      errors.push(error)
      // Without a pause nothing else would happen any more, not even the end of this test.
      if (errors.length > 1_000) throw new Error('the queue is asked without a pause')
    }
    const onOutcome = ({ stream }: RunRequest) => void outcomes.push(stream)
    const { runs } = await startRuns(() => ({ onOutcome, onError }), queue)
    await wait(2_500)
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.length).toBeLessThan(20)
    letRefuse(false)
    await runs.requestRun(incremental('assignment'))
    await expect.poll(() => outcomes).toEqual(['assignment'])
  })

  it('has as many runs as ever after its consumer was made anew, and ends after all of them', async (test) => {
    const { expect } = test
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>()
    const [begun, ended]: [string[], string[]] = [[], []]
    const { runs, worker } = await (await openIn(test)).startRuns(() => ({
      async run(request) {
        begun.push(request.stream)
        if (request.stream === 'assignment') await held
        ended.push(request.stream)
        return outcomeOf(request)
      },
    }))
    test.onTestFinished(() => letGo())
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
  })

  it('blames neither the database nor the run when the queue does not take it up again', async (test) => {
    const { expect } = test
    const blamed: unknown[] = []
    let isAway = true
    const outcomes: string[] = []
    const { runs } = await (await openIn(test)).startRuns((queue) => ({
      name: 'loads',
      queue: {
        ...queue,
        requestRun: (request) =>
          isAway ? Promise.reject(new Error('Connection is closed.')) : queue.requestRun(request),
      },
      run: async (request) => outcomeOf(request, { isComplete: false, yielded: outcomes.length === 0 }),
      failureScope(error) {
        blamed.push(error)
        return null
      },
      onOutcome: ({ stream }) => void outcomes.push(stream),
    }))
    await runs.requestRun({ ...incremental('assignment'), kind: 'reconcile' })
    await expect.poll(() => outcomes).toEqual(['assignment'])
    await runs.requestRun({ ...incremental('assignment_note'), kind: 'reconcile' })
    await expect.poll(() => outcomes).toEqual(['assignment', 'assignment_note'])
    isAway = false
    // It is owed, and taken up when it is asked for again.
    await expect.poll(() => outcomes).toHaveLength(3)
    expect([outcomes[2], blamed]).toEqual(['assignment', []])
  })

  it('hands back what it owes when it ends while a service is down, for whoever works next (P8)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const reconcile: RunRequest = { stream: 'assignment', kind: 'reconcile', cause: 'tick' }
    const stopped = await start(async (request) =>
      outcomeOf(request, { status: 'failed', error: new Error('down') }),
    )
    await stopped.requestRun(reconcile)
    await expect.poll(() => stopped.breaker.outageOf('assignment')).not.toBeNull()
    // Not even tried, and owed all the same.
    await stopped.requestRun({ ...reconcile, stream: 'assignment_note' })
    await expect.poll(stopped.counts).toEqual({ waiting: 0, active: 0, delayed: 0 })
    await stopped.stop()
    const done: string[] = []
    await start(async (request) => {
      done.push(`${request.stream}/${request.kind}`)
      return outcomeOf(request)
    })
    await expect.poll(() => done.toSorted()).toEqual(['assignment/reconcile', 'assignment_note/reconcile'])
  })

  it('leaves a service that is down alone, and owes no stream its run when it is back', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
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
    await expect.poll(() => new Set(attempts).size).toBe(3)
    expect(jobs.breaker.outageOf('assignment')).toBeNull()
  })

  it('leaves to other workers what one of them alone cannot reach, so that nothing is late (P19)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const streams = ['one', 'two', 'three', 'four', 'five', 'six']
    const everyMs = 2_000
    const { look, ...rest } = plannedBy(
      streams.map((stream) => ({ stream, kind: 'incremental', schedule: { everyMs } })),
      { workers: 2 },
    )
    /** Those that a plan came in, which a busy machine may leave out. */
    const slots = new Set<number>()
    const planned = {
      ...rest,
      look() {
        slots.add(Math.floor(Date.now() / everyMs))
        return look()
      },
    }
    let failures = 0
    const workers = () => 2
    await start(
      async (request) => {
        failures++
        throw new Error(`${request.stream} cannot be reached from here`)
      },
      { ...planned, workers },
    )
    await expect.poll(() => failures).toBeGreaterThan(0)
    const done: string[] = []
    await start(
      async (request) => {
        done.push(request.stream)
        return outcomeOf(request)
      },
      { ...planned, workers },
    )
    slots.clear()
    await expect.poll(() => slots.size, { timeout: 60_000 }).toBeGreaterThan(6)
    // Most: each may be handed to and fro until nobody wants it, and the last slot has only just begun.
    expect(done.length).toBeGreaterThan(0.6 * (slots.size - 1) * streams.length)
    expect(new Set(done).size).toBe(streams.length)
  })

  it('leaves runs of a source that one worker has not opened to those that have (P19)', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    const done: string[] = []
    const run: Run = async (request) => {
      done.push(request.stream)
      return outcomeOf(request)
    }
    const workers = () => 2
    const isKnown = () => false
    const lacking = await start(run, { workers, isKnown, run: async () => null })
    await start(run, { workers })
    const streams = Array.from({ length: 20 }, (_, nth) => `acme${nth}.assignment`)
    for (const stream of streams) await lacking.requestRun(incremental(stream))
    await expect.poll(() => done.toSorted(), { timeout: 45_000 }).toEqual(streams.toSorted())
  }, 60_000)

  it('stops a long run after the page in hand, within its time, and leaves it to whoever works next', async (test) => {
    const { expect } = test
    const { start } = await openIn(test)
    let [hasBegun, wasStopped] = [false, false]
    const jobs = await start(async (request, { signal }) => {
      hasBegun = true
      await wait(60_000, undefined, { signal }).catch(() => {})
      wasStopped = signal.aborted
      return outcomeOf(request, { status: 'stopped', isComplete: false })
    })
    await jobs.requestRun({ ...incremental('assignment'), kind: 'reconcile' })
    await expect.poll(() => hasBegun).toBe(true)
    const startedMs = performance.now()
    await jobs.stop()
    expect(wasStopped).toBe(true)
    expect(performance.now() - startedMs).toBeLessThan(15_000)
    const kinds: string[] = []
    await start(async (request) => {
      kinds.push(request.kind)
      return outcomeOf(request)
    })
    await expect.poll(() => kinds).toEqual(['reconcile'])
  })
})
