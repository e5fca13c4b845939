// Takes run requests from a queue and does them, a number at once. A long run gives way between two pages when all places are taken and
// another stream waits; a poll goes on among the loads then. A poll that takes long mostly waits for an upstream that does not answer: a second
// consumer takes its place meanwhile, so that some that hang keep neither others nor the plan waiting (P19). A host
// that hangs gets no more than the places of one consumer, and the last place of both is for a host that has none. The plan needs none.

import { DelayedError, type Job } from 'bullmq'
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
import { again, nameInDriver, type QueuedRun, type RunQueue, slowAfterMs } from './requests.ts'

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
export type DoRun = (request: QueuedRun, hooks: RunHooks) => Promise<DoneRun | null>
/** `isPutOff`: it was stopped, and is to be done again at once. */
type DoneRun = RunOutcome & { readonly isPutOff?: boolean }

export type RunWorkerOptions = {
  readonly name: QueueName
  readonly driver: Driver
  readonly queue: Pick<RunQueue, 'requestRun' | 'countsOf' | 'forCanaries'>
  readonly plan: Planner['plan']
  readonly run: DoRun
  /** Where its records are asked for. */
  readonly hostOf: (stream: string) => string
  /** What a failed run means for the others; null when nothing is wrong. `isRecorded`: its failure is in the table of runs. */
  readonly failureScope: (error: unknown, isRecorded: boolean) => FailureScope | null
  readonly breaker: CircuitBreaker
  /** How many workers there are. Left out: this one alone. */
  readonly workers?: () => number
  /** False: it is of a source that this worker has not opened, or of nothing that it reads. Left out: it knows all. */
  readonly isKnown?: (request: QueuedRun) => boolean
  readonly runsAtOnce: number
  readonly slowAfterMs?: number
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
/** Then it waits here. Perhaps no worker can do it. What only this one does not know is left to others for longer: it would be lost. */
const mostLeftToOthers = { known: 5, unknown: 60 }
const leftForMs = 500

export function startRunWorker(options: RunWorkerOptions): RunWorker {
  const { driver, runsAtOnce } = options
  const stopping = new AbortController()
  const places = watchPlaces(options, standIn)
  const held = openHeldJobs({ ...options, queue: options.queue.forCanaries[options.name] })
  let tookMs: number | null = null
  let [spare, isClosed]: [ReturnType<typeof open> | null, boolean] = [null, false]
  const closing = new Set<Promise<void>>()
  const open = (concurrency: number) => {
    const worker = new Worker<QueuedRun>(
      nameInDriver(options.name),
      (job, token) => {
        tookMs = performance.now()
        return held.while(token, async () => {
          if (job.name === canaryName) return await takeCanary()
          if (job.name === planName) return await options.plan(job, token)
          const host = options.hostOf(job.data.stream)
          await leaveToOthers(options, job, token)
          if (options.breaker.mustWait(job.data)) return
          const work = () => doRun(options, job.data, stopping.signal, places.shouldYield)
          if (!(await places.take(host, work))) options.breaker.turnedAway(job.data)
        })
      },
      { ...placed(driver), ...lockOptions, concurrency },
    )
    held.began(worker.id)
    return worker.on('error', options.onError)
  }
  let worker = open(runsAtOnce)
  /** A consumer whose runs are all slow takes nothing more, whatever it is told: so another one does. It ends once its own runs have. */
  function standIn(isNeeded: boolean): void {
    if (isClosed || isNeeded === (spare !== null)) return
    if (isNeeded) {
      // With as many at once: what is told later would not be heard either. One more is for the plan when all places are taken.
      spare = open(runsAtOnce + 1)
      return
    }
    const closed = spare?.close().catch(() => {}) ?? Promise.resolve()
    closing.add(closed)
    void closed.then(() => closing.delete(closed))
    spare = null
  }
  return {
    tookMs: () => tookMs,
    isFull: places.isFull,
    leave() {
      for (const one of [worker, spare]) leave(one)
      spare = null
    },
    begin() {
      worker = open(runsAtOnce)
    },
    async close() {
      isClosed = true
      // Also of consumers that were left: their runs go on.
      const closed = Promise.all([worker.close(), spare?.close(), ...closing, places.ended()])
      held.close()
      await withTimeout(graceMs, closed).catch(() => {})
      stopping.abort(new Error('the worker is stopping'))
      await closed
    },
  }
}

/** Of a consumer that takes nothing more. What it works on goes on; in Postgres its lease keeps others off meanwhile (P2). */
const leave = (worker: { close(isForced: boolean): Promise<void> } | null): void =>
  void worker?.close(true).catch(() => {})

/** A worker that cannot do what others can would take most jobs, for it is soon done with each. It may be the next to take this one, too. */
async function leaveToOthers(
  { breaker, workers = () => 1, isKnown = () => true }: RunWorkerOptions,
  job: Job<QueuedRun>,
  token: string | undefined,
): Promise<void> {
  const times = Number(job.data.leftToOthers) || 0
  const known = isKnown(job.data) ? 'known' : 'unknown'
  const isForOthers = known === 'known' ? breaker.isForOthers(job.data) : workers() > 1
  if (!isForOthers || times >= mostLeftToOthers[known]) return
  await job.updateData({ ...job.data, leftToOthers: times + 1 })
  await job.moveToDelayed(Date.now() + leftForMs, token)
  throw new DelayedError()
}

async function doRun(
  options: RunWorkerOptions,
  request: QueuedRun,
  signal: AbortSignal,
  shouldYield: (startedMs: number) => boolean,
): Promise<void> {
  const { breaker } = options
  const startedMs = Date.now()
  // If the queue does not take it, this worker owes it.
  const askFor = (next: QueuedRun) =>
    options.queue.requestRun(next).catch((error) => breaker.failed(next, startedMs, notTaken(error)))
  if (breaker.mustWait(request)) return
  // It waited for a place until this worker ended: the next one does it.
  if (signal.aborted) return await askFor(again(request))
  let outcome: DoneRun | null
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
  const isCutShort = outcome.status === 'stopped' && (signal.aborted || outcome.isPutOff === true)
  const rest: QueuedRun = outcome.yielded ? { ...again(request), isLoad: true } : again(request)
  for (const next of outcome.yielded || isCutShort ? [rest] : options.whatFollows(request, outcome))
    await askFor(next)
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

const lookEveryMs = 1_000
const shortestRunMs = 2_000

/** Knows how many runs are under way, and, when all places are taken, how many wait. `onSlow`: whether some of them are slow now. */
function watchPlaces(options: RunWorkerOptions, onSlow: (isAny: boolean) => void) {
  const { name, queue, runsAtOnce, slowAfterMs: slowMs = slowAfterMs } = options
  /** The host of each run that is under way, and of each that is slow. */
  const active: string[] = []
  const slow: string[] = []
  const waiting = countWaiting(() => queue.countsOf(name))
  const forPlaces: { readonly host: string; readonly begin: (isAdmitted: boolean) => void }[] = []
  const taken = new Set<Promise<unknown>>()
  const underWay: UnderWay = { active, slow, runsAtOnce }

  /** In the order in which they came, but past those that have to wait. */
  function admit(): void {
    for (const next of [...forPlaces]) {
      const place = placeFor(next.host, underWay)
      if (place === 'later') continue
      forPlaces.splice(forPlaces.indexOf(next), 1)
      if (place === 'now') active.push(next.host)
      next.begin(place === 'now')
    }
  }

  async function inPlace(host: string, work: () => Promise<void>): Promise<boolean> {
    const { promise: mayBegin, resolve: begin } = Promise.withResolvers<boolean>()
    forPlaces.push({ host, begin })
    admit()
    if (!(await mayBegin)) return false
    let isSlow = false
    const timer = setTimeout(() => {
      isSlow = true
      slow.push(host)
      onSlow(true)
      admit()
    }, slowMs).unref()
    // Loads are long by nature, and give way to what waits.
    if (name === 'loads') clearTimeout(timer)
    try {
      await work()
    } finally {
      clearTimeout(timer)
      removeOne(active, host)
      if (isSlow) {
        removeOne(slow, host)
        onSlow(slow.length > 0)
      }
      admit()
    }
    return true
  }

  return {
    /** When a place is free: a consumer that was left has some as long as its runs go on. False: runs that hang leave none to this host. */
    async take(host: string, work: () => Promise<void>): Promise<boolean> {
      const done = inPlace(host, work)
      taken.add(done)
      return await done.finally(() => taken.delete(done))
    },
    /** When nothing is under way any more. */
    ended: () => Promise.allSettled(taken),
    isFull: () => isFull(underWay),
    /** Counts down, so that each waiting request is given way to once. */
    shouldYield(startedMs: number): boolean {
      if (isFull(underWay)) waiting.look()
      else waiting.clear()
      return Date.now() - startedMs >= shortestRunMs && waiting.takeOne()
    },
  }
}

type UnderWay = Pick<RunWorkerOptions, 'runsAtOnce'> & {
  readonly active: readonly string[]
  readonly slow: readonly string[]
}

/** Each slow one has its place taken by another, up to as many again. */
const isFull = ({ active, slow, runsAtOnce }: UnderWay): boolean =>
  active.length >= runsAtOnce + Math.min(slow.length, runsAtOnce)

/** Whether a run that asks this host has a place. `none`: nothing ends soon that it could wait for. */
export function placeFor(host: string, underWay: UnderWay): 'now' | 'later' | 'none' {
  const { active, slow, runsAtOnce } = underWay
  const left = 2 * runsAtOnce - active.length
  const [ofHost = 0, hanging = 0] = [active, slow].map((all) => all.filter((one) => one === host).length)
  if (left <= 0 && slow.length === active.length) return 'none'
  if (hanging > 0 && (left <= 1 || (2 * hanging >= runsAtOnce && ofHost >= runsAtOnce))) return 'none'
  // The last place is for a host that has none.
  return isFull(underWay) || (left === 1 && ofHost > 0) ? 'later' : 'now'
}

const removeOne = (from: string[], one: string): void => void from.splice(from.indexOf(one), 1)

/** How many wait in a queue, counted down. */
function countWaiting(ask: () => Promise<{ readonly waiting: number }>) {
  let waiting = 0
  let lookedMs = Number.NEGATIVE_INFINITY
  return {
    /** Long runs ask between two pages, and are told what was so when one of them last asked. */
    look(): void {
      if (performance.now() - lookedMs < lookEveryMs) return
      lookedMs = performance.now()
      // While the queue is away nobody waits in it.
      void ask()
        .catch(() => ({ waiting: 0 }))
        .then((counts) => {
          waiting = counts.waiting
        })
    },
    clear(): void {
      waiting = 0
    },
    takeOne: (): boolean => waiting > 0 && waiting-- > 0,
  }
}

const soonAgain = { scope: 'stream', notBefore: null, policy: backoff.busy } as const

/** Another run holds the lease, and may release it at any moment: it is tried again soon. */
const takenBy = (note: string | null): FailureScope => ({
  ...soonAgain,
  level: 'info',
  message: `${note ?? 'another program'} is doing it already`,
  error: null,
})

/** That the queue is away is logged with the state of the parts. */
const notTaken = (error: Error): FailureScope => ({
  ...soonAgain,
  level: 'debug',
  message: 'the queue did not take it up again',
  error,
})
