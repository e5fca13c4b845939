// Takes run requests from a queue and does them, a number at once. A long run gives way between two pages when all places are taken and
// another stream waits; a poll goes on among the loads then.

import type { Logger } from '../../log.ts'
import type { RunRequest } from '../../streams/catalog.ts'
import type { RunOutcome } from '../../sync/perform-run.ts'
import { backoff } from '../../util/backoff.ts'
import { withTimeout } from '../../util/waiting.ts'
import { type Consumer, canaryName, takeCanary } from './canary.ts'
import type { CircuitBreaker, FailureScope } from './circuit-breaker.ts'
import { type Driver, placed, Worker } from './driver.ts'
import { openHeldJobs } from './lost-jobs.ts'
import type { QueueName } from './plan.ts'
import { type Planner, planName } from './planner.ts'
import { again, nameInDriver, type QueuedRun, type RunQueue } from './requests.ts'

// How workers hold their jobs: long enough for a busy process to renew its lock, short enough that the jobs of a killed one
// are soon somebody else's.
const lockOptions = {
  lockDuration: 15_000,
  stalledInterval: 10_000,
  // So long a consumer without work waits for the queue to speak, in seconds. A new job wakes it at once.
  drainDelay: 10,
  // Being killed is nothing a job could be blamed for.
  maxStalledCount: 1_000_000,
  runRetryDelay: 1_000,
} as const

export type RunHooks = { readonly signal: AbortSignal; readonly shouldYield: () => boolean }
/** Null when there is nothing to do, or not for this worker. */
export type DoRun = (request: QueuedRun, hooks: RunHooks) => Promise<RunOutcome | null>

export type RunWorkerOptions = {
  readonly name: QueueName
  readonly driver: Driver
  readonly queue: Pick<RunQueue, 'requestRun' | 'countsOf' | 'forCanaries'>
  readonly plan: Planner['plan']
  readonly run: DoRun
  /** What a failed run means for the others; null when nothing is wrong. `isRecorded`: its failure is in the table of runs. */
  readonly failureScope: (error: unknown, isRecorded: boolean) => FailureScope | null
  readonly breaker: CircuitBreaker
  readonly runsAtOnce: number
  readonly log: Logger
  readonly onOutcome: (request: RunRequest, outcome: RunOutcome, durationMs: number) => void
  /** Other runs that are due at once because of what a run has found. */
  readonly whatFollows: (request: RunRequest, outcome: RunOutcome) => readonly RunRequest[]
  readonly onError: (error: Error) => void
}
export type RunWorker = Omit<Consumer, 'name' | 'queue'> & {
  /** Begins nothing more, lets short runs end and stops long ones after the page in hand. */
  close(): Promise<void>
}

const graceMs = 4_000

export function startRunWorker(options: RunWorkerOptions): RunWorker {
  const { driver, runsAtOnce } = options
  const stopping = new AbortController()
  const places = watchPlaces(options)
  const held = openHeldJobs({ ...options, queue: options.queue.forCanaries[options.name] })
  let tookMs: number | null = null
  const open = () => {
    const worker = new Worker<QueuedRun>(
      nameInDriver(options.name),
      (job, token) => {
        tookMs = performance.now()
        return held.while(token, async () => {
          if (job.name === canaryName) return await takeCanary()
          if (job.name === planName) return await options.plan(job, token)
          await places.take(() => doRun(options, job.data, stopping.signal, places.shouldYield))
        })
      },
      { ...placed(driver), ...lockOptions, concurrency: runsAtOnce },
    )
    held.began(worker.id)
    return worker.on('error', options.onError)
  }
  let worker = open()
  return {
    tookMs: () => tookMs,
    isFull: places.isFull,
    leave: () => leave(worker),
    begin() {
      worker = open()
    },
    async close() {
      // Also of consumers that were left: their runs go on.
      const closed = Promise.all([worker.close(), places.ended()])
      held.close()
      await withTimeout(graceMs, closed).catch(() => {})
      stopping.abort(new Error('the worker is stopping'))
      await closed
    },
  }
}

/** Of a consumer that takes nothing more. What it works on goes on; in Postgres its lease keeps others off meanwhile (P2). */
const leave = (worker: { close(isForced: boolean): Promise<void> }): void =>
  void worker.close(true).catch(() => {})

async function doRun(
  options: RunWorkerOptions,
  request: QueuedRun,
  signal: AbortSignal,
  shouldYield: (startedMs: number) => boolean,
): Promise<void> {
  const { breaker } = options
  if (signal.aborted || breaker.mustWait(request)) return
  const startedMs = Date.now()
  let outcome: RunOutcome | null
  try {
    outcome = await options.run(request, { signal, shouldYield: () => shouldYield(startedMs) })
  } catch (error) {
    const failureScope = options.failureScope(error, false)
    if (failureScope) breaker.failed(request, startedMs, failureScope)
    return
  }
  if (outcome === null) return breaker.forget(request)
  options.onOutcome(request, outcome, Date.now() - startedMs)
  settle(options, request, outcome, startedMs)
  // If this worker is ending, the next one goes on with the run.
  const isCutShort = outcome.status === 'stopped' && signal.aborted
  const rest: QueuedRun = outcome.yielded ? { ...again(request), isLoad: true } : again(request)
  // If the queue does not take it, this worker owes it.
  for (const next of outcome.yielded || isCutShort ? [rest] : options.whatFollows(request, outcome))
    await options.queue.requestRun(next).catch((error) => breaker.failed(next, startedMs, notTaken(error)))
}

/** What the outcome says of the stream, its service and the database. */
function settle(
  { breaker, failureScope, log }: RunWorkerOptions,
  request: RunRequest,
  { status, note, error, tally }: RunOutcome,
  startedMs: number,
): void {
  if (status === 'done') breaker.succeeded(request, tally.requests)
  if (status === 'skipped') breaker.failed(request, startedMs, takenBy(note))
  if (status !== 'failed') return
  const scope = failureScope(error, true)
  if (scope) breaker.failed(request, startedMs, scope)
  else log.debug({ err: error, ...request }, 'another run or a rewind took over from this run')
}

type Places = {
  /** When a place is free: a consumer that was left has some as long as its runs go on. */
  take(work: () => Promise<void>): Promise<void>
  /** When nothing is under way any more. */
  ended(): Promise<unknown>
  isFull(): boolean
  /** Counts down, so that each waiting request is given way to once. */
  shouldYield(startedMs: number): boolean
}

const lookEveryMs = 1_000
const shortestRunMs = 2_000

/** Knows how many runs are under way, and, when all places are taken, how many wait. */
function watchPlaces({
  name,
  queue,
  runsAtOnce,
}: Pick<RunWorkerOptions, 'name' | 'queue' | 'runsAtOnce'>): Places {
  let active = 0
  let waiting = 0
  let lookedMs = Number.NEGATIVE_INFINITY
  const forPlaces: (() => void)[] = []
  const taken = new Set<Promise<void>>()

  /** Long runs ask between two pages, and are told what was so when one of them last asked. */
  function look(): void {
    if (performance.now() - lookedMs < lookEveryMs) return
    lookedMs = performance.now()
    // While the queue is away nobody waits in it.
    void queue.countsOf(name).then(
      (counts) => {
        waiting = counts.waiting
      },
      () => {
        waiting = 0
      },
    )
  }

  async function inPlace(work: () => Promise<void>): Promise<void> {
    if (active < runsAtOnce) active++
    else await new Promise<void>((begin) => forPlaces.push(begin))
    try {
      await work()
    } finally {
      const begin = forPlaces.shift()
      if (begin) begin()
      else active--
    }
  }

  return {
    async take(work) {
      const done = inPlace(work)
      taken.add(done)
      await done.finally(() => taken.delete(done))
    },
    ended: () => Promise.allSettled(taken),
    isFull: () => active >= runsAtOnce,
    shouldYield(startedMs) {
      if (active < runsAtOnce) waiting = 0
      else look()
      if (waiting === 0 || Date.now() - startedMs < shortestRunMs) return false
      waiting--
      return true
    },
  }
}

/** Another run holds the lease, and may release it at any moment: it is tried again soon. */
const takenBy = (note: string | null): FailureScope => ({
  scope: 'stream',
  notBefore: null,
  policy: backoff.busy,
  level: 'info',
  message: `${note ?? 'another program'} is doing it already`,
  error: null,
})

/** That the queue is away is logged with the state of the parts. */
const notTaken = (error: Error): FailureScope => ({
  scope: 'stream',
  notBefore: null,
  policy: backoff.busy,
  level: 'debug',
  message: 'the queue did not take it up again',
  error,
})
