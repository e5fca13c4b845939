// `tidemark status`: how fresh each stream is, what goes on, and what needs a person. Only reads.

import type { Pool } from 'pg'
import { lookbackOf } from '../config/dynamic-settings.ts'
import { loadStatusConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { readProblems } from '../problems/find-problems.ts'
import { notedPart } from '../problems/parts.ts'
import { targetsOf } from '../problems/receivers.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { careOf, stateOfStream } from '../problems/stream-state.ts'
import { keptInWords, measured } from '../problems/targets.ts'
import { readOverrides } from '../store/book/overrides.ts'
import { readProgress } from '../store/book/progress.ts'
import { livingRows, readOverview, type StreamOverview } from '../store/book/streams.ts'
import { readKeptTargets } from '../store/book/targets.ts'
import { readMinutes, readWorkers, type WorkerSeen } from '../store/book/watch.ts'
import { pickStreams, type Stream } from '../streams/catalog.ts'
import { estimate } from '../streams/load-progress.ts'
import { settledThrough, settlingOf } from '../streams/settling.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration, snakeCased } from '../util/text.ts'
import { type Call, type Command, flag, json } from './command.ts'
import { type ExitCode, exitCodes, worst } from './exit.ts'
import { readMirror } from './mirror.ts'
import { type Status, type StatusLine, statusLines, verdictOf } from './status-table.ts'
import { watchStatus } from './status-watch.ts'

export const status: Command = {
  name: 'status',
  summary: 'show how current each stream is, and what needs your attention',
  usage: '[stream…] [--watch | --check] [--json]',
  options: {
    watch: flag('keep it on the screen and update it, until q'),
    check: flag('exit with status 1 if something needs your attention'),
    json,
  },
  examples: ['tidemark status', 'tidemark status assignment --json', 'tidemark status --check'],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { values, stdout } = call
  if (values.watch && (values.json || values.check))
    throw new UsageError('--watch cannot be used with --json or --check.')
  if (values.watch && !stdout.isTTY)
    throw new UsageError('--watch needs a terminal. In a script, call `tidemark status` repeatedly.')
  const gatherFrom = openGathering(call)
  let needsSomebody = false
  const code = await readMirror(call, async (pool) => {
    const gather = () => gatherFrom(pool)
    if (values.watch) return await watchStatus({ call, gather })
    const found = await gather()
    needsSomebody = found.problems.some((problem) => careOf(problem) === 'needs you')
    if (values.json) return stdout.json(statusJson(found))
    for (const line of statusLines(found, stdout)) stdout.write(`${line}\n`)
    // A person who names a stream wants to know more about it.
    if (call.positionals.length > 0) stdout.say(`\n${found.lines.map(paragraph).join('\n\n')}`)
  })
  return values.check && needsSomebody ? worst([code, exitCodes.failed]) : code
}

// ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────

const rateMinutes = 5
const minuteMs = 60_000

/** Looks everything up, each time that it is called. */
export function openGathering({
  environment,
  positionals,
  catalogue,
}: Pick<Call, 'environment' | 'positionals' | 'catalogue'>): (pool: Pool) => Promise<Status> {
  const config = loadStatusConfig(environment)
  const named = positionals.length > 0 ? pickStreams(positionals, catalogue) : null
  const configured = configuredStreams(config, catalogue)
  const wanted = named ?? catalogue
  const names: readonly string[] = wanted.map(({ name }) => name)
  return async (pool) => {
    config.dynamic.takeUp(await readOverrides(pool))
    const settings = config.dynamic.now()
    const now = new Date()
    const thisMinute = Math.floor(now.getTime() / minuteMs) * minuteMs
    const span = { from: new Date(thisMinute - rateMinutes * minuteMs), to: new Date(thisMinute) }
    const targets = measured(targetsOf(config), catalogue)
    const [overview, workers, readings, minutes, kept] = await Promise.all([
      readOverview(pool, names),
      readWorkers(pool),
      readProgress(pool, names),
      readMinutes(pool, names, { ...span, bucketMs: rateMinutes * minuteMs }),
      readKeptTargets(pool, targets),
    ])
    const { waits, parts } = troubleOf(workers)
    const problems = await readProblems({
      ...{ pool, config, now },
      streams: configured,
      view: { parts },
    })
    // A stream that is not configured is shown if it has rows.
    const isShown = ({ stream, readThroughAt }: StreamOverview) =>
      named !== null || readThroughAt !== null || configured.some(({ name }) => name === stream)
    const shown = overview.filter(isShown)
    const about = problems.filter(({ stream }) => stream === null || names.includes(stream))
    return {
      now,
      lines: shown.map((one): StatusLine => {
        const stream: Stream | undefined = catalogue.find(({ name }) => name === one.stream)
        const rows = minutes.find((minute) => minute.stream === one.stream)
        const load = readings.find(
          ({ stream: name, reading }) => name === one.stream && reading === 'first load',
        )
        const lookbackMs = Math.max(one.lookbackMs ?? 0, lookbackOf(settings, { name: one.stream }))
        return {
          overview: one,
          state: stateOfStream(one, stream?.service ?? 'assignment', problems),
          settling: settlingOf(
            { ...one, kind: stream?.kind ?? 'list', lookbackMs, nextReconcileAt: null },
            now,
          ),
          settledAt: settledThrough(stream?.kind, one),
          targets: targets
            .filter((target) => target.stream === one.stream)
            .map((target) => ({
              ...target,
              kept: kept.filter(({ stream: of, time }) => of === one.stream && time === target.time),
            })),
          rowsPerMinute: rows ? (rows.inserted + rows.updated + rows.deleted) / rateMinutes : null,
          load: load ?? null,
        }
      }),
      problems: about,
      readings: readings.filter((one) => shown.some(({ stream }) => stream === one.stream)),
      waits,
      worker: lastWorker(workers),
    }
  }
}

/** What living workers wait for, and the parts that do not work by what they note. */
function troubleOf(workers: readonly WorkerSeen[]) {
  const noted = workers.filter(({ isGone }) => !isGone).flatMap(({ waits }) => waits)
  const waits = noted.flatMap(({ what, until }) => (until === null ? [] : [{ what, until: new Date(until) }]))
  const parts = noted.flatMap(({ part }) => (part === undefined ? [] : notedPart(part)))
  return { waits, parts: [...new Map(parts.map((part) => [part.name, part])).values()] }
}

function lastWorker(workers: readonly WorkerSeen[]): Status['worker'] {
  const last = workers.toSorted((a, b) => b.seenAt.getTime() - a.seenAt.getTime())[0]
  return last ? { isThere: !last.isGone, seenAt: last.seenAt } : null
}

/** What the table has no room for. */
function paragraph({ overview: one, targets }: StatusLine): string {
  const lines: [string, string | null][] = [
    ['position', one.position === '0' ? null : one.position],
    [
      'read through',
      one.readThroughAt && `${one.readThroughAt.toISOString()}, ${formatDuration(one.lagMs ?? 0)} ago`,
    ],
    ['rows', one.rows ? rowsLine(one) : null],
    ['running', one.running.join(', ') || null],
    ['last run', one.lastRun && lastRun(one.lastRun)],
    ['last reconcile', one.lastReconcileAt?.toISOString() ?? null],
    [
      'look-back',
      one.lookbackMs === null ? null : `${formatDuration(one.lookbackMs)}: ${one.lookbackReason}`,
    ],
    ...targets.map(({ time, seconds, kept }): [string, string] => [
      `target ${time}`,
      [
        formatDuration(1000 * seconds),
        ...kept.map((share) => `over ${share.days} days ${keptInWords(share)}`),
      ].join(', '),
    ]),
    ['related records', one.related && relatedLine(one.related)],
    ['late arrivals', some(one.lateArrivals)],
    ['quarantined', some(one.quarantined)],
    ['misfit values', some(one.rescued)],
    ['backfills', one.unfinishedBackfills === 0 ? null : `${one.unfinishedBackfills} unfinished`],
    ['paused', one.paused && pausedLine(one.paused)],
  ]
  const told = lines.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(15)}  ${value}`]))
  return [one.stream, ...(told.length > 0 ? told : ['  not read yet'])].join('\n')
}

function rowsLine(one: StreamOverview): string {
  const living = livingRows(one)
  return living === null
    ? `about ${count(one.rows ?? 0)}, deleted ones included`
    : `about ${count(living)}, and ${count(one.deletedRows ?? 0)} deleted`
}

const lastRun = ({
  kind,
  status,
  finishedAt,
  startedAt,
  error,
  note,
}: NonNullable<StreamOverview['lastRun']>): string =>
  [`${kind} ${status} at ${new Date(finishedAt ?? startedAt).toISOString()}`, error, note]
    .filter(Boolean)
    .join(': ')

const relatedLine = ({
  read,
  waiting,
  setAside,
  quarantined,
}: NonNullable<StreamOverview['related']>): string =>
  [
    `up to date for ${count(read)} assignments`,
    `${count(waiting)} assignments waiting`,
    ...(setAside > 0 ? [`${count(setAside)} of those failed and will be tried again`] : []),
    ...(quarantined > 0 ? [`${count(quarantined)} records in quarantine`] : []),
  ].join(', ')

const pausedLine = ({ at, by, reason }: NonNullable<StreamOverview['paused']>): string =>
  `since ${new Date(at).toISOString()} by ${by}${reason === null ? '' : `: ${reason}`}`

const some = (amount: number): string | null => (amount === 0 ? null : count(amount))

function statusJson(found: Status) {
  const { lines, problems, readings, worker, now } = found
  const general = problems.filter(({ stream }) => stream === null)
  return {
    verdict: verdictOf(found),
    worker: worker && { running: worker.isThere, seen_at: worker.seenAt },
    problems: general.map(problemJson),
    streams: lines.map((line) =>
      streamJson(
        line,
        problems.filter(({ stream }) => stream === line.overview.stream),
      ),
    ),
    readings: readings.map((reading) => {
      const seen = estimate(reading, now)
      return {
        stream: reading.stream,
        reading: reading.reading,
        rows: reading.rows,
        total: reading.total,
        share: seen.share,
        rows_per_second: seen.rowsPerSecond,
        seconds_left: seen.left && [seen.left.leastMs / 1000, seen.left.mostMs && seen.left.mostMs / 1000],
        stalled: seen.stalled && {
          seconds: seen.stalled.forMs / 1000,
          why: seen.stalled.why,
          until: seen.stalled.until,
        },
      }
    }),
  }
}

function streamJson(
  { overview, state, settledAt, rowsPerMinute, targets }: StatusLine,
  problems: readonly Problem[],
) {
  const { readThroughAt, settledThroughAt: _, firstReadThroughAt: __, deletionsKnownAt, ...more } = overview
  const { lagMs, lookbackMs, related, rescued, unexplained, ...rest } = more
  return {
    ...{ ...snakeCased(rest), state: state.words, rows_per_minute: rowsPerMinute },
    ...{ read_through: readThroughAt, settled_through: settledAt, deletions_known_through: deletionsKnownAt },
    lag_seconds: lagMs === null ? null : lagMs / 1000,
    lookback_seconds: lookbackMs === null ? null : lookbackMs / 1000,
    living_rows: livingRows(overview),
    related: related && snakeCased(related),
    targets: Object.fromEntries(
      targets.map(({ time, seconds, kept }) => [
        time,
        {
          seconds,
          ...Object.fromEntries(kept.map(({ days, share }) => [`kept_${days}_days`, share])),
        },
      ]),
    ),
    ...{ misfit_values: rescued, unexplained_differences: unexplained, problems: problems.map(problemJson) },
  }
}

const problemJson = ({ key, kind, since, what, whatToDo }: Problem) =>
  snakeCased({ key, kind, since, what, whatToDo })
