// The worker, put together: HTTP first, so that it can be asked how it is doing while it still waits for Postgres or Redis. What
// begins once they answer is in start.ts.

import { lookbackOf } from '../config/dynamic-settings.ts'
import { type Config, type Environment, signingSecretOf } from '../config/load.ts'
import { proxyNotice, streamsIn } from '../configured.ts'
import type { Pool, SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { type ActionName, actions, NotNow } from '../operator/actions.ts'
import { alertSettingActions } from '../operator/alert-settings.ts'
import { planAskedBackfill } from '../operator/backfill.ts'
import { type BackgroundTasks, openBackgroundTasks } from '../operator/background-tasks.ts'
import { noteEvent, performRecorded } from '../operator/record-action.ts'
import { planAskedRewind } from '../operator/rewind.ts'
import { readSettingsOf } from '../operator/settings.ts'
import { askUpstream, type UpstreamSays } from '../operator/upstream-record.ts'
import type { Part, Parts } from '../problems/parts.ts'
import { alertingOf, alertKeepingOf } from '../problems/receivers.ts'
import { readBeliefs } from '../store/book/dictionary.ts'
import { readProgress } from '../store/book/progress.ts'
import { pausedStreams, readOverview } from '../store/book/streams.ts'
import { openReadingPool, openReadings, type Readings } from '../store/server/reading-pool.ts'
import type { RunRequest, Stream } from '../streams/catalog.ts'
import { withTimeout } from '../util/waiting.ts'
import { actionRoutes, type Perform } from '../web/actions.ts'
import { apiRoutes } from '../web/api/reads.ts'
import { readAssets } from '../web/assets.ts'
import { identified } from '../web/auth.ts'
import { type Demo, demoRoutes } from '../web/demo.ts'
import { downloadRoutes } from '../web/downloads.ts'
import { addStateGauges, type Metrics, openMetrics } from '../web/metrics.ts'
import { healthRoutes, hookRoute, kept, metricsRoute } from '../web/monitoring.ts'
import { type Note, openSignInNotes } from '../web/noting.ts'
import { pageRoutes } from '../web/page-routes.ts'
import { forReaders } from '../web/readers.ts'
import { openReadingPlaces, type Reader } from '../web/reading-places.ts'
import { recordRoutes } from '../web/records.ts'
import { byKnownNames, type OwnNames, type Routes, startHttpServer } from '../web/server.ts'
import { signInRoutes } from '../web/sign-in.ts'
import { openStatusQueries, type StatusQueries } from '../web/status-queries.ts'
import { keepFiles, lookRegularly, takeUpAlerts } from './changed-settings.ts'
import { type Deliveries, openDeliveries } from './deliveries.ts'
import { alertPeople, openPauses, openReceivers, openWorkerParts, testAlertOf } from './health.ts'
import { openPeople } from './people.ts'
import type { Jobs } from './queue/jobs.ts'
import { openHooks, rulesOf, type Served } from './served.ts'
import { type Live, type Mirror, start } from './start.ts'
import { ownVersion } from './watch.ts'

export type TidemarkWorker = {
  readonly url: string
  /** Resolves once runs are done; rejects when waiting cannot help. */
  readonly live: Promise<Live>
  /** Rejects when it cannot go on. */
  readonly hopeless: Promise<never>
  /** Ends within half a minute whatever hangs. */
  stop(): Promise<void>
}

const drainMs = 20_000
const closeMs = 3_000

export async function serve(options: {
  readonly config: Config
  /** With the secrets that the file of sources names; left out: there is no such file. */
  readonly environment?: Environment
  readonly log: Logger
  /** In the demo: what there is to break in its simulated upstream. */
  readonly demo?: () => Demo | null
  /** By which it is told how long problems have lasted. */
  readonly now?: () => Date
}): Promise<TidemarkWorker> {
  const { config, environment = {}, log, demo = null, now = () => new Date() } = options
  const notice = proxyNotice(config)
  if (notice) log.info(notice)
  const stopping = new AbortController()
  const metrics = openMetrics()
  const pauses = openPauses()
  const looks = lookRegularly({ log, signal: stopping.signal })
  keepFiles(looks, config, log)
  const jobs = () => state.live?.jobs ?? null
  const pool = () => state.context?.database.pool ?? null
  const ownParts: Parts = openWorkerParts({ config, streams: () => state.streams(), jobs, pauses, pool, log })
  const state: WorkerState = {
    config,
    environment,
    log,
    metrics,
    signal: stopping.signal,
    streams: () => state.context?.streams ?? streamsIn(config),
    parts: ownParts,
    receivers: openReceivers(ownParts),
    tasks: openBackgroundTasks({ log }),
    mirror: null,
    context: null,
    served: null,
    live: null,
    readingPool: null,
    statusQueries: null,
  }
  const deliveries = deliveriesFor(state)
  const { httpHost: host, httpPort: port, trustedProxies, publicUrl } = config
  const routes = [...monitoringRoutes(state, deliveries), ...consoleRoutes(state, demo)]
  const http = await startHttpServer({ host, port, trustedProxies, publicUrl, log, routes })
  const { promise: hopeless, reject: onHopeless } = Promise.withResolvers<never>()
  hopeless.catch(() => {})
  const { parts, receivers, signal } = state
  const onMirror = (mirror: Mirror) => {
    state.mirror = mirror
  }
  alertPeople({ config, parts, receivers, now, signal, log, mirror: () => state.mirror })
  const onContext = (context: SyncContext, served: Served) => showMirror(state, context, served)
  const given = { config, environment, log, metrics, parts, pauses, looks, signal }
  const begun = start({ ...given, onMirror, onContext, onHopeless }).then((live) => {
    state.live = live
    return live
  })
  // The error goes to whoever awaits `live`; if nobody does, it must not count as unhandled.
  begun.catch(() => {})

  return {
    url: http.url,
    live: begun,
    hopeless,
    async stop() {
      stopping.abort(new Error('the worker is stopping'))
      deliveries.close()
      const started = await begun.catch(() => null)
      if (started) {
        const runs = Promise.all([started.jobs.stop(), state.tasks.stop()]).then(() => {})
        await ended('the runs', drainMs, runs, log)
        await ended('the notes of this worker', closeMs, started.watch.stop(), log)
        await ended('the connections', closeMs, started.context[Symbol.asyncDispose](), log)
      }
      await ended('the HTTP server', closeMs, http.close(), log)
      if (state.readingPool) await ended('the connections of pages', closeMs, state.readingPool.end(), log)
    },
  }
}

/** From now on people can look at the mirror. */
function showMirror(state: WorkerState, context: SyncContext, served: Served): void {
  const { database } = context
  const pool = openReadingPool({ database, longestQueryMs: longestLookMs, log: state.log })
  const readings = openReadings(pool)
  state.context = context
  state.served = served
  state.readingPool = pool
  state.statusQueries = (reader) =>
    statusQueriesOf(context, state, pool, readings.for(reader), served.configOf)
}

/** Ends something together with the program, and must not hold that up: a failure is logged and goes no further. */
async function ended(what: string, ms: number, work: PromiseLike<void>, log: Logger): Promise<void> {
  await withTimeout(ms, work).catch((error) => log.warn({ err: error }, `${what} did not end in time`))
}

/** What may be null is there only once Postgres answers, and `live` once the queue does as well. */
type WorkerState = {
  readonly config: Config
  readonly environment: Environment
  readonly log: Logger
  readonly metrics: Metrics
  readonly signal: AbortSignal
  /** Those that are configured, as far as it is known what they are like. */
  readonly streams: () => readonly Stream[]
  readonly parts: Parts
  readonly receivers: ReturnType<typeof openReceivers>
  readonly tasks: BackgroundTasks
  mirror: Mirror | null
  context: SyncContext | null
  served: Served | null
  live: Live | null
  /** For those who only look. */
  readingPool: Pool | null
  statusQueries: ((reader: Pick<Reader, 'who' | 'gone'>) => StatusQueries) | null
}

const askMs = 5_000

const requestRunOf =
  (state: WorkerState) =>
  async (request: RunRequest): Promise<void> => {
    if (!state.live) throw new Error('the worker still waits for its database or its queue')
    await withTimeout(askMs, state.live.jobs.requestRun(request))
  }

const deliveriesFor = (state: WorkerState): Deliveries =>
  openDeliveries({
    streams: state.streams,
    requestRun: requestRunOf(state),
    log: state.log,
    paused: async () => (state.live ? await pausedStreams(state.live.context.database.pool) : new Set()),
  })

const partOf = ({ parts }: Pick<WorkerState, 'parts'>, name: string): Part | undefined =>
  parts.list().find((part) => part.name === name)
const isQueueUp = (state: Pick<WorkerState, 'parts'>): boolean => partOf(state, 'queue')?.isUp === true

/** For other programs: health, metrics, webhooks. */
function monitoringRoutes(state: WorkerState, deliveries: Deliveries): readonly Routes[] {
  const { config, metrics, parts, signal } = state
  const { registry } = metrics
  const later = openHooks(config)
  const ofMirror = <Found>(read: (pool: Pool, streams: readonly string[]) => Promise<Found>) =>
    kept(() => {
      const { context, readingPool } = state
      const names = context?.streams.map(({ name }) => name) ?? []
      return readingPool && read(readingPool, names)
    })
  const refresh = addStateGauges(registry, {
    overview: ofMirror(readOverview),
    beliefs: ofMirror((pool) => readBeliefs(pool)),
    problems: kept(() => state.mirror?.problems(state.readingPool ?? undefined)),
    progress: ofMirror(readProgress),
    queueCounts: kept(() => (isQueueUp(state) ? state.live?.jobs.counts() : null)),
    parts: parts.list,
  })
  const health = healthRoutes(() => ({
    isRunning: state.live !== null && !signal.aborted,
    parts: parts.list(),
  }))
  return [
    byKnownNames(ownNames(config), [health, metricsRoute({ registry, refresh })], { browsersOnly: true }),
    // Its secret is in its address.
    hookRoute({
      secret: config.webhookSecret,
      signingSecret: signingSecretOf(config),
      requiresSignature: config.webhookRequireSignature,
      log: state.log,
      hookOf: (source) => (state.served?.sources.hookOf ?? later)(source),
      onDelivery(source) {
        metrics.delivered()
        deliveries.announce(source)
      },
    }),
  ]
}

const ownNames = ({ httpHost, publicUrl, httpNames }: Config): OwnNames => {
  return { listensOn: httpHost, publicUrl, names: httpNames }
}

/** For people: pages and actions. */
function consoleRoutes(state: WorkerState, demo: (() => Demo | null) | null): readonly Routes[] {
  const { config, log } = state
  const assets = readAssets()
  const statusQueries = (reader: Reader) => state.statusQueries?.(reader) ?? null
  const note: Note = async (event) => {
    if (!state.context) throw new Error('the worker still waits for its database')
    await noteEvent(state.context.database.pool, event)
  }
  const noteSignIn = openSignInNotes({ note, log })
  const { authentication, provider, isOpen } = openPeople({
    config,
    noteSignIn,
    log,
    pool: () => (partOf(state, 'database')?.state === 'down' ? null : (state.context?.database.pool ?? null)),
  })
  const reading = { authentication, isOpen, assets, places: openReadingPlaces() }
  const acting = {
    authentication,
    assets,
    log,
    perform: performOf(state),
    streams: () => state.streams().map(({ name }) => name),
  }
  const compare = compareOf(state)
  const api = apiRoutes(reading, { ...acting, statusQueries, compare, version: ownVersion() })
  return [
    byKnownNames(ownNames(config), [identified(authentication, [actionRoutes(acting), ...api])], {
      browsersOnly: true,
    }),
    assets.routes,
    byKnownNames(ownNames(config), [
      identified(authentication, [
        signInRoutes({ authentication, provider, isOpen, assets, note: noteSignIn, log }),
        ...(demo ? [demoRoutes({ authentication, demo, assets, note: noteSignIn, log })] : []),
        forReaders(reading, [
          recordRoutes({ authentication, assets, isDemo: demo !== null, statusQueries, compare }),
          downloadRoutes({ statusQueries, authentication, note, log }),
          pageRoutes({
            statusQueries,
            viewerOf: authentication.viewerOf,
            databaseAwaySince() {
              const database = partOf(state, 'database')
              return database?.state === 'down' ? database.since : null
            },
            parts: state.parts.list,
            assets,
            isDemo: demo !== null,
            isOpen,
            log,
          }),
        ]),
      ]),
    ]),
  ]
}

const withoutQueue: readonly ActionName[] = [
  ...(['createToken', 'revokeToken', 'endSessions'] as const),
  ...(['testAlert', 'muteAlerts', 'unmuteAlerts', 'acknowledgeProblem'] as const),
  ...(['setSetting', 'unsetSetting'] as const),
  ...(Object.keys(alertSettingActions) as readonly (keyof typeof alertSettingActions)[]),
]

const performOf =
  (state: WorkerState): Perform =>
  async (name, order) => {
    const { live, context, tasks, config, log } = state
    const isWithoutQueue = withoutQueue.includes(name)
    if (context === null || (live === null && !isWithoutQueue))
      throw new NotNow('The worker is starting: it waits for its database or its queue.')
    const { database, streams } = context
    if (name === 'testAlert') await takeUpAlerts(config, database.pool)
    const sendTestAlert = testAlertOf(config, state.receivers)
    const requestRun = requestRunOf(state)
    const settings = rulesOf(state, context.catalogue)
    const outcome = await performRecorded(
      {
        pool: database.pool,
        streams,
        settings,
        requestRun,
        log,
        sync: context,
        tasks,
        sendTestAlert,
        alerting: () => alertKeepingOf(config),
      },
      [name, actions[name]],
      order,
    )
    if (name in alertSettingActions) await takeUpAlerts(config, database.pool)
    return outcome
  }

/** The upstream is asked for one record; it may take a while, but not for ever. */
const longestLookupMs = 10_000

const compareOf =
  (state: WorkerState) =>
  async (name: string, key: string): Promise<UpstreamSays | null> => {
    const { context, signal } = state
    const stream = context?.streams.find((one) => one.name === name)
    if (!context || !stream) return null
    const ended = AbortSignal.any([signal, AbortSignal.timeout(longestLookupMs)])
    return await askUpstream(context, stream, key, ended)
  }

/** That a queue went away is noticed only a moment later. Until then it does not answer: pages wait no longer than this. */
const queueAnswerMs = 1_000

/** A page that takes longer helps nobody. */
const longestLookMs = 2_000

function statusQueriesOf(
  context: SyncContext,
  state: WorkerState,
  pool: Pool,
  reading: ReturnType<Readings['for']>,
  configOf: Served['configOf'],
): StatusQueries {
  const looking = { ...context, database: { ...context.database, pool } }
  const askQueue = async <Answer>(ask: (jobs: Jobs) => Promise<Answer>): Promise<Answer | null> =>
    state.live && isQueueUp(state)
      ? await withTimeout(queueAnswerMs, ask(state.live.jobs)).catch(() => null)
      : null
  return openStatusQueries({
    pool: reading,
    streams: context.streams,
    problems: async () => (await state.mirror?.problems(reading)) ?? [],
    // The mirror can be shown without the queue.
    nextRuns: async () => (await askQueue(async (jobs) => jobs.nextRuns(new Date()))) ?? [],
    planBackfill: (stream, options) => planAskedBackfill(looking, stream, options),
    planRewind: (stream, options) => planAskedRewind(looking, stream, options),
    queueCounts: () => askQueue((jobs) => jobs.counts()),
    related: context.related.map(({ name }) => name),
    settings: (source) =>
      readSettingsOf({ pool: reading, settings: rulesOf(state, context.catalogue) }, source),
    catalogue: context.catalogue,
    lookbackMs: (name) => lookbackOf(configOf(name).dynamic.now(), { name }),
    staleAfterMs: (name) => configOf(name).dynamic.now().staleAfterMs,
    runbooksUrl: state.config.runbooksUrl,
    alerting: () => alertingOf(state.config),
    alertSettings: () => takeUpAlerts(state.config, reading),
  })
}
