// What the worker does once Postgres and the queue answer: opens the mirror and the queue, works on the runs, keeps schedules and its
// subscription, and tells people what needs them. HTTP is not its business.

import type { Config } from '../config/load.ts'
import { openContext, type SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { runAlertLoop } from '../problems/alert-loop.ts'
import { partsDown, readProblems, viewOf } from '../problems/find-problems.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { withAlertBook } from '../store/admin/alert-book.ts'
import { pausedStreams } from '../store/admin/streams.ts'
import { checkTakesWrites } from '../store/server/connect.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { formatDuration } from '../util/text.ts'
import type { Metrics } from '../web/metrics.ts'
import { isPassingFailure, type PartsWatch, waitUntilAvailable, watchParts } from './availability.ts'
import {
  askForMissed,
  failureScopeOf,
  isRunDue,
  isTaken,
  readers,
  runUnlessPaused,
  wantedSchedules,
} from './lanes.ts'
import { openDriver } from './queue/driver.ts'
import { type Jobs, startJobs } from './queue/jobs.ts'
import { keepSubscribed } from './subscription.ts'

/** What there is once the worker works. */
export type Live = {
  readonly context: SyncContext
  readonly jobs: Jobs
  readonly parts: PartsWatch
  /** What needs a person. */
  readonly problems: () => Promise<readonly Problem[]>
}

const scheduleCheckMs = 30_000
const reconcileCheckMs = 300_000

type Beginning = {
  readonly config: Config
  readonly log: Logger
  readonly metrics: Metrics
  readonly signal: AbortSignal
}

export async function start({ config, log, metrics, signal }: Beginning): Promise<Live> {
  // What was opened is closed again when the rest cannot be, or when it was told to stop meanwhile.
  await using opened = new AsyncDisposableStack()
  const context = opened.use(
    await waitUntilAvailable({
      what: 'Postgres',
      open: () => openContext({ config, log, observer: metrics.upstream }),
      isPassing: isPassingFailure,
      signal,
      log,
    }),
  )
  const queue = await waitUntilAvailable({
    what: config.redisUrl === null ? 'the queue in Postgres' : 'Redis',
    open: () => openDriver({ redisUrl: config.redisUrl, database: context.database, log }),
    isPassing: () => true,
    signal,
    log,
  })
  opened.defer(() => queue.close())
  const kinds = readers(context)
  const streams = new Map(context.streams.map((stream) => [stream.name, stream]))
  const schedules = wantedSchedules(config, context.streams, kinds)
  const isPaused = async (stream: string) => (await pausedStreams(context.database.pool)).has(stream)
  const reconciles = { pool: context.database.pool, schedule: config.scheduleReconcile }
  const jobs = await startJobs({
    queue,
    schedules,
    isDue: (tick) => isRunDue(context, config.lookbackMs, tick),
    async run(request, hooks) {
      const stream = streams.get(request.stream)
      const read = kinds[request.kind]
      // Asked for before the stream or the lane was switched off.
      if (!stream || !read || (await isTaken(reconciles, request, new Date()))) return null
      return await runUnlessPaused(request, hooks, isPaused, (ended) => read(stream, ended))
    },
    failureScope: failureScopeOf,
    serviceOf: (name) => streams.get(name)?.service ?? 'assignment',
    onOutcome(request, outcome, durationMs) {
      const { stream, kind } = request
      const isByWebhooks = kind === 'incremental' && streams.get(stream)?.kind === 'changes'
      const isAnnounced = isByWebhooks ? request.cause === 'webhook' : null
      const { status, tally } = outcome
      // Its rows are not rows of assignments.
      const counted = kind === 'related' ? kind : stream
      metrics.runDone({ stream: counted, kind, status, durationMs, isAnnounced, tally })
      tellOutcome(log, outcome, durationMs)
    },
    log,
  })
  const keepSchedules = () =>
    jobs.keepSchedules().catch((error) => log.debug({ err: error }, 'the schedules could not be looked at'))
  const reconciled = context.streams.filter(({ kind }) => kind === 'changes').map(({ name }) => name)
  const makeUpForMissedReconciles = () =>
    askForMissed(reconciles, reconciled, jobs.requestRun, new Date()).catch((error) =>
      log.debug({ err: error }, 'what reconcile was missed could not be looked up'),
    )
  void makeUpForMissedReconciles()
  const regularly = [
    setInterval(keepSchedules, scheduleCheckMs).unref(),
    setInterval(makeUpForMissedReconciles, reconcileCheckMs).unref(),
  ]
  signal.addEventListener('abort', () => regularly.forEach(clearInterval))
  const parts = watchParts(
    [
      { name: 'database', check: () => checkTakesWrites(context.database.pool) },
      { name: 'queue', check: jobs.ping, onReturn: keepSchedules },
    ],
    log,
  )
  const { publicUrl, webhookSecret: secret } = config
  if (publicUrl !== null && secret !== null) {
    const { assignmentService: upstream, database } = context
    void keepSubscribed({ upstream, pool: database.pool, publicUrl, secret, signal, log })
  }
  log.info(
    { database: context.database.address, queue: queue.address, streams: [...streams.keys()] },
    'the worker works',
  )
  const problems = () =>
    readProblems({
      pool: context.database.pool,
      streams: context.streams,
      config,
      view: viewOf(jobs, parts),
      now: new Date(),
    })
  if (config.alertWebhookUrl !== null)
    void runAlertLoop({
      url: config.alertWebhookUrl,
      problems,
      withBook: (work) => withAlertBook(context.database.pool, work),
      alertsUnavailable: () =>
        partsDown(viewOf(jobs, parts)).filter(({ key }) => key === 'part_down:database'),
      signal,
      log,
    })
  opened.move()
  return { context, jobs, parts, problems }
}

const longRunMs = 30_000

/** Most runs say nothing new; those that somebody would ask about are told. */
function tellOutcome(log: Logger, outcome: RunOutcome, durationMs: number): void {
  const { stream, kind, status, note, tally } = outcome
  const isNews = note !== null || durationMs > longRunMs || tally.quarantined > 0 || tally.rescued > 0
  const { inserted, updated, unchanged, quarantined, rescued } = tally
  const level = isNews && status === 'done' ? 'info' : 'debug'
  log[level](
    { stream, kind, status, inserted, updated, unchanged, quarantined, rescued, note },
    `a run took ${formatDuration(durationMs)}`,
  )
}
