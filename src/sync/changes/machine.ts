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
} from '../lists/listing.ts'
import { isAscending, judge, proofQuestions } from './hypotheses.ts'
import {
  advance,
  ask,
  type Decision,
  decide,
  end,
  highest,
  lookAhead,
  mayBeAtEnd,
  type Phase,
  type Reading,
  type ReadingOptions,
  type SortedPage,
  sortsOf,
  versionsOf,
} from './state.ts'
import { askForTheEnd, isPerhapsText, sawTextOrder } from './text-order.ts'

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

// Key-set reading, where the upstream is proven to sort by row version: each request begins at the last version of the page
// before. Pure. Every page is checked; one out of order takes the proof back.
/** `last` is the highest version of the page, above the cursor. */
export function sawSorted(
  reading: Reading,
  { since, pageSize }: { readonly since: bigint; readonly pageSize: number },
  page: SeenPage,
  last: bigint,
  isPerhapsCut: boolean,
): Decision {
  const versions = versionsOf(page)
  if (!isAscending(versions)) return takeBackProof(reading, outOfOrder(versions))
  const isOneVersion = versions.every((version) => version <= reading.cursor || version === last)
  const sorted: SortedPage = { ...page, since, pageSize, last, isOneVersion }
  return isPerhapsText(reading, sorted)
    ? askForTheEnd(reading, sorted)
    : believe(reading, sorted, isPerhapsCut)
}

export function believe(reading: Reading, page: SortedPage, isPerhapsCut: boolean): Decision {
  const { until } = reading.options
  if (until !== null && page.last > until) return end(advance(reading, until))
  // The last version may go on behind the end of the page: only what is below it is complete (P6).
  const moved = advance(reading, page.last - 1n)
  return isPerhapsCut ? goOn(moved, page) : askTail(moved, page)
}

/** A short page proves nothing: its cap may have shrunk, or rows were left out after it was cut. Is there anything behind it? */
const askTail = (reading: Reading, page: SortedPage): Decision =>
  ask(
    { ...reading, phase: { name: 'tail', page } },
    { since: page.since, page: 2, pageSize: page.received, sorts: sortsOf(reading) },
  )

export function sawTail(reading: Reading, page: SortedPage, tail: SeenPage): Decision {
  if (tail.received === 0) return end(advance(reading, page.last))
  // What the page showed may come again: a late row moved it on, or it was cut to more than is shown.
  const shown = new Set(page.rows.map(({ key }) => key))
  const fresh = { ...tail, rows: tail.rows.filter(({ key }) => !shown.has(key)) }
  const versions = [page.last, ...versionsOf(fresh)]
  if (!isAscending(versions)) return takeBackProof(reading, outOfOrder(versions))
  return reading.goal === null ? askGoal(reading, page) : goOn(reading, page)
}

/** The source may change as fast as it is read. What was there by now is enough; how far is that? */
const askGoal = (reading: Reading, page: SortedPage): Decision =>
  ask(
    { ...reading, phase: { name: 'goal', page } },
    { since: page.since, page: 1, pageSize: 1, sorts: '-RowVersion' },
  )

export function sawGoal(reading: Reading, page: SortedPage, answer: SeenPage): Decision {
  const [goal = null] = versionsOf(answer)
  return goOn({ ...reading, goal }, page)
}

function goOn(reading: Reading, page: SortedPage): Decision {
  if (reading.goal !== null && page.last > reading.goal)
    return end(reading, 'the source changes as fast as it is read')
  if (!page.isOneVersion) return lookAhead(reading)
  const { largePageSize } = reading.options
  return page.pageSize < largePageSize
    ? lookAhead(reading, page.since, largePageSize)
    : listTie(reading, page.since, page.last, page.pageSize)
}

// Decides how a changes stream is read: what to ask next, and how far the position may move. Pure: answers in, decisions
// out; it knows no time, no network and no database, so that it can be tried against thousands of hostile upstreams.
type Ahead = Phase & { readonly name: 'ahead' }

export function beginReading(options: ReadingOptions): Decision {
  const reading: Reading = {
    options,
    position: options.from,
    cursor: options.from,
    sorting: options.sorting,
    largestAnswer: options.largestAnswer,
    highestServed: null,
    goal: null,
    phase: { name: 'ended' },
  }
  return lookAhead(reading)
}

export function sawAnswer(before: Reading, page: SeenPage): Decision {
  const { phase } = before
  const reading: Reading = {
    ...before,
    largestAnswer: Math.max(before.largestAnswer, page.received),
    highestServed: highest(versionsOf(page), before.highestServed),
  }
  if (phase.name === 'ended') throw new Error('An answer came after the reading had ended')
  if (phase.name === 'proof') return sawProof(reading, phase, page)
  const { since } = 'since' in phase ? phase : phase.page
  const below = versionsOf(page).find((version) => version < since)
  if (below !== undefined)
    return decide(reading, {
      kind: 'breach',
      what: `asked for changes since ${since}, it served version ${below}`,
    })
  switch (phase.name) {
    case 'ahead':
      return sawAhead(reading, phase, page, mayBeCut(before, phase.pageSize, page))
    case 'behind':
      return page.received === 0 ? end(reading) : listOn(reading, phase, phase.page, true)
    case 'text':
      return sawTextOrder(reading, phase.page, phase.count, page) ?? believe(reading, phase.page, true)
    case 'tail':
      return sawTail(reading, phase.page, page)
    case 'goal':
      return sawGoal(reading, phase.page, page)
    case 'listing':
      return sawListed(reading, phase, page)
  }
}

/** The upstream refused the request because of its `Sorts`. */
export function sawRefusal(reading: Reading, status: number): Decision {
  const refused: Reading = { ...reading, sorting: 'refused' }
  const learnt = [{ name: 'sorting', value: 'refused', evidence: `status ${status}` }]
  // What was concluded from the order of a listing holds no more.
  return { ...lookAhead(refused), learnt }
}

function sawAhead(reading: Reading, phase: Ahead, page: SeenPage, isPerhapsCut: boolean): Decision {
  const { cursor, sorting } = reading
  const last = highest(versionsOf(page), cursor)
  if (last === cursor) return sawNothingNew(reading, phase, page, isPerhapsCut)
  if (sorting === 'proven') return sawSorted(reading, phase, page, last, isPerhapsCut)
  // Where paging is ignored, the questions of the proof would fetch everything there is.
  const isTooLong = page.received > phase.pageSize
  if (sorting === 'unknown' && !isTooLong) return askProof(reading, isPerhapsCut ? cursor : 0n, [])
  return listOn(reading, phase, page, isPerhapsCut)
}

function sawNothingNew(reading: Reading, phase: Ahead, page: SeenPage, isPerhapsCut: boolean): Decision {
  const hasOld = versionsOf(page).includes(phase.since)
  const learnt = hasOld
    ? [{ name: 'inclusive', value: 'yes', evidence: `since ${phase.since} served version ${phase.since}` }]
    : []
  // An upstream whose `since` includes shows it in every quiet poll, and one question has to be enough for that.
  const isOneOldRow = hasOld && page.received === 1 && !isPerhapsCut && mayBeAtEnd(reading)
  if (page.received === 0 || isOneOldRow) return { ...end(reading), learnt }
  // Old rows of the position's own version may fill the page. They prove that `since` includes, so the next version up loses nothing.
  if (hasOld && phase.since === reading.cursor) return { ...lookAhead(reading, reading.cursor + 1n), learnt }
  if (isPerhapsCut) return { ...listOn(reading, phase, page, isPerhapsCut), learnt }
  return { ...askBehind(reading, phase, page), learnt }
}

/** It holds nothing but what cannot be a row. */
const askBehind = (reading: Reading, { since, pageSize }: Ahead, page: SeenPage): Decision =>
  ask(
    { ...reading, phase: { name: 'behind', since, pageSize, page } },
    { since, page: 2, pageSize: page.received, sorts: sortsOf(reading) },
    mayBeAtEnd(reading),
  )

function askProof(reading: Reading, since: bigint, answers: readonly SeenPage[]): Decision {
  const question = proofQuestions[answers.length]
  if (!question) throw new Error('The proof of sorting has no such question')
  return ask({ ...reading, phase: { name: 'proof', since, answers } }, { since, page: 1, ...question })
}

function sawProof(reading: Reading, phase: Phase & { name: 'proof' }, page: SeenPage): Decision {
  const answers = [...phase.answers, page]
  if (answers.length < proofQuestions.length) return askProof(reading, phase.since, answers)
  const { sorting, evidence } = judge(answers)
  const verdict: Reading = { ...reading, sorting: sorting === 'proven' ? 'proven' : 'ignored' }
  const learnt = sorting === 'undecided' ? [] : [{ name: 'sorting', value: sorting, evidence }]
  return { ...lookAhead(verdict), learnt }
}

/** A short answer may still have been cut by a cap, unless a longer one was seen. */
const mayBeCut = (reading: Reading, pageSize: number, page: SeenPage): boolean =>
  page.received >= pageSize || page.received >= reading.largestAnswer
