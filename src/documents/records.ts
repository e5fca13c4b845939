// The story of one record: what the mirror holds, how it came there, and what the upstream says of it.

import { z } from 'zod'
import { parseJson } from '../json/parse.ts'
import {
  answerInWords,
  eventsOf,
  forgottenInWords,
  type KeyStory,
  partInWords,
  readKeyStory,
  type Says,
  settledInWords,
} from '../operator/row-story.ts'
import { type StoryTable, storyTable } from '../store/book/row-story.ts'
import { type MirroredStream, pickStream } from '../streams/catalog.ts'
import { isComposite, keyParts, typedKey } from '../streams/record.ts'
import { NotThere } from '../util/errors.ts'
import { snakeCased } from '../util/text.ts'
import {
  amount,
  digits,
  document,
  type Facts,
  heldText,
  id,
  list,
  measure,
  streamName,
  time,
  withRelated,
} from './document.ts'

const upstream = z
  .object({
    says: z.string().describe('found, shown, gone, unclear, failed and others'),
    error: z.string().optional(),
    version: digits.nullable().optional(),
    equal: z.boolean().optional(),
    different: list(z.string()).optional().describe('columns'),
    record: z.unknown().optional(),
    assignment: z.string().optional(),
    assignments: list(z.string()).optional(),
    problem: z.string().optional(),
  })
  .nullable()
  .describe('null: it was not asked')

const storyRun = z.object({ id, kind: z.string(), started_at: time, finished_at: time.nullable() })
const change = z.object({
  at: time,
  fields: list(
    z.object({ column: z.string(), before: z.string().nullable(), after: z.string().nullable() }),
  ).describe('the first of them'),
  field_count: amount,
})

export const recordStory = z
  .object({
    stream: z.string(),
    key: z.string(),
    mirror: z
      .object({
        first_seen_at: time,
        synced_at: time,
        deleted_at: time.nullable(),
        deleted_reason: z.string().nullable(),
        runs: list(storyRun).describe('the run that wrote it, or those of which one did'),
        row: z.unknown().describe('the row with all its columns'),
      })
      .nullable()
      .describe('null: the mirror has no such row'),
    absence: z.object({ since: time, evidence: z.string().nullable() }).nullable(),
    late_arrivals: list(z.object({ version: digits, late_ms: measure, found_at: time, run: id.nullable() })),
    missed_rows: list(z.object({ run: id, found_at: time })),
    changes: list(change).describe('the newest first; empty where no history is kept'),
    events: list(z.object({ at: time, title: z.string(), text: z.string() })).describe(
      'all that happened to it, in words, the newest first',
    ),
    remarks: list(z.string()).describe('whether it can still change, and what to do'),
    upstream,
    verdict: z
      .string()
      .nullable()
      .describe('what the upstream says of it, in one line; null: it was not asked'),
  })
  .meta({ id: 'MirroredRecord' })
export type RecordStory = z.output<typeof recordStory>

export const record = document({
  path: '/records/{stream}/{key}',
  title: 'The row of one record, and what was noted of it',
  asked: z.strictObject({ stream: streamName, key: heldText.min(1).max(500) }),
  answer: recordStory,
  async read({ pool, streams }: Pick<Facts, 'pool' | 'streams'>, asked) {
    const found = await readStory({ pool, streams }, asked)
    const { mirror, absence, late_arrivals, missed_rows, changes } = found
    const isKnown = mirror ?? absence ?? [...late_arrivals, ...missed_rows, ...changes][0]
    if (isKnown === undefined) throw new NotThere(`The mirror has no row ${found.key} of ${found.stream}.`)
    return found
  },
})

/** Also of a record that nothing is known of. */
export async function readStory(
  { pool, streams }: Pick<Facts, 'pool' | 'streams'>,
  asked: { readonly stream: string; readonly key: string },
  upstream: Says | null = null,
) {
  const stream = pickStream(asked.stream, withRelated(streams))
  const table = await storyTable(pool, stream)
  const key = meantKey(stream, table, asked.key)
  return recordJson({ ...(await readKeyStory(pool, stream, table, key)), key, upstream })
}

/** The key in the text that rows have it in, however the person typed it. */
export function meantKey(stream: MirroredStream, table: StoryTable | null, typed: string): string {
  if (!table) return typed
  const { field, type } = table.tableSchema.key
  const key = typedKey(field, typed)
  if (key !== null && table.takesKey(key)) return key
  const kind = isComposite(field)
    ? `made of ${keyParts(field).join(' and ')}: give it as ${keyParts(field).join(',')}, or as a JSON array`
    : (keyKinds[type] ?? 'a text')
  throw new NotThere(`"${typed}" cannot be a key of ${stream.name}: its key ${field} is ${kind}.`)
}

const keyKinds: Readonly<Record<string, string>> = { bigint: 'a whole number', uuid: 'a UUID' }

export type Story = KeyStory & { readonly key: string; readonly upstream: Says | null }

export function recordJson(story: Story): RecordStory {
  const { stream, key, row, notes, changes, upstream, settledAt } = story
  // A record that neither the upstream nor the mirror knows is not gone: it was never there.
  const isUnknown = row === null && eventsOf(story).length === 0
  const says: Says | null = upstream?.says === 'gone' && isUnknown ? { says: 'never seen' } : upstream
  const answer = says && answerInWords(says, row, stream.name)
  const isSteady = row === null || row.deletedAt !== null || stream.kind === 'related'
  const standing = answer?.next ?? (isSteady ? null : settledInWords(row, settledAt))
  return {
    stream: stream.name,
    key,
    mirror: row && {
      ...snakeCased({ ...row, text: undefined }),
      runs: row.runs.map(snakeCased),
      row: parseJson(Buffer.from(row.text)),
    },
    absence: notes.missingSince && { since: notes.missingSince, evidence: notes.evidence },
    late_arrivals: notes.lateArrivals.map((one) => ({ ...snakeCased(one), found_at: new Date(one.foundAt) })),
    missed_rows: notes.missedRows.map(({ run, foundAt }) => ({ run, found_at: new Date(foundAt) })),
    changes: changes.map(({ at, fields, fieldCount }) => ({
      at: new Date(at),
      fields,
      field_count: fieldCount,
    })),
    events: eventsOf(story).map(({ at, title, parts }) => ({
      at,
      title,
      text: parts.map(partInWords).join(''),
    })),
    remarks: [forgottenInWords(story), standing].filter((one) => one !== null),
    upstream: says && answerJson(says),
    verdict: answer?.says ?? null,
  }
}

function answerJson(says: Says) {
  if (says.says === 'failed') return { says: 'failed', error: says.error.message }
  if (says.says !== 'found') return says
  const { record: found, difference } = says
  return {
    says: 'found',
    version: difference?.version?.toString() ?? null,
    equal: difference === null,
    different: difference?.columns ?? [],
    record: found,
  }
}
