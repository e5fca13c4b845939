// The worker, put together: HTTP first, so that it can be asked how it is doing while it still waits for Postgres or Redis; then
// the mirror, the queue and the runs.

import { openActions } from './actions.ts'
import { keepTelling } from './alerts/telling.ts'
import type { Concern } from './concerns/concern.ts'
import type { Config } from './config.ts'
import { openDesk } from './desk.ts'
import { formatDuration } from './duration.ts'
import { type Jobs, startJobs } from './jobs/jobs.ts'
import { openNudgeWindow } from './jobs/nudge-window.ts'
import { openDriver } from './jobs/queue-driver.ts'
import type { RunRequest } from './jobs/run-queue.ts'
import type { Logger } from './log.ts'
import { withAlertBook } from './mirror/alerts.ts'
import { readOverview } from './mirror/overview.ts'
import { pausedStreams } from './mirror/pauses.ts'
import { openErrands } from './operator/errands.ts'
import type { LaneOutcome } from './sync/run-lane.ts'
import { actionRoutes } from './web/actions.ts'
import { readAssets } from './web/assets.ts'
import { openAttempts } from './web/attempts.ts'
import type { Desk } from './web/desk.ts'
import { healthRoutes } from './web/health-routes.ts'
import { hookRoute } from './web/hook-route.ts'
import { startHttpServer } from './web/http-server.ts'
import { openLiveEvents } from './web/live-events.ts'
import { type Metrics, openMetrics } from './web/metrics.ts'
import { metricsRoute } from './web/metrics-route.ts'
import { pageRoutes } from './web/page-routes.ts'
import { queueBoard } from './web/queue-board.ts'
import { signInRoutes } from './web/sign-in-routes.ts'
import { addStateGauges } from './web/state-gauges.ts'
import { readOnlyViewer } from './web/viewer.ts'
import { openVisits } from './web/visits.ts'
import { ended, within } from './worker/deadlines.ts'
import { blameFor, isLaneDue, laneTable, wantedSchedules } from './worker/lanes.ts'
import { isPassingTrouble, openPatiently } from './worker/open-patiently.ts'
import { keepSubscribed } from './worker/own-subscription.ts'
import { runUnlessPaused } from './worker/pausing.ts'
import { readConcerns, viewOf } from './worker/read-concerns.ts'
import { type PartsWatch, watchParts } from './worker/watch-parts.ts'
import { configuredStreams, openWorkplace, type Workplace } from './workplace.ts'

/** What there is once the worker works. */
export type Live = {
  readonly workplace: Workplace
  readonly jobs: Jobs
  readonly parts: PartsWatch
  /** What needs a person. */
  readonly concerns: () => Promise<readonly Concern[]>
}
export type TidemarkWorker = {
  readonly url: string
  /** Resolves once runs are done; rejects when waiting cannot help. */
  readonly live: Promise<Live>
  /** Ends within half a minute whatever hangs. */
  stop(): Promise<void>
}

const webhookWindowMs = 2_000
const askQueueMs = 5_000
const scheduleCheckMs = 30_000
const drainMs = 20_000
const closeMs = 3_000

export async function startWorker(options: {
  readonly config: Config
  readonly log: Logger
}): Promise<TidemarkWorker> {
  const { config, log } = options
  const stopping = new AbortController()
  const metrics = openMetrics()
  const streams = configuredStreams(config)
  const changesStreams = streams.filter(({ kind }) => kind === 'changes').map(({ name }) => name)
  let live: Live | null = null
  let desk: Desk | null = null

  const nudge = async (request: RunRequest): Promise<void> => {
    if (!live) throw new Error('the worker is still waiting for its database or its queue')
    await within(askQueueMs, live.jobs.nudge(request))
  }
  const deliveries = openNudgeWindow({
    windowMs: webhookWindowMs,
    log,
    async nudge() {
      const paused = live ? await pausedStreams(live.workplace.database.pool) : new Set()
      for (const stream of changesStreams)
        if (!paused.has(stream)) await nudge({ stream, lane: 'head', cause: 'webhook' })
    },
  })
  const parts = () => live?.parts.states() ?? {}
  const refresh = addStateGauges(metrics.registry, {
    overview: async () => (live ? orNull(overviewOf(live.workplace)) : null),
    concerns: async () => (live ? orNull(live.concerns()) : null),
    queueCounts: async () => (live ? orNull(live.jobs.counts()) : null),
    parts: () => ({
      ...Object.fromEntries(Object.entries(parts()).map(([name, { isUp }]) => [name, isUp])),
      ...Object.fromEntries(streams.map(({ service }) => [service, !isDown(live, service)])),
    }),
  })
  const assets = readAssets()
  const visits = openVisits(config.adminToken)
  const errands = openErrands({ log })
  const { pageSize } = config
  const events = openLiveEvents({ desk: () => desk, log })
  const http = await startHttpServer({
    host: config.httpHost,
    port: config.httpPort,
    log,
    routes: [
      healthRoutes(() => ({
        isReady:
          live !== null && !stopping.signal.aborted && Object.values(parts()).every(({ isUp }) => isUp),
        parts: parts(),
        servicesDown: live?.jobs.servicesDown() ?? [],
      })),
      metricsRoute({ registry: metrics.registry, refresh }),
      hookRoute({
        secret: config.webhookSecret,
        onDelivery() {
          metrics.delivered()
          deliveries.announce()
        },
      }),
      actionRoutes({
        visits,
        streams: streams.map(({ name }) => name),
        actions: () => live && openActions({ workplace: live.workplace, nudge, errands, pageSize, log }),
        log,
      }),
      queueBoard({
        visits,
        queues: () => (live && parts().queue?.isUp ? live.jobs.queues : null),
        assets,
        log,
      }),
      signInRoutes({ visits, attempts: openAttempts(), assets, log }),
      assets.routes,
      events.routes,
      pageRoutes({ desk: () => desk, viewerOf: visits?.viewerOf ?? (() => readOnlyViewer), assets, log }),
    ],
  })
  const beginning = begin({ config, log, metrics, signal: stopping.signal })
  const begun = beginning.then((started) => {
    live = started
    desk = openDesk({ ...started, pageSize })
    return started
  })
  // Whoever awaits `live` is told; nobody has to.
  begun.catch(() => {})

  return {
    url: http.url,
    live: begun,
    async stop() {
      stopping.abort(new Error('the worker is stopping'))
      deliveries.close()
      events.close()
      const started = await begun.catch(() => null)
      if (started) {
        started.parts.close()
        const runs = Promise.all([started.jobs.stop(), errands.stop()]).then(() => {})
        await ended('the runs', drainMs, runs, log)
        await ended('the mirror', closeMs, started.workplace[Symbol.asyncDispose](), log)
      }
      await ended('the HTTP server', closeMs, http.close(), log)
    },
  }
}

type Beginning = {
  readonly config: Config
  readonly log: Logger
  readonly metrics: Metrics
  readonly signal: AbortSignal
}

async function begin({ config, log, metrics, signal }: Beginning): Promise<Live> {
  // What was opened is closed again when the rest cannot be, or when it was told to stop meanwhile.
  await using opened = new AsyncDisposableStack()
  const workplace = opened.use(
    await openPatiently({
      what: 'Postgres',
      open: () => openWorkplace({ config, log, observer: metrics.upstream }),
      isPassing: isPassingTrouble,
      signal,
      log,
    }),
  )
  const queue = await openPatiently({
    what: config.redisUrl === null ? 'the queue in Postgres' : 'Redis',
    open: () => openDriver({ redisUrl: config.redisUrl, database: workplace.database, log }),
    isPassing: () => true,
    signal,
    log,
  })
  opened.defer(() => queue.close())
  const lanes = laneTable(workplace)
  const streams = new Map(workplace.streams.map((stream) => [stream.name, stream]))
  const schedules = wantedSchedules(config, workplace.streams, lanes)
  const isPaused = async (stream: string) => (await pausedStreams(workplace.database.pool)).has(stream)
  const jobs = await startJobs({
    queue,
    schedules,
    isDue: (tick) => isLaneDue(workplace, config.lookbackMs, tick),
    async run(request, hooks) {
      const stream = streams.get(request.stream)
      const read = lanes[request.lane]
      // Asked for before the stream or the lane was switched off.
      if (!stream || !read) return null
      return await runUnlessPaused(request, hooks, isPaused, (ended) => read(stream, ended))
    },
    blame: blameFor,
    serviceOf: (name) => streams.get(name)?.service ?? 'assignment',
    onOutcome(request, outcome, durationMs) {
      const { stream, lane } = request
      const isByWebhooks = lane === 'head' && streams.get(stream)?.kind === 'changes'
      const isAnnounced = isByWebhooks ? request.cause === 'webhook' : null
      const { status, tally } = outcome
      // Its rows are not rows of assignments.
      const counted = lane === 'related' ? lane : stream
      metrics.runDone({ stream: counted, lane, status, durationMs, isAnnounced, tally })
      tellOutcome(log, outcome, durationMs)
    },
    log,
  })
  const keepSchedules = () =>
    jobs.keepSchedules().catch((error) => log.debug({ err: error }, 'the schedules could not be looked at'))
  const keeping = setInterval(keepSchedules, scheduleCheckMs)
  keeping.unref()
  signal.addEventListener('abort', () => clearInterval(keeping))
  const parts = watchParts(
    [
      { name: 'database', check: async () => void (await workplace.database.pool.query('select 1')) },
      { name: 'queue', check: jobs.ping, onReturn: keepSchedules },
    ],
    log,
  )
  const { publicUrl, webhookSecret: secret } = config
  if (publicUrl !== null && secret !== null) {
    const { assignmentService: upstream, database } = workplace
    void keepSubscribed({ upstream, pool: database.pool, publicUrl, secret, signal, log })
  }
  log.info(
    { database: workplace.database.address, queue: queue.address, streams: [...streams.keys()] },
    'the worker works',
  )
  const concerns = () =>
    readConcerns({
      pool: workplace.database.pool,
      streams: workplace.streams,
      config,
      view: viewOf(jobs, parts),
      now: new Date(),
    })
  if (config.alertWebhookUrl !== null)
    void keepTelling({
      url: config.alertWebhookUrl,
      concerns,
      withBook: (work) => withAlertBook(workplace.database.pool, work),
      signal,
      log,
    })
  opened.move()
  return { workplace, jobs, parts, concerns }
}

const longRunMs = 30_000

/** Most runs say nothing new; those that somebody would ask about are told. */
function tellOutcome(log: Logger, outcome: LaneOutcome, durationMs: number): void {
  const { stream, lane, status, note, tally } = outcome
  const isNews = note !== null || durationMs > longRunMs || tally.quarantined > 0 || tally.rescued > 0
  const { inserted, updated, unchanged, quarantined, rescued } = tally
  const level = isNews && status === 'done' ? 'info' : 'debug'
  log[level](
    { stream, lane, status, inserted, updated, unchanged, quarantined, rescued, note },
    `a run took ${formatDuration(durationMs)}`,
  )
}

const isDown = (live: Live | null, service: string): boolean =>
  live?.jobs.servicesDown().includes(service) ?? false

const overviewOf = ({ database, streams }: Workplace) =>
  readOverview(
    database.pool,
    streams.map(({ name }) => name),
  )

const orNull = <Result>(work: Promise<Result>): Promise<Result | null> =>
  within(askQueueMs, work).catch(() => null)
