// `tidemark status`: how fresh each stream is, what goes on, and what needs a person. Only reads.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import { lookbackOf } from '../config/dynamic-settings.ts'
import { loadStatusConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import {
  gatherStatus,
  type Status,
  type StreamStatus,
  status as statusDocument,
  statusJson,
} from '../documents/status.ts'
import { readProblems, readProblemsElsewhere } from '../problems/find-problems.ts'
import { notedPart } from '../problems/parts.ts'
import { targetsOf } from '../problems/receivers.ts'
import { isWell } from '../problems/stream-state.ts'
import { readOverrides } from '../store/book/overrides.ts'
import type { WorkerSeen } from '../store/book/watch.ts'
import { pickStreams } from '../streams/catalog.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { count, formatDuration } from '../util/text.ts'
import { type Call, type Command, flag, json } from './command.ts'
import { type ExitCode, exitCodes, worst } from './exit.ts'
import { readMirror } from './mirror.ts'
import { openRemote } from './remote.ts'
import { isLeftAlone, type ShownStatus, statusLines } from './status-table.ts'

export const status: Command = {
  name: 'status',
  summary: 'show how current each stream is, and what needs your attention',
  usage: '[stream…] [--watch | --check] [--json]',
  options: {
    watch: flag('keep it on the screen and update it, until q'),
    check: flag('exit with status 1 if something needs your attention, or no worker reads'),
    json,
  },
  examples: ['tidemark status', 'tidemark status assignment --json', 'tidemark status --check'],
  async run(call) {
    const { values, stdout } = call
    if (values.watch && (values.json || values.check))
      throw new UsageError('--watch cannot be used with --json or --check.')
    if (values.watch && !stdout.isTTY)
      throw new UsageError('--watch needs a terminal. In a script, call `tidemark status` repeatedly.')
    let needsSomebody = false
    const code = await withStatus(call, async (gather) => {
      if (values.watch) return await watchStatus(call, gather)
      const { seen, ...found } = await gather()
      needsSomebody =
        [found, ...found.streams].some(({ problems }) => problems.some(({ care }) => care === 'needs you')) ||
        found.sources.some((source) => source.name !== '' && !isWell(source)) ||
        isLeftAlone(found)
      if (values.json) return stdout.json(found)
      for (const line of statusLines({ ...found, ...(seen && { seen }) }, stdout)) stdout.write(`${line}\n`)
      // A person who names a stream wants to know more about it.
      if (call.positionals.length > 0) stdout.say(`\n${found.streams.map(paragraph).join('\n\n')}`)
    })
    return values.check && needsSomebody ? worst([code, exitCodes.failed]) : code
  },
}

/** From Postgres, or over the API. */
async function withStatus(
  call: Call,
  work: (gather: () => Promise<ShownStatus>) => Promise<void>,
): Promise<ExitCode> {
  const remote = openRemote(call)
  if (remote !== null) {
    await work(() => remote.read(statusDocument, { stream: [...call.positionals] }))
    return exitCodes.done
  }
  const gatherFrom = openGathering(call)
  return await readMirror(call, (pool) =>
    work(async () => {
      const found = await gatherFrom(pool)
      const seen = found.problems.flatMap((one) => (one.seen ? [[one.key, one.seen]] : []))
      return { ...statusJson(found), seen: Object.fromEntries(seen) }
    }),
  )
}

/** Looks everything up, each time that it is called. */
export function openGathering(
  call: Pick<Call, 'environment' | 'positionals' | 'catalogue'>,
): (pool: Pool) => Promise<Status> {
  const { environment, positionals, catalogue } = call
  const config = loadStatusConfig(environment)
  pickStreams(positionals, catalogue)
  const streams = configuredStreams(config, catalogue)
  return async (pool) => {
    config.dynamic.takeUp(await readOverrides(pool, config.source))
    const settings = config.dynamic.now()
    return await gatherStatus(
      {
        pool,
        streams,
        catalogue,
        targets: targetsOf(config),
        lookbackMs: (name) => lookbackOf(settings, { name }),
        async problems(workers) {
          const now = new Date()
          const view = { parts: partsSeenBy(workers) }
          const own = await readProblems({ pool, config, streams, now, view })
          if (config.source !== '' || positionals.length > 0) return own
          const others = await readProblemsElsewhere(pool, now)
          return [...own, ...others.filter(({ key }) => own.every((one) => one.key !== key))]
        },
      },
      positionals,
    )
  }
}

/** The parts that do not work, by what living workers note. */
function partsSeenBy(workers: readonly WorkerSeen[]) {
  const noted = workers.filter(({ isGone }) => !isGone).flatMap(({ waits }) => waits)
  const parts = noted.flatMap(({ part }) => (part === undefined ? [] : notedPart(part)))
  return [...new Map(parts.map((part) => [part.name, part])).values()]
}

/** What the table has no room for. */
function paragraph(one: StreamStatus): string {
  const lines: [string, string | null][] = [
    ['position', one.position === '0' ? null : one.position],
    [
      'read through',
      one.read_through &&
        `${one.read_through.toISOString()}, ${formatDuration(1000 * (one.lag_seconds ?? 0))} ago`,
    ],
    ['rows', one.rows ? rowsLine(one) : null],
    ['running', one.running.join(', ') || null],
    ['last run', one.last_run && lastRun(one.last_run)],
    ['last reconcile', one.last_reconcile_at?.toISOString() ?? null],
    [
      'look-back',
      one.lookback_seconds === null
        ? null
        : `${formatDuration(1000 * one.lookback_seconds)}: ${one.lookback_reason}`,
    ],
    ...Object.entries(one.targets).map(([time, { words }]): [string, string] => [`target ${time}`, words]),
    ['related records', one.related && relatedLine(one.related)],
    ['late arrivals', some(one.late_arrivals)],
    ['quarantined', some(one.quarantined)],
    ['misfit values', some(one.misfit_values)],
    ['backfills', one.unfinished_backfills === 0 ? null : `${one.unfinished_backfills} unfinished`],
    ['paused', one.paused && pausedLine(one.paused)],
  ]
  const told = lines.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(15)}  ${value}`]))
  return [one.stream, ...(told.length > 0 ? told : ['  not read yet'])].join('\n')
}

const rowsLine = ({ rows, living_rows: living, deleted_rows: deleted }: StreamStatus): string =>
  living === null
    ? `about ${count(rows ?? 0)}, deleted ones included`
    : `about ${count(living)}, and ${count(deleted ?? 0)} deleted`

const lastRun = (run: NonNullable<StreamStatus['last_run']>): string =>
  [`${run.kind} ${run.status} at ${(run.finished_at ?? run.started_at).toISOString()}`, run.error, run.note]
    .filter(Boolean)
    .join(': ')

const relatedLine = (related: NonNullable<StreamStatus['related']>): string =>
  [
    `up to date for ${count(related.read)} assignments`,
    `${count(related.waiting)} assignments waiting`,
    ...(related.set_aside > 0 ? [`${count(related.set_aside)} of those failed and will be tried again`] : []),
    ...(related.quarantined > 0 ? [`${count(related.quarantined)} records in quarantine`] : []),
  ].join(', ')

const pausedLine = ({ at, by, reason }: NonNullable<StreamStatus['paused']>): string =>
  `since ${at.toISOString()} by ${by}${reason === null ? '' : `: ${reason}`}`

const some = (amount: number): string | null => (amount === 0 ? null : count(amount))

// ── --watch ──────────────────────────────────────────────────────────────────────────────────────────────────

const everyMs = 2_000
const enter = '\x1b[?1049h\x1b[?25l'
const leave = '\x1b[?25h\x1b[?1049l'

/** Drawn anew every two seconds on a screen of its own, until q or Ctrl-C. */
async function watchStatus({ stdout, signal }: Call, gather: () => Promise<ShownStatus>): Promise<void> {
  const ending = new AbortController()
  const ended = AbortSignal.any([signal, ending.signal])
  const stopListening = onQuit(() => ending.abort())
  stdout.write(enter)
  // Restores the terminal, whatever ends the program.
  const restore = () => stdout.write(leave)
  process.once('exit', restore)
  try {
    for (let last: ShownStatus | null = null; !ended.aborted; ) {
      const found: ShownStatus | null = await gather().catch((error) => {
        stdout.write(`\x1b[H${stdout.plain(`not live: ${messageOf(error)}`)}\x1b[K`)
        return null
      })
      if (ended.aborted) break
      if (found) stdout.write(frameOf(found, last, stdout))
      last = found ?? last
      await wait(everyMs, undefined, { signal: ended }).catch(() => {})
    }
  } finally {
    stopListening()
    process.off('exit', restore)
    restore()
  }
}

/**
 * Writes each line over the old one, so that nothing flickers. A line is cleared before it is written: clearing behind a line that is as
 * wide as the terminal would take its last letter.
 */
function frameOf(found: ShownStatus, last: ShownStatus | null, out: Call['stdout']): string {
  const lines = [
    ...statusLines(found, out, last),
    '',
    out.style('dim', out.plain('live · changes are bold · q ends')),
  ]
  return `\x1b[H${lines.map((line) => `\x1b[K${line}`).join('\r\n')}\x1b[J`
}

/** In raw mode Ctrl-C is a key like others. */
function onQuit(quit: () => void): () => void {
  const { stdin } = process
  if (!stdin.isTTY) return () => {}
  const hear = (keys: Buffer) => {
    if (['q', 'Q', '\u0003'].some((key) => keys.includes(key))) quit()
  }
  stdin.setRawMode(true)
  stdin.resume()
  stdin.on('data', hear)
  return () => {
    stdin.off('data', hear)
    stdin.setRawMode(false)
    stdin.pause()
  }
}
