// Lists a stream whole through its list operation, while it changes, until the listing is proven complete. The caller says what to do
// with a page; the run remembers which keys were shown.

import { fingerprint, type Records } from '../../streams/record.ts'
import type { RecordList } from '../../wire/record-page.ts'
import { detected } from '../capabilities.ts'
import { openPipeline } from '../pipeline.ts'
import type { Source } from '../ports/source.ts'
import type { RunProgress, SeenKeys } from '../ports/store.ts'
import { highest } from '../versions.ts'
import { KeyOrderBroken, type KeyOrderContext, keyListing, keyOrderOf, listByKey } from './by-key.ts'
import {
  beginListing,
  type ListingMove,
  nextPass,
  type SeenPage,
  sawCount,
  sawPage,
  seenPage,
  wantedKeys,
} from './listing.ts'
import { confirmEmpty } from './page-ends.ts'

export type ListWholeContext = {
  readonly source: Pick<Source, 'list' | 'listHasPages'>
  readonly run: { readonly seen: SeenKeys; readonly progress: Pick<RunProgress, 'step'> }
  readonly read: (records: RecordList) => Records | Promise<Records>
  readonly pageSize: number
  readonly signal: AbortSignal
  /** Also notes the content of records, so that two with one key are told from one that came twice. */
  readonly tellsTwins?: boolean
  /** Asked after a pass, when its pages are done with: there is nothing left that another pass could prove. */
  readonly isEnough?: () => Promise<boolean>
}
export type Listed = {
  /** Every record that was there was shown. */
  readonly isProven: boolean
  readonly passes: number
  readonly received: number
  /** What shows that the list is not whole, although its passes agreed. */
  readonly lacks?: string
}

/** Why it is not proven that every record was shown. */
export const whyUnproven = ({ lacks, passes }: Listed): string =>
  lacks ?? `the list changed while it was read, ${passes} times in a row`

const maxPasses = 6

/** The records of a page may be used only until `eachPage` is through: then their memory is given back. */
export async function listWhole(
  context: ListWholeContext,
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  const { source, run, signal } = context
  const pages = openPipeline()
  let received = 0
  // Page 1 begins the listing: what later pages showed must not be noted before it.
  let lastSeen: Promise<void> = Promise.resolve()
  const show = async (page: Records, before: Promise<void>, see: () => Promise<void>) => {
    await eachPage(page)
    await before
    await see()
    page.release?.()
  }
  let [pass, passBegan] = [0, 1]
  let move: ListingMove = beginListing({
    askedSize: context.pageSize,
    hasPages: source.listHasPages,
    maxPasses,
    ceiling: null,
  })
  try {
    for (;;) {
      const { listing, step } = move
      switch (step.kind) {
        case 'page': {
          signal.throwIfAborted()
          run.progress.step(listing.pass === 1 ? 'List everything' : `List everything, pass ${listing.pass}`)
          const { records, bytes, total } = await confirmEmpty(() => source.list(step, signal))
          received += records.length
          const page = await context.read(records)
          const seen = seenPage(records.length, page, total)
          if (listing.pass !== pass) [pass, passBegan] = [listing.pass, listing.pageNumber]
          const began = context.tellsTwins ? passBegan : null
          move = sawPage(listing, seen)
          if (records.length === 0) break
          const before = lastSeen
          await pages.start(() => {
            const showing = show(page, before, () => see(run.seen, listing.pageNumber, { seen, page, began }))
            lastSeen = showing.catch(() => {})
            return showing
          }, bytes)
          break
        }
        case 'passed':
          if (context.isEnough) await pages.settled()
          if (await context.isEnough?.()) return { isProven: true, passes: listing.pass, received }
          move = nextPass(listing)
          break
        case 'count':
          await pages.settled()
          move = sawCount(listing, await run.seen.countAround(step.around))
          if (isPassOver(listing, move) && (await context.isEnough?.()))
            return { isProven: true, passes: listing.pass, received }
          break
        case 'only page': {
          await pages.settled()
          const isCut = await isCutOff(context, step.page)
          return { isProven: !isCut, passes: listing.pass, received, ...(isCut && { lacks: onlyOnePage }) }
        }
        case 'uncertain':
        case 'complete':
          await pages.settled()
          return { isProven: step.kind === 'complete', passes: listing.pass, received }
      }
    }
  } finally {
    await pages.settled()
  }
}

/** And it has proven nothing. */
const isPassOver = ({ pass }: ListingMove['listing'], { listing, step }: ListingMove): boolean =>
  listing.pass !== pass || step.kind === 'uncertain'

const onlyOnePage =
  'the list shows its first page whichever is asked for, and there may be more records than are on it'

/** The only page that a list ever shows. Rights may have shortened it, and then one twice as long shows more. */
async function isCutOff(
  { source, read, pageSize, signal }: ListWholeContext,
  only: SeenPage,
): Promise<boolean> {
  if (only.received >= pageSize) return true
  const known = new Set(only.rows.map(({ key }) => key))
  try {
    const { records } = await source.list({ page: 1, pageSize: 2 * pageSize }, signal)
    const longer = await read(records)
    const isLonger = longer.rows.some(({ key }) => !known.has(key))
    longer.release?.()
    return isLonger
  } catch (error) {
    signal.throwIfAborted()
    // Some take no pages as long as that. Any other failure tells nothing, so the list is not believed.
    return !(error instanceof Error && 'status' in error && refusals.includes(error.status))
  }
}
const refusals: readonly unknown[] = [400, 413, 422]

async function see(
  keys: SeenKeys,
  pageNumber: number,
  shown: { readonly seen: SeenPage; readonly page: Records; readonly began: number | null },
): Promise<void> {
  const { seen, page, began } = shown
  if (began === null) return await keys.add(pageNumber, wantedKeys(seen, null))
  const contents = new Map(page.rows.map((row) => [row.key, fingerprint(row.record)]))
  await keys.add(pageNumber, [...contents.keys()], { fingerprints: [...contents.values()], passBegan: began })
}

/** By key where the list honours that, else page by page. If listing by key breaks off, what it has shown stays good. */
export async function listEverything(
  context: EverythingContext,
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  // Page by page, nothing shows that a list was cut before it was paged. So an order that was ignored once is tested again (P13).
  const { order, filters } = await keyOrderOf(context, true)
  const mayFilter = filters === 'honoured' || filters === 'undecided'
  if (order !== 'honoured') return await listPages({ ...context, mayFilter }, eachPage)
  try {
    return await listWholeByKey(context, eachPage)
  } catch (error) {
    if (!(error instanceof KeyOrderBroken)) throw error
    await context.run.findings.learn([
      { ...detected('key_order', 'ignored', error.message), testedAt: context.now() },
    ])
    return await listPages({ ...context, mayFilter }, eachPage)
  }
}

type EverythingContext = Omit<ListWholeContext, 'isEnough'> & KeyOrderContext

/** Page by page, and a look at what is behind the highest key, unless filters are known to be ignored or refused. */
async function listPages(
  context: EverythingContext & { readonly mayFilter: boolean },
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  let highestKey: bigint | null = null
  const listed = await listWhole(context, (page) => {
    highestKey = highest(
      page.rows.flatMap(({ key }) => (/^\d+$/.test(key) ? BigInt(key) : [])),
      highestKey,
    )
    return eachPage(page)
  })
  const looksBehind = listed.isProven && context.mayFilter
  const lacks = looksBehind && highestKey !== null ? await whatIsBehind(context, highestKey) : null
  return lacks === null ? listed : { ...listed, isProven: false, lacks }
}

/** If the upstream cuts the list, paging shows only its beginning. Asked for what is above the highest key shown, it shows others. */
async function whatIsBehind(context: EverythingContext, key: bigint): Promise<string | null> {
  const { run } = context
  const { position } = run.state
  run.progress.step('Look behind the end of the list')
  let after = key
  for (let page = 0; page < mostPagesBehind; page++) {
    const { records } = await keyListing(context).ask({
      after,
      page: 1,
      pageSize: page === 0 ? fewBehind : context.pageSize,
    })
    const { rows } = await context.read(records)
    const behind = rows.filter((row) => BigInt(row.key) > after)
    // A record that came since does not count: its version was not read yet. Behind it may be one that does.
    const left = behind.find(({ version }) => version !== null && version <= position)
    if (left)
      return `the list ended at record ${key}, and shows record ${left.key} when it is asked for those above: it is cut, and the upstream has to show all of it`
    if (behind.length === 0) {
      // Rights may have emptied a page of one record: what does the list show from its other end?
      const highestShown = page === 0 ? await highestOrNone(context) : null
      if (highestShown === null || highestShown <= after) return null
      after = highestShown - 1n
      continue
    }
    after = behind.reduce((last, row) => (BigInt(row.key) > last ? BigInt(row.key) : last), after)
  }
  return `the list ended at record ${key}, and shows more and more when it is asked for those above: nobody knows what it lacks`
}

/** None where the list refuses to be sorted. */
const highestOrNone = (context: EverythingContext): Promise<bigint | null> =>
  keyListing(context)
    .askHighest()
    .catch((error) => {
      if (error instanceof KeyOrderBroken) return null
      throw error
    })

/** So many pages hold what comes in a while even where much is written. */
const mostPagesBehind = 5
const fewBehind = 10

/** In the order of the keys no change of other records can hide one, and one pass is enough. */
async function listWholeByKey(
  context: EverythingContext,
  eachPage: (page: Records) => Promise<void>,
): Promise<Listed> {
  const { run } = context
  run.progress.step('List everything, by key')
  const pages = listByKey(keyListing(context))
  let received = 0
  for (let number = 1; ; number++) {
    const next = await pages.next()
    if (next.done) return { isProven: next.value.isWhole, passes: 1, received }
    const { records } = next.value
    received += records.length
    const page = await context.read(records)
    await eachPage(page)
    await run.seen.add(number, wantedKeys(seenPage(records.length, page), null))
    page.release?.()
  }
}
