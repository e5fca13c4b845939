// Key-set reading, where most answers are judged: page 1 of what is above the position.

import { continueListing, type SeenPage, wantedKeys } from '../../lists/listing.ts'
import { provesNumbers } from '../../versions.ts'
import { type Move, type Rule, row, rule } from '../rules.ts'
import {
  type Anchor,
  type Ask,
  advance,
  mayBeAtEnd,
  type ObservedPage,
  observe,
  type Reading,
} from '../state.ts'
import { questionOfEnd } from './end.ts'
import {
  ask,
  askEnd,
  confirmsEnd,
  finish,
  giveUp,
  inPasses,
  isNothingKnown,
  isWritten,
  lookAtAnchor,
  maySort,
  neverShown,
  nextPage,
  pageOf,
  prove,
  sortsOf,
} from './moves.ts'
import { isPerhapsText, questionsOfProof } from './proof.ts'
import { isRechecked, recheck } from './recheck-page.ts'
import { belowLast, beyondTheGoal, goOn, muchIsAbove, pastTheRange, rangesWereBegun } from './sorted.ts'

type SeenNextPage = { readonly reading: Reading<'next-page'>; readonly page: ObservedPage }

/** Where the upstream cuts answers before it sorts them, only a small answer is whole: so it is asked for ranges that hold little. */
const inRanges: readonly Rule<SeenNextPage>[] = [
  rule(
    'a filter that is not heeded',
    'done',
    ({ reading: { state }, page }) => state.below !== null && page.last >= state.below,
    ({ reading }) => giveUp(reading, 'Filters by row version are not heeded'),
  ),
  rule(
    'too much to be whole',
    'next-page',
    ({ reading, page }) => reading.cutsBeforeSort && !isSmall(reading, page) && (narrower(page) ?? false),
    ({ reading, page }, below) => nextPage(reading, { since: page.since, below }),
  ),
  rule(
    'one version is too much to be whole',
    'done',
    ({ reading, page }) => reading.cutsBeforeSort && !isSmall(reading, page),
    ({ reading }) => giveUp(reading, 'too many rows share one version'),
  ),
]

export const nextPageRow = row<'next-page', SeenNextPage>({
  asks: 'What is above the position?',
  action: (reading) => {
    const { since, pageSize, below } = reading.state
    const request = { since, page: 1, pageSize, sorts: sortsOf(reading), ...(below !== null && { below }) }
    const beside = askedBeside(reading)
    return ask(request, {
      mayBeNothing: mayBeAtEnd(reading) && isLookedInto(reading),
      mayYield: true,
      beside,
    })
  },
  see: (reading, event) => seeNextPage(reading, pageOf(event)),
  rules: [
    ...inRanges,
    // The answer lacks the anchor. Nothing that it shows or leaves out is believed before a look at the anchor explains that (P11).
    rule('without what is known', 'anchor', whatIsLacking, lookAtAnchor),
    rule(
      'a whole range',
      'next-page',
      ({ reading }) => reading.cutsBeforeSort && reading.state.below !== null,
      ({ reading, page }) => {
        const { upTo, below } = nextRange(reading, page)
        return nextPage(advance(reading, upTo), { below })
      },
    ),
    rule(
      'whole to the end',
      'done',
      ({ reading }) => reading.cutsBeforeSort,
      ({ reading, page }) => ({
        reading: finish(advance(reading, page.last)),
        effects: { isLeftOut: !page.isNew },
      }),
    ),
    rule('nothing of it is shown', 'passes', sharesHidden, ({ reading }) =>
      inPasses(reading, reading.cursor),
    ),
    rule('nothing of it is shown, and it goes on', 'next-page', whatIsHidden, goOnBlindly),
    rule('nothing of it is shown, too often', 'done', isHidden, ({ reading }) =>
      giveUp(reading, neverShown(reading)),
    ),
    rule(
      'nothing new, although the newest is not read',
      'passes',
      ({ reading, page }) => reading.goal !== null && !confirmsEnd(reading) && !page.isNew,
      ({ reading }) => inPasses(reading, reading.cursor),
    ),
    // The poll began at the other end and was shown nothing there, although the known record came from this end: ask there again.
    rule(
      'nothing new, and the newest are not known',
      'end',
      ({ reading, page }) => isPoll(reading) && reading.goal === null && !page.isNew && page.hasOld,
      ({ reading, page }) => ({ reading: askEnd(reading, page), effects: { isLeftOut: true } }),
    ),
    rule(
      'nothing, and nothing is known',
      'end',
      ({ reading, page }) => page.received === 0 && isNothingKnown(reading) && maySort(reading),
      ({ reading, page }) => askEnd(reading, page),
    ),
    rule(
      'an empty answer',
      'done',
      ({ page }) => page.received === 0,
      ({ reading }) => finish(reading),
    ),
    // Where `since` is inclusive, every quiet poll shows one old row, and one question has to be enough for that.
    rule('one old row at the end', 'done', isOneOldRow, ({ reading, page }) => ({
      reading: finish(reading),
      effects: { isLeftOut: isWritten(reading, page) },
    })),
    // Old rows may fill the whole page. They prove that `since` is inclusive, so asking from the next version on loses nothing.
    rule(
      'old rows only',
      'next-page',
      ({ reading, page }) => !page.isNew && page.hasOld && page.since <= reading.cursor,
      ({ reading, page: { since } }) =>
        nextPage(reading, { since: since < reading.cursor ? reading.cursor : reading.cursor + 1n }),
    ),
    // Perhaps it is cut, or its records cannot be rows: what is behind it?
    rule('nothing new, and no end', 'passes', ({ page }) => !page.isNew, goOnInPasses),
    // Where paging is ignored, the questions of the proof would fetch everything there is.
    rule(
      'new, and sorting is unknown',
      'proof',
      ({ reading, page }) => reading.sorting === 'unknown' && !page.isTooLong,
      ({ reading, page }) => ({
        reading: prove(reading, page.isPerhapsCut ? reading.cursor : 0n, []),
        effects: { isLeftOut: true, isKept: true },
      }),
    ),
    rule('new, and nothing sorts', 'passes', ({ reading }) => reading.sorting !== 'proven', goOnInPasses),
    rule(
      'versions grow by a digit',
      'longer-versions',
      ({ reading, page }) => isPerhapsText(reading, reading.cursor, page),
      ({ reading, page }) => ({ ...reading, state: { name: 'longer-versions', page } }),
    ),
    pastTheRange,
    beyondTheGoal,
    // A short page proves nothing: its cap may have shrunk, or rows were left out after it was cut.
    rule(
      'a short page',
      'end',
      ({ reading, page }) => !page.isPerhapsCut && (reading.goal === null || page.last >= reading.goal),
      (seen) => askEnd(belowLast(seen), seen.page),
    ),
    rangesWereBegun,
    muchIsAbove,
    // A page that was cut before it was sorted looks like any other, so some pages are read again from their middle.
    rule(
      'a full page, to be looked at from inside',
      'recheck-page',
      ({ reading, page }) => isRechecked(reading, page),
      ({ reading, page }) => recheck(reading, page),
    ),
    ...goOn,
  ],
})

/** Whether another question follows an empty answer: for a record that it lacks, or for the newest. Otherwise it would be the end. */
const isLookedInto = (reading: Reading<'next-page'>): boolean =>
  (reading.anchor !== null && reading.state.since < reading.anchor.version) ||
  (isNothingKnown(reading) && maySort(reading))

/** Shorter than was asked for, and at most half as long as the longest answer that came: then nothing cut it. */
const isSmall = ({ largestAnswer }: Reading, { received, pageSize }: ObservedPage): boolean =>
  received < pageSize && received <= Math.max(1, largestAnswer >> 1)

/** An upper bound that leaves about half of the versions on the page; null where the page shows only one. */
function narrower({ since, versions }: ObservedPage): bigint | null {
  const above = versions.filter((version) => version > since)
  const distinct = [...new Set(above)].sort((a, b) => (a < b ? -1 : 1))
  return distinct.length < 2 ? null : (distinct[distinct.length >> 1] ?? null)
}

/** After a small answer: up to where everything is read now, and below which version the next range ends; null: it has no end. */
function nextRange(
  reading: Reading<'next-page'>,
  page: ObservedPage,
): { readonly upTo: bigint; readonly below: bigint | null } {
  const { since, below } = reading.state
  const top = reading.highestServed ?? reading.cursor
  if (below === null) return { upTo: page.last, below: null }
  // Not beyond the highest version that was served: the upstream may still give out those above it.
  const upTo = below <= top ? below - 1n : page.last
  const width = (below - since) * (isSmall(reading, { ...page, received: 2 * page.received }) ? 2n : 1n)
  const next = upTo + (width > 2n ? width : 2n)
  return { upTo, below: next < top ? next : null }
}

/** The questions that follow if this one is answered as is likely. */
function askedBeside(reading: Reading<'next-page'>): readonly Ask[] {
  const { cursor, sorting, options, state } = reading
  if (sorting === 'unknown') return options.keepsPageSize && cursor === 0n ? questionsOfProof(0n) : []
  if (!state.isPerhapsLast) return []
  const versions = state.since < cursor ? [state.since + 1n, cursor + 1n] : [cursor + 1n]
  const likely = { received: versions.length, rows: versions.map((version) => ({ key: '', version })) }
  return [questionOfEnd(askEnd(reading, observe(reading, state, likely)))]
}

function seeNextPage(reading: Reading<'next-page'>, answer: SeenPage): SeenNextPage {
  const page = observe(reading, reading.state, answer)
  const fullPages = reading.fullPages + (page.isPerhapsCut ? 1 : 0)
  const blindSteps = page.last > reading.cursor + 1n ? 0 : reading.blindSteps
  const sortsNumbers = reading.sortsNumbers || provesNumbers(page.versions)
  return { reading: { ...reading, fullPages, blindSteps, sortsNumbers }, page }
}

/** The anchor, if the answer should show it and does not: the answer is empty, begins above the anchor, or is whole. */
function whatIsLacking({ reading, page }: SeenNextPage): Anchor | false {
  const { anchor, sorting, state, cutsBeforeSort } = reading
  if (anchor === null || page.since >= anchor.version) return false
  if (state.below !== null && state.below <= anchor.version) return false
  // The anchor has its place on a later page; the user's rights may have shortened this one. It has to come before the reading ends.
  if (page.isNew && page.last < anchor.version && !cutsBeforeSort) return false
  // Where numbers are sorted as text, 100 comes before 97.
  const beginsBehind =
    sorting === 'proven' &&
    page.versions.every((version) => version > anchor.version) &&
    !isPerhapsText(reading, anchor.version, page)
  return (page.received === 0 || beginsBehind || !page.isPerhapsCut) && anchor
}

/**
 * Where `since` is inclusive, rows of exactly that version come as well: they are not counted. If rows above it are stored, the page may
 * just be shorter than those before.
 */
function isOneOldRow({ reading, page }: SeenNextPage): boolean {
  const below = page.since < reading.cursor ? page.versions.filter((version) => version === page.since) : []
  const isAlone = page.received - below.length === 1 && !page.isPerhapsCut
  return !page.isNew && page.hasOld && isAlone && mayBeAtEnd(reading) && !reading.options.hasAbove
}

const isPoll = (reading: Reading): boolean => confirmsEnd(reading) && reading.options.until === null

/** There is more, and this page shows nothing of it although no cap cut it: the user may not be allowed to see a whole page. */
function isHidden({ reading, page }: SeenNextPage): boolean {
  if (!confirmsEnd(reading) || reading.goal === null || page.last >= reading.goal) return false
  // Records that cannot be rows came, so the page was not hidden.
  if (page.rows.length < page.received) return false
  return page.last <= reading.cursor + 1n && (page.received === 0 || !page.isPerhapsCut)
}

function sharesHidden(seen: SeenNextPage): boolean {
  return isHidden(seen) && seen.reading.sharesVersions
}

/** How far the cursor goes on although nothing was shown; false: this is not such a page, or there were too many of them. */
function whatIsHidden(seen: SeenNextPage): bigint | false {
  const { reading, page } = seen
  if (!isHidden(seen) || reading.goal === null || reading.blindSteps >= mostBlindSteps) return false
  const covered = page.since + BigInt(Math.min(page.pageSize, reading.largestAnswer)) - 1n
  const to = covered < reading.goal ? covered : reading.goal - 1n
  if (to > reading.cursor) return to
  return page.since < reading.cursor && reading.cursor
}

/** At most so often in a row the reading goes on although nothing was shown. */
const mostBlindSteps = 20

/**
 * When no two rows share a version, a full page reaches at least as many versions above `since` as it holds records. So the cursor goes
 * on that far. But perhaps the page is empty because a cap has shrunk: so what follows is read, and the position waits (P6).
 */
function goOnBlindly({ reading, page: { pageSize } }: SeenNextPage, to: bigint): Reading<'next-page'> {
  return nextPage({ ...reading, cursor: to, blindSteps: reading.blindSteps + 1 }, { pageSize })
}

/** The page becomes the first one of the scan. If it may be cut, the scan begins anew: a larger page may hold everything. */
function goOnInPasses({ reading, page }: SeenNextPage): Move<'passes'> {
  const { since, pageSize } = page
  if (page.isPerhapsCut && !page.isTooLong) return inPasses(reading, since)
  const begun = continueListing({ askedSize: pageSize, maxPasses: reading.options.maxPasses }, page)
  return {
    reading: { ...reading, state: { name: 'passes', since, listing: begun.listing, question: begun.step } },
    effects: { seen: { pageNumber: 1, keys: wantedKeys(page, null) } },
  }
}
