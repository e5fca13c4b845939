// The sweep: compares slices of the list with the rows, a part in each run, and goes on where the last one stopped. What the list lacks
// becomes a suspect. Before the first of them is marked, the whole list has been compared, so that it is known that they are few (P7).

import { readRecords } from '../../streams/record.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { keyListing, listByKey } from '../lists/by-key.ts'
import type { Slice } from '../ports/audits.ts'
import { batches } from '../reconcile/prove-gone.ts'
import { decide, lookAt, type Search } from './search.ts'

/** So many pages of the list are compared in one run. */
const mostPages = 25
const keysAtOnce = 1_000

/**
 * Goes on where the last sweep stopped, and begins anew behind the end of the list. `ranksAgree`: they have told that few are missing in
 * all, so one page is enough, and suspects are looked at at once. Returns why nothing was marked; null: no such reason.
 */
export async function sweep(
  search: Search,
  withDeleted: boolean,
  ranksAgree: boolean,
): Promise<string | null> {
  const { run } = search
  run.progress.step('Compare slices of the list')
  for (let pagesLeft = ranksAgree ? 1 : mostPages; pagesLeft > 0; ) {
    if ((await run.shown.sweep()).after === null) await run.shown.moveSweep(null)
    const { after: from, beganAt } = await run.shown.sweep()
    search.missing = await run.shown.countSuspects()
    const part = await sweepPart(search, withDeleted, from, pagesLeft)
    // What the reconcile or a person decides about is compared from the beginning.
    if (part.blocked !== null) await run.shown.moveSweep(null)
    if (part.blocked !== null) return part.blocked
    const unclear = part.isAtEnd || ranksAgree ? await lookAtSuspects(search) : 0
    if (!part.isAtEnd) return null
    search.isSweptWhole ||= from === null
    if (unclear === 0 && beganAt !== null) {
      await run.shown.knownThrough(beganAt)
      await liftBlock(search)
    }
    await run.shown.moveSweep(null)
    if (from === null) return null
    pagesLeft -= part.pages
  }
  return null
}

/**
 * The list shows again what was missing, or each of it has been marked: nobody has to decide any more. A block takes
 * the beginning from a round, so all of this one is later. While lists hide rows whose records are there, these may be what it is about.
 */
async function liftBlock({ run, before }: Search): Promise<void> {
  if (before.isBlocked && (await run.shown.hiddenKeys(1)).length === 0) await run.shown.block(null)
}

type Part = { readonly blocked: string | null; readonly isAtEnd: boolean; readonly pages: number }

async function sweepPart(
  search: Search,
  withDeleted: boolean,
  from: bigint | null,
  pagesLeft: number,
): Promise<Part> {
  const { run, signal } = search
  const listed = listByKey(keyListing(search), from)
  let [after, pages, isAtEnd] = [from, 0, false]
  for (; pages < pagesLeft && !isAtEnd; pages++) {
    signal.throwIfAborted()
    const next = await listed.next()
    if (next.done && !next.value.isWhole) break
    isAtEnd = next.done === true
    const keys = next.done ? [] : next.value.keys
    const to = keys.at(-1) ?? null
    search.listed.show(keys)
    const blocked = await compareSlice(search, { after, to, listed: keys, withDeleted })
    if (blocked !== null) return { blocked, isAtEnd: false, pages }
    if (next.done) break
    await bringWhatIsNew(search, next.value.records)
    after = to
  }
  if (!isAtEnd && after !== from) await run.shown.moveSweep(after)
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

/** Returns why the rows that the slice lacks are not looked at; null: they are suspects now, or there are none. */
async function compareSlice(search: Search, slice: Slice): Promise<string | null> {
  const { run } = search
  // The list showed nothing at all, which proves nothing: all rows count as missing.
  if (slice.after === null && slice.to === null) return await decide(search, search.living)
  const missing = await run.shown.countMissing(slice)
  if (missing.all === 0) return null
  // Rows that the source had marked as deleted before do not count: that they go is no news.
  search.missing += missing.living
  const blocked = await decide(search, search.missing)
  if (blocked === null) await run.shown.suspect(slice)
  return blocked
}

/** Returns of how many it was not told whether they are there. */
async function lookAtSuspects(search: Search): Promise<number> {
  let unclear = 0
  for await (const keys of batches((after) => search.run.shown.suspects(after, keysAtOnce)))
    unclear += (await lookAt(search, keys.map(BigInt))).unclear
  return unclear
}
