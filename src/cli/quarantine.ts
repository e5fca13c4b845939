// `tidemark quarantine`: records that cannot be rows. Shows them, tries them again, or takes them out with a reason.

import { loadConfig } from '../config/load.ts'
import { openContext } from '../context.ts'
import {
  droppedSentence,
  dropRecords,
  expectEntry,
  nothingTried,
  retrySelected,
  retrySentence,
  selectionOf,
} from '../operator/quarantine.ts'
import {
  type QuarantineEntry,
  type QuarantineSelection,
  readQuarantine,
} from '../store/queries/quarantine.ts'
import { relatedStreams, streams } from '../streams/catalog.ts'
import type { RetryOutcome } from '../sync/reconcile/quarantine-retry.ts'
import { UsageError } from '../util/errors.ts'
import { nearest } from '../util/text.ts'
import {
  alignedTable,
  type Call,
  type Command,
  type ExitCode,
  exitCodes,
  operator,
  wholeNumber,
} from './command.ts'
import { withDatabase } from './database.ts'

// `tidemark quarantine retry`: tries records in quarantine again.
export async function retryEntries(call: Call, selection: QuarantineSelection): Promise<ExitCode> {
  const { environment, values, log, signal, stdout } = call
  const config = loadConfig(environment)
  await using context = await openContext({ config, log })
  await expectEntry(context.database.pool, selection)
  const outcomes: RetryOutcome[] = []
  for await (const outcome of retrySelected(context, selection, signal)) {
    outcomes.push(outcome)
    if (!values.json) stdout.write(`${retrySentence(outcome)}\n`)
  }
  if (values.json) stdout.write(`${JSON.stringify(outcomes.map(retryJson), null, 2)}\n`)
  else if (outcomes.length === 0) stdout.write(`${await nothingTried(context.database.pool, selection)}\n`)
  return outcomes.every(({ status }) => status === 'done') ? exitCodes.done : exitCodes.failed
}

const retryJson = ({ stream, status, runId, findings, note, error }: RetryOutcome) => ({
  stream,
  status,
  run: runId,
  ...findings,
  note,
  error: error?.message ?? null,
})

export const quarantine: Command = {
  name: 'quarantine',
  summary: 'records that cannot be rows: list, retry or drop them',
  usage: '[list|retry|drop] [stream|id] [--reason TEXT] [--limit N] [--json]',
  options: {
    reason: { type: 'string', value: 'TEXT', describe: 'why they are dropped; kept with them' },
    limit: { type: 'string', value: 'N', describe: 'how many are listed, at most (100)' },
    json: { type: 'boolean', describe: 'print one JSON document' },
  },
  examples: [
    'tidemark quarantine',
    'tidemark quarantine retry assignment',
    'tidemark quarantine drop 17 --reason "a test record of ours"',
  ],
  run,
}

const mirroredNames = [...streams, ...relatedStreams].map(({ name }) => name)

async function run(call: Call): Promise<ExitCode> {
  const [first, ...rest] = call.positionals
  const verbs: readonly string[] = ['list', 'retry', 'drop']
  const [near] = first === undefined ? [] : nearest(first, [...verbs, ...mirroredNames])
  if (first !== near && near !== undefined && verbs.includes(near))
    throw new UsageError(
      `\`tidemark quarantine\` has no "${first}": did you mean \`tidemark quarantine ${near}\`?`,
    )
  const [verb, target, ...more] =
    first === undefined || verbs.includes(first) ? [first ?? 'list', ...rest] : ['list', first, ...rest]
  if (more.length > 0)
    throw new UsageError(`\`tidemark quarantine ${verb}\` takes one stream or one id, or none for all`)
  if (verb === 'drop') return await drop(call, target)
  const selection = selectionOf(target)
  return verb === 'retry' ? await retryEntries(call, selection) : await list(call, selection)
}

async function list(call: Call, selection: QuarantineSelection): Promise<ExitCode> {
  const limit = wholeNumber(call.values, 'limit', { least: 1 }) ?? 100
  return await withDatabase(call, async (pool) => {
    await expectEntry(pool, selection)
    const entries = await readQuarantine(pool, selection, { after: '0', limit })
    const rows = entries.map((entry) => [
      entry.id,
      entry.stream,
      entry.lastSeenAt.toISOString(),
      `${entry.timesSeen}`,
      entry.reason,
      entry.text.length <= 60 ? entry.text : `${entry.text.slice(0, 59)}…`,
    ])
    if (call.values.json) call.stdout.write(`${JSON.stringify(entries.map(asJson), null, 2)}\n`)
    else if (rows.length === 0) call.stdout.write('Nothing is in quarantine.\n')
    else call.stdout.write(alignedTable(['id', 'stream', 'last seen', 'times', 'reason', 'record'], rows))
  })
}

async function drop(call: Call, target: string | undefined): Promise<ExitCode> {
  if (target === undefined)
    throw new UsageError(
      '`tidemark quarantine drop` needs an id or a stream: tidemark quarantine drop 17 --reason TEXT',
    )
  const selection = selectionOf(target)
  const reason = typeof call.values.reason === 'string' ? call.values.reason.trim() : ''
  if (reason === '')
    throw new UsageError('`tidemark quarantine drop` needs --reason TEXT: it is kept with the record')
  return await withDatabase(call, async (pool) => {
    const dropped = await dropRecords(pool, { selection, reason, by: operator() })
    call.stdout.write(call.values.json ? `${JSON.stringify({ dropped })}\n` : `${droppedSentence(dropped)}\n`)
  })
}

const asJson = (entry: QuarantineEntry) => ({
  id: entry.id,
  stream: entry.stream,
  reason: entry.reason,
  record: entry.text,
  first_seen_at: entry.firstSeenAt,
  last_seen_at: entry.lastSeenAt,
  times_seen: entry.timesSeen,
})
