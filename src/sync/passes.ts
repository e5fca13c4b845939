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
  type Decision,
  decide,
  end,
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
    return takeBackProof(reading, versionsOf(page))
  const seen = { pageNumber: listing.pageNumber, keys: wantedKeys(page, listing.ceiling) }
  return { ...askListed(reading, since, sawPage(listing, page)), seen }
}

export function sawSeenAround(reading: Reading, count: number): Decision {
  if (reading.phase.name !== 'listing') throw new Error('A count came that nobody asked for')
  const { since, listing } = reading.phase
  return askListed(reading, since, sawCount(listing, count))
}

/** The same page once more. */
export function askAgain(reading: Reading, { since, listing }: ListingPhase): Decision {
  return askListed(reading, since, {
    listing,
    step: { kind: 'page', page: listing.page, pageSize: listing.pageSize },
  })
}

/** The proof was wrong, so nothing that this run concluded from it holds. */
export function takeBackProof(reading: Reading, versions: readonly bigint[]): Decision {
  const { from, largePageSize } = reading.options
  const evidence = `a page sorted by RowVersion held ${outOfOrder(versions)}`
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
      return decide(here, {
        kind: 'ask',
        request: { since, page: step.page, pageSize: step.pageSize, sorts: sortsOf(here) },
      })
    case 'count':
      return decide(here, step)
    case 'passed':
      return askListed(here, since, nextPass(listing))
    case 'uncertain':
      return sawUncertain(here, listing, step.passes)
    case 'complete': {
      const reached = step.highest === null || step.highest < here.cursor ? here.cursor : step.highest
      const moved = advance(here, reached)
      const learnt = step.ignoresPaging ? [pagingIgnored(listing)] : []
      return { ...(listing.ceiling === null ? end(moved) : lookAhead(moved)), learnt }
    }
  }
}

function sawUncertain(reading: Reading, listing: Listing, passes: number): Decision {
  // Rows beyond must not wait for it.
  if (listing.ceiling !== null) return lookAhead({ ...reading, cursor: listing.ceiling })
  const why = listing.hasGaps
    ? `pages were not full in ${passes} passes although others followed: rows came in between, or the upstream leaves some out`
    : `the source changed during each of ${passes} passes`
  return decide(
    { ...reading, phase: { name: 'ended' } },
    {
      kind: 'end',
      isComplete: false,
      note: `${why}: everything is read, the position waits for a quiet moment`,
    },
  )
}

const pagingIgnored = ({ askedSize }: Listing) => ({
  name: 'paging',
  value: 'ignored',
  evidence: `asked for ${askedSize} records it served more, and the same on a page far behind`,
})

function outOfOrder(versions: readonly bigint[]): string {
  const at = versions.findIndex((version, index) => index > 0 && version < (versions[index - 1] ?? version))
  return `${versions[at]} behind ${versions[at - 1]}`
}
