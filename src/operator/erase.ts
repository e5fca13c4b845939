// Erasing a record by a person's word, and rows that were marked as deleted long ago (P20). Never what the upstream still shows: it would come
// again, and its absence would look like a fault of the mirror.

import type { Pool, SyncContext } from '../context.ts'
import { pastAlone, readRow, type StoryTable, storyTable } from '../store/book/row-story.ts'
import { type MirroredStream, relatedBeside } from '../streams/catalog.ts'
import { assignmentsBeside, isAssignments } from '../streams/names.ts'
import { typedKey } from '../streams/record.ts'
import { UsageError } from '../util/errors.ts'
import { plural } from '../util/text.ts'
import { askForRelated, askUpstream } from './upstream-record.ts'

export type Erased = {
  readonly stream: string
  /** Tells that it was this record, to somebody who knows its key. */
  readonly fingerprint: string
  readonly traces: Awaited<ReturnType<SyncContext['privacy']['erase']>>
  /** The record exists upstream: its row stays, without what the dictionary leaves out. */
  readonly staysRow: boolean
  readonly related: readonly { readonly stream: string; readonly rows: number; readonly stay: number }[]
}

type Wanted = {
  readonly stream: MirroredStream
  readonly key: string
  readonly withRelated: boolean
  readonly isDryRun: boolean
}

export async function eraseRecord(
  context: SyncContext,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<Erased> {
  const { stream, withRelated, isDryRun } = wanted
  const { pool } = context.database
  await expectTables(pool, withRelated ? [stream, ...context.streams, ...context.related] : [stream])
  const table = await storyTable(pool, stream)
  const key = (table && typedKey(table.tableSchema.key.field, wanted.key)) ?? wanted.key
  const staysRow = await existsUpstream(context, stream, { key, table }, signal)
  if (staysRow && context.privacy.wanted(stream.name).length === 0)
    throw new UsageError(
      `Nothing was erased: the upstream still has this record, so it would come again. Delete it there first, or leave its fields out (omit in DICTIONARY).`,
    )
  const row = table && (await readRow(pool, table, key))
  if (!staysRow && row && row.deletedAt === null)
    throw new UsageError(
      `Nothing was erased: the row is not marked as deleted yet. Wait for the search for deletions, or run \`tidemark reconcile ${stream.kind === 'related' ? assignmentsBeside(stream.name) : stream.name}\`.`,
    )
  const relatives =
    withRelated && !staysRow && isAssignments(stream.name)
      ? await context.privacy.relativesOf(key, stream.name)
      : await bytesOf(pool, stream, key)
  const erasing = [{ stream, keys: [key] }, ...relatives].map((one) => ({ ...one, keepsRows: staysRow }))
  return {
    stream: stream.name,
    staysRow,
    fingerprint: context.privacy.fingerprint(`${stream.name}\n${key}`),
    traces: await context.privacy.erase(erasing, { isDryRun }),
    related: relatives.map(({ stream: { name }, keys, living }) => ({
      stream: name,
      rows: keys.length,
      stay: living,
    })),
  }
}

/** Without its table nobody can tell which lines of a history are of the record. */
async function expectTables(pool: Pool, streams: readonly MirroredStream[]): Promise<void> {
  const alone = await pastAlone(pool, streams)
  if (!alone) return
  const { name, kind } = alone
  const reads = kind === 'related' ? `sync ${assignmentsBeside(name)} --kind related` : `sync ${name}`
  throw new UsageError(
    `Nothing was erased: somebody dropped the table of ${name}, and only its history is left, in which the record cannot be found. Have the table read again: \`tidemark ${reads}\`. Then erase.`,
  )
}

type Relatives = Awaited<ReturnType<SyncContext['privacy']['relativesOf']>>[number]

/** The bytes of a file are in a table of their own, under the same key. */
async function bytesOf(pool: Pool, stream: MirroredStream, key: string): Promise<readonly Relatives[]> {
  if (stream.kind !== 'related' || stream.bulkField) return []
  const found: Relatives[] = []
  for (const one of relatedBeside([stream])) {
    const isOfIt = one.group === stream.group && one.name !== stream.name
    const table = isOfIt ? await storyTable(pool, one) : null
    if (table?.takesKey(key) && (await readRow(pool, table, key)))
      found.push({ stream: one, keys: [key], living: 0 })
  }
  return found
}

async function existsUpstream(
  context: SyncContext,
  stream: MirroredStream,
  { key, table }: { readonly key: string; readonly table: StoryTable | null },
  signal: AbortSignal,
): Promise<boolean> {
  const keyField = table?.tableSchema.key.field ?? ''
  const answer =
    stream.kind === 'related'
      ? await askForRelated(context, stream, { key, keyField }, signal)
      : await askUpstream(context, stream, key, signal)
  switch (answer.says) {
    case 'found':
    case 'shown':
    case 'no row':
      return true
    case 'failed':
      throw answer.error
    case 'unclear':
    case 'left out':
      throw new UsageError(
        'Nothing was erased: the upstream does not say clearly whether it still has this record. Try again.',
      )
    default:
      // Where no single record can be asked for, the row has to be marked as deleted: that was proven.
      return false
  }
}

export function erasedSentence(
  { stream, fingerprint, traces, staysRow, related }: Erased,
  isDryRun: boolean,
): string {
  const { rows, history, quarantine, notes } = traces
  if (rows + history + quarantine + notes === 0 && !staysRow)
    return `${stream}: nothing of this record is here (fingerprint ${fingerprint}).`
  const parts = [
    plural(rows, 'row'),
    `${plural(history, 'line')} of history`,
    `${plural(quarantine, 'record')} in quarantine`,
    plural(notes, 'note'),
  ]
  const amounts = (of: 'rows' | 'stay') =>
    related.flatMap((one) => (one[of] > 0 ? `${one[of]} of ${one.stream}` : [])).join(', ')
  const [also, stay] = [amounts('rows'), amounts('stay')]
  return [
    `${stream}: ${isDryRun ? 'would erase' : 'erased'} ${parts.join(', ')} (fingerprint ${fingerprint}).`,
    staysRow && 'The upstream has the record, so its row stays, without the fields that are left out.',
    also && `Related rows among them: ${also}.`,
    stay && `These stay, because they exist upstream: ${stay}.`,
  ]
    .filter(Boolean)
    .join(' ')
}

const rowsAtOnce = 500
/** Of rows that the upstream itself marked as deleted, each has to be looked up: it may still show them. */
const looksAtOnce = 20

/** A small step: the next one comes an hour later. Returns how many rows of each stream it erased. */
export async function forgetDeleted(
  context: SyncContext,
  { ageOf, signal }: { readonly ageOf: (stream: string) => number | null; readonly signal: AbortSignal },
): Promise<readonly { readonly stream: string; readonly rows: number; readonly ageMs: number }[]> {
  const { privacy } = context
  const forgotten = []
  for (const stream of [...context.streams, ...context.related]) {
    const ageMs = ageOf(stream.name)
    if (ageMs === null) continue
    const longDeleted = (reason: 'absent' | 'source', limit: number) =>
      privacy.longDeleted(stream, { ageMs, reason, limit })
    const keys = [...(await longDeleted('absent', rowsAtOnce))]
    if (stream.kind === 'related') keys.push(...(await longDeleted('source', rowsAtOnce)))
    else
      for (const key of await longDeleted('source', looksAtOnce))
        if ((await askUpstream(context, stream, key, signal)).says === 'gone') keys.push(key)
    if (keys.length === 0) continue
    const { rows } = await privacy.erase([{ stream, keys }])
    forgotten.push({ stream: stream.name, rows, ageMs })
  }
  return forgotten
}
