// Judges a listing of changes: listing.ts knows whether its passes have shown everything, this says up to which version. Pure.

import {
  type Listing,
  type ListingQuestion,
  type ListingStep,
  nextPass,
  type SeenPage,
  sawCount,
  sawPage,
  wantedKeys,
} from '../lists/listing.ts'
import { learnt } from './hypotheses.ts'
import { type Effects, type Event, highest, isAscending, type Reading, versionsOf } from './state.ts'

type ListingVerdict =
  | { readonly kind: 'question'; readonly question: ListingQuestion }
  | { readonly kind: 'complete'; readonly upTo: bigint }
  /** Nothing but the first page is ever shown, and it is complete below its last version. */
  | { readonly kind: 'sorted'; readonly below: bigint }
  | { readonly kind: 'uncertain'; readonly note: string }
export type SeenListing = {
  readonly reading: Reading<'scan' | 'tie'>
  /** Null after a count. */
  readonly page: SeenPage | null
  readonly listing: Listing
  readonly verdict: ListingVerdict
  readonly effects: Partial<Effects>
}

export function judgeListing(reading: Reading<'scan' | 'tie'>, event: Event): SeenListing {
  const { listing } = reading.state
  if (event.kind !== 'answer' && event.kind !== 'count')
    throw new Error(`A ${event.kind} came that no listing asked for`)
  const page = event.kind === 'answer' ? event.page : null
  const move = event.kind === 'answer' ? sawPage(listing, event.page) : sawCount(listing, event.keys)
  const { listing: now, step } = move.step.kind === 'passed' ? nextPass(move.listing) : move
  const seen = page && { pageNumber: listing.pageNumber, keys: wantedKeys(page, listing.ceiling) }
  const ignoresPaging = step.kind === 'complete' && step.ignoresPaging
  return {
    reading,
    page,
    listing: now,
    verdict: judgeStep(reading, now, step),
    effects: { seen, learnt: ignoresPaging ? [pagingIgnored(listing)] : [] },
  }
}

function judgeStep(reading: Reading, listing: Listing, step: ListingStep): ListingVerdict {
  switch (step.kind) {
    case 'page':
    case 'count':
      return { kind: 'question', question: step }
    case 'complete':
      return { kind: 'complete', upTo: atLeast(reading.cursor, step.highest) }
    case 'only page':
      return judgeOnlyPage(reading, listing, step.page)
    case 'passed':
    case 'uncertain':
      return { kind: 'uncertain', note: whyUncertain(listing) }
  }
}

/**
 * The upstream cuts its answers, and shows the first page whichever is asked for. Nobody could read such a stream unless the lowest
 * versions come first. So an ascending page is taken to be complete below its last version.
 */
function judgeOnlyPage({ cursor, largestAnswer }: Reading, listing: Listing, page: SeenPage): ListingVerdict {
  const versions = versionsOf(page)
  const isWhole = page.received < Math.min(listing.askedSize, largestAnswer)
  if (isWhole) return { kind: 'complete', upTo: highest(versions, cursor) }
  const below = highest(versions, cursor) - 1n
  const isSorted = isAscending(versions) && new Set(versions).size > 1
  if (isSorted && below > cursor) return { kind: 'sorted', below }
  const why = 'the upstream shows the first page whichever is asked for, and perhaps there is more'
  return { kind: 'uncertain', note: `${why}: the position waits` }
}

function whyUncertain({ hasGaps, pass, ends }: Listing): string {
  const [first, last] = [ends[0]?.highest ?? null, ends.at(-1)?.highest ?? null]
  const why = hasGaps
    ? `pages were not full in ${pass} passes although others followed: rows came in between, or the upstream leaves some out (of shorter pages perhaps none: PAGE_SIZE)`
    : first !== null && last !== null && last > first
      ? `newer versions came up in ${pass} passes (the highest rose from ${first} to ${last}): the source changed, or its pages come in another order each time`
      : `the pages did not add up in ${pass} passes, although nothing newer came: their order is drawn anew each time, or records are left out`
  return `${why}: what was shown is read, the position waits for a quiet moment`
}

const atLeast = (cursor: bigint, version: bigint | null): bigint =>
  version === null || version < cursor ? cursor : version

const pagingIgnored = ({ askedSize }: Listing) =>
  learnt(
    'paging',
    'ignored',
    `asked for ${askedSize} records it served more, and the same on a page far behind`,
  )
