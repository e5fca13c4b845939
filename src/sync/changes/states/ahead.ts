// Key-set reading, where most answers are judged: page 1 of what is above the position. And what is behind a page of rejected records.

import { continueListing, type SeenPage, wantedKeys } from '../../lists/listing.ts'
import { isLookedInside, isSmall, narrower, nextRange } from '../ends.ts'
import { type Move, otherwise, type Rule, row, rule } from '../rules.ts'
import {
  type Anchor,
  type Ask,
  advance,
  mayBeAtEnd,
  type ObservedPage,
  observe,
  type Reading,
} from '../state.ts'
import { isPerhapsText } from '../text-order.ts'
import {
  ahead,
  ask,
  confirmsEnd,
  end,
  giveUp,
  inRange,
  isNothingKnown,
  isOutOfOrder,
  isWritten,
  lookAtAnchor,
  lookInside,
  maySort,
  neverShown,
  newest,
  pageOf,
  prove,
  retract,
  scan,
  sortsOf,
} from './moves.ts'
import { askNewest } from './newest.ts'
import { questionsOfProof } from './proof.ts'
import {
  belowLast,
  beyondTheGoal,
  goOn,
  muchIsAbove,
  pastTheRange,
  perhapsMuchIsAbove,
  rangesWereBegun,
} from './sorted.ts'

type SeenAhead = { readonly reading: Reading<'ahead'>; readonly page: ObservedPage }

type SeenPageBehind = {
  readonly reading: Reading
  readonly page: ObservedPage
  readonly behind: SeenPage
}

/** Where answers are cut before they are sorted, only a small one is whole: everything is read in ranges that hold little. */
const inRanges: readonly Rule<SeenAhead>[] = [
  rule(
    'a filter that is not heeded',
    'done',
    ({ reading: { state }, page }) => state.below !== null && page.last >= state.below,
    ({ reading }) => giveUp(reading, 'Filters by row version are not heeded'),
  ),
  rule(
    'too much to be whole',
    'ahead',
    ({ reading, page }) => reading.isCut && !isSmall(reading, page) && (narrower(page) ?? false),
    ({ reading, page }, below) => ({ reading: inRange(reading, page.since, below) }),
  ),
  rule(
    'one version is too much to be whole',
    'done',
    ({ reading, page }) => reading.isCut && !isSmall(reading, page),
    ({ reading }) => giveUp(reading, 'too many rows share one version'),
  ),
]

export const aheadRow = row<'ahead', SeenAhead>({
  asks: 'What is above the position?',
  action: (reading) => {
    const { since, pageSize, below } = reading.state
    const request = { since, page: 1, pageSize, sorts: sortsOf(reading), ...(below !== null && { below }) }
    const beside = askedBeside(reading)
    return ask(request, { mayBeNothing: mayBeAtEnd(reading), mayYield: true, beside })
  },
  see: (reading, event) => seenAhead(reading, pageOf(event)),
  rules: [
    ...inRanges,
    // Nothing that it shows or leaves out is believed before that is cleared up (P11).
    rule('without what is known', 'anchor', whatIsLacking, lookAtAnchor),
    rule(
      'a whole range',
      'ahead',
      ({ reading }) => reading.isCut && reading.state.below !== null,
      ({ reading, page }) => {
        const { upTo, below } = nextRange(reading, page)
        return { reading: inRange(advance(reading, upTo), upTo, below) }
      },
    ),
    rule(
      'whole to the end',
      'done',
      ({ reading }) => reading.isCut,
      ({ reading, page }) => ({ ...end(advance(reading, page.last)), effects: { isLeftOut: !page.isNew } }),
    ),
    rule('nothing of it is shown', 'scan', sharesHidden, ({ reading }) => ({
      reading: scan(reading, reading.cursor),
    })),
    rule('nothing of it is shown, and it goes on', 'ahead', whatIsHidden, goOnBlindly),
    rule('nothing of it is shown, too often', 'done', isHidden, ({ reading }) =>
      giveUp(reading, neverShown(reading)),
    ),
    rule(
      'nothing new, although the newest is not read',
      'scan',
      ({ reading, page }) => reading.goal !== null && !confirmsEnd(reading) && !page.isNew,
      ({ reading }) => ({ reading: scan(reading, reading.cursor) }),
    ),
    // The other end was asked where the poll began, and showed nothing.
    rule(
      'nothing new, and the newest are not known',
      'newest',
      ({ reading, page }) => isPoll(reading) && reading.goal === null && !page.isNew && page.hasOld,
      ({ reading, page }) => ({ reading: newest(reading, page), effects: { isLeftOut: true } }),
    ),
    rule(
      'nothing, and nothing is known',
      'newest',
      ({ reading, page }) => page.received === 0 && isNothingKnown(reading) && maySort(reading),
      ({ reading, page }) => ({ reading: newest(reading, page) }),
    ),
    rule(
      'an empty answer',
      'done',
      ({ page }) => page.received === 0,
      ({ reading }) => end(reading),
    ),
    // An upstream whose `since` includes shows it in every quiet poll, and one question has to be enough for that.
    rule('one old row at the end', 'done', isOneOldRow, ({ reading, page }) => ({
      ...end(reading),
      effects: { isLeftOut: isWritten(reading, page) },
    })),
    // They may fill the page. They prove that `since` includes, so the next version up loses nothing.
    rule(
      'old rows only',
      'ahead',
      ({ reading, page }) => !page.isNew && page.hasOld && page.since <= reading.cursor,
      ({ reading, page: { since } }) => ({
        reading: ahead(reading, since < reading.cursor ? reading.cursor : reading.cursor + 1n),
      }),
    ),
    rule('nothing new, perhaps cut', 'scan', ({ page }) => !page.isNew && page.isPerhapsCut, scanOn),
    rule(
      'rejected records only',
      'behind',
      ({ page }) => !page.isNew,
      ({ reading, page }) => ({ reading: { ...reading, state: { name: 'behind', page } } }),
    ),
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
    rule('new, and nothing sorts', 'scan', ({ reading }) => reading.sorting !== 'proven', scanOn),
    rule(
      'out of order, back to the start',
      'scan',
      ({ page }) => isOutOfOrder(page.versions),
      ({ reading }, held) => retract(reading, held),
    ),
    rule(
      'versions grow by a digit',
      'text',
      ({ reading, page }) => isPerhapsText(reading.cursor, page),
      ({ reading, page }) => ({ reading: { ...reading, state: { name: 'text', page, count: null } } }),
    ),
    pastTheRange,
    beyondTheGoal,
    // A short page proves nothing: its cap may have shrunk, or rows were left out after it was cut.
    rule(
      'a short page',
      'newest',
      ({ reading, page }) => !page.isPerhapsCut && (reading.goal === null || page.last >= reading.goal),
      (seen) => ({ reading: newest(belowLast(seen), seen.page) }),
    ),
    rangesWereBegun,
    perhapsMuchIsAbove,
    muchIsAbove,
    // A page that was cut before it was sorted looks like any other.
    rule(
      'a full page, to be looked at from inside',
      'inside',
      ({ reading, page }) => isLookedInside(reading, page),
      ({ reading, page }) => ({ reading: lookInside(reading, page) }),
    ),
    ...goOn,
  ],
})

/** What is asked behind it, if it is answered as is likely. */
function askedBeside(reading: Reading<'ahead'>): readonly Ask[] {
  const { cursor, sorting, options, state } = reading
  if (sorting === 'unknown') return options.keepsPageSize && cursor === 0n ? questionsOfProof(0n) : []
  if (!state.isPerhapsLast) return []
  const newestAlone = { received: 1, rows: [{ key: '', version: cursor + 1n }] }
  return [askNewest(newest(reading, observe(reading, state, newestAlone)))]
}

export const behindRow = row<'behind', SeenPageBehind>({
  asks: 'Is anything behind a page of rejected records?',
  action: (reading) => ask(pageTwo(reading, reading.state.page), { mayBeNothing: mayBeAtEnd(reading) }),
  see: (reading, event) => ({ reading, page: reading.state.page, behind: pageOf(event) }),
  rules: [
    rule(
      'nothing behind it',
      'done',
      ({ behind }) => behind.received === 0,
      ({ reading }) => end(reading),
    ),
    otherwise('something behind it', 'scan', ({ reading, page }) => ({
      reading: scan(reading, page.since),
    })),
  ],
})

function seenAhead(reading: Reading<'ahead'>, answer: SeenPage): SeenAhead {
  const page = observe(reading, reading.state, answer)
  const fullPages = reading.fullPages + (page.isPerhapsCut ? 1 : 0)
  const blindSteps = page.last > reading.cursor + 1n ? 0 : reading.blindSteps
  return { reading: { ...reading, fullPages, blindSteps }, page }
}

/** An answer that should show the anchor and does not: empty, or beginning behind it, or whole. */
function whatIsLacking({ reading: { anchor, sorting, state, isCut }, page }: SeenAhead): Anchor | false {
  if (anchor === null || page.since >= anchor.version) return false
  if (state.below !== null && state.below <= anchor.version) return false
  // It has its place behind what is shown: rights may have shortened the page. At the end it has to have come.
  if (page.isNew && page.last < anchor.version && !isCut) return false
  // Where numbers are sorted as text, 100 comes before 97.
  const beginsBehind =
    sorting === 'proven' &&
    page.versions.every((version) => version > anchor.version) &&
    !isPerhapsText(anchor.version, page)
  return (page.received === 0 || beginsBehind || !page.isPerhapsCut) && anchor
}

/** Where `since` includes, what has the version below that of the anchor comes as well. */
function isOneOldRow({ reading, page }: SeenAhead): boolean {
  const below = page.since < reading.cursor ? page.versions.filter((version) => version === page.since) : []
  const isAlone = page.received - below.length === 1 && !page.isPerhapsCut
  return !page.isNew && page.hasOld && isAlone && mayBeAtEnd(reading)
}

const isPoll = (reading: Reading): boolean => confirmsEnd(reading) && reading.options.until === null

/** There is more, and this page, not cut as far as is known, shows nothing of it: rights may hide a whole page. */
function isHidden({ reading, page }: SeenAhead): boolean {
  if (!confirmsEnd(reading) || reading.goal === null || page.last >= reading.goal) return false
  // What cannot be a row was shown all the same.
  if (page.rows.length < page.received) return false
  return page.last <= reading.cursor + 1n && (page.received === 0 || !page.isPerhapsCut)
}

function sharesHidden(seen: SeenAhead): boolean {
  return isHidden(seen) && seen.reading.sharesVersions
}

/** How far it goes without anything that is shown. */
function whatIsHidden(seen: SeenAhead): bigint | false {
  const { reading, page } = seen
  if (!isHidden(seen) || reading.goal === null || reading.blindSteps >= mostBlindSteps) return false
  const covered = page.since + BigInt(Math.min(page.pageSize, reading.largestAnswer)) - 1n
  const to = covered < reading.goal ? covered : reading.goal - 1n
  if (to > reading.cursor) return to
  return page.since < reading.cursor && reading.cursor
}

/** So often in a row it goes on although nothing was shown. */
const mostBlindSteps = 20

/**
 * An answer of as many records as ever came goes that far above what was asked, at least, when no two rows share a version. But a cap
 * may have shrunk as well: what is behind is read, and the position waits (P6).
 */
function goOnBlindly({ reading, page }: SeenAhead, to: bigint): Move<'ahead'> {
  const from = { ...reading, cursor: to, blindSteps: reading.blindSteps + 1 }
  return { reading: ahead(from, to, page.pageSize) }
}

/** The page is the first of the scan, unless it is perhaps a part of one answer. */
function scanOn({ reading, page }: SeenAhead): Move<'scan'> {
  const { since, pageSize } = page
  if (page.isPerhapsCut && !page.isTooLong) return { reading: scan(reading, since) }
  const begun = continueListing({ askedSize: pageSize, maxPasses: reading.options.maxPasses }, page)
  return {
    reading: { ...reading, state: { name: 'scan', since, listing: begun.listing, question: begun.step } },
    effects: { seen: { pageNumber: 1, keys: wantedKeys(page, null) } },
  }
}

const pageTwo = (reading: Reading, { since, received }: ObservedPage): Ask['request'] => ({
  since,
  page: 2,
  pageSize: received,
  sorts: sortsOf(reading),
})
