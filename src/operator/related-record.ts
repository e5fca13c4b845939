// What the upstream shows of one related record: in the extended read of an assignment that had it when that was last read.

import type { SyncContext } from '../context.ts'
import type { JsonObject } from '../json/json.ts'
import { assignmentsWith } from '../store/book/row-story.ts'
import type { RelatedStream } from '../streams/catalog.ts'
import { readRecords } from '../streams/record.ts'
import { groupRecords, isLeftOut } from '../sync/related/answer.ts'
import { errorOf } from '../util/errors.ts'

export type RelatedSays =
  | { readonly says: 'shown'; readonly assignment: string; readonly record: JsonObject }
  /** None of these assignments shows it any more. */
  | { readonly says: 'not shown'; readonly assignments: readonly string[] }
  /** The answer was asked for without it, and why. */
  | { readonly says: 'left out'; readonly assignment: string; readonly problem: string }
  | { readonly says: 'of no assignment' }
  | { readonly says: 'failed'; readonly error: Error }

const mostAsked = 3

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
