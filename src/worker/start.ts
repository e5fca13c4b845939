// What the worker does once Postgres and the queue answer: opens the mirror and the queue, works on the runs, keeps schedules and its
// subscription, and alerts people. HTTP is not its business.

import { type Config, signingSecretOf } from '../config/load.ts'
import { openContext, relatedNotice, type SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { runAlertLoop } from '../problems/alert-loop.ts'
import { partsDown, readProblems, type WorkerView } from '../problems/find-problems.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { withAlertBook } from '../store/admin/alert-book.ts'
import { pausedStreams } from '../store/admin/streams.ts'
import type { WorkerLine } from '../store/admin/watch.ts'
import { forgetProblem } from '../store/queries/notices.ts'
import { SourceDiffers } from '../store/queries/sources.ts'
import { checkTakesWrites } from '../store/server/connect.ts'
import type { RunRequest } from '../streams/catalog.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import type { UpstreamObserver } from '../upstream/http/transport.ts'
import { formatDuration } from '../util/text.ts'
import type { Metrics } from '../web/metrics.ts'
import { isPassingFailure, type PartsWatch, waitUntilAvailable, watchParts } from './availability.ts'
import { type OpenDriver, openDriver } from './queue/driver.ts'
import { type Jobs, startJobs } from './queue/jobs.ts'
import { openRequestMinutes } from './request-minutes.ts'
import {
  askForMissed,
  failureScopeOf,
  isRunDue,
  isTaken,
  readers,
  runUnlessPaused,
  wantedSchedules,
  whatFollows,
} from './scheduled-runs.ts'
import { keepSubscribed, webhookNotice } from './subscription.ts'
import { startWatch, type Watch } from './watch.ts'

/** What there is once Postgres and the queue answered. */
export type Live = {
  readonly context: SyncContext
  readonly jobs: Jobs
  readonly parts: PartsWatch
  /** What needs a person. */
  readonly problems: () => Promise<readonly Problem[]>
  readonly watch: Watch
}

type Beginning = {
  readonly config: Config
  readonly log: Logger
  readonly metrics: Metrics
  readonly signal: AbortSignal
  /** No run can be done any more. */
  readonly onHopeless: (error: Error) => void
}

export async function start(beginning: Beginning): Promise<Live> {
  const { config, log, metrics, signal } = beginning
  const requests = openRequestMinutes()
  const observer: UpstreamObserver = {
    ...metrics.upstream,
    requestDone(request) {
      metrics.upstream.requestDone(request)
      requests.observer.requestDone(request)
    },
  }
  // Closes again what was opened if the rest cannot be opened, or if the worker is stopped meanwhile.
  await using opened = new AsyncDisposableStack()
  const context = opened.use(
    await waitUntilAvailable({
      what: 'Postgres',
      open: () => openContext({ config, log, observer, contractAgeMs: 0 }),
      isPassing: isPassingFailure,
      ...{ signal, log },
    }),
  )
  const queue = await waitUntilAvailable({
    what: config.redisUrl === null ? 'the queue in Postgres' : 'Redis',
    open: () => openDriver({ redisUrl: config.redisUrl, database: context.database, log }),
    isPassing: () => true,
    ...{ signal, log },
  })
  opened.defer(() => queue.close())
  const running = new Set<WorkerLine['runs'][number]>()
  const jobs = await startRuns(beginning, context, queue, running)
  const keepSchedules = keepUp(beginning, context, jobs)
  const parts = watchParts(
    [
      { name: 'database', check: () => checkTakesWrites(context.database.pool) },
      { name: 'queue', check: jobs.ping, onReturn: keepSchedules },
    ],
    log,
  )
  const view = () => viewOf(jobs, parts)
  const problems = () =>
    readProblems({
      ...{ pool: context.database.pool, streams: context.streams, config },
      ...{ view: view(), now: new Date() },
    })
  subscribeAndAlert(beginning, context, { problems, view })
  const watch = startWatch({
    ...{ context, problems, requests, signal, log, waits: jobs.waits },
    running: () => [...running],
  })
  const streams = context.streams.map(({ name }) => name)
  log.info({ database: context.database.address, queue: queue.address, streams }, 'the worker is running')
  opened.move()
  return { context, jobs, parts, problems, watch }
}

async function startRuns(
  { config, log, metrics, onHopeless }: Beginning,
  context: SyncContext,
  queue: OpenDriver,
  running: Set<WorkerLine['runs'][number]>,
): Promise<Jobs> {
  const kinds = readers(context)
  const { pool } = context.database
  const streams = new Map(context.streams.map((stream) => [stream.name, stream]))
  const isPaused = async (stream: string) => (await pausedStreams(pool)).has(stream)
  const reconciles = { ...config, pool, schedule: config.scheduleReconcile }
  return await startJobs({
    queue,
    schedules: wantedSchedules(config, context.streams, kinds),
    isDue: (tick) => isRunDue(context, config.lookbackMs, tick),
    async run(request, hooks) {
      const stream = streams.get(request.stream)
      const read = kinds[request.kind]
      // The request is from before the stream or the kind of run was switched off.
      if (!stream || !read || (await isTaken(reconciles, request, new Date()))) return null
      const line = { stream: request.stream, kind: request.kind, since: new Date() }
      running.add(line)
      const reading = runUnlessPaused(request, hooks, isPaused, (ended) => read(stream, ended))
      reading.catch((error) => error instanceof SourceDiffers && onHopeless(error))
      return await reading.finally(() => running.delete(line))
    },
    failureScope: failureScopeOf,
    whatFollows,
    serviceOf: (name) => streams.get(name)?.service ?? 'assignment',
    onOutcome(request, outcome, durationMs) {
      countOutcome(metrics, request, outcome, {
        durationMs,
        isChanges: streams.get(request.stream)?.kind === 'changes',
      })
      logOutcome(log, outcome, durationMs)
    },
    log,
  })
}

function countOutcome(
  metrics: Metrics,
  { stream, kind, cause }: RunRequest,
  { status, tally, differences = {} }: RunOutcome,
  { durationMs, isChanges }: { readonly durationMs: number; readonly isChanges: boolean },
): void {
  const isByWebhooks = kind === 'incremental' && isChanges
  const isAnnounced = isByWebhooks ? cause === 'webhook' : null
  // Rows of related records are not rows of assignments.
  const counted = kind === 'related' ? kind : stream
  metrics.runDone({ stream: counted, kind, status, durationMs, isAnnounced, tally, differences })
}

const longRunMs = 30_000

/** Most runs say nothing new; those that somebody would ask about are logged. */
function logOutcome(log: Logger, outcome: RunOutcome, durationMs: number): void {
  const { stream, kind, status, note, tally } = outcome
  const isNews = note !== null || durationMs > longRunMs || tally.quarantined > 0 || tally.rescued > 0
  const { inserted, updated, unchanged, quarantined, rescued } = tally
  const level = isNews && status === 'done' ? 'info' : 'debug'
  log[level](
    { stream, kind, status, inserted, updated, unchanged, quarantined, rescued, note },
    `the ${kind} run of ${stream} took ${formatDuration(durationMs)}`,
  )
}

const scheduleCheckMs = 30_000
/** A description is asked for once a day. A service that did not answer is asked again sooner. */
const contractCheckMs = 3_600_000
const contractAgeMs = 24 * 3_600_000
/** After this there are first rows, which tell which columns refer to which. */
const firstRowsMs = 120_000
const reconcileCheckMs = 10_000

/** Repairs the schedules and asks for missed reconciles, now and then. Returns what repairs the schedules at once. */
function keepUp(
  { config, log, signal }: Beginning,
  { database, streams, contracts }: SyncContext,
  jobs: Jobs,
) {
  const keepSchedules = () =>
    jobs.keepSchedules().catch((error) => log.debug({ err: error }, 'could not look at the schedules'))
  const reconciles = { ...config, pool: database.pool, schedule: config.scheduleReconcile }
  const reconciled = streams.filter(({ kind }) => kind === 'changes').map(({ name }) => name)
  const makeUpForMissed = () =>
    askForMissed(reconciles, reconciled, jobs.requestRun, new Date()).catch((error) =>
      log.debug({ err: error }, 'could not look up which reconciles were missed'),
    )
  const lookAtContract = () =>
    contracts
      .refresh({ olderThanMs: contractAgeMs, signal })
      .catch((error) => log.debug({ err: error }, 'could not look at what the upstream says about itself'))
  void makeUpForMissed()
  const regularly = [
    setInterval(keepSchedules, scheduleCheckMs).unref(),
    setInterval(makeUpForMissed, reconcileCheckMs).unref(),
    setInterval(lookAtContract, contractCheckMs).unref(),
    setTimeout(lookAtContract, firstRowsMs).unref(),
  ]
  signal.addEventListener('abort', () => regularly.forEach(clearInterval))
  return keepSchedules
}

/** Both go on by themselves until the signal. */
function subscribeAndAlert(
  { config, log, signal }: Beginning,
  { assignmentService: upstream, related, database: { pool } }: SyncContext,
  { problems, view }: Pick<Live, 'problems'> & { readonly view: () => WorkerView },
): void {
  const { publicUrl, webhookSecret: secret, alertWebhookUrl, contract } = config
  const signingSecret = signingSecretOf(config)
  if (publicUrl !== null && secret !== null && signingSecret !== null)
    void keepSubscribed({ upstream, pool, publicUrl, secret, signingSecret, contract, signal, log })
  else void forgetProblem(pool, webhookNotice).catch(() => {})
  // Related records are not read any more, so no run would ever find that this problem is over.
  if (related.length === 0) void forgetProblem(pool, relatedNotice).catch(() => {})
  if (alertWebhookUrl !== null)
    void runAlertLoop({
      url: alertWebhookUrl,
      format: config.alertFormat,
      quietHours: config.alertQuietHours,
      consoleUrl: config.consoleUrl,
      runbooksUrl: config.runbooksUrl,
      problems,
      withBook: (work) => withAlertBook(pool, work),
      ownProblems: () => partsDown(view()).filter(({ key }) => key === 'part_down:database'),
      signal,
      log,
    })
}

const viewOf = (jobs: Pick<Jobs, 'servicesDown'>, parts: Pick<PartsWatch, 'states'>): WorkerView => ({
  partsDown: Object.entries(parts.states()).flatMap(([name, { isUp, since }]) =>
    isUp ? [] : [{ name, since }],
  ),
  servicesDown: jobs.servicesDown(),
})
