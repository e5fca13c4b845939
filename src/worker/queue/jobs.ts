// The working side of the queues, put together: the plan releases what is due, requests become runs.

import type { RunRequest } from '../../streams/catalog.ts'
import { withTimeout } from '../../util/waiting.ts'
import { type QueueWatch, type WatchOptions, watchQueue } from './canary.ts'
import { type CircuitBreaker, type CircuitOptions, openCircuitBreaker } from './circuit-breaker.ts'
import type { OpenDriver } from './driver.ts'
import { nextTimeMs, type QueueName, type Scheduled } from './plan.ts'
import { openPlanner, type PlannerOptions } from './planner.ts'
import { again, openRunQueue, type QueueCounts, type QueuedRun, queueNames } from './requests.ts'
import { type RunWorkerOptions, startRunWorker } from './run-worker.ts'

export type NextRun = Scheduled & { readonly at: Date }
export type Jobs = {
  requestRun(request: RunRequest): Promise<void>
  counts(): Promise<QueueCounts>
  /** Releases at once what is due; makes the plan anew where it is lost. */
  planNow(): Promise<void>
  /** When the schedules ask for the next run of each stream and kind. */
  nextRuns(now: Date): readonly NextRun[]
  readonly breaker: Pick<CircuitBreaker, 'outageOf' | 'tryAgain' | 'waits'>
  /** Runs end after the page in hand. */
  stop(): Promise<void>
}

export type JobsOptions = Pick<
  RunWorkerOptions,
  'run' | 'failureScope' | 'onOutcome' | 'log' | 'slowAfterMs' | 'workers' | 'isKnown'
> &
  Pick<PlannerOptions, 'look' | 'isDue' | 'onReleased' | 'hostOf'> &
  Partial<Pick<RunWorkerOptions, 'whatFollows'> & Pick<WatchOptions, 'onWork' | 'onFailure'>> & {
    readonly queue: OpenDriver
    /** As they are now. */
    readonly schedules: () => readonly Scheduled[]
    readonly slots?: Readonly<Record<QueueName, number>>
    readonly serviceOf: (stream: string) => string
    readonly heldUntil?: CircuitOptions['heldUntil']
    /** How often it is looked at whether jobs get through, and how long a consumer may be silent before it is tried. */
    readonly canaries?: { readonly everyMs: number; readonly rhythmMs: number }
  }

/** Runs of a worker at once: enough that no stream's slow runs can keep all others from being read. */
const defaultSlots = { polls: 6, loads: 3 } as const
const drainMs = 18_000
const neverHeld = async () => null
const unheard = { whatFollows: () => [], onWork() {}, onFailure() {} }

export async function startJobs(options: JobsOptions): Promise<Jobs> {
  const { queue, heldUntil = neverHeld, schedules, slots = defaultSlots, log } = options
  let watch: QueueWatch | null = null
  // That the queue is away is logged with the state of the parts.
  const onError = (error: Error) => {
    log.debug({ err: error }, 'the queue has trouble')
    watch?.doubt(error)
  }
  const runs = openRunQueue(queue.driver, onError)
  const breaker = openCircuitBreaker({ ...options, heldUntil, requestRun: runs.requestRun })
  const mustWait = (request: QueuedRun) => !breaker.isForOthers(request) && breaker.mustWait(request)
  const planner = openPlanner({ ...options, queue: runs, mustWait, slots })
  await planner.planNow().catch(async (error) => {
    await runs.close().catch(() => {})
    throw error
  })
  const consumers = queueNames.map((name) => ({
    name,
    queue: runs.forCanaries[name],
    ...startRunWorker({
      ...unheard,
      ...options,
      name,
      runsAtOnce: slots[name],
      driver: queue.driver,
      queue: runs,
      breaker,
      onError,
      plan: planner.plan,
      onOutcome(request, outcome, durationMs) {
        options.onOutcome(request, outcome, durationMs)
        // What a load has brought makes other runs due, and where versions come late, look-backs come more often.
        if (name === 'loads' || outcome.differences?.late) void planner.planNow().catch(() => {})
      },
    }),
  }))
  watch = watchQueue({
    consumers,
    ping: queue.ping,
    keep: planner.keep,
    async prepare() {
      await queue.prepare()
      await planner.planNow()
    },
    ...unheard,
    ...options,
    ...options.canaries,
  })
  const wasAway = (error: Error) => log.debug({ err: error }, 'the queue was away when the worker stopped')
  /** Leaves what this worker still owes to the next one: a reconcile would otherwise come only the next day. */
  const handBack = () => Promise.all(breaker.owed().map((request) => runs.requestRun(again(request))))

  return {
    requestRun: runs.requestRun,
    counts: runs.counts,
    planNow: planner.planNow,
    nextRuns: (now) =>
      schedules().map((one) => ({ ...one, at: new Date(nextTimeMs(one.schedule, now.getTime())) })),
    breaker,
    async stop() {
      watch?.close()
      const drained = Promise.all(consumers.map((one) => one.close()))
        .then(handBack)
        .then(runs.close)
      // What waits for a queue that is away would wait for ever.
      await withTimeout(drainMs, drained).catch(wasAway)
      breaker.close()
      await queue.close()
    },
  }
}
