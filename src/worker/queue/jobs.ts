// The working side of the queues, put together: schedules tick, ticks request runs, requests become runs.

import type { Logger } from '../../log.ts'
import type { RunRequest } from '../../streams/catalog.ts'
import type { RunOutcome } from '../../sync/perform-run.ts'
import { withTimeout } from '../../util/waiting.ts'
import { type FailureScope, openCircuitBreaker } from './circuit-breaker.ts'
import type { OpenDriver } from './driver.ts'
import { again, openRunQueue, type QueueCounts } from './requests.ts'
import { type DoRun, startRunWorker } from './run-worker.ts'
import { type NextTick, startTickWorker, type Tick, type Wanted } from './schedules.ts'

export type Jobs = {
  requestRun(request: RunRequest): Promise<void>
  counts(): Promise<QueueCounts>
  /** Rejects while the queue cannot be used. */
  ping(): Promise<void>
  /** Repairs schedules that a flush, a lost queue or a jump of the clock took away. */
  keepSchedules(): Promise<void>
  nextTicks(): Promise<readonly NextTick[]>
  servicesDown(): readonly string[]
  /** What does not work, in words, and when it is tried again. */
  waits(): readonly { readonly what: string; readonly until: Date }[]
  /** Runs end after the page in hand. */
  stop(): Promise<void>
}

export type JobsOptions = {
  readonly queue: OpenDriver
  readonly schedules: readonly Wanted[]
  /** Asked at each tick. */
  readonly isDue: (tick: Tick) => Promise<boolean>
  readonly run: DoRun
  readonly failureScope: (error: unknown, isRecorded: boolean) => FailureScope | null
  readonly serviceOf: (stream: string) => string
  readonly onOutcome: (request: RunRequest, outcome: RunOutcome, durationMs: number) => void
  /** Another run that is due at once because of what a run has found. */
  readonly whatFollows?: (request: RunRequest, outcome: RunOutcome) => RunRequest | null
  /** Enough that no stream's slow runs can keep all others from being read. */
  readonly runsAtOnce?: number
  readonly log: Logger
}

const defaultRunsAtOnce = 8
/** When schedules were wrong at so many checks in a row, it was no flush and no jump of the clock: another worker sets them otherwise. */
const contestedChecks = 3
const contested =
  'for the third time in a row. Another worker of this database has other settings: all need the same STREAMS, SCHEDULE_…, LOOKBACK, RELATED and TRACKING_BASE_URL'
const drainMs = 18_000

export async function startJobs(options: JobsOptions): Promise<Jobs> {
  const { queue, run, failureScope, onOutcome, serviceOf, log } = options
  // That the queue is away is logged by the watch of the parts.
  const onError = (error: Error) => log.debug({ err: error }, 'the queue has trouble')
  const runs = openRunQueue(queue.driver, onError)
  const breaker = openCircuitBreaker({ serviceOf, requestRun: runs.requestRun, log })
  const ticks = await startTickWorker({
    driver: queue.driver,
    schedules: options.schedules,
    async onTick(tick) {
      // When that cannot be found out, the run itself meets the error, and is owed until it is over.
      if (await options.isDue(tick).catch(() => true)) await runs.requestRun({ ...tick, cause: 'tick' })
    },
    onError,
  })
  const worker = startRunWorker({
    driver: queue.driver,
    queue: runs,
    run,
    failureScope,
    breaker,
    runsAtOnce: options.runsAtOnce ?? defaultRunsAtOnce,
    log,
    onOutcome,
    whatFollows: options.whatFollows ?? (() => null),
    onError,
  })
  /** Leaves what this worker still owes to the next one: a reconcile would otherwise come only the next day. */
  async function handBack(): Promise<void> {
    await Promise.all(breaker.owed().map((request) => runs.requestRun(again(request))))
  }

  let changedInARow = 0
  return {
    requestRun: runs.requestRun,
    counts: runs.counts,
    ping: queue.ping,
    async keepSchedules() {
      const changed = await ticks.keepSchedules()
      changedInARow = changed > 0 ? changedInARow + 1 : 0
      const text = 'schedules in the queue were missing or wrong and have been repaired'
      if (changedInARow === contestedChecks) log.warn({ changed }, `${text}, ${contested}`)
      else if (changed > 0) log[changedInARow < contestedChecks ? 'info' : 'debug']({ changed }, text)
    },
    nextTicks: ticks.next,
    servicesDown: breaker.servicesDown,
    waits: breaker.waits,
    async stop() {
      const drained = Promise.all([ticks.close(), worker.close()]).then(handBack).then(runs.close)
      // What waits for a queue that is away would wait for ever.
      await withTimeout(drainMs, drained).catch((error) =>
        log.debug({ err: error }, 'the queue was away when the worker stopped'),
      )
      breaker.close()
      await queue.close()
    },
  }
}
