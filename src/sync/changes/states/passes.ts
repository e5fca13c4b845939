// Where nothing sorts, or one version fills a page: page after page, in passes, until a count proves that all was seen. listing.ts knows
// whether the passes have shown everything, this says up to which version.

import { type Detected, detected } from '../../capabilities.ts'
import {
  type Listing,
  type ListingStep,
  nextPass,
  type SeenPage,
  sawCount,
  sawPage,
  wantedKeys,
} from '../../lists/listing.ts'
import { highest, isAscending, outOfOrder } from '../../versions.ts'
import { otherwise, type Rule, row, rule } from '../rules.ts'
import { type Action, advance, type Effects, type Event, type Reading, versionsOf } from '../state.ts'
import { ask, finish, giveUp, lookAtAnchor, neverShown, nextPage, sortsOf } from './moves.ts'

type SeenListing = {
  readonly reading: Reading<'passes' | 'one-version'>
  /** Null after a count. */
  readonly page: SeenPage | null
  readonly listing: Listing
  readonly step: ListingStep
  /** Everything up to here was seen; false: that is not proven. */
  readonly upTo: bigint | false
  readonly effects: Partial<Effects>
}

function see(reading: Reading<'passes' | 'one-version'>, event: Event): SeenListing {
  const before = reading.state.listing
  if (event.kind !== 'answer' && event.kind !== 'count')
    throw new Error(`A ${event.kind} came that no listing asked for`)
  const page = event.kind === 'answer' ? event.page : null
  const seen = event.kind === 'answer' ? sawPage(before, event.page) : sawCount(before, event.keys)
  const { listing, step } = seen.step.kind === 'passed' ? nextPass(seen.listing) : seen
  return {
    reading,
    page,
    listing,
    step,
    upTo: readUpTo(reading, listing, step),
    effects: {
      seen: page && { pageNumber: before.pageNumber, keys: wantedKeys(page, before.ceiling) },
      detected: [
        ...(step.kind === 'complete' && step.ignoresPaging ? [pagingIgnored(before)] : []),
        ...(page ? sortingIgnored(reading, versionsOf(page)) : []),
      ],
    },
  }
}

/**
 * The proof decided nothing, and this page, which was to be sorted, is not: what the next proof is shown may look as if it were, where
 * numbers are sorted as text. If earlier runs relied on the order, only a proof says so, for what they read is taken back with it.
 */
function sortingIgnored(reading: Reading, versions: readonly bigint[]): readonly Detected[] {
  const { from, restsFrom = from, sorting: known } = reading.options
  const isDoubted = known === 'unknown' && reading.sorting === 'ignored' && restsFrom >= from
  return isDoubted && !isAscending(versions)
    ? [detected('sorting', 'ignored', `asked to sort ascending, it served ${outOfOrder(versions)}`)]
    : []
}

function readUpTo({ cursor, largestAnswer }: Reading, listing: Listing, step: ListingStep): bigint | false {
  if (step.kind === 'complete') return step.highest === null || step.highest < cursor ? cursor : step.highest
  const isWhole = step.kind === 'only page' && step.page.received < Math.min(listing.askedSize, largestAnswer)
  return isWhole && highest(versionsOf(step.page), cursor)
}

const notProvenYet = (name: 'passes' | 'one-version'): Rule<SeenListing> =>
  rule(
    'not all proven yet',
    name,
    ({ step }) => (step.kind === 'page' || step.kind === 'count') && step,
    ({ reading, listing, effects }, question) => {
      const { since } = reading.state
      return { reading: { ...reading, state: { name, since, listing, question } }, effects }
    },
  )

export const passesRow = row<'passes', SeenListing>({
  asks: 'Page after page of everything above the position, in passes, until a count proves that all was seen.',
  action: listingAction,
  see,
  rules: [
    notProvenYet('passes'),
    rule(
      'all seen but what is known',
      'anchor',
      ({ reading: { anchor, state }, upTo }: SeenListing) =>
        upTo !== false && anchor !== null && state.since < anchor.version && anchor,
      lookAtAnchor,
    ),
    rule(
      'all seen but the newest',
      'done',
      ({ reading: { highestServed }, upTo }) =>
        upTo !== false && highestServed !== null && upTo < highestServed,
      ({ reading, effects }) => ({ reading: giveUp(reading, neverShown(reading)), effects }),
    ),
    rule(
      'all seen',
      'done',
      ({ upTo }) => upTo,
      ({ reading, effects }, upTo) => ({ reading: finish(advance(reading, upTo)), effects }),
    ),
    rule('only one page ever comes, sorted', 'next-page', belowOnlyPage, ({ reading, effects }, below) => ({
      reading: nextPage(advance(reading, below)),
      effects,
    })),
    otherwise('given up', 'done', ({ reading, listing, step, effects }) => ({
      reading: giveUp(reading, whyUncertain(listing, step)),
      effects,
    })),
  ],
})

export const oneVersionRow = row<'one-version', SeenListing>({
  asks: 'Page after page of the rows of one version, in passes, until a count proves that all were seen.',
  action: listingAction,
  see,
  rules: [
    notProvenYet('one-version'),
    rule(
      'all seen',
      'next-page',
      ({ upTo }) => upTo,
      ({ reading, effects }, upTo) => ({ reading: nextPage(advance(reading, upTo)), effects }),
    ),
    // Rows above this version must not wait for it: the cursor goes on, the position stays.
    otherwise('given up', 'next-page', ({ reading, listing, effects }) => ({
      reading: nextPage({ ...reading, cursor: listing.ceiling ?? reading.cursor }),
      effects,
    })),
  ],
})

function listingAction(reading: Reading<'passes' | 'one-version'>): Action {
  const { since, question } = reading.state
  if (question.kind === 'count') return question
  const { page, pageSize } = question
  return ask({ since, page, pageSize, sorts: sortsOf(reading) })
}

/**
 * The upstream cuts its answers, and shows the first page whichever is asked for. Nobody could read such a stream unless the lowest
 * versions come first. So an ascending page is taken to be complete below its last version.
 */
function belowOnlyPage({ reading: { cursor }, step }: SeenListing): bigint | false {
  if (step.kind !== 'only page') return false
  const versions = versionsOf(step.page)
  const below = highest(versions, cursor) - 1n
  return isAscending(versions) && new Set(versions).size > 1 && below > cursor && below
}

function whyUncertain({ hasGaps, pass, ends }: Listing, { kind }: ListingStep): string {
  if (kind === 'only page')
    return 'the upstream shows the first page whichever is asked for, and perhaps there is more: the position waits'
  const [first, last] = [ends[0]?.highest ?? null, ends.at(-1)?.highest ?? null]
  const why = hasGaps
    ? `pages were not full in ${pass} passes although others followed: rows came in between, or the upstream leaves some out (of shorter pages perhaps none: PAGE_SIZE)`
    : first !== null && last !== null && last > first
      ? `newer versions came up in ${pass} passes (the highest rose from ${first} to ${last}): the source changed, or its pages come in another order each time`
      : `the pages did not add up in ${pass} passes, although nothing newer came: their order is drawn anew each time, they differ in length, or records are left out`
  return `${why}: what was shown is read, the position waits for a quiet moment`
}

const pagingIgnored = ({ askedSize }: Listing) =>
  detected(
    'paging',
    'ignored',
    `asked for ${askedSize} records it served more, and the same on a page far behind`,
  )
