// `tidemark status`: how fresh each stream is, and what needs a person. Only reads.

import { loadStatusConfig } from '../config/load.ts'
import { configuredStreams } from '../context.ts'
import { readProblems } from '../problems/find-problems.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { readOverview, type StreamOverview } from '../store/queries/overview.ts'
import { pickStreams, streams } from '../streams/catalog.ts'
import { count, formatDuration } from '../util/text.ts'
import { type Call, type Command, json } from './command.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'

export const status: Command = {
  name: 'status',
  summary: 'show how fresh each stream is, and what needs you',
  usage: '[stream…] [--json]',
  options: { json },
  examples: ['tidemark status', 'tidemark status assignment --json'],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { environment, positionals, values, stdout } = call
  const wanted = pickStreams(positionals, streams).map(({ name }) => name)
  const config = loadStatusConfig(environment)
  return await readMirror(call, async (pool) => {
    const overview = await readOverview(pool, wanted)
    const problems = await readProblems({
      pool,
      streams: configuredStreams(config),
      config,
      view: { partsDown: [], servicesDown: [] },
      now: new Date(),
    })
    const about = (one: StreamOverview) => problems.filter(({ stream }) => stream === one.stream)
    const general = problems.filter(({ stream }) => stream === null)
    if (values.json)
      return stdout.json({
        problems: general.map(problemJson),
        streams: overview.map((one) => asJson(one, about(one))),
      })
    const paragraphs = [
      ...general.map((problem) => `needs you: ${problemLine(problem)}`),
      ...overview.map((one) => paragraph(one, about(one))),
    ]
    stdout.say(paragraphs.join('\n\n'))
  })
}

const problemLine = ({ what, whatToDo }: Problem): string => `${what} ${whatToDo}`

function paragraph(one: StreamOverview, problems: readonly Problem[]): string {
  const lines: [string, string | null][] = [
    ['position', one.position === '0' ? null : one.position],
    [
      'read through',
      one.readThroughAt && `${one.readThroughAt.toISOString()}, ${formatDuration(one.lagMs ?? 0)} ago`,
    ],
    ['rows', one.rows ? `about ${count(one.rows)}` : null],
    ['running', one.running.join(', ') || null],
    ['last run', one.lastRun && lastRun(one.lastRun)],
    ['last reconcile', one.lastReconcileAt?.toISOString() ?? null],
    [
      'look-back',
      one.lookbackMs === null ? null : `${formatDuration(one.lookbackMs)}: ${one.lookbackReason}`,
    ],
    ['related records', one.related && relatedLine(one.related)],
    ['late arrivals', some(one.lateArrivals)],
    ['quarantined', some(one.quarantined)],
    ['misfit values', some(one.rescued)],
    ['backfills', one.unfinishedBackfills === 0 ? null : `${one.unfinishedBackfills} unfinished`],
    ['paused', one.paused && pausedLine(one.paused)],
    ...problems.map((problem): [string, string] => ['needs you', problemLine(problem)]),
  ]
  const told = lines.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(15)}  ${value}`]))
  return [one.stream, ...(told.length > 0 ? told : ['  not read yet'])].join('\n')
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

const asJson = (one: StreamOverview, problems: readonly Problem[]) => ({
  stream: one.stream,
  position: one.position,
  read_through: one.readThroughAt,
  lag_seconds: one.lagMs === null ? null : one.lagMs / 1000,
  rows: one.rows,
  running: one.running,
  last_run: one.lastRun,
  last_success_at: one.lastSuccessAt,
  last_reconcile_at: one.lastReconcileAt,
  lookback_seconds: one.lookbackMs === null ? null : one.lookbackMs / 1000,
  lookback_reason: one.lookbackReason,
  related: one.related && {
    read: one.related.read,
    waiting: one.related.waiting,
    set_aside: one.related.setAside,
    quarantined: one.related.quarantined,
  },
  late_arrivals: one.lateArrivals,
  quarantined: one.quarantined,
  misfit_values: one.rescued,
  missed_rows: one.missedRows,
  unfinished_backfills: one.unfinishedBackfills,
  blocked_deletions: one.blockedDeletions,
  stopped_reason: one.stoppedReason,
  problems: problems.map(problemJson),
  paused: one.paused,
})

const problemJson = ({ kind, since, what, whatToDo }: Problem) => ({
  kind,
  since,
  what,
  what_to_do: whatToDo,
})
