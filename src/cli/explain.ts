// `tidemark explain`: the story of one row: what the mirror holds, how it came there, and what the upstream says now. Changes
// nothing.

import { loadConfig } from '../config/load.ts'
import { mirroredStreams } from '../configured.ts'
import { openContext, type SyncContext } from '../context.ts'
import { parseJson } from '../json/parse.ts'
import { askForRelated, type RelatedSays } from '../operator/related-record.ts'
import { askUpstream, type UpstreamSays } from '../operator/upstream-record.ts'
import { readOverview } from '../store/queries/overview.ts'
import { type RowChange, readRowChanges } from '../store/queries/row-changes.ts'
import {
  type KeyEvents,
  type KeyNotes,
  type RowStory,
  readKeyEvents,
  readKeyNotes,
  readRow,
  type StoryTable,
  storyTable,
} from '../store/queries/row-story.ts'
import { type MirroredStream, pickStream } from '../streams/catalog.ts'
import { isComposite, isObject, keyParts, typedKey } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { formatDuration, plural, visible } from '../util/text.ts'
import { type Call, type Command, flag, json } from './command.ts'
import { type ExitCode, exitCodeOf, exitCodes, Interrupted } from './exit.ts'
import { fitted } from './output.ts'

export const explain: Command = {
  name: 'explain',
  summary: 'show the history of one row, and compare it with the upstream now',
  usage: '<stream> <key> [--values] [--json]',
  options: { values: flag('also show the values of the row'), json },
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
  const events = table && row ? await readKeyEvents(context.database.pool, table, key) : nothingNoted
  const changes = table ? await readRowChanges(context.database.pool, table, key, mostChanges) : []
  const settledAt = await settledTime(context, wanted)
  const upstream = await askAbout(context, wanted, { table, key, row }, signal)
  if (signal.aborted) throw new Interrupted('Interrupted.')
  const story = { stream: wanted, key, row, notes, events, changes, settledAt, upstream }
  if (values.json) stdout.json(asJson(story))
  else stdout.say(fitted(asText(story, values.values === true), stdout))
  if (upstream.says === 'failed') return exitCodeOf(upstream.error)
  return upstream.says === 'unclear' ? exitCodes.upstream : exitCodes.done
}

/** At most so many changes are shown, the newest; `bi.<stream>_history` has all. */
const mostChanges = 20

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
  // A record that neither the upstream nor the mirror knows is not gone: it was never there.
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

/** The key in the text that rows have it in, however the person typed it. */
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
  // The record came back, so the note that it was missing does not hold any more.
  const livesAgain = row !== null && row.deletedAt === null && notes.evidence !== null
  return livesAgain ? { ...notes, missingSince: null, evidence: null } : notes
}

const nothingNoted: KeyEvents = { differences: [], quarantine: [], related: [] }

/** Up to when nothing late is expected any more; a list is compared whole whenever it is read. */
async function settledTime({ database }: SyncContext, { name, kind }: MirroredStream): Promise<Date | null> {
  if (kind === 'related') return null
  const [overview] = await readOverview(database.pool, [name])
  return (kind === 'list' ? overview?.readThroughAt : overview?.settledThroughAt) ?? null
}

type Story = {
  readonly stream: MirroredStream
  readonly key: string
  readonly row: RowStory | null
  readonly notes: KeyNotes
  readonly events: KeyEvents
  /** Where the past of the row is kept. */
  readonly changes: readonly RowChange[]
  readonly settledAt: Date | null
  readonly upstream: Says
}

/** What happened to the row, the newest first; above that, what the upstream says now. */
function asText(story: Story, withValues: boolean): string {
  const { stream, key, row } = story
  const events = eventsOf(story).toSorted((a, b) => b.at.getTime() - a.at.getTime())
  const now = new Date()
  const times = events.map(({ at }) => clockOf(at, now))
  const width = Math.max(0, ...times.map((time) => time.length))
  const titleWidth = Math.max(0, ...events.map(({ title }) => title.length))
  const lines = events.map(({ title, text }, index) =>
    `  ${(times[index] ?? '').padEnd(width)}  ${title.padEnd(titleWidth)}  ${text}`.trimEnd(),
  )
  const standing = standingOf(story)
  const fields = row === null ? [] : valueLines(row)
  const hint = withValues || row === null ? null : `  --values shows all ${fields.length} values.`
  return [
    `${stream.name} ${key}: ${inUpstream(story)}`,
    '',
    ...(row === null ? ['  The mirror holds no such row.'] : []),
    ...lines,
    ...(hasForgotten(story)
      ? [`  What it was before is not kept. HISTORY=${stream.name} keeps it from then on.`]
      : []),
    ...(standing === null ? [] : ['', `  ${standing}`]),
    ...(withValues && fields.length > 0 ? ['', '  values', ...fields] : []),
    ...(hint === null ? [] : ['', `  Times are UTC.${hint}`]),
  ].join('\n')
}

/** It changed, and nothing says from what. */
const hasForgotten = ({ row, changes }: Story): boolean =>
  row !== null && changes.length === 0 && row.firstSeenAt.getTime() !== row.syncedAt.getTime()

/** Whether the row can still become another, and what to do where it is not as the upstream has it. */
function standingOf({ stream, row, settledAt, upstream }: Story): string | null {
  if (row === null || row.deletedAt !== null || stream.kind === 'related') return null
  const reconcile = `\`tidemark reconcile ${stream.name}\``
  if (upstream.says === 'gone')
    return `The row here is not marked as deleted yet: the search for deletions does it, or ${reconcile} now.`
  if (upstream.says === 'found' && upstream.difference !== null)
    return `The next run brings what is newer. If the row stays as it is: ${reconcile} corrects it and tells the cause.`
  return settledAt !== null && settledAt >= row.syncedAt
    ? 'Settled: late commits since then were looked for, in two ways.'
    : 'Not settled yet: Tidemark reads it once more, with the look-back and in the list.'
}

type Event = { readonly at: Date; readonly title: string; readonly text: string }

function eventsOf({ row, notes, events, changes }: Story): readonly Event[] {
  const isFirst = row !== null && row.firstSeenAt.getTime() === row.syncedAt.getTime()
  return [
    ...(row === null ? [] : [{ at: row.firstSeenAt, title: 'first came', text: isFirst ? inRuns(row) : '' }]),
    ...(row === null || isFirst ? [] : [{ at: row.syncedAt, title: 'last changed', text: inRuns(row) }]),
    ...(row?.deletedAt
      ? [
          {
            at: row.deletedAt,
            title: 'marked deleted',
            text: reasons[row.deletedReason ?? ''] ?? `${row.deletedReason}`,
          },
        ]
      : []),
    ...(notes.missingSince === null
      ? []
      : [{ at: notes.missingSince, title: 'absent', text: notes.evidence ?? 'missing from the last list' }]),
    ...notes.lateArrivals.map(({ version, lateMs, foundAt }) => ({
      at: new Date(foundAt),
      title: 'late commit caught',
      text: `version ${version}, ${formatDuration(lateMs)} late`,
    })),
    ...notes.missedRows.map(({ run, foundAt }) => ({
      at: new Date(foundAt),
      title: 'missed',
      text: `found only by a reconcile, run ${run}`,
    })),
    ...events.differences.map(({ cause, fields, foundAt, runId }) => ({
      at: foundAt,
      title: `differed: ${cause}`,
      text: `${fields.length > 0 ? `${fields.slice(0, 8).join(', ')}, ` : ''}run ${runId}`,
    })),
    ...changes.map(({ at, fields, fieldCount, isDeleted, isBack }) => ({
      at: new Date(at),
      title: isDeleted ? 'was deleted' : isBack ? 'came back' : 'changed',
      text: fieldChanges(fields, fieldCount),
    })),
    ...events.quarantine.map(({ id, reason, firstSeenAt, droppedAt }) => ({
      at: firstSeenAt,
      title: 'went into quarantine',
      text: `${reason}, entry ${id}${droppedAt === null ? '' : ', taken out'}`,
    })),
  ]
}

function fieldChanges(fields: RowChange['fields'], fieldCount: number): string {
  const shown = (value: string | null) => (value === null ? 'nothing' : value === '' ? '""' : visible(value))
  const told = fields.map(({ column, before, after }) => `${column}: ${shown(before)} → ${shown(after)}`)
  return [...told, ...(fieldCount > fields.length ? [`and ${fieldCount - fields.length} more`] : [])].join(
    '; ',
  )
}

/** To the second of today, else the day and the minute. */
function clockOf(at: Date, now: Date): string {
  const [day = '', time = ''] = at.toISOString().split('T')
  return now.toISOString().startsWith(day) ? time.slice(0, 8) : `${day} ${time.slice(0, 5)}`
}

function valueLines(row: RowStory): readonly string[] {
  const values = parseJson(Buffer.from(row.text))
  const fields = Object.entries(isObject(values) ? values : {}).filter(
    ([name, value]) => !ownColumns.has(name) && !(name === '_rescued' && value === null),
  )
  const width = Math.max(...fields.map(([name]) => name.length))
  return fields.map(([name, value]) => `    ${name.padEnd(width)}  ${JSON.stringify(value)}`)
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

function inUpstream({ upstream }: Pick<Story, 'upstream'>): string {
  if (upstream.says === 'failed') return `the upstream could not be asked: ${upstream.error.message}`
  if (upstream.says === 'gone') return 'the upstream has no such record'
  if (upstream.says === 'never seen') return 'the upstream has no such record, and none was ever seen here'
  if (upstream.says === 'shown') return `the upstream shows it with assignment ${upstream.assignment}`
  if (upstream.says === 'not shown')
    return `the upstream does not show it with ${upstream.assignments.map((id) => `assignment ${id}`).join(', ')} any more`
  if (upstream.says === 'left out')
    return `it is not known whether the upstream still shows it with assignment ${upstream.assignment}: ${upstream.problem}`
  if (upstream.says === 'of no assignment')
    return 'the upstream was not asked: no assignment is known to have it'
  if (upstream.says === 'unclear') return 'the upstream gave no clear answer; try again'
  if (upstream.says !== 'found') return `the upstream: ${upstream.says}`
  const { difference } = upstream
  if (!difference) return `agrees with the upstream (${plural(Object.keys(upstream.record).length, 'field')})`
  if (difference.kind === 'missing') return `the upstream has it, version ${difference.version}`
  return `the upstream has version ${difference.version}, the mirror ${difference.mirrored}; these differ: ${difference.columns.join(', ')}`
}

const asJson = ({ stream, key, row, notes, changes, upstream }: Story) => ({
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
  changes: changes.map(({ at, fields, fieldCount }) => ({
    at: new Date(at),
    fields,
    field_count: fieldCount,
  })),
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
