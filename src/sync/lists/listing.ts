// Reads a set page by page while it changes, and knows when it has been read whole. Pure: pages in, next step out.
//
// A row that is deleted moves those behind it one place forward, onto a page that was read already: one pass proves
// nothing. What proves it is a count. At its end a pass knows how many rows the set held at that moment. When as many
// keys are known to have been there (seen by then, in any pass, and seen again in a later one), none was missed, whatever the
// order of the set (P6).

import { fingerprint, type Records } from '../../streams/record.ts'

export type SeenPage = {
  /** Records received, also those that cannot be rows. */
  readonly received: number
  readonly rows: readonly { readonly key: string; readonly version: bigint | null }[]
  /** How many records the upstream says there are on all pages; null: it does not say. */
  readonly total?: number | null
}

type PassEnd = {
  readonly pageNumber: number
  /** How many rows the set held then. */
  readonly total: number
  /** How long its pages were; null: there was only one. */
  readonly pageSize: number | null
  /** The highest version seen by then. */
  readonly highest: bigint | null
}

type ListingOptions = {
  readonly askedSize: number
  /** Some lists know no pages: one answer is all there is. */
  readonly hasPages?: boolean
  readonly maxPasses: number
  /** The set is sorted by row version, and only what is at or below this one is wanted. */
  readonly ceiling: bigint | null
}

/** With what each pass begins. */
const passBegins = {
  /** Within the pass. */
  page: 1,
  total: 0,
  /** Records on the pages of this pass. */
  received: 0,
  /** Records on the longest of them. */
  longest: 0,
  lastPage: null as SeenPage | null,
  /** A page that came twice, or held more than was asked for. A page far behind any end has been asked for, to know why. */
  doubtful: null as SeenPage | null,
}

const newListing = ({ hasPages = true, ...options }: ListingOptions) => ({
  ...options,
  ...passBegins,
  hasPages,
  pass: 1,
  /** Through all passes. */
  pageNumber: 1,
  pageSize: options.askedSize,
  highest: null as bigint | null,
  /** Perhaps the first page comes whichever is asked for. Then this record of it also comes as the second page of one record. */
  firstKey: null as string | null,
  /** Behind a last page that was not full, the record that would come next has been asked for. */
  looksBehind: false,
  /** A page that was not full had a successor, so an empty one need not be the end. */
  hasGaps: false,
  ends: [] as readonly PassEnd[],
  /** Ends of passes around which the keys are still to be counted, the newest first. */
  uncounted: [] as readonly PassEnd[],
})
export type Listing = Readonly<ReturnType<typeof newListing>>

type PageQuestion = { readonly kind: 'page'; readonly page: number; readonly pageSize: number }
/** What a listing waits for. */
export type ListingQuestion = PageQuestion | { readonly kind: 'count'; readonly around: number }
export type ListingStep =
  | ListingQuestion
  /** A pass is over, and nothing is proven yet. */
  | { readonly kind: 'passed' }
  /** Every row that was there is read, up to this version. */
  | { readonly kind: 'complete'; readonly highest: bigint | null; readonly ignoresPaging: boolean }
  | { readonly kind: 'uncertain'; readonly passes: number }
  /** `Page` changes nothing: this page is all that is ever shown, and perhaps there is more. */
  | { readonly kind: 'only page'; readonly page: SeenPage }

export type ListingMove = { readonly listing: Listing; readonly step: ListingStep }
type AskedPage = ListingMove & { readonly step: PageQuestion }

/** An offset behind the end of any list, which still fits into an int32. */
const farOffset = 2_000_000_000

export const beginListing = (options: ListingOptions): AskedPage => askPage(newListing(options))

/** The first page is there already, and holds something. */
export function continueListing(
  options: Pick<ListingOptions, 'askedSize' | 'maxPasses'>,
  first: SeenPage,
): AskedPage {
  const listing = newListing({ ...options, ceiling: null })
  return isTooLong(listing, first) ? askFarPage(listing, first) : askPage(turnPage(withPage(listing, first)))
}

export function sawPage(listing: Listing, page: SeenPage): ListingMove {
  const { lastPage, doubtful, looksBehind } = listing
  if (!listing.hasPages) return { listing, step: complete(highestOf(null, page, listing.ceiling)) }
  if (doubtful) return sawFarPage({ ...listing, doubtful: null }, doubtful, page)
  if (listing.firstKey !== null)
    return sawSecondRecord({ ...listing, firstKey: null }, listing.firstKey, page)
  if (looksBehind) return sawBehind({ ...listing, looksBehind: false }, page)
  if (page.received === 0) return sawEmptyPage(listing)
  return isTooLong(listing, page) || (lastPage && isRepeatOf(page, lastPage))
    ? askFarPage(listing, page)
    : countPage(listing, page)
}

/** Is this a page of the upstream's own size, or is paging ignored? */
const isTooLong = ({ lastPage, pageSize }: Listing, page: SeenPage): boolean =>
  lastPage === null && page.received > pageSize

/** From far behind any end. The same again: paging is ignored, or the last page comes for ever. Otherwise rows moved, or pages are long. */
function sawFarPage(listing: Listing, doubtful: SeenPage, far: SeenPage): ListingMove {
  const { lastPage, ceiling } = listing
  if (lastPage !== null) return sawFarRecord(listing, doubtful, far)
  if (!isRepeatOf(far, doubtful)) return countPage(listing, doubtful)
  // Paging is ignored: everything came in one answer, and is as of one moment.
  return { listing, step: complete(highestOf(null, doubtful, ceiling), true) }
}

/** A page came again, and then a record was asked for far behind any end. */
function sawFarRecord(listing: Listing, again: SeenPage, far: SeenPage): ListingMove {
  if (far.received === 0) return countPage(listing, again)
  const [first, last, shown] = [again.rows.at(0)?.key, again.rows.at(-1)?.key, far.rows[0]?.key]
  if (listing.page === 2 && far.received === 1 && shown === first && first !== last && shown !== undefined)
    return {
      listing: { ...listing, firstKey: shown, pageNumber: listing.pageNumber + 1 },
      step: { kind: 'page', page: 2, pageSize: 1 },
    }
  const isLastPage = far.received === 1 ? shown === last : isRepeatOf(far, again)
  return isLastPage
    ? endPass({ ...listing, total: listing.total + cutOff(listing, again) })
    : endUnknown(listing)
}

/** What the last page lacked when it came first, and showed when it came again: it may have been cut. */
function cutOff({ lastPage, ceiling }: Listing, again: SeenPage): number {
  const before = lastPage ? wantedKeys(lastPage, ceiling).length : 0
  return Math.max(0, wantedKeys(again, ceiling).length - before)
}

/** Some services begin anew far behind the end, and rows may have moved so that a page looked like the first. */
const sawSecondRecord = (listing: Listing, firstKey: string, { rows }: SeenPage): ListingMove =>
  rows[0]?.key === firstKey && listing.lastPage
    ? { listing, step: { kind: 'only page', page: listing.lastPage } }
    : endUnknown(listing)

/** Rows had moved, or the last page was cut: nobody knows how much is behind it. */
const endUnknown = (listing: Listing): ListingMove => endPass({ ...listing, total: Number.POSITIVE_INFINITY })

function sawEmptyPage(listing: Listing): ListingMove {
  const { lastPage, pageSize } = listing
  if (!lastPage || lastPage.received === 0) return endPass(listing)
  if (lastPage.received === pageSize) return goBehindEmptyPage(listing)
  const shown = (listing.page - 2) * pageSize + lastPage.received
  return {
    listing: { ...listing, looksBehind: true, pageNumber: listing.pageNumber + 1 },
    step: { kind: 'page', page: shown + 1, pageSize: 1 },
  }
}

/** If a record is there, the last page was cut. */
const sawBehind = (listing: Listing, page: SeenPage): ListingMove =>
  goBehindEmptyPage(page.received > 0 ? missSome(listing) : listing)

const goBehindEmptyPage = (listing: Listing): ListingMove =>
  listing.hasGaps ? askPage({ ...turnPage(listing), lastPage: { received: 0, rows: [] } }) : endPass(listing)

/** The set held more than the pass has counted. */
const missSome = (listing: Listing): Listing => ({
  ...listing,
  total: listing.total + Math.max(1, listing.pageSize - (listing.lastPage?.received ?? 0)),
  hasGaps: true,
})

function countPage(listing: Listing, page: SeenPage): ListingMove {
  const counted = withPage(listing, page)
  const goesBeyond = page.rows.some(({ version }) => !isWanted(version, listing.ceiling))
  return goesBeyond ? endPass(counted) : askPage(turnPage(counted))
}

function withPage(listing: Listing, page: SeenPage): Listing {
  const { lastPage, pageSize, longest: full } = listing
  // A page that was not full and yet had a successor: rows came in between and were not seen, or are left out of pages.
  const lackedByLast = lastPage ? full - lastPage.received : 0
  // One that is longer than all before it shows that those were not full either.
  const lackedByEach = lastPage ? Math.max(0, page.received - full) : 0
  const missed = lackedByLast + lackedByEach * (listing.page - 1)
  return {
    ...listing,
    // Where a cap shortens pages, the upstream may still skip by the size that was asked for. So go on by the size received.
    pageSize: lastPage ? pageSize : page.received,
    total: listing.total + wantedKeys(page, listing.ceiling).length + missed,
    received: listing.received + page.received,
    longest: Math.max(full, page.received),
    highest: highestOf(listing.highest, page, listing.ceiling),
    lastPage: page,
    hasGaps: listing.hasGaps || missed > 0,
  }
}

/** The answer to a `count` step: how many keys were seen both by the end of that pass and again after it. */
export function sawCount(listing: Listing, seenAround: number): ListingMove {
  const [asked, next] = listing.uncounted
  const sinceThen = listing.ends.slice(asked ? listing.ends.indexOf(asked) : 0)
  if (asked && seenAround >= asked.total && areAlike(sinceThen))
    return { listing, step: complete(asked.highest) }
  if (!next) return nextPass(listing)
  return {
    listing: { ...listing, uncounted: listing.uncounted.slice(1) },
    step: { kind: 'count', around: next.pageNumber },
  }
}

/** Where pages were now so long, now so, and nobody knows why, a pass may have counted fewer rows than there are. */
const areAlike = (ends: readonly PassEnd[]): boolean =>
  new Set(ends.flatMap(({ pageSize }) => pageSize ?? [])).size < 2

/** Goes on after `passed`. */
export function nextPass(listing: Listing): ListingMove {
  if (listing.pass >= listing.maxPasses) return { listing, step: { kind: 'uncertain', passes: listing.pass } }
  return askPage({
    ...listing,
    pass: listing.pass + 1,
    pageNumber: listing.pageNumber + 1,
    pageSize: listing.askedSize,
    ...passBegins,
  })
}

/** What counts on a page: a key that one answer shows twice is one row. */
export function wantedKeys(page: SeenPage, ceiling: bigint | null): readonly string[] {
  const keys = new Set<string>()
  for (const { key, version } of page.rows) if (isWanted(version, ceiling)) keys.add(key)
  return [...keys]
}

function endPass(listing: Listing): ListingMove {
  const uncounted = listing.ends.toReversed()
  const [newest] = uncounted
  const { pageNumber, received, highest } = listing
  const pageSize = received > listing.pageSize ? listing.pageSize : null
  const total = Math.max(listing.total, leastTotal(listing))
  const end: PassEnd = { pageNumber, total, pageSize, highest }
  // A pass that saw nothing would be proven by any count.
  const ended: Listing = {
    ...listing,
    ends: end.total > 0 ? [...listing.ends, end] : listing.ends,
    uncounted,
  }
  if (newest) return { listing: ended, step: { kind: 'count', around: newest.pageNumber } }
  if (end.total === 0) return { listing: ended, step: complete(null) }
  return { listing: ended, step: { kind: 'passed' } }
}

/**
 * A list that ends behind a full page, although the upstream says that there are many more records: pages perhaps go no further. Behind a
 * page that is not full, or that lacks records, such a number proves nothing: it may count what the user may not see.
 */
function leastTotal({ lastPage, received, pageSize, hasGaps, ceiling }: Listing): number {
  const total = lastPage?.total ?? 0
  const isCutOff = lastPage?.received === pageSize && !hasGaps && ceiling === null
  return isCutOff && total > received + pageSize ? total : 0
}

const askPage = (listing: Listing): AskedPage => ({
  listing,
  step: { kind: 'page', page: listing.page, pageSize: listing.pageSize },
})

function askFarPage(listing: Listing, doubtful: SeenPage): AskedPage {
  // Behind a page that came again, one record tells: where only the first page ever comes, it is the first record of all.
  const pageSize = listing.lastPage ? 1 : Math.max(listing.pageSize, doubtful.received)
  return {
    listing: { ...listing, doubtful, pageNumber: listing.pageNumber + 1 },
    step: { kind: 'page', page: Math.floor(farOffset / pageSize), pageSize },
  }
}

const turnPage = (listing: Listing): Listing => ({
  ...listing,
  page: listing.page + 1,
  pageNumber: listing.pageNumber + 1,
})

const complete = (highest: bigint | null, ignoresPaging = false): ListingStep => ({
  kind: 'complete',
  highest,
  ignoresPaging,
})

function highestOf(known: bigint | null, page: SeenPage, ceiling: bigint | null): bigint | null {
  let highest = known
  for (const { version } of page.rows)
    if (version !== null && isWanted(version, ceiling) && (highest === null || version > highest))
      highest = version
  return highest
}

const isWanted = (version: bigint | null, ceiling: bigint | null): boolean =>
  ceiling === null || version === null || version <= ceiling

/**
 * An answer as a listing sees it. A record that cannot be a row has its content for a key, so that it is counted once like the others. It
 * is put first, because its place in the answer is not known and it must not be taken for the last.
 */
export const seenPage = (
  received: number,
  { rows, rejected }: Records,
  total: number | null = null,
): SeenPage => ({
  received,
  total,
  rows:
    rejected.length === 0
      ? rows
      : [...rejected.map(({ record }) => ({ key: fingerprint(record), version: null })), ...rows],
})

/** Half of both is enough: the source may have changed between the two. */
function isRepeatOf(page: SeenPage, earlier: SeenPage): boolean {
  const known = new Set(earlier.rows.map(({ key }) => key))
  const again = page.rows.filter(({ key }) => known.has(key)).length
  const longer = Math.max(page.rows.length, earlier.rows.length)
  return page.received > 0 && earlier.received > 0 && 2 * again >= longer
}
