// The worker, put together: HTTP first, so that it can be asked how it is doing while it still waits for Postgres or Redis. What
// begins once they answer is in live.ts.

import type { Config } from '../config/load.ts'
import { configuredStreams, type SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import { openActions, openBackgroundTasks } from '../operator/actions.ts'
import { pausedStreams } from '../store/admin/streams.ts'
import { readOverview } from '../store/queries/overview.ts'
import { within } from '../util/waiting.ts'
import { actionRoutes } from '../web/actions.ts'
import { readAssets } from '../web/assets.ts'
import { openAttempts, openAuthentication, openTokenCheck } from '../web/auth.ts'
import { openLiveEvents } from '../web/live-events.ts'
import { addStateGauges, openMetrics } from '../web/metrics.ts'
import { healthRoutes, hookRoute, metricsRoute } from '../web/monitoring.ts'
import { pageRoutes } from '../web/page-routes.ts'
import { queueBoard } from '../web/queue-board.ts'
import { byKnownNames, startHttpServer } from '../web/server.ts'
import { readOnlyViewer } from '../web/sessions.ts'
import { signInRoutes } from '../web/sign-in.ts'
import { openStatusQueries, type StatusQueries } from '../web/status-queries.ts'
import { openRunDebounce, type RunRequest } from './queue/requests.ts'
import { type Live, start } from './start.ts'

// What is ended together with the program, and must not keep it.
/** A failure is told and goes no further. */
export async function ended(what: string, ms: number, work: PromiseLike<void>, log: Logger): Promise<void> {
  await within(ms, work).catch((error) => log.warn({ err: error }, `${what} did not end in time`))
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
const drainMs = 20_000
const closeMs = 3_000

export async function serve(options: {
  readonly config: Config
  readonly log: Logger
}): Promise<TidemarkWorker> {
  const { config, log } = options
  const stopping = new AbortController()
  const metrics = openMetrics()
  const streams = configuredStreams(config)
  const changesStreams = streams.filter(({ kind }) => kind === 'changes').map(({ name }) => name)
  let live: Live | null = null
  let statusQueries: StatusQueries | null = null

  const requestRun = async (request: RunRequest): Promise<void> => {
    if (!live) throw new Error('the worker is still waiting for its database or its queue')
    await within(askQueueMs, live.jobs.requestRun(request))
  }
  const deliveries = openRunDebounce({
    windowMs: webhookWindowMs,
    log,
    async requestRun() {
      const paused = live ? await pausedStreams(live.context.database.pool) : new Set()
      for (const stream of changesStreams)
        if (!paused.has(stream)) await requestRun({ stream, kind: 'incremental', cause: 'webhook' })
    },
  })
  const parts = () => live?.parts.states() ?? {}
  const refresh = addStateGauges(metrics.registry, {
    overview: async () => (live ? orNull(overviewOf(live.context)) : null),
    problems: async () => (live ? orNull(live.problems()) : null),
    queueCounts: async () => (live && parts().queue?.isUp ? orNull(live.jobs.counts()) : null),
    parts: () => ({
      ...Object.fromEntries(Object.entries(parts()).map(([name, { isUp }]) => [name, isUp])),
      ...Object.fromEntries(streams.map(({ service }) => [service, !isDown(live, service)])),
    }),
  })
  const assets = readAssets()
  const authentication = openAuthentication(config.adminToken)
  const checkToken = authentication && openTokenCheck({ authentication, attempts: openAttempts(), log })
  const tasks = openBackgroundTasks({ log })
  const { pageSize } = config
  const events = openLiveEvents({ statusQueries: () => statusQueries, log })
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
        authentication,
        checkToken,
        streams: streams.map(({ name }) => name),
        actions: () => live && openActions({ context: live.context, requestRun, tasks, pageSize, log }),
        log,
      }),
      queueBoard({
        authentication,
        queues: () => (live && parts().queue?.isUp ? live.jobs.queues : null),
        assets,
        log,
      }),
      signInRoutes({ authentication, checkToken, assets }),
      assets.routes,
      byKnownNames({ listensOn: config.httpHost, publicUrl: config.publicUrl }, [
        events.routes,
        pageRoutes({
          statusQueries: () => statusQueries,
          viewerOf: authentication?.viewerOf ?? (() => readOnlyViewer),
          assets,
          log,
        }),
      ]),
    ],
  })
  const begun = start({ config, log, metrics, signal: stopping.signal }).then((started) => {
    live = started
    statusQueries = openStatusQueries({ ...started, pageSize })
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
        const runs = Promise.all([started.jobs.stop(), tasks.stop()]).then(() => {})
        await ended('the runs', drainMs, runs, log)
        await ended('the mirror', closeMs, started.context[Symbol.asyncDispose](), log)
      }
      await ended('the HTTP server', closeMs, http.close(), log)
    },
  }
}

const isDown = (live: Live | null, service: string): boolean =>
  live?.jobs.servicesDown().includes(service) ?? false

const overviewOf = ({ database, streams }: SyncContext) =>
  readOverview(
    database.pool,
    streams.map(({ name }) => name),
  )

const orNull = <Result>(work: Promise<Result>): Promise<Result | null> =>
  within(askQueueMs, work).catch(() => null)
