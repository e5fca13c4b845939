// The sweep: compares slices of the list with the rows, a part in each run, and goes on where the last one stopped.

import { readRecords } from '../../streams/record.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { keyListing, listByKey } from '../lists/by-key.ts'
import type { Slice } from '../ports/audits.ts'
import { leaveToReconcile, lookAt, mostAtOnce, type Search, tooMany } from './search.ts'

const keysAtOnce = 1_000

/** Goes on where the last sweep stopped, and begins anew behind the end of the list. Returns why nothing was marked; null: no such reason. */
export async function sweep(search: Search, withDeleted: boolean, mostPages: number): Promise<string | null> {
  const { run } = search
  run.progress.step('Compare slices of the list')
  let pagesLeft = mostPages
  let { after, beganAt } = await run.shown.sweep()
  if (beganAt === null && after === null) await run.shown.moveSweep(null)
  for (;;) {
    const from = after
    const round = await sweepRound(search, withDeleted, from, pagesLeft)
    if (round.blocked !== null || !round.isAtEnd) return round.blocked
    search.isSweptWhole ||= from === null
    if (search.unclear === 0 && beganAt !== null) await run.shown.knownThrough(beganAt)
    await run.shown.moveSweep(null)
    pagesLeft -= round.pages
    if (from === null || pagesLeft <= 0) return null
    ;({ after, beganAt } = await run.shown.sweep())
  }
}

type Round = { readonly blocked: string | null; readonly isAtEnd: boolean; readonly pages: number }

/** What the list lacked of all its pages is looked at behind the last of them: before any row is marked, it is known that they are few (P7). */
async function sweepRound(
  search: Search,
  withDeleted: boolean,
  from: bigint | null,
  mostPages: number,
): Promise<Round> {
  const { run, signal } = search
  const listed = listByKey(keyListing(search), { from })
  const lacking: Slice[] = []
  let [after, pages, isAtEnd] = [from, 0, false]
  for (; pages < mostPages && !isAtEnd; pages++) {
    signal.throwIfAborted()
    const next = await listed.next()
    if (next.done && !next.value.isWhole) break
    isAtEnd = next.done === true
    const keys = next.done ? [] : next.value.keys
    const to = keys.at(-1) ?? null
    search.listed.show(keys)
    const slice = { after, to, listed: keys, withDeleted }
    const compared = await compareSlice(search, slice)
    if (compared.blocked !== null) return { blocked: compared.blocked, isAtEnd: false, pages }
    if (compared.isLacking) lacking.push(slice)
    if (next.done) break
    await bringWhatIsNew(search, next.value.records)
    after = to
  }
  for (const slice of lacking) await lookAtSlice(search, slice)
  if (!isAtEnd && after !== from) await run.shown.moveSweep(after, search.unclear > 0)
  return { blocked: null, isAtEnd, pages }
}

/** Writes what the list shows and no poll brought, such as records that were hidden while their versions were read. */
async function bringWhatIsNew(search: Search, records: RecordList): Promise<void> {
  const { run, stream } = search
  const page = readRecords(records, stream.keyFields, stream.versionFields)
  const { inserted, updated } = await run.pages.commit(page, null)
  page.release?.()
  search.brought += inserted + updated
}

type Compared = { readonly blocked: string | null; readonly isLacking: boolean }

async function compareSlice(search: Search, slice: Slice): Promise<Compared> {
  const { run } = search
  // The list showed nothing at all, which proves nothing: all rows count as missing.
  if (slice.after === null && slice.to === null)
    return { blocked: await tooMany(search, search.living), isLacking: false }
  const missing = await run.shown.countMissing(slice)
  if (missing.all === 0) return { blocked: null, isLacking: false }
  // Rows that the source had marked as deleted before do not count: that they go is no news.
  search.missing += missing.living
  // A person has to decide about blocked deletions, and these rows may be among them.
  if (search.missing > mostAtOnce || search.before.isBlocked)
    return { blocked: await leaveToReconcile(search, search.missing), isLacking: false }
  return { blocked: await tooMany(search, search.missing), isLacking: true }
}

async function lookAtSlice(search: Search, slice: Slice): Promise<void> {
  for (let { after } = slice; ; ) {
    const keys = await search.run.shown.missingKeys({ ...slice, after }, keysAtOnce)
    if (keys.length === 0) return
    await lookAt(search, keys)
    after = keys.at(-1) ?? null
  }
}
