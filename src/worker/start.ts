// What the worker does once Postgres and the queue answer: opens the mirror and the queue, works on the runs, keeps schedules and its
// subscription, and tells people what needs them. HTTP is not its business.

import type { Config } from '../config/load.ts'
import { openWorkplace, type Workplace } from '../context.ts'
import type { Logger } from '../log.ts'
import { keepTelling } from '../problems/alert-loop.ts'
import { partsDown, readConcerns, viewOf } from '../problems/find-problems.ts'
import type { Concern } from '../problems/stream-problems.ts'
import { withAlertBook } from '../store/admin/alert-book.ts'
import { pausedStreams } from '../store/admin/streams.ts'
import { checkTakesWrites } from '../store/server/connect.ts'
import type { LaneOutcome } from '../sync/run-lane.ts'
import { formatDuration } from '../util/text.ts'
import type { Metrics } from '../web/metrics.ts'
import { isPassingTrouble, openPatiently, type PartsWatch, watchParts } from './availability.ts'
import {
  askForMissed,
  blameFor,
  isLaneDue,
  isTaken,
  laneTable,
  runUnlessPaused,
  wantedSchedules,
} from './lanes.ts'
import { openDriver } from './queue/driver.ts'
import { type Jobs, startJobs } from './queue/jobs.ts'
import { keepSubscribed } from './subscription.ts'

/** What there is once the worker works. */
export type Live = {
  readonly workplace: Workplace
  readonly jobs: Jobs
  readonly parts: PartsWatch
  /** What needs a person. */
  readonly concerns: () => Promise<readonly Concern[]>
}

const scheduleCheckMs = 30_000
const censusCheckMs = 300_000

type Beginning = {
  readonly config: Config
  readonly log: Logger
  readonly metrics: Metrics
  readonly signal: AbortSignal
}

export async function goLive({ config, log, metrics, signal }: Beginning): Promise<Live> {
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
  const censuses = { pool: workplace.database.pool, schedule: config.scheduleCensus }
  const jobs = await startJobs({
    queue,
    schedules,
    isDue: (tick) => isLaneDue(workplace, config.lookbackMs, tick),
    async run(request, hooks) {
      const stream = streams.get(request.stream)
      const read = lanes[request.lane]
      // Asked for before the stream or the lane was switched off.
      if (!stream || !read || (await isTaken(censuses, request, new Date()))) return null
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
  const censused = workplace.streams.filter(({ kind }) => kind === 'changes').map(({ name }) => name)
  const makeUpForCensuses = () =>
    askForMissed(censuses, censused, jobs.nudge, new Date()).catch((error) =>
      log.debug({ err: error }, 'what census was missed could not be looked up'),
    )
  void makeUpForCensuses()
  const regularly = [
    setInterval(keepSchedules, scheduleCheckMs).unref(),
    setInterval(makeUpForCensuses, censusCheckMs).unref(),
  ]
  signal.addEventListener('abort', () => regularly.forEach(clearInterval))
  const parts = watchParts(
    [
      { name: 'database', check: () => checkTakesWrites(workplace.database.pool) },
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
      bookAway: () => partsDown(viewOf(jobs, parts)).filter(({ key }) => key === 'part_down:database'),
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
