// The working side of the queues, put together: schedules tick, ticks request runs, requests become runs.

import type { Logger } from '../../log.ts'
import type { RunRequest } from '../../streams/catalog.ts'
import { withTimeout } from '../../util/waiting.ts'
import { type QueueWatch, type WatchOptions, watchQueue } from './canary.ts'
import { type CircuitBreaker, openCircuitBreaker } from './circuit-breaker.ts'
import type { OpenDriver } from './driver.ts'
import { again, openRunQueue, type QueueCounts } from './requests.ts'
import { type RunWorkerOptions, startRunWorker } from './run-worker.ts'
import { type NextTick, startTickWorker, type Tick, type TickWorker, type Wanted } from './schedules.ts'

export type Jobs = {
  requestRun(request: RunRequest): Promise<void>
  counts(): Promise<QueueCounts>
  /** Repairs schedules that a flush, a lost queue or a jump of the clock took away. */
  keepSchedules(): Promise<void>
  nextTicks(): Promise<readonly NextTick[]>
  readonly breaker: Pick<CircuitBreaker, 'outageOf' | 'tryAgain' | 'waits'>
  /** Runs end after the page in hand. */
  stop(): Promise<void>
}

export type JobsOptions = Pick<RunWorkerOptions, 'run' | 'failureScope' | 'onOutcome' | 'log'> &
  Partial<
    Pick<RunWorkerOptions, 'runsAtOnce' | 'whatFollows'> & Pick<WatchOptions, 'onWork' | 'onFailure'>
  > & {
    readonly queue: OpenDriver
    readonly schedules: readonly Wanted[]
    /** Asked at each tick. */
    readonly isDue: (tick: Tick) => Promise<boolean>
    readonly serviceOf: (stream: string) => string
    /** How often it is looked at whether jobs get through, and how long a consumer may be silent before it is tried. */
    readonly canaries?: { readonly everyMs: number; readonly rhythmMs: number }
  }

/** Enough that no stream's slow runs can keep all others from being read. */
const defaultRunsAtOnce = 8
/** When schedules were wrong at so many checks in a row, it was no flush and no jump of the clock: another worker sets them otherwise. */
const contestedChecks = 3
const contested =
  'for the third time in a row. Another worker of this database has other settings: all need the same STREAMS, SCHEDULE_…, LOOKBACK, RELATED and TRACKING_BASE_URL'
const drainMs = 18_000

export async function startJobs(options: JobsOptions): Promise<Jobs> {
  const { queue, serviceOf, log } = options
  let watch: QueueWatch | null = null
  // That the queue is away is logged with the state of the parts.
  const onError = (error: Error) => {
    log.debug({ err: error }, 'the queue has trouble')
    watch?.doubt(error)
  }
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
  }).catch(async (error) => {
    await runs.close().catch(() => {})
    throw error
  })
  const worker = startRunWorker({
    runsAtOnce: defaultRunsAtOnce,
    whatFollows: () => null,
    ...options,
    ...{ driver: queue.driver, queue: runs, breaker, onError },
  })
  watch = watchQueue({
    consumers: [
      { ...ticks, name: 'ticks', queue: ticks.forCanaries },
      { ...worker, name: 'runs', queue: runs.forCanaries },
    ],
    ping: queue.ping,
    async prepare() {
      await queue.prepare()
      await ticks.keepSchedules()
    },
    onWork: () => {},
    onFailure: () => {},
    ...options,
    ...options.canaries,
  })
  /** Leaves what this worker still owes to the next one: a reconcile would otherwise come only the next day. */
  async function handBack(): Promise<void> {
    await Promise.all(breaker.owed().map((request) => runs.requestRun(again(request))))
  }

  return {
    requestRun: runs.requestRun,
    counts: runs.counts,
    keepSchedules: openScheduleRepair(ticks, log),
    nextTicks: ticks.next,
    breaker,
    async stop() {
      watch?.close()
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

function openScheduleRepair(ticks: Pick<TickWorker, 'keepSchedules'>, log: Logger): () => Promise<void> {
  let changedInARow = 0
  return async () => {
    const changed = await ticks.keepSchedules()
    changedInARow = changed > 0 ? changedInARow + 1 : 0
    const text = 'schedules in the queue were missing or wrong and have been repaired'
    if (changedInARow === contestedChecks) log.warn({ changed }, `${text}, ${contested}`)
    else if (changed > 0) log[changedInARow < contestedChecks ? 'info' : 'debug']({ changed }, text)
  }
}
