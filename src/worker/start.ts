// What begins once Postgres and the queue answer: runs, what goes on beside them, and the notes of this worker.

import { setTimeout as wait } from 'node:timers/promises'
import type { Config, Environment } from '../config/load.ts'
import { leftAloneUntil, streamsIn } from '../configured.ts'
import { openContext, type Pool, relatedNotice, type SyncContext } from '../context.ts'
import { openFleet } from '../fleet.ts'
import { ownValue } from '../json/json.ts'
import type { Logger } from '../log.ts'
import { readProblems } from '../problems/find-problems.ts'
import type { Parts } from '../problems/parts.ts'
import { targetsOf } from '../problems/receivers.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { measured } from '../problems/targets.ts'
import { noteReleased } from '../store/book/due.ts'
import { forgetProblem } from '../store/book/problems.ts'
import { SourceDiffers } from '../store/book/sources.ts'
import { pausedStreams } from '../store/book/streams.ts'
import type { WorkerLine } from '../store/book/watch.ts'
import { readingConnections } from '../store/server/reading-pool.ts'
import type { RunRequest, Stream } from '../streams/catalog.ts'
import { besideIn, sourceIn } from '../streams/names.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import type { UpstreamObserver } from '../upstream/http/transport.ts'
import { UsageError } from '../util/errors.ts'
import { giveMemoryBack } from '../util/memory.ts'
import { formatDuration } from '../util/text.ts'
import type { Metrics } from '../web/metrics.ts'
import { keepOverrides, type Looks } from './changed-settings.ts'
import { failureScopeOf, isPassingFailure, waitUntilAvailable } from './failures.ts'
import type { Pauses } from './health.ts'
import { isRunDue, schedulesOf, whatFollows } from './kinds.ts'
import { isTaken, lookAtDue, reconcilesOf } from './look.ts'
import { openRequestMinutes } from './minutes.ts'
import { type OpenDriver, openDriver, sessionsOfQueue } from './queue/driver.ts'
import { type Jobs, startJobs } from './queue/jobs.ts'
import type { QueuedRun } from './queue/requests.ts'
import type { DoRun, RunHooks } from './queue/run-worker.ts'
import { openPauseLook, runBySource, runUnlessPaused, settlingWhatIsAsked } from './run-conditions.ts'
import { keepRound, kindsServed, type Served, serveSources, withStreamsOf } from './served.ts'
import { beSubscribed } from './subscription.ts'
import { keepBeating, newWorkerId, startWatch, type Watch, type WorkerId } from './watch.ts'

/** What there is once Postgres is open. */
export type Mirror = {
  readonly pool: Pool
  /** What needs a person; looked up with connections of the runs unless others are given. */
  readonly problems: (pool?: Parameters<typeof readProblems>[0]['pool']) => Promise<readonly Problem[]>
}
/** What there is once Postgres and the queue answered. */
export type Live = Mirror & {
  readonly context: SyncContext
  readonly jobs: Jobs
  readonly watch: Watch
}

type Beginning = {
  readonly config: Config
  /** With the secrets that the file of sources names. */
  readonly environment: Environment
  readonly log: Logger
  readonly metrics: Metrics
  readonly parts: Parts
  readonly pauses: Pauses
  readonly looks: Looks
  readonly signal: AbortSignal
  readonly onMirror: (mirror: Mirror) => void
  /** The mirror can be looked at, also while the queue is away. */
  readonly onContext: (context: SyncContext, served: Served) => void
  /** No run can be done any more. */
  readonly onHopeless: (error: Error) => void
}
/** What this worker notes of itself. */
type Noted = {
  readonly worker: WorkerId
  readonly running: Set<WorkerLine['runs'][number]>
  waits: Jobs['breaker']['waits']
  living: readonly string[]
}

function observerFor(
  { metrics, parts }: Beginning,
  requests: ReturnType<typeof openRequestMinutes>,
): UpstreamObserver {
  return {
    ...metrics.upstream,
    requestDone(request) {
      metrics.upstream.requestDone(request)
      requests.observer.requestDone(request)
      if (request.isAnswered) parts.worked(request.service)
    },
  }
}

export async function start(beginning: Beginning): Promise<Live> {
  const { config, log, parts, pauses, signal } = beginning
  const requests = openRequestMinutes()
  const observer = observerFor(beginning, requests)
  const noted: Noted = { worker: newWorkerId(), running: new Set(), waits: () => [], living: [] }
  // Closes again what was opened if the rest cannot be opened, or if the worker is stopped meanwhile.
  await using opened = new AsyncDisposableStack()
  const first = await openMirror(beginning, observer, noted)
  const fleet = openFleet(first)
  const context = opened.use(fleet.context)
  let onOpened = () => {}
  const sources = serveSources(beginning, fleet, observer, () => onOpened())
  const configOf = (stream: string) => sources.configOf(sourceIn(stream)) ?? config
  const served: Served = { fleet, sources, configOf }
  beginning.onContext(context, served)
  const whereQueued = config.redisUrl === null ? 'the queue in Postgres' : 'Redis'
  const queue = await waitUntilAvailable({
    what: whereQueued,
    open: () => openDriver({ redisUrl: config.redisUrl, database: context.database, log }),
    isPassing: (error) => !(error instanceof UsageError),
    onFailure: (error) => parts.failed('queue', error),
    signal,
    log,
  })
  opened.defer(() => queue.close())
  // It was there a moment ago; by now other programs may have all of its connections.
  const jobs = await waitUntilAvailable({
    what: whereQueued,
    open: () => startRuns(beginning, served, queue, noted),
    isPassing: () => true,
    onFailure: (error) => parts.failed('queue', error),
    signal,
    log,
  })
  noted.waits = jobs.breaker.waits
  onOpened = planningSoon(jobs, signal)
  keepOverrides(beginning.looks, context, { planNow: jobs.planNow, onTaken: sources.lookAtDictionary })
  keepRound(beginning, first)
  beSubscribed(beginning, first)
  // Related records are not read any more, so no run would ever find that this problem is over.
  if (first.related.length === 0) void forgetProblem(first.database.pool, relatedNotice('')).catch(() => {})
  const mirror = mirrorOf(beginning, context.database.pool, () => context.streams, configOf)
  beginning.onMirror(mirror)
  const watch = startWatch({
    ...mirror,
    worker: noted.worker,
    context,
    parts,
    pauses,
    requests,
    signal,
    log,
    forgetAfterMs: (stream) => configOf(stream).forgetDeletedMs,
    running: () => [...noted.running],
    living: () => noted.living,
    targets: () => measured(targetsOf(config), context.streams),
  })
  giveMemoryBack({ isBusy: () => noted.running.size > 0, signal })
  const streams = context.streams.map(({ name }) => name)
  log.info({ database: context.database.address, queue: queue.address, streams }, 'the worker is running')
  opened.move()
  return { ...mirror, context, jobs, watch }
}

const planAgainMs = 1_000

/** Many sources are opened together, and a plan looks at all of them: one plan for those of a second. */
function planningSoon({ planNow }: Jobs, signal: AbortSignal): () => void {
  let isPlanned = false
  return () => {
    if (isPlanned) return
    isPlanned = true
    void wait(planAgainMs, undefined, { signal, ref: false })
      .then(() => {
        isPlanned = false
        return planNow()
      })
      .catch(() => {})
  }
}

const mirrorOf = (
  { config, parts }: Pick<Beginning, 'config' | 'parts'>,
  ownPool: Pool,
  streams: () => readonly Stream[],
  configOf: (stream: string) => Config = () => config,
): Mirror => ({
  pool: ownPool,
  problems: (pool = ownPool) =>
    readProblems({
      pool,
      streams: streams(),
      settingsOf: (stream) => configOf(stream).dynamic.now(),
      config: withStreamsOf(config, new Set(streams().map(({ name }) => configOf(name)))),
      view: { parts: parts.list() },
      now: new Date(),
    }),
})

/** From the moment at which Postgres takes writes, this worker notes that it is there, and others may look for problems. */
async function openMirror(
  { config, log, parts, signal, ...beginning }: Beginning,
  observer: UpstreamObserver,
  noted: Noted,
): Promise<SyncContext> {
  let beating = new AbortController()
  return await waitUntilAvailable({
    what: 'Postgres',
    open: () =>
      openContext({
        config,
        log,
        observer,
        descriptionAgeMs: 0,
        workers: () => noted.living.length,
        sessionsBeside: sessionsOfQueue(config.redisUrl) + readingConnections,
        onDatabase({ pool }) {
          beating = new AbortController()
          const until = AbortSignal.any([signal, beating.signal])
          const own = {
            running: () => [...noted.running],
            waits: () => noted.waits(),
            onLiving(living: Noted['living']) {
              noted.living = living
            },
          }
          void keepBeating({ ...own, worker: noted.worker, pool, parts, signal: until })
          beginning.onMirror(mirrorOf({ config, parts }, pool, () => streamsIn(config)))
        },
      }),
    isPassing: isPassingFailure,
    onFailure(error) {
      beating.abort()
      parts.failed('database', error)
    },
    signal,
    log,
  })
}

async function startRuns(
  { log, metrics, parts, onHopeless }: Beginning,
  { fleet, sources, configOf }: Served,
  queue: OpenDriver,
  noted: Noted,
): Promise<Jobs> {
  const { context } = fleet
  const { pool } = context.database
  const kindsOf = kindsServed(fleet, configOf)
  const settingsOf = (stream: string) => configOf(stream).dynamic.now()
  const streamNamed = (name: string): Stream | undefined =>
    fleet.of(sourceIn(name))?.streams.find((stream) => stream.name === name)
  const isPaused = openPauseLook(() => pausedStreams(pool))
  /** Null: the request is from before the stream or the kind of run was switched off, or of another worker. */
  const readerOf = ({ stream: name, kind: asked }: QueuedRun) => {
    const stream = streamNamed(name)
    const kind = ownValue(kindsOf(name), asked)
    return stream && kind?.isOf(stream) ? (hooks: RunHooks) => kind.read(stream, hooks) : null
  }
  const isOurs = (request: QueuedRun): boolean => readerOf(request) !== null
  const doRun: DoRun = async (request, hooks) => {
    const owed = reconcilesOf(request.stream, settingsOf, pool)
    if (!isOurs(request) || (await isTaken(owed, request, new Date()))) return null
    const line = { stream: request.stream, kind: request.kind, since: new Date() }
    noted.running.add(line)
    const read = runBySource({ readerOf, closingOf: sources.closingOf }, request)
    const reading = runUnlessPaused(request, hooks, isPaused, read)
    reading.catch((error) => {
      if (!(error instanceof SourceDiffers)) return
      const source = sourceIn(request.stream)
      return source === '' ? onHopeless(error) : sources.stop(source, error)
    })
    return await reading.finally(() => noted.running.delete(line))
  }
  return await startJobs({
    queue,
    log,
    failureScope: failureScopeOf,
    schedules: () => schedulesOf(kindsOf, context.streams),
    look: async () => ({
      absent: await sources.absent(),
      ...(await lookAtDue({ pool, settingsOf, streams: context.streams, kindsOf })),
    }),
    isDue: (place) => isRunDue(kindsOf, place),
    workers: () => noted.living.length,
    isKnown: isOurs,
    onReleased: (asked) => noteReleased(pool, asked),
    run: settlingWhatIsAsked({ pool, isOurs, log }, doRun),
    onWork: (agoMs) => parts.worked('queue', agoMs),
    onFailure: (error) => parts.failed('queue', error),
    whatFollows(request, outcome) {
      const { length = 0 } = fleet.of(sourceIn(request.stream))?.related ?? {}
      return whatFollows(length > 0)(request, outcome)
    },
    ...placesIn(context, configOf, streamNamed),
    onOutcome: (...ended) => tellOutcome({ metrics, log }, ...ended),
  })
}

/** What is asked for a stream, where, and until when it is left alone there. */
function placesIn(
  { budgets }: SyncContext,
  configOf: Served['configOf'],
  streamNamed: (name: string) => Stream | undefined,
) {
  const serviceIn = (name: string) => streamNamed(name)?.service ?? 'assignment'
  return {
    serviceOf: (name: string) => besideIn(name, serviceIn(name)),
    hostOf: (name: string) => hostIn(configOf(name), streamNamed(name)),
    heldUntil: (name: string) => leftAloneUntil(configOf(name), serviceIn(name), budgets),
  }
}

function hostIn({ assignmentBaseUrl, trackingBaseUrl }: Config, stream: Stream | undefined): string {
  const base = stream?.service === 'tracking' ? trackingBaseUrl : assignmentBaseUrl
  return base === null ? '' : new URL(base).host
}

const longRunMs = 30_000

/** Counts it. Most runs say nothing new; those that somebody would ask about are logged. */
function tellOutcome(
  { metrics, log }: Pick<Beginning, 'metrics' | 'log'>,
  { stream, cause }: RunRequest,
  { kind, status, note, tally, differences = {} }: RunOutcome,
  durationMs: number,
): void {
  const isAnnounced = kind === 'incremental' ? cause === 'webhook' : null
  // Rows of related records are not rows of assignments.
  const counted = kind === 'related' ? kind : stream
  metrics.runDone({ stream: counted, kind, status, durationMs, isAnnounced, tally, differences })
  const { inserted, updated, unchanged, quarantined, rescued } = tally
  const isNews = note !== null || durationMs > longRunMs || quarantined > 0 || rescued > 0
  log[isNews && status === 'done' ? 'info' : 'debug'](
    { stream, kind, status, inserted, updated, unchanged, quarantined, rescued, note },
    `the ${kind} run of ${stream} took ${formatDuration(durationMs)}`,
  )
}
