// Tries records in quarantine again: after an upgrade, or a repair at the upstream, they may have become fit to be rows.

import type { Pool, SyncContext } from '../context.ts'
import { type Json, repeatedFields } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import {
  doubtDeletions,
  type QuarantineEntry,
  type QuarantineSelection,
  readQuarantine,
  settleQuarantined,
  streamOfEntry,
} from '../store/book/quarantine.ts'
import { knownStreams, pickStream, relatedBeside, type Stream } from '../streams/catalog.ts'
import { isObject, parseInt64 } from '../streams/record.ts'
import { type Quarantined, type RetryOutcome, retryQuarantine } from '../sync/reconcile/quarantine-retry.ts'
import { NotThere } from '../util/errors.ts'
import { sentence } from '../util/text.ts'
import { numberIn } from './positions.ts'

const entriesAtOnce = 100

/** Stream after stream, as far as they have something in quarantine. */
export async function* retrySelected(
  context: SyncContext,
  selection: QuarantineSelection,
  signal: AbortSignal,
): AsyncGenerator<RetryOutcome> {
  const { pool } = context.database
  for (const stream of context.streams) {
    const ofStream = { ...selection, stream: stream.name }
    const isWanted = selection.stream === null || selection.stream === stream.name
    if (!isWanted || (await readQuarantine(pool, ofStream, { after: '0', limit: 1 })).length === 0) continue
    yield await retryQuarantine({
      ...context.contextOf<Stream>(stream),
      signal,
      entries: entriesOf(pool, ofStream),
      doubt: (id) => doubtDeletions(pool, id),
      settle: (id, why) => settleQuarantined(pool, id, why),
    })
  }
}

/** Why there was nothing to try. */
export async function nothingTried(
  pool: Pool,
  selection: QuarantineSelection,
  streams: readonly Stream[],
): Promise<string> {
  const [left] = await readQuarantine(pool, selection, { after: '0', limit: 1, mostCharacters: 1 })
  if (left && relatedBeside(streams).every(({ name }) => name !== left.stream))
    return `${left.stream} is not mirrored now, so its records in quarantine were not tried.`
  return left
    ? `Records of ${left.stream} cannot be tried one by one: they are tried when their assignment or their list is read again.`
    : selection.stream === null
      ? 'The quarantine is empty.'
      : `No record of ${selection.stream} is in quarantine.`
}

/** Reads the entries a page at a time (P10). Those that stay in quarantine are not tried twice. */
async function* entriesOf(pool: Pool, selection: QuarantineSelection): AsyncGenerator<Quarantined> {
  for (let after = '0'; ; ) {
    const entries = await readQuarantine(pool, selection, { after, limit: entriesAtOnce })
    for (const entry of entries) yield { id: entry.id, record: recordOf(entry) }
    const last = entries.at(-1)
    if (!last) return
    after = last.id
  }
}

function recordOf({ text, repeatedText }: QuarantineEntry): Json {
  const record = parseJson(Buffer.from(text))
  if (repeatedText === null || !isObject(record)) return record
  const repeated = unwrapped(parseJson(Buffer.from(repeatedText)))
  return isObject(repeated) ? { ...record, [repeatedFields]: repeated } : record
}

/** A record that jsonb could not hold was kept as its text: this is the record again. */
function unwrapped(value: Json): Json {
  const text = isObject(value) ? value.$json : undefined
  return typeof text === 'string' ? parseJson(Buffer.from(text)) : value
}

export function retrySentence({ stream, status, findings, note, error }: RetryOutcome): string {
  const { tried, taken, replaced, gone } = findings
  if (status === 'skipped')
    return `${stream}: skipped, because ${note} is trying its records now. Try again when that is done.`
  const stay = tried - taken - replaced - gone
  const later = replaced > 0 ? `${replaced} have a newer row already, ` : ''
  const counts = `${taken} became rows, ${later}${gone} no longer exist upstream, ${stay} stay in quarantine`
  return status === 'failed'
    ? `${stream}: the retry failed: ${sentence(error?.message ?? 'no reason was recorded')} Until then: ${counts}.`
    : `${stream}: ${counts}.`
}

// Which records in quarantine an operator means.
/** Of all that there may be records of, also of streams that are not configured any more. */
export function mirroredNames(streams: readonly Stream[]): readonly { readonly name: string }[] {
  const all = [...knownStreams, ...streams]
  const names = new Set([...all, ...relatedBeside(all)].map(({ name }) => name))
  return [...names].map((name) => ({ name }))
}

/** A word that is a number is an id, any other a stream. */
export function selectionOf(target: string | undefined, streams: readonly Stream[]): QuarantineSelection {
  if (target === undefined) return { stream: null, id: null }
  const id = parseInt64(target)
  return id === null
    ? { stream: pickStream(target, mirroredNames(streams)).name, id: null }
    : { stream: null, id }
}

/** The number of an entry, as people type it. */
export const entryIn = (text: string): bigint =>
  numberIn(text, 'an entry of the quarantine: write its number, as `tidemark quarantine` shows it.')

export async function expectEntry(
  client: Parameters<typeof streamOfEntry>[0],
  { id }: QuarantineSelection,
): Promise<void> {
  if (id === null || (await streamOfEntry(client, id)) !== null) return
  throw new NotThere(`There is no record ${id} in quarantine: \`tidemark quarantine\` lists what is there.`)
}
