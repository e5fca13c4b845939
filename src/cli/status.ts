// `tidemark status`: how complete each stream is, and what needs a person.

import { loadStatusConfig } from '../config/load.ts'
import { configuredStreams, openMigratedDatabase } from '../context.ts'
import { readProblems } from '../problems/find-problems.ts'
import type { Problem } from '../problems/stream-problems.ts'
import { readOverview, type StreamOverview } from '../store/queries/overview.ts'
import { pickStreams, streams } from '../streams/catalog.ts'
import { count, formatDuration, visible } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes } from './command.ts'

export const status: Command = {
  name: 'status',
  summary: 'how complete each stream is, and what needs a person',
  usage: '[stream…] [--json]',
  options: { json: { type: 'boolean', describe: 'print one JSON document' } },
  examples: ['tidemark status', 'tidemark status assignment --json'],
  run,
}

async function run({ environment, positionals, values, log, stdout }: Call): Promise<ExitCode> {
  const wanted = pickStreams(positionals, streams).map(({ name }) => name)
  const config = loadStatusConfig(environment)
  const { pool, close } = await openMigratedDatabase(config, log)
  try {
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
    const paragraphs = [
      ...general.map(({ what, whatToDo }) => `needs you: ${what} ${whatToDo}\n`),
      ...overview.map((one) => paragraph(one, about(one))),
    ]
    stdout.write(
      values.json
        ? `${JSON.stringify(
            overview.map((one) => asJson(one, about(one))),
            null,
            2,
          )}\n`
        : visible(paragraphs.join('\n')),
    )
    return exitCodes.done
  } finally {
    await close()
  }
}

function paragraph(one: StreamOverview, problems: readonly Problem[]): string {
  const lines: [string, string | null][] = [
    ['position', one.position === '0' ? null : one.position],
    [
      'complete through',
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
    ['rescued values', some(one.rescued)],
    ['backfills', one.unfinishedBackfills === 0 ? null : `${one.unfinishedBackfills} not finished`],
    ['paused', one.paused && pausedLine(one.paused)],
    ...problems.map(({ what, whatToDo }): [string, string] => ['needs you', `${what} ${whatToDo}`]),
  ]
  const told = lines.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(16)}  ${value}\n`]))
  return `${one.stream}\n${told.join('') || '  nothing was read yet\n'}`
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
    `of ${count(read)} assignments up to date`,
    `${count(waiting)} waiting`,
    ...(setAside > 0 ? [`${count(setAside)} of them could not be read`] : []),
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
  rescued: one.rescued,
  reconcile_rescues: one.missedRows,
  unfinished_backfills: one.unfinishedBackfills,
  blocked_deletions: one.blockedDeletions,
  stopped_reason: one.stoppedReason,
  problems: problems.map(({ kind, since, what, whatToDo }) => ({ kind, since, what, what_to_do: whatToDo })),
  paused: one.paused,
})
