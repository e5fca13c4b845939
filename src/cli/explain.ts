// `tidemark explain`: the story of one row: what the mirror holds, how it came there, and what the upstream says now. Changes
// nothing.

import { loadConfig } from '../config/load.ts'
import { mirroredStreams } from '../configured.ts'
import { openContext } from '../context.ts'
import { meantKey, type RecordStory, recordJson } from '../documents/records.ts'
import type { Json, JsonObject } from '../json/json.ts'
import { readKeyStory } from '../operator/row-story.ts'
import { askForRelated, askUpstream } from '../operator/upstream-record.ts'
import { storyTable } from '../store/book/row-story.ts'
import { pickStream } from '../streams/catalog.ts'
import { isObject } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { visible } from '../util/text.ts'
import { type Call, type Command, flag, json } from './command.ts'
import { exitCodeOf, exitCodes, Interrupted } from './exit.ts'
import { openRemote } from './remote.ts'

export const explain: Command = {
  name: 'explain',
  summary: 'show the history of one row, and compare it with the upstream now',
  usage: '<stream> <key> [--values] [--json]',
  options: { values: flag('also show the values of the row'), json },
  examples: ['tidemark explain assignment 4711', 'tidemark explain customer 12'],
  async run(call) {
    const { positionals, values, stdout } = call
    const [stream, key, ...more] = positionals
    if (stream === undefined || key === undefined || more.length > 0)
      throw new UsageError(
        '`tidemark explain` takes a stream and a key, e.g. `tidemark explain assignment 4711`.',
      )
    const asked = { stream, key }
    const remote = openRemote(call)
    const { story, failure } = remote
      ? { story: await remote.compare(asked), failure: null }
      : await explainHere(call, asked)
    if (values.json) stdout.json(story)
    else stdout.tell(asText(story, values.values === true))
    if (failure !== null) return exitCodeOf(failure)
    return ['unclear', 'failed'].includes(story.upstream?.says ?? '') ? exitCodes.upstream : exitCodes.done
  },
}

/** By Postgres and the upstream themselves. */
async function explainHere(
  { environment, log, signal, catalogue }: Call,
  asked: { readonly stream: string; readonly key: string },
): Promise<{ readonly story: RecordStory; readonly failure: Error | null }> {
  const config = loadConfig(environment)
  const stream = pickStream(asked.stream, mirroredStreams(config, catalogue))
  await using context = await openContext({ config, log, migrates: false })
  const { pool } = context.database
  const table = await storyTable(pool, stream)
  const key = meantKey(stream, table, asked.key)
  const known = await readKeyStory(pool, stream, table, key)
  const upstream = await (stream.kind === 'related'
    ? askForRelated(context, stream, { key, keyField: table?.tableSchema.key.field ?? '' }, signal)
    : askUpstream(context, stream, key, signal))
  if (signal.aborted) throw new Interrupted('Interrupted.')
  const failure = upstream.says === 'failed' ? upstream.error : null
  return { story: recordJson({ ...known, key, upstream }), failure }
}

/** What happened to the row, the newest first; above that, what the upstream says now. */
function asText(story: RecordStory, withValues: boolean): string {
  const { stream, key, mirror, remarks, verdict } = story
  const now = new Date()
  const events = story.events.map(({ at, title, text }) => ({
    time: clockOf(at, now),
    title: `${title[0]?.toLowerCase()}${title.slice(1)}`,
    text: visible(text),
  }))
  const width = Math.max(0, ...events.map(({ time }) => time.length))
  const titleWidth = Math.max(0, ...events.map(({ title }) => title.length))
  const fields = mirror && isObject(mirror.row as Json) ? valueLines(mirror.row as JsonObject) : []
  const hint = withValues ? '' : `  --values shows all ${fields.length} values.`
  return [
    `${stream} ${key}: ${verdict ?? notAsked}`,
    '',
    ...(mirror === null ? ['  The mirror holds no such row.'] : []),
    ...events.map(({ time, title, text }) =>
      `  ${time.padEnd(width)}  ${title.padEnd(titleWidth)}  ${text}`.trimEnd(),
    ),
    ...remarks.flatMap((remark) => ['', `  ${remark}`]),
    ...(withValues && fields.length > 0 ? ['', '  values', ...fields] : []),
    ...(mirror === null ? [] : ['', `  Times are UTC.${hint}`]),
  ].join('\n')
}

const notAsked =
  'the upstream was not asked: the token may only look, or this is a related record, of which only a terminal with DATABASE_URL asks it'

/** To the second of today, else the day and the minute. */
function clockOf(at: Date, now: Date): string {
  const [day = '', time = ''] = at.toISOString().split('T')
  return now.toISOString().startsWith(day) ? time.slice(0, 8) : `${day} ${time.slice(0, 5)}`
}

function valueLines(values: JsonObject): readonly string[] {
  const fields = Object.entries(values).filter(
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
