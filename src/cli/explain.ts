// `tidemark explain`: the story of one row: what the mirror holds, how it came there, and what the upstream says now.

import { loadConfig } from '../config/load.ts'
import { configuredStreams, openContext, type SyncContext } from '../context.ts'
import type { Json, JsonObject } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import {
  type KeyNotes,
  type RowStory,
  readKeyNotes,
  readRow,
  storyTable,
} from '../store/queries/row-story.ts'
import { pickStream, type Stream } from '../streams/catalog.ts'
import { isObject, readRecords } from '../streams/record.ts'
import type { Lookup, Source } from '../sync/ports/source.ts'
import type { Difference } from '../sync/ports/store.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { visible } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes } from './command.ts'

export const explain: Command = {
  name: 'explain',
  summary: 'the story of one row: what the mirror holds, how it came, what the upstream says now',
  usage: '<stream> <key> [--json]',
  options: { json: { type: 'boolean', describe: 'print one JSON document' } },
  examples: ['tidemark explain assignment 4711'],
  run,
}

type UpstreamSays =
  | { readonly says: 'found'; readonly record: JsonObject; readonly difference: Difference | null }
  | { readonly says: 'gone' | 'unclear' | 'cannot be asked for one record' }
  | { readonly says: 'failed'; readonly error: string }

async function run({ environment, positionals, values, log, signal, stdout }: Call): Promise<ExitCode> {
  const [name, key, ...more] = positionals
  if (name === undefined || key === undefined || more.length > 0)
    throw new UsageError('`tidemark explain` takes a stream and a key: tidemark explain assignment 4711')
  const config = loadConfig(environment)
  const stream = pickStream(name, configuredStreams(config))
  await using context = await openContext({ config, log })
  const { pool } = context.database
  const table = await storyTable(pool, stream)
  if (table && !table.takesKey(key))
    throw new UsageError(
      `${key} cannot be a key of ${stream.name}: its key ${table.tableSchema.key.field} is ${keyKinds[table.tableSchema.key.type] ?? 'a text'}`,
    )
  const row = table && (await readRow(pool, table, key))
  const noted = await readKeyNotes(pool, stream.name, key)
  // A row that came back is absent no more.
  const livesAgain = row !== null && row.deletedAt === null && noted.evidence !== null
  const notes: KeyNotes = livesAgain ? { ...noted, missingSince: null, evidence: null } : noted
  const upstream = await askUpstream({ context, stream, key, signal })
  if (values.json) stdout.write(`${JSON.stringify(asJson(stream, key, row, notes, upstream), null, 2)}\n`)
  else stdout.write(visible(told(stream, key, row, notes, upstream)))
  return upstream.says === 'failed' ? exitCodes.failed : exitCodes.done
}

const keyKinds: Readonly<Record<string, string>> = { bigint: 'a whole number', uuid: 'a UUID' }

async function askUpstream(ask: {
  readonly context: SyncContext
  readonly stream: Stream
  readonly key: string
  readonly signal: AbortSignal
}): Promise<UpstreamSays> {
  const { context, stream, key, signal } = ask
  const source: Source = context.sourceOf(stream)
  if (!source.lookup) return { says: 'cannot be asked for one record' }
  let answer: Lookup
  try {
    answer = await source.lookup(key, signal)
  } catch (error) {
    return { says: 'failed', error: messageOf(error) }
  }
  if (answer === 'gone' || answer === 'unclear') return { says: answer }
  const page = readRecords(
    [answer.found],
    stream.keyFields,
    stream.kind === 'changes' ? stream.versionFields : null,
  )
  const [difference = null] = await context.compareOnce(stream, page)
  return { says: 'found', record: answer.found, difference }
}

function told(
  stream: Stream,
  key: string,
  row: RowStory | null,
  notes: KeyNotes,
  upstream: UpstreamSays,
): string {
  const lines: string[] = [`${stream.name} ${key}`]
  const say = (name: string, value: string) => lines.push(`  ${name.padEnd(14)}  ${value}`)
  if (!row) say('mirror', 'holds no such row')
  else {
    say('first came', row.firstSeenAt.toISOString())
    say('last changed', `${row.syncedAt.toISOString()}, ${inRuns(row)}`)
    if (row.deletedAt)
      say(
        'deleted',
        `${row.deletedAt.toISOString()}, ${reasons[row.deletedReason ?? ''] ?? row.deletedReason}`,
      )
  }
  if (notes.evidence ?? notes.missingSince)
    say('absence', `${notes.evidence ?? 'missing from the last list'} (${notes.missingSince?.toISOString()})`)
  for (const late of notes.lateArrivals)
    say('came late', `version ${late.version}, by ${Math.round(late.lateMs / 1000)} s, found ${late.foundAt}`)
  for (const missedRows of notes.missedRows)
    say('rescued', `by the reconcile of run ${missedRows.run}, ${missedRows.foundAt}`)
  say('upstream', inUpstream(upstream))
  if (row) {
    lines.push('  values')
    const values = parseJson(Buffer.from(row.text))
    const fields = Object.entries(isObject(values) ? values : {})
    const width = Math.max(...fields.map(([name]) => name.length))
    for (const [name, value] of fields)
      if (!ownColumns.has(name)) lines.push(`    ${name.padEnd(width)}  ${shown(value)}`)
  }
  return `${lines.join('\n')}\n`
}

const ownColumns = new Set(['_first_seen_at', '_synced_at', '_deleted_at', '_deleted_reason', '_hash'])
const reasons: Readonly<Record<string, string>> = {
  source: 'the source itself says so',
  absent: 'gone from the upstream',
}
const shown = (value: Json): string => JSON.stringify(value)

function inRuns({ runs }: RowStory): string {
  if (runs.length === 0) return 'in a run that the ledger no longer has, or by hand'
  const names = runs.map(({ id, kind }) => `run ${id} (${kind})`)
  return names.length === 1 ? `in ${names[0]}` : `in one of ${names.join(', ')}, which wrote at the same time`
}

function inUpstream(upstream: UpstreamSays): string {
  if (upstream.says === 'failed') return `could not be asked: ${upstream.error}`
  if (upstream.says !== 'found') return upstream.says
  const { difference } = upstream
  if (!difference) return 'has it as the mirror has it'
  if (difference.kind === 'missing') return `has it, version ${difference.version}`
  return `has version ${difference.version}, the mirror ${difference.mirrored}; different: ${difference.columns.join(', ')}`
}

const asJson = (
  stream: Stream,
  key: string,
  row: RowStory | null,
  notes: KeyNotes,
  upstream: UpstreamSays,
) => ({
  stream: stream.name,
  key,
  mirror: row && {
    first_seen_at: row.firstSeenAt,
    synced_at: row.syncedAt,
    deleted_at: row.deletedAt,
    deleted_reason: row.deletedReason,
    runs: row.runs.map((one) => ({
      id: one.id,
      kind: one.kind,
      started_at: one.startedAt,
      finished_at: one.finishedAt,
    })),
    row: parseJson(Buffer.from(row.text)),
  },
  absence: notes.missingSince && { since: notes.missingSince, evidence: notes.evidence },
  late_arrivals: notes.lateArrivals,
  missedRows: notes.missedRows,
  upstream:
    upstream.says === 'found'
      ? {
          says: 'found',
          version: upstream.difference?.version?.toString() ?? null,
          equal: upstream.difference === null,
          different: upstream.difference?.columns ?? [],
          record: upstream.record,
        }
      : upstream,
})
