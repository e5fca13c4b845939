// What the upstream says of one record: of a stream, with how that differs from its row here, in one request; of a related record, what an
// extended read shows of it.

import type { SyncContext } from '../context.ts'
import type { JsonObject } from '../json/json.ts'
import { readKeyField, readVersionField } from '../store/book/checkpoints.ts'
import { assignmentsWith } from '../store/book/row-story.ts'
import { type RelatedStream, type Stream, versionedBy } from '../streams/catalog.ts'
import { isComposite, readRecords } from '../streams/record.ts'
import type { Difference } from '../sync/ports/audits.ts'
import type { Lookup, Source } from '../sync/ports/source.ts'
import { groupRecords, isLeftOut } from '../sync/related/answer.ts'
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

export type RelatedSays =
  | { readonly says: 'shown'; readonly assignment: string; readonly record: JsonObject }
  /** None of these assignments shows it any more. */
  | { readonly says: 'not shown'; readonly assignments: readonly string[] }
  /** The answer was asked for without it, and why. */
  | { readonly says: 'left out'; readonly assignment: string; readonly problem: string }
  | { readonly says: 'of no assignment' }
  | { readonly says: 'failed'; readonly error: Error }

const mostAsked = 3

/** In the extended read of an assignment that had it when that was last read. */
export async function askForRelated(
  { database, extendedLookup, privacy }: Pick<SyncContext, 'database' | 'extendedLookup' | 'privacy'>,
  stream: RelatedStream,
  { key, keyField }: { readonly key: string; readonly keyField: string },
  signal: AbortSignal,
): Promise<RelatedSays> {
  const assignments = await assignmentsWith(database.pool, stream.name, key, mostAsked)
  if (assignments.length === 0) return { says: 'of no assignment' }
  let leftOut: RelatedSays | null = null
  try {
    await privacy.expect(stream.name)
    for (const assignment of assignments) {
      const answer = await extendedLookup(stream.name)(assignment, signal)
      const records = typeof answer === 'object' ? groupRecords(answer.found, stream, assignment) : null
      const row = readRecords(records ?? [], [keyField], null).rows.find((one) => one.key === key)
      if (row) return { says: 'shown', assignment, record: row.record }
      if (typeof answer === 'object' && answer.leftOut && isLeftOut(answer.leftOut, stream))
        leftOut ??= { says: 'left out', assignment, problem: answer.leftOut.problem }
    }
    return leftOut ?? { says: 'not shown', assignments }
  } catch (error) {
    return { says: 'failed', error: errorOf(error) }
  }
}
