// `tidemark explain`: the story of one row: what the mirror holds, how it came there, and what the upstream says now. Changes
// nothing.

import { loadConfig } from '../config/load.ts'
import { mirroredStreams, openContext, type SyncContext } from '../context.ts'
import { parseJson } from '../json/parse.ts'
import { askForRelated, type RelatedSays } from '../operator/related-record.ts'
import { askUpstream, type UpstreamSays } from '../operator/upstream-record.ts'
import {
  type KeyNotes,
  type RowStory,
  readKeyNotes,
  readRow,
  type StoryTable,
  storyTable,
} from '../store/queries/row-story.ts'
import { type MirroredStream, pickStream } from '../streams/catalog.ts'
import { isComposite, isObject, keyParts, typedKey } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, json } from './command.ts'
import { type ExitCode, exitCodeOf, exitCodes, Interrupted } from './exit.ts'

export const explain: Command = {
  name: 'explain',
  summary: 'tell the story of one row: how it came here, and what the upstream says now',
  usage: '<stream> <key> [--json]',
  options: { json },
  examples: ['tidemark explain assignment 4711', 'tidemark explain customer 12'],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { environment, values, log, signal, stdout } = call
  const asked = whatIsAsked(call)
  const config = loadConfig(environment)
  const wanted = pickStream(asked.stream, mirroredStreams(config))
  await using context = await openContext({ config, log, migrates: false })
  const table = await storyTable(context.database.pool, wanted)
  const key = meantKey(wanted, table, asked.key)
  const row = table && (await readRow(context.database.pool, table, key))
  const notes = await readNotes(context, wanted, key, row)
  const upstream = await askAbout(context, wanted, { table, key, row }, signal)
  if (signal.aborted) throw new Interrupted('Interrupted.')
  const story = { stream: wanted, key, row, notes, upstream }
  if (values.json) stdout.json(asJson(story))
  else stdout.say(asText(story))
  if (upstream.says === 'failed') return exitCodeOf(upstream.error)
  return upstream.says === 'unclear' ? exitCodes.upstream : exitCodes.done
}

type Says = UpstreamSays | RelatedSays | { readonly says: 'never seen' }

async function askAbout(
  context: SyncContext,
  stream: MirroredStream,
  {
    table,
    key,
    row,
  }: { readonly table: StoryTable | null; readonly key: string; readonly row: RowStory | null },
  signal: AbortSignal,
): Promise<Says> {
  if (stream.kind === 'related') {
    const keyField = table?.tableSchema.key.field ?? ''
    return await askForRelated(context, stream, { key, keyField }, signal)
  }
  const upstream = await askUpstream(context, stream, key, signal)
  // What neither the upstream nor the mirror knows is not gone.
  return upstream.says === 'gone' && row === null ? { says: 'never seen' } : upstream
}

function whatIsAsked({ positionals }: Call): { readonly stream: string; readonly key: string } {
  const [stream, key, ...more] = positionals
  if (stream === undefined || key === undefined || more.length > 0)
    throw new UsageError(
      '`tidemark explain` takes a stream and a key, e.g. `tidemark explain assignment 4711`.',
    )
  return { stream, key }
}

/** In the text that rows have it in. */
function meantKey(stream: MirroredStream, table: StoryTable | null, typed: string): string {
  if (!table) return typed
  const { field, type } = table.tableSchema.key
  const key = typedKey(field, typed)
  if (key !== null && table.takesKey(key)) return key
  const kind = isComposite(field)
    ? `made of ${keyParts(field).join(' and ')}: give it as ${keyParts(field).join(',')}, or as a JSON array`
    : (keyKinds[type] ?? 'a text')
  throw new UsageError(`"${typed}" cannot be a key of ${stream.name}: its key ${field} is ${kind}.`)
}

const keyKinds: Readonly<Record<string, string>> = { bigint: 'a whole number', uuid: 'a UUID' }

async function readNotes(
  { database }: SyncContext,
  stream: MirroredStream,
  key: string,
  row: RowStory | null,
): Promise<KeyNotes> {
  const notes = await readKeyNotes(database.pool, stream.name, key)
  // A row that came back is absent no more.
  const livesAgain = row !== null && row.deletedAt === null && notes.evidence !== null
  return livesAgain ? { ...notes, missingSince: null, evidence: null } : notes
}

type Story = {
  readonly stream: MirroredStream
  readonly key: string
  readonly row: RowStory | null
  readonly notes: KeyNotes
  readonly upstream: Says
}

function asText({ stream, key, row, notes, upstream }: Story): string {
  const lines: string[] = [`${stream.name} ${key}`]
  const say = (name: string, value: string) => lines.push(`  ${name.padEnd(12)}  ${value}`)
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
    say('absent', `${notes.evidence ?? 'missing from the last list'} (${notes.missingSince?.toISOString()})`)
  for (const late of notes.lateArrivals)
    say(
      'came late',
      `version ${late.version} came ${Math.round(late.lateMs / 1000)} s late, found ${late.foundAt}`,
    )
  for (const missed of notes.missedRows)
    say('missed', `found only by a reconcile, run ${missed.run}, ${missed.foundAt}`)
  say('upstream', inUpstream(upstream))
  return [...lines, ...(row ? valueLines(row) : [])].join('\n')
}

function valueLines(row: RowStory): readonly string[] {
  const values = parseJson(Buffer.from(row.text))
  const fields = Object.entries(isObject(values) ? values : {})
  const width = Math.max(...fields.map(([name]) => name.length))
  const shown = fields.filter(
    ([name, value]) => !ownColumns.has(name) && !(name === '_rescued' && value === null),
  )
  return ['  values', ...shown.map(([name, value]) => `    ${name.padEnd(width)}  ${JSON.stringify(value)}`)]
}

const ownColumns = new Set(['_first_seen_at', '_synced_at', '_deleted_at', '_deleted_reason', '_hash'])
const reasons: Readonly<Record<string, string>> = {
  source: 'the upstream says that it is deleted',
  absent: 'it is gone from the upstream',
}

function inRuns({ runs }: RowStory): string {
  if (runs.length === 0) return 'by a run that is no longer recorded, or by hand'
  const names = runs.map(({ id, kind }) => `run ${id} (${kind})`)
  return names.length === 1 ? `by ${names[0]}` : `by one of ${names.join(', ')}, which wrote at the same time`
}

function inUpstream(upstream: Says): string {
  if (upstream.says === 'failed') return `could not be asked: ${upstream.error.message}`
  if (upstream.says === 'gone') return 'has no such record'
  if (upstream.says === 'never seen') return 'has no such record, and none was ever seen here'
  if (upstream.says === 'shown') return `shows it with assignment ${upstream.assignment}`
  if (upstream.says === 'not shown')
    return `does not show it with ${upstream.assignments.map((id) => `assignment ${id}`).join(', ')} any more`
  if (upstream.says === 'of no assignment') return 'was not asked: no assignment is known to have it'
  if (upstream.says === 'unclear') return 'gave no clear answer; try again'
  if (upstream.says !== 'found') return upstream.says
  const { difference } = upstream
  if (!difference) return 'agrees with the mirror'
  if (difference.kind === 'missing') return `has it, version ${difference.version}`
  return `has version ${difference.version}, the mirror has ${difference.mirrored}; these differ: ${difference.columns.join(', ')}`
}

const asJson = ({ stream, key, row, notes, upstream }: Story) => ({
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
  missed_rows: notes.missedRows,
  upstream:
    upstream.says === 'found'
      ? {
          says: 'found',
          version: upstream.difference?.version?.toString() ?? null,
          equal: upstream.difference === null,
          different: upstream.difference?.columns ?? [],
          record: upstream.record,
        }
      : upstream.says === 'failed'
        ? { says: 'failed', error: upstream.error.message }
        : upstream,
})
