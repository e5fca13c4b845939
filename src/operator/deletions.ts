// Deletions that are blocked because too many rows disappeared at once: what is known of them, and the two answers of an operator.

import type { Pool } from '../context.ts'
import { type BlockedStream, type DeletionEvidence, readBlockedDeletions } from '../store/book/deletions.ts'
import type { BlockedDeletions } from '../store/book/symptoms.ts'
import { UsageError } from '../util/errors.ts'
import { count, plural } from '../util/text.ts'

/** `27,310 of 131,904 rows (20.7 %)`. */
export function shareMissing(blocked: Pick<BlockedDeletions, 'missing' | 'living' | 'isLeast'>): string {
  const { missing, living, isLeast = false } = blocked
  if (missing === null) return 'an unknown number of rows'
  const least = isLeast ? 'at least ' : ''
  if (living === null || living === 0) return `${least}${count(missing)} rows`
  return `${least}${count(missing)} of ${count(living)} rows (${((100 * missing) / living).toFixed(1).replace(/\.0$/, '')} %)`
}

/** The number that an approval names. Null: nothing has counted all of them yet. */
export const toApprove = ({ missing, isLeast = false }: Pick<BlockedDeletions, 'missing' | 'isLeast'>) =>
  isLeast ? null : missing

/** What is known of blocked deletions, for whoever decides: a sentence, and what it speaks for. */
export type EvidenceFact = {
  readonly speaks: 'for' | 'against'
  readonly tone: 'ok' | 'todo' | 'warn' | 'bad'
  readonly text: string
  /** When the upstream said so. */
  readonly at?: Date | null
}

/** Other rows of the stream, which a rejection can let live again. */
export function othersFoundGone(evidence: Pick<DeletionEvidence, 'marked' | 'isSinceDecision'>): string {
  const { marked, isSinceDecision } = evidence
  const when = isSinceDecision ? 'since a person last decided about deletions' : 'within the last day'
  return `${plural(marked, 'other row')} ${marked === 1 ? 'was' : 'were'} found gone and marked deleted ${when}`
}

export function evidenceFacts(
  evidence: DeletionEvidence,
  { missing }: Pick<BlockedDeletions, 'missing'>,
  canLookUp: boolean,
): readonly EvidenceFact[] {
  const { looked, lookedAt: at, mostInARun, marked } = evidence
  const asked = looked.gone + looked.there + looked.unclear
  const facts: EvidenceFact[] = []
  const lookedUp = (
    amount: number,
    speaks: EvidenceFact['speaks'],
    tone: EvidenceFact['tone'],
    what: string,
  ) => facts.push({ speaks, tone, at, text: `${count(amount)} of ${count(asked)} looked up by key ${what}` })
  if (asked > 0) lookedUp(looked.gone, 'for', looked.gone > 0 ? 'ok' : 'todo', 'are gone')
  else {
    const text = canLookUp
      ? 'none of the missing rows was looked up by key yet: a reconcile does it'
      : 'nothing: the upstream does not let its records be looked up one by one'
    facts.push({ speaks: 'for', tone: 'todo', text })
  }
  if (looked.there > 0)
    lookedUp(looked.there, 'against', 'bad', 'are still there: the list shows only a part')
  if (looked.unclear > 0) lookedUp(looked.unclear, 'against', 'warn', 'gave an unclear answer')
  if (marked > 0) {
    const text = `${othersFoundGone(evidence)} (rows that the upstream marks itself are not counted)`
    facts.push({ speaks: 'for', tone: 'ok', text })
  }
  if (missing === null || missing > mostInARun) {
    const text =
      mostInARun > 0
        ? `never before did a run find that more than ${plural(mostInARun, 'row')} had vanished`
        : 'no run before has found that a row of it had vanished'
    facts.push({ speaks: 'against', tone: 'warn', text })
  }
  return facts
}

/** How many deletions of the stream are blocked, when `rows` names that very number: no other is approved (P7). */
export async function expectApproved(pool: Pool, stream: string, rows: string | null): Promise<number> {
  const [blocked] = await readBlockedDeletions(pool, [stream])
  if (!blocked) throw new UsageError(`No deletions of ${stream} are blocked.`)
  const missing = toApprove(blocked)
  if (missing === null)
    throw new UsageError(
      `Deletions of ${stream} are blocked (${shareMissing(blocked)}), but their number is not known. Run \`tidemark reconcile ${stream}\` first: it counts them.`,
    )
  if (rows === null || asTyped(rows) !== String(missing))
    throw new UsageError(
      `Nothing was marked: ${count(missing)} deletions of ${stream} are blocked now, ${rows === null ? 'and no number was given' : `not ${rows.slice(0, 20)}`}. Look at them again (\`tidemark deletions list ${stream}\`), then confirm ${missing}.`,
      { field: 'rows' },
    )
  return missing
}

/** People copy the number as the list and the pages write it: 3,598. */
const asTyped = (number: string): string => number.replaceAll(/[,\s]/g, '')

export function blockedJson(blocked: BlockedStream) {
  const { stream, missing, isLeast = false, living, seen, at, rejected } = blocked
  const rows = toApprove(blocked)
  return {
    stream,
    missing,
    is_least: isLeast,
    living,
    listed: seen,
    since: at,
    rejected,
    approve: rows === null ? null : `tidemark deletions approve ${stream} --rows ${rows}`,
  }
}
