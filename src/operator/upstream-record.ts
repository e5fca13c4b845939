// What the upstream says of one record, and how that differs from its row here. One request.

import type { SyncContext } from '../context.ts'
import type { JsonObject } from '../json/json.ts'
import { readKeyField, readVersionField } from '../store/book/checkpoints.ts'
import { type Stream, versionedBy } from '../streams/catalog.ts'
import { isComposite, readRecords } from '../streams/record.ts'
import type { Difference } from '../sync/ports/audits.ts'
import type { Lookup, Source } from '../sync/ports/source.ts'
import { errorOf } from '../util/errors.ts'

export type UpstreamSays =
  | { readonly says: 'found'; readonly record: JsonObject; readonly difference: Difference | null }
  | { readonly says: 'gone' | 'unclear' | 'cannot be asked for one record' }
  /** It has the record, and that cannot be a row. */
  | { readonly says: 'no row'; readonly record: JsonObject; readonly problem: string }
  | { readonly says: 'failed'; readonly error: Error }

export async function askUpstream(
  context: SyncContext,
  stream: Stream,
  key: string,
  signal: AbortSignal,
): Promise<UpstreamSays> {
  const source: Source = context.sourceOf(stream)
  const keyField = await readKeyField(context.database.pool, stream.name)
  // The upstream finds a record only by a single field.
  if (!source.lookup || isComposite(keyField ?? '')) return { says: 'cannot be asked for one record' }
  let answer: Lookup
  try {
    await context.privacy.expect(stream.name)
    answer = await source.lookup(key, signal)
  } catch (error) {
    return { says: 'failed', error: errorOf(error) }
  }
  if (answer === 'gone' || answer === 'unclear') return { says: answer }
  const versioned = versionedBy(stream, await readVersionField(context.database.pool, stream.name))
  const versionFields = versioned.kind === 'changes' ? versioned.versionFields : null
  const page = readRecords([answer.found], versioned.keyFields, versionFields)
  const [rejected] = page.rejected
  if (rejected) return { says: 'no row', record: answer.found, problem: rejected.reason }
  const [difference = null] = await context.compareOnce(versioned, page)
  return { says: 'found', record: answer.found, difference }
}
