// One search for vanished records: what it knows, when it leaves rows to a reconcile or to a person, and the looks at single records (P7).

import type { JsonObject } from '../../json/json.ts'
import { isFlaggedDeleted, readRecords } from '../../streams/record.ts'
import { count, plural } from '../../util/text.ts'
import type { ReadingContext } from '../perform-run.ts'
import { doubtfulWith, type Gone, type ShownCounts } from '../ports/audits.ts'
import type { Run } from '../ports/store.ts'
import { openShownKeys } from './shown-keys.ts'

/** When more are missing, the whole list is compared before any of them is marked. */
export const mostAtOnce = 12
const looksAtOnce = 4

export type Search = Awaited<ReturnType<typeof openSearch>>

export const openSearch = async (context: ReadingContext, run: Run<'deletions'>, counts: ShownCounts) => ({
  ...context,
  run,
  keyField: context.stream.keyFields[0] ?? '',
  listed: openShownKeys(context.source),
  /** How many keys the list should show. */
  counts,
  /** How many rows there are, and how many of them the current round of the sweep found missing. */
  living: counts.living,
  missing: 0,
  marked: 0,
  /** What earlier searches left: whether deletions are blocked, and how many rows they marked. */
  before: await run.shown.beforehand(),
  /** Rows that were missing or older here, and were written from the list. */
  brought: 0,
  isSweptWhole: false,
  /** More are missing than this run marks. */
  wantsReconcile: false,
})

/**
 * What becomes of so many missing rows, before any of them is marked (P7): nothing while a person has to decide, and these may be among
 * them; too many at once prove nothing, even if each of them is gone when asked for; many are left to a reconcile. Returns why nothing is
 * marked; null: they are few.
 */
export async function decide(search: Search, missing: number): Promise<string | null> {
  const { run, stream, living, before } = search
  if (missing <= 0) return null
  const review = `To review ${before.isBlocked ? 'the deletions' : 'them'}: tidemark deletions list ${stream.name}`
  if (before.isBlocked) return `blocked: nothing is marked until somebody has decided. ${review}`
  const shortfall = { living, missing, seen: Math.max(0, living - missing), isLeast: true }
  const tooMany = doubtfulWith(shortfall, before.marked)
  if (tooMany === null && missing <= mostAtOnce) return null
  if (tooMany !== null) await run.shown.block(tooMany)
  search.wantsReconcile = true
  await run.findings.wantReconcile()
  return tooMany !== null
    ? `blocked: the list lacks at least ${count(missing)} of ${count(living)} rows. ${review}`
    : `the list lacks ${plural(missing, 'row')} or more; none was marked, a reconcile compares the whole list first`
}

// ── suspects ─────────────────────────────────────────────────────────────────────────────────────────────────

type Looked = { readonly alive: number; readonly unclear: number }

/** Looks at each of these records, and marks those that are gone, unless a person has to decide about deletions (P7). */
export async function lookAt(search: Search, keys: readonly bigint[]): Promise<Looked> {
  if (keys.length === 0) return { alive: 0, unclear: 0 }
  const { run, source, signal } = search
  const askedAt = await run.shown.clock()
  const gone: Gone[] = []
  const found: JsonObject[] = []
  const there: string[] = []
  for (let start = 0; start < keys.length; start += looksAtOnce) {
    signal.throwIfAborted()
    const some = keys.slice(start, start + looksAtOnce)
    const answers = await Promise.all(some.map((key) => source.lookup?.(String(key), signal)))
    for (const [index, answer] of answers.entries()) {
      const key = String(some[index])
      if (answer === 'gone')
        gone.push({ key, evidence: 'the list lacked it, and asked for by its id it is gone' })
      else if (typeof answer === 'object') {
        found.push(answer.found)
        if (!isFlaggedDeleted(answer.found)) there.push(key)
      }
    }
  }
  await bring(search, found)
  await run.shown.noteThere(there)
  const mayMark = gone.length > 0 && !search.before.isBlocked
  const areGone = mayMark && (found.length > 0 || (await search.listed.areThere(signal)))
  if (areGone) search.marked += await run.shown.markGone(gone, askedAt)
  return { alive: there.length, unclear: keys.length - found.length - (areGone ? gone.length : 0) }
}

/** Writes what a look has shown. */
export async function bring({ run, stream }: Search, found: readonly JsonObject[]): Promise<void> {
  if (found.length === 0) return
  await run.pages.commit(readRecords(found, stream.keyFields, stream.versionFields), null)
}
