// `tidemark explain`: the story of one row: what the mirror holds, how it came there, and what the upstream says now. Changes
// nothing.

import { loadConfig } from '../config/load.ts'
import { mirroredStreams } from '../configured.ts'
import { openContext, type SyncContext } from '../context.ts'
import { meantKey, type Story as RecordStory, recordJson } from '../documents/records.ts'
import { parseJson } from '../json/parse.ts'
import { askForRelated } from '../operator/related-record.ts'
import {
  answerInWords,
  eventsOf,
  forgottenInWords,
  type Part,
  readKeyStory,
  type Says,
  settledInWords,
} from '../operator/row-story.ts'
import { askUpstream } from '../operator/upstream-record.ts'
import { type RowStory, type StoryTable, storyTable } from '../store/book/row-story.ts'
import { type MirroredStream, pickStream } from '../streams/catalog.ts'
import { isObject } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { visible } from '../util/text.ts'
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
  const stream = pickStream(asked.stream, mirroredStreams(config, call.catalogue))
  await using context = await openContext({ config, log, migrates: false })
  const { pool } = context.database
  const table = await storyTable(pool, stream)
  const key = meantKey(stream, table, asked.key)
  const known = await readKeyStory(pool, stream, table, key)
  const upstream = await askAbout(context, stream, { table, key, row: known.row }, signal)
  if (signal.aborted) throw new Interrupted('Interrupted.')
  const story = { ...known, key, upstream }
  if (values.json) stdout.json(recordJson(story))
  else stdout.say(fitted(asText(story, values.values === true), stdout))
  if (upstream.says === 'failed') return exitCodeOf(upstream.error)
  return upstream.says === 'unclear' ? exitCodes.upstream : exitCodes.done
}

async function askAbout(
  context: SyncContext,
  stream: MirroredStream,
  { table, key, row }: Pick<Story, 'key' | 'row'> & { readonly table: StoryTable | null },
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

type Story = RecordStory & { readonly upstream: Says }

/** What happened to the row, the newest first; above that, what the upstream says now. */
function asText(story: Story, withValues: boolean): string {
  const { stream, key, row, settledAt, upstream } = story
  const now = new Date()
  const events = eventsOf(story).map(({ at, title, parts }) => ({
    time: clockOf(at, now),
    title: `${title[0]?.toLowerCase()}${title.slice(1)}`,
    text: parts.map(inWords).join(''),
  }))
  const width = Math.max(0, ...events.map(({ time }) => time.length))
  const titleWidth = Math.max(0, ...events.map(({ title }) => title.length))
  const answer = answerInWords(upstream, row, stream.name)
  const isSteady = row === null || row.deletedAt !== null || stream.kind === 'related'
  const standing = answer.next ?? (isSteady ? null : settledInWords(row, settledAt))
  const forgotten = forgottenInWords(story)
  const fields = row === null ? [] : valueLines(row)
  const hint = withValues ? '' : `  --values shows all ${fields.length} values.`
  return [
    `${stream.name} ${key}: ${answer.says}`,
    '',
    ...(row === null ? ['  The mirror holds no such row.'] : []),
    ...events.map(({ time, title, text }) =>
      `  ${time.padEnd(width)}  ${title.padEnd(titleWidth)}  ${text}`.trimEnd(),
    ),
    ...(forgotten === null ? [] : [`  ${forgotten}`]),
    ...(standing === null ? [] : ['', `  ${standing}`]),
    ...(withValues && fields.length > 0 ? ['', '  values', ...fields] : []),
    ...(row === null ? [] : ['', `  Times are UTC.${hint}`]),
  ].join('\n')
}

function inWords(part: Part): string {
  if (typeof part === 'string') return part
  if ('run' in part) return `run ${part.run}${part.kind === undefined ? '' : ` (${part.kind})`}`
  if ('columns' in part) return part.columns
  if ('said' in part) return part.said
  if ('entry' in part) return `entry ${part.entry}`
  const shown = (value: string | null) => (value === null ? 'nothing' : value === '' ? '""' : visible(value))
  const { column, before, after } = part.change
  return `${column}: ${shown(before)} → ${shown(after)}`
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

const ownColumns = new Set([
  '_first_seen_at',
  '_synced_at',
  '_deleted_at',
  '_deleted_reason',
  '_hash',
  '_xid',
])
