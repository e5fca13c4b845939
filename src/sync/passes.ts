// Reading page by page where nothing sorts: in one answer if there is such a page size, in passes otherwise. Also the rows of one
// version that no page holds. Pure; listing.ts knows when a listing is proven complete.

import {
  beginListing,
  type Listing,
  type ListingMove,
  nextPass,
  type SeenPage,
  sawCount,
  sawPage,
  wantedKeys,
} from './listing.ts'
import {
  advance,
  ask,
  type Decision,
  decide,
  end,
  highest,
  lookAhead,
  type Phase,
  type Reading,
  sortsOf,
  versionsOf,
} from './reading.ts'
import { isAscending } from './sorting-proof.ts'

type ListingPhase = Phase & { readonly name: 'listing' }

/** Where the order among the rows of one version is drawn anew each time, it takes many passes to see them all. */
const maxTiePasses = 24

/** `page` is what was served from `since` on, and perhaps not all. */
export function listOn(
  reading: Reading,
  { since, pageSize }: { readonly since: bigint; readonly pageSize: number },
  page: SeenPage,
  isPerhapsCut: boolean,
): Decision {
  const { maxPasses, largePageSize } = reading.options
  if (isPerhapsCut && page.received <= pageSize) return listAnew(reading, since, largePageSize)
  const { listing } = beginListing({ askedSize: pageSize, maxPasses, ceiling: null })
  return sawListed(reading, { name: 'listing', since, listing }, page)
}

/** All rows of one version, which sorted pages begin with. */
export function listTie(reading: Reading, since: bigint, version: bigint, pageSize: number): Decision {
  const begun = beginListing({ askedSize: pageSize, maxPasses: maxTiePasses, ceiling: version })
  return askListed(reading, since, begun)
}

export function sawListed(reading: Reading, phase: ListingPhase, page: SeenPage): Decision {
  const { listing, since } = phase
  if (listing.ceiling !== null && !isAscending(versionsOf(page)))
    return takeBackProof(reading, outOfOrder(versionsOf(page)))
  const seen = { pageNumber: listing.pageNumber, keys: wantedKeys(page, listing.ceiling) }
  return { ...askListed(reading, since, sawPage(listing, page)), seen }
}

export function sawSeenAround(reading: Reading, count: number): Decision {
  if (reading.phase.name !== 'listing') throw new Error('A count came that nobody asked for')
  const { since, listing } = reading.phase
  return askListed(reading, since, sawCount(listing, count))
}

/** The proof was wrong, so nothing that this run concluded from it holds. */
export function takeBackProof(reading: Reading, held: string): Decision {
  const { from, largePageSize } = reading.options
  const evidence = `a page sorted by RowVersion held ${held}`
  const back: Reading = { ...reading, position: from, cursor: from, sorting: 'ignored' }
  const learnt = [{ name: 'sorting', value: 'ignored', evidence }]
  return { ...listAnew(back, from, largePageSize), retreat: evidence, learnt }
}

function listAnew(reading: Reading, since: bigint, askedSize: number): Decision {
  const { maxPasses } = reading.options
  return askListed(reading, since, beginListing({ askedSize, maxPasses, ceiling: null }))
}

function askListed(reading: Reading, since: bigint, { listing, step }: ListingMove): Decision {
  const here: Reading = { ...reading, phase: { name: 'listing', since, listing } }
  switch (step.kind) {
    case 'page':
      return ask(here, { since, page: step.page, pageSize: step.pageSize, sorts: sortsOf(here) })
    case 'count':
      return decide(here, step)
    case 'passed':
      return askListed(here, since, nextPass(listing))
    case 'uncertain':
      return sawUncertain(here, listing, whyUncertain(listing, step.passes))
    case 'only page':
      return sawOnlyPage(here, listing, step.page)
    case 'complete': {
      const learnt = step.ignoresPaging ? [pagingIgnored(listing)] : []
      return { ...sawAll(here, listing, step.highest), learnt }
    }
  }
}

function sawAll(reading: Reading, { ceiling }: Listing, highest: bigint | null): Decision {
  const moved = advance(reading, highest === null || highest < reading.cursor ? reading.cursor : highest)
  return ceiling === null ? end(moved) : lookAhead(moved)
}

/**
 * An upstream that cuts its answers and has no other page can only be read by anybody if the lowest versions come first: such
 * a page is complete below its last version.
 */
function sawOnlyPage(reading: Reading, listing: Listing, page: SeenPage): Decision {
  const isWhole = page.received < Math.min(listing.askedSize, reading.largestAnswer)
  const versions = versionsOf(page)
  if (isWhole) return sawAll(reading, listing, highest(versions, null))
  const below = highest(versions, reading.cursor) - 1n
  const isSorted = isAscending(versions) && new Set(versions).size > 1
  if (isSorted && below > reading.cursor) return lookAhead(advance(reading, below))
  const why = 'the upstream shows the first page whichever is asked for, and perhaps there is more'
  return sawUncertain(reading, listing, `${why}: the position waits`)
}

function sawUncertain(reading: Reading, { ceiling }: Listing, note: string): Decision {
  // Rows beyond must not wait for it.
  if (ceiling !== null) return lookAhead({ ...reading, cursor: ceiling })
  return decide({ ...reading, phase: { name: 'ended' } }, { kind: 'end', isComplete: false, note })
}

function whyUncertain({ hasGaps }: Listing, passes: number): string {
  const why = hasGaps
    ? `pages were not full in ${passes} passes although others followed: rows came in between, or the upstream leaves some out (of shorter pages perhaps none: PAGE_SIZE)`
    : `the source changed during each of ${passes} passes`
  return `${why}: what was shown is read, the position waits for a quiet moment`
}

const pagingIgnored = ({ askedSize }: Listing) => ({
  name: 'paging',
  value: 'ignored',
  evidence: `asked for ${askedSize} records it served more, and the same on a page far behind`,
})

export function outOfOrder(versions: readonly bigint[]): string {
  const at = versions.findIndex((version, index) => index > 0 && version < (versions[index - 1] ?? version))
  return at < 0 ? 'no row version at all' : `${versions[at]} behind ${versions[at - 1]}`
}
