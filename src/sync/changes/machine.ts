// Decides how a changes stream is read: what to ask next, and how far the position may move. Pure: what was seen goes in, the next
// question comes out; it knows no time, no network and no database, so that it can be tried against thousands of hostile upstreams.
// Everything that is decided stands in one table. The experts (state.ts, ends.ts, passes.ts, text-order.ts, hypotheses.ts) only judge.

import { beginListing, continueListing, type SeenPage, wantedKeys } from '../lists/listing.ts'
import type { SortOrder } from '../ports/source.ts'
import type { Unread } from '../ports/store.ts'
import {
  isLookedInside,
  isSmall,
  judgeInside,
  judgeNewest,
  middleOf,
  mostHiddenPages,
  narrower,
  newestSince,
  newestSize,
  nextRange,
  type SeenInside,
  type SeenNewest,
} from './ends.ts'
import { judge, learnt, proofQuestions, type SortingVerdict } from './hypotheses.ts'
import { judgeListing, type SeenListing } from './passes.ts'
import { densityOf, type Far, isFar, readThrough, unreadAbove } from './ranges.ts'
import {
  type DeclaredRule,
  firstOf,
  type Move,
  otherwise,
  type Rule,
  row,
  rule,
  type StateRow,
  type Taken,
} from './rules.ts'
import {
  type Action,
  type Anchor,
  type Ask,
  advance,
  type Event,
  highest,
  isAscending,
  type Learnt,
  leastToServe,
  mayBeAtEnd,
  type ObservedPage,
  observe,
  outOfOrder,
  type RangesEnd,
  type Reading,
  type ReadingOptions,
  type State,
  type StateName,
  sawAny,
  type Transition,
  versionsOf,
} from './state.ts'
import { isPerhapsText, judgeTextOrder, type TextVerdict, textRequest } from './text-order.ts'

/** Where the order among the rows of one version is drawn anew each time, it takes many passes to see them all. */
const maxTiePasses = 24
/** So many records at an end may be hidden before nothing is concluded from it. */
const mostHiddenEnds = 8
/** So often in a row it goes on although nothing was shown. */
const mostBlindSteps = 20

// ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

type SeenAny = { readonly reading: Reading; readonly event: Event }

/** Tried first, in every state. */
const always: readonly Rule<SeenAny>[] = [
  rule(
    'Sorts refused',
    'ahead',
    ({ event }) => event.kind === 'refused' && event,
    ({ reading }, { status, why = `status ${status}` }) => sortsRefused(reading, why),
  ),
  rule(
    'a version below what was asked for',
    'broken',
    ({ reading, event }) => event.kind === 'answer' && whatIsTooLow(reading, event.page),
    ({ reading }, what) => ({ reading: { ...reading, state: { name: 'broken', what } } }),
  ),
]

/** A page that came sorted, and there is more. */
type SeenSorted = { readonly reading: Reading; readonly page: ObservedPage }

const beyondTheGoal = rule<SeenSorted, 'done', true>(
  'beyond the goal',
  'done',
  ({ reading, page }) => reading.goal !== null && page.last > reading.goal,
  (seen) => end(belowLast(seen)),
)

// What an earlier run, or this one, has read above counts.
const rangesWereBegun = rule<SeenSorted, 'ranges', Unread>(
  'ranges were begun',
  'ranges',
  (seen) => mayReadRanges(seen) && begunRanges(seen),
  (seen, unread) => readRanges(seen, { unread, density: densityOf(seen.page.versions) ?? 0 }),
)

const perhapsMuchIsAbove = rule<SeenSorted, 'top', true>(
  'perhaps much is above',
  'top',
  isTopWanted,
  (seen) => ({ reading: { ...belowLast(seen), state: { name: 'top', page: seen.page } } }),
)

const muchIsAbove = rule<SeenSorted, 'ranges', Far>(
  'much is above',
  'ranges',
  (seen) => mayReadRanges(seen) && isMuchAbove(seen),
  (seen, far) => ({
    ...readRanges(seen, rangesTo(belowLast(seen).cursor, far)),
    effects: { learnt: topAtBeginning(seen.reading) },
  }),
)

const goOn: readonly Rule<SeenSorted>[] = [
  rule(
    'several versions',
    'ahead',
    ({ page }) => !page.isOneVersion,
    (seen) => ({ reading: ahead(belowLast(seen)) }),
  ),
  rule(
    'one version, a larger page may hold it',
    'ahead',
    ({ reading, page }) => page.pageSize < reading.options.largePageSize,
    (seen) => ({ reading: ahead(belowLast(seen), seen.page.since, seen.reading.options.largePageSize) }),
  ),
  otherwise('one version fills the largest page', 'tie', (seen) => ({
    reading: tie(belowLast(seen), seen.page),
  })),
]

const pastTheRange = rule<SeenSorted, 'done', bigint>(
  'past the range',
  'done',
  ({ reading: { options }, page }) => options.until !== null && page.last > options.until && options.until,
  ({ reading }, until) => end(advance(reading, until)),
)

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

const table: { readonly [Name in StateName]: StateRow<Name> } = {
  ahead: row<'ahead', SeenAhead>({
    asks: 'What is above the position?',
    action: (reading) => {
      const { since, pageSize, below } = reading.state
      const request = { since, page: 1, pageSize, sorts: sortsOf(reading), ...(below !== null && { below }) }
      return ask(request, { mayBeNothing: mayBeAtEnd(reading), mayYield: true })
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
      rule('one old row at the end', 'done', isOneOldRow, ({ reading }) => ({
        ...end(reading),
        effects: { isLeftOut: true },
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
        ({ reading, page }) => ({ reading: prove(reading, page.isPerhapsCut ? reading.cursor : 0n, []) }),
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
  }),

  behind: row<'behind', SeenPageBehind>({
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
  }),

  proof: row<'proof', SeenProof>({
    asks: 'Does the upstream sort? Four questions: the last record, the first, a page, the last again.',
    action: ({ state }) => ask(proofRequest(state), { isOnlyLook: true }),
    see: (reading, event) => {
      const answer = pageOf(event)
      const answers = [...reading.state.answers, answer]
      const isHidden = answer.received === 0 && reading.state.page < mostHiddenEnds
      return {
        reading,
        answers,
        isHidden,
        verdict: answers.length < proofQuestions.length ? null : judge(answers),
      }
    },
    rules: [
      rule(
        'hidden, perhaps the next is shown',
        'proof',
        ({ isHidden }) => isHidden,
        ({ reading }) => ({
          reading: { ...reading, state: { ...reading.state, page: reading.state.page + 1 } },
        }),
      ),
      rule(
        'another question',
        'proof',
        ({ verdict }) => verdict === null,
        ({ reading, answers }) => ({ reading: prove(reading, reading.state.since, answers) }),
      ),
      rule('sorting proven, and much is above', 'ranges', isMuchProven, ({ reading, verdict }, far) => ({
        reading: {
          ...reading,
          sorting: 'proven',
          state: { name: 'ranges', ...rangesTo(reading.cursor, far) },
        },
        effects: {
          learnt: [learnt('sorting', 'proven', verdict?.evidence ?? ''), ...topAtBeginning(reading)],
        },
      })),
      rule(
        'sorting proven',
        'ahead',
        ({ verdict }) => verdict?.sorting === 'proven' && verdict,
        ({ reading }, { evidence }) => ({
          reading: ahead({ ...reading, sorting: 'proven' }),
          effects: { learnt: [learnt('sorting', 'proven', evidence), ...firstTop(reading)] },
        }),
      ),
      rule(
        'sorted no more, and earlier runs relied on it',
        'scan',
        ({ reading: { options }, verdict }) =>
          verdict?.sorting === 'ignored' && (options.restsFrom ?? options.from) < options.from && verdict,
        ({ reading }, { evidence }) => takeBack(reading, evidence),
      ),
      otherwise('sorting not proven', 'ahead', ({ reading, verdict }) => ({
        reading: ahead({ ...reading, sorting: 'ignored' }),
        effects:
          verdict?.sorting === 'ignored' ? { learnt: [learnt('sorting', 'ignored', verdict.evidence)] } : {},
      })),
    ],
  }),

  text: row<'text', SeenText>({
    asks: 'Are numbers sorted as text? A look at the end, then counting.',
    action: ({ state }) => ask(textRequest(state), { isOnlyLook: true }),
    see: (reading, event) => {
      const { page } = reading.state
      return { reading, page, verdict: judgeTextOrder(reading.cursor, reading.state, pageOf(event)) }
    },
    rules: [
      rule(
        'cannot be told yet',
        'text',
        ({ verdict }) => verdict.kind === 'look' && verdict,
        ({ reading, page }, { count }) => ({ reading: { ...reading, state: { name: 'text', page, count } } }),
      ),
      rule(
        'sorted as text, back to the start',
        'scan',
        ({ verdict }) => verdict.kind === 'text' && verdict.evidence,
        ({ reading }, held) => retract(reading, held),
      ),
      pastTheRange,
      beyondTheGoal,
      rangesWereBegun,
      perhapsMuchIsAbove,
      muchIsAbove,
      ...goOn,
    ],
  }),

  newest: row<'newest', SeenNewest>({
    asks: 'What is the newest, and does what is shown reach down to what is read?',
    action: (reading) => {
      const { since, page, behind } = reading.state
      const request = { since, page, pageSize: newestSize(reading), sorts: 'descending' } as const
      return ask(request, { mayBeNothing: behind === null })
    },
    see: (reading, event) => judgeNewest(reading, pageOf(event)),
    rules: [
      rule(
        'out of order, back to the start',
        'scan',
        ({ reading, page }) => reading.sorting === 'proven' && isOutOfDescent(page.versions),
        ({ reading }, held) => retract(reading, held),
      ),
      rule(
        'without what is known',
        'anchor',
        ({ reading: { anchor }, page, isClosed }: SeenNewest) =>
          anchor !== null &&
          page.since < anchor.version &&
          page.received > 0 &&
          (isClosed || !page.isPerhapsCut) &&
          anchor,
        lookAtAnchor,
      ),
      rule(
        'nothing new down to what is read',
        'done',
        ({ reading, page, isClosed }) =>
          isClosed && !page.isNew && (confirmsEnd(reading) || !page.isPerhapsCut),
        // What cannot be a row goes into quarantine (P5).
        ({ reading, page }) => ({
          ...end(reading),
          effects: { isLeftOut: page.versions.length === page.received },
        }),
      ),
      // Where it holds as much as any answer, it may be cut, and before it was sorted.
      rule(
        'everything down to what is read',
        'done',
        ({ reading, page, isClosed }) => isClosed && confirmsEnd(reading) && !page.isPerhapsCut,
        ({ reading, page }) => end(advance(reading, withinRange(reading, page.last))),
      ),
      rule(
        'the newest was just read',
        'done',
        ({ reading, behind, page, isClosed }) =>
          isClosed && confirmsEnd(reading) && behind !== null && page.last === behind.last,
        ({ reading, page }) => end(advance(reading, withinRange(reading, page.last))),
      ),
      rule(
        'perhaps more of the newest version, which a larger page may hold',
        'ahead',
        (seen) => {
          const behind = whatIsOfNewest(seen)
          return behind !== false && behind.pageSize < seen.reading.options.largePageSize
        },
        ({ reading }) => ({ reading: ahead(reading, reading.cursor, reading.options.largePageSize) }),
      ),
      rule('perhaps more of the newest version', 'tie', whatIsOfNewest, ({ reading }, behind) => ({
        reading: tie(reading, { ...behind, since: reading.cursor }),
      })),
      rule(
        'nothing from either end',
        'done',
        ({ reading, page }) => page.received === 0 && isNothingKnown(reading),
        ({ reading }) => end(reading),
      ),
      rule(
        'more than it shows, and sorting is unknown',
        'proof',
        ({ reading, page }) => page.isNew && reading.sorting === 'unknown',
        ({ reading, page }) => ({ reading: prove({ ...reading, goal: page.last }, reading.cursor, []) }),
      ),
      rule(
        'more than it shows',
        'ahead',
        ({ page }) => page.isNew,
        ({ reading, page }) => ({
          reading: ahead(
            { ...reading, goal: reading.goal ?? page.last },
            lowest(reading.cursor, reading.anchor),
          ),
        }),
      ),
      rule(
        'nothing shown where a poll begins',
        'ahead',
        ({ behind }) => behind === null,
        ({ reading }) => ({ reading: ahead(reading, lowest(reading.cursor, reading.anchor)) }),
      ),
      rule(
        'nothing shown, perhaps further down',
        'newest',
        ({ pageNumber }) => pageNumber < mostHiddenPages,
        ({ reading, behind, pageNumber }) => ({ reading: newest(reading, behind, pageNumber + 1) }),
      ),
      otherwise('the newest are never shown', 'done', ({ reading }) =>
        giveUp(reading, newestHidden(reading)),
      ),
    ],
  }),

  inside: row<'inside', SeenInside>({
    asks: 'Asked from the middle of a page, does it show rows that the page lacked?',
    action: ({ state, options: { largePageSize } }) => {
      const { within, middle, question } = state
      const since = question === 'the page again' ? within.since : middle
      const pageSize = Math.min(within.pageSize, largePageSize)
      return ask({ since, page: 1, pageSize, sorts: 'ascending' })
    },
    see: (reading, event) => judgeInside(reading, pageOf(event)),
    rules: [
      rule(
        'out of order, back to the start',
        'scan',
        ({ answer }) => isOutOfOrder(versionsOf(answer)),
        ({ reading }, held) => retract(reading, held),
      ),
      rule(
        'cut before it was sorted, back to the start',
        'ahead',
        ({ state, lacked }) => state.question === 'from the middle again' && lacked.length > 0 && lacked,
        ({ reading, page }, lacked) => takeCutBack(reading, whyCut(page, lacked)),
      ),
      rule(
        'rows that the page lacked',
        'inside',
        ({ state, lacked }) => state.question !== 'from the middle again' && lacked.length > 0,
        ({ reading, state, lacked }) => ({
          reading: {
            ...reading,
            state: {
              ...state,
              lacked,
              question: state.question === 'from the middle' ? 'the page again' : 'from the middle again',
            },
          },
        }),
      ),
      rule(
        'they came late',
        'ahead',
        ({ state }) => state.question !== 'from the middle',
        ({ reading, page }) => ({ reading: ahead(reading, page.since, page.pageSize) }),
      ),
      otherwise('nothing that the page lacked', 'ahead', (seen) => ({ reading: ahead(belowLast(seen)) })),
    ],
  }),

  top: row<'top', SeenSorted>({
    asks: 'Much is perhaps above. Which version is the highest now?',
    action: ({ state: { page } }) => ask(highestAbove(page), { isOnlyLook: true }),
    see: (reading, event) => {
      const { page } = reading.state
      return { reading: { ...reading, top: highest(versionsOf(pageOf(event)), page.last) }, page }
    },
    rules: [
      muchIsAbove,
      otherwise('not much is above', 'ahead', ({ reading }) => ({ reading: ahead(reading) })),
    ],
  }),

  ranges: row<'ranges', SeenRanges>({
    asks: 'What is above, in ranges of versions that are read side by side.',
    action: ({ state: { unread, density } }) => ({ kind: 'ranges', unread, density }),
    see: (reading, event) => {
      if (event.kind !== 'ranges') throw new Error(`A ${event.kind} came that nobody asked for`)
      const { unread, fell } = event
      return { reading: { ...advance(reading, readThrough(unread)), unread }, unread, fell }
    },
    rules: [
      rule(
        'out of order, back to the start',
        'scan',
        ({ fell }) => fell?.how === 'out of order' && fell.why,
        ({ reading }, why) => takeBack(reading, why),
      ),
      rule(
        'one was cut before it was sorted, back to the start',
        'ahead',
        ({ fell }) => fell?.how === 'cut' && fell.why,
        ({ reading }, why) => takeCutBack(reading, why),
      ),
      rule(
        'Sorts refused in one',
        'ahead',
        ({ fell }) => fell?.how === 'refused' && fell.why,
        ({ reading }, why) => sortsRefused(reading, why),
      ),
      rule(
        'all read',
        'ahead',
        ({ unread }) => unread.ranges.length === 0,
        ({ reading }) => ({ reading: ahead({ ...reading, unread: null }) }),
      ),
      // That one is read from below, and the others count when it is.
      otherwise('one could not be read to its end', 'ahead', ({ reading, unread }) => ({
        reading: ahead({ ...reading, rangesAfter: unread.ranges[0]?.upTo ?? unread.upTo }),
      })),
    ],
  }),

  scan: row<'scan', SeenListing>({
    asks: 'Page after page of everything above the position, in passes, until a count proves that all was seen.',
    action: listingAction,
    see: judgeListing,
    rules: [
      rule(
        'not all proven yet',
        'scan',
        ({ verdict }) => verdict.kind === 'question' && verdict,
        ({ reading, listing, effects }, { question }) => {
          const { since } = reading.state
          return { reading: { ...reading, state: { name: 'scan', since, listing, question } }, effects }
        },
      ),
      rule(
        'all seen but what is known',
        'anchor',
        ({ reading: { anchor, state }, verdict }: SeenListing) =>
          verdict.kind === 'complete' && anchor !== null && state.since < anchor.version && anchor,
        lookAtAnchor,
      ),
      rule(
        'all seen but the newest',
        'done',
        ({ reading: { highestServed }, verdict }) =>
          verdict.kind === 'complete' && highestServed !== null && verdict.upTo < highestServed,
        ({ reading, effects }) => ({ ...giveUp(reading, neverShown(reading)), effects }),
      ),
      rule(
        'all seen',
        'done',
        ({ verdict }) => verdict.kind === 'complete' && verdict,
        ({ reading, effects }, { upTo }) => ({ ...end(advance(reading, upTo)), effects }),
      ),
      rule(
        'only one page ever comes, sorted',
        'ahead',
        ({ verdict }) => verdict.kind === 'sorted' && verdict,
        ({ reading, effects }, { below }) => ({ reading: ahead(advance(reading, below)), effects }),
      ),
      rule(
        'given up',
        'done',
        ({ verdict }) => verdict.kind === 'uncertain' && verdict,
        ({ reading, effects }, { note }) => ({
          reading: { ...reading, state: { name: 'done', isComplete: false, note, isInconclusive: false } },
          effects,
        }),
      ),
    ],
  }),

  tie: row<'tie', SeenListing>({
    asks: 'Page after page of the rows of one version, in passes, until a count proves that all were seen.',
    action: listingAction,
    see: judgeListing,
    rules: [
      rule(
        'out of order, back to the start',
        'scan',
        ({ page }) => page !== null && isOutOfOrder(versionsOf(page)),
        ({ reading }, held) => retract(reading, held),
      ),
      rule(
        'not all proven yet',
        'tie',
        ({ verdict }) => verdict.kind === 'question' && verdict,
        ({ reading, listing, effects }, { question }) => {
          const { since } = reading.state
          return { reading: { ...reading, state: { name: 'tie', since, listing, question } }, effects }
        },
      ),
      rule(
        'all seen',
        'ahead',
        ({ verdict }) => verdict.kind === 'complete' && verdict,
        ({ reading, effects }, { upTo }) => ({ reading: ahead(advance(reading, upTo)), effects }),
      ),
      // Rows beyond must not wait for it.
      otherwise('given up', 'ahead', ({ reading, listing, effects }) => ({
        reading: ahead({ ...reading, cursor: listing.ceiling ?? reading.cursor }),
        effects,
      })),
    ],
  }),

  anchor: row<'anchor', SeenAnchor>({
    asks: 'An answer lacked a record that is known. What does the record itself say?',
    action: ({ state: { asked } }) => ({ kind: 'look', anchor: asked }),
    see: (reading, event) => {
      if (event.kind !== 'looked') throw new Error(`A ${event.kind} came that nobody asked for`)
      return { reading, found: event.found, next: event.next }
    },
    rules: [
      rule(
        'gone, and another is known',
        'ahead',
        ({ reading, found, next }) =>
          found === 'gone' && reading.anchorsTried < mostAnchors && next !== null && next,
        ({ reading }, anchor) => askFromAnchor(reading, anchor),
      ),
      // It has to show up until the reading is over.
      rule(
        'changed meanwhile',
        'ahead',
        ({ reading: { state }, found }) => typeof found === 'bigint' && found > state.asked.version && found,
        ({ reading }, version) => askFromAnchor(reading, { key: reading.state.asked.key, version }),
      ),
      rule(
        'there: asked again',
        'ahead',
        ({ reading: { state }, found }) => found === state.asked.version && state.looks === 0,
        ({ reading }) => askFromAnchor(reading, reading.state.asked),
      ),
      // What is hidden or cannot be read tells nothing; another known record may show that the answer is the upstream's all the same.
      rule(
        'not shown: another is known',
        'ahead',
        ({ reading, found, next }) =>
          (found === 'unclear' || found === reading.state.asked.version) &&
          reading.anchorsTried < mostAnchors &&
          next !== null &&
          next,
        ({ reading }, anchor) => askFromAnchor({ ...reading, lacked: reading.state.asked }, anchor),
      ),
      otherwise('nothing is proven', 'done', ({ reading, found }) => ({
        reading: {
          ...reading,
          state: {
            name: 'done',
            isComplete: false,
            isInconclusive: true,
            note: whyInconclusive(reading.state.asked, found),
          },
        },
      })),
    ],
  }),

  done: row<'done', never>({
    asks: 'Nothing: the reading is over.',
    action: ({ state: { isComplete, note, isInconclusive } }) => ({
      kind: 'end',
      isComplete,
      note,
      isInconclusive,
    }),
    see: isOver,
    rules: [],
  }),

  broken: row<'broken', never>({
    asks: 'Nothing: the upstream broke its contract.',
    action: ({ state: { what } }) => ({ kind: 'breach', what }),
    see: isOver,
    rules: [],
  }),
}

/** For the manual and for tests; `null` stands for any state. */
export const declaredStates: readonly {
  readonly name: StateName | null
  readonly asks: string | null
  readonly rules: readonly DeclaredRule[]
}[] = [
  { name: null, asks: null, rules: always },
  ...Object.entries(table).map(([name, { asks, rules }]) => ({ name: name as StateName, asks, rules })),
]

// ── walking through it ───────────────────────────────────────────────────────────────────────────────────────

export function start(options: ReadingOptions): Transition {
  const { from, until, pageSize, sorting, largestAnswer, anchor, isCut = false } = options
  const reading: Reading<'ahead'> = {
    options,
    position: from,
    cursor: from,
    sorting,
    largestAnswer,
    highestServed: null,
    goal: null,
    anchor,
    anchorsTried: 0,
    isCut,
    sharesVersions: false,
    fullPages: 0,
    blindSteps: 0,
    lacked: null,
    top: null,
    unread: options.load?.unread ?? null,
    rangesAfter: from,
    state: { name: 'ahead', since: lowest(from, anchor), pageSize, below: null },
  }
  // A poll asks what is newest: one question is enough while little is new.
  const isKnown = until === null && anchor !== null
  return transition(null, { reading: isKnown && maySort(reading) ? newest(reading, null) : reading })
}

export function next(before: Reading, event: Event): Transition {
  const reading = event.kind === 'answer' ? sawAny(before, event.page) : before
  const taken = firstOf(always, { reading, event }) ?? nextIn(reading.state.name, reading, event)
  if (!taken)
    throw new Error(`The reader has no rule for this ${event.kind} in its state ${reading.state.name}`)
  return transition(taken.rule, taken.move)
}

const nextIn = <Name extends StateName>(name: Name, reading: Reading<Name>, event: Event): Taken | null =>
  table[name].next(reading, event)

const actionIn = <Name extends StateName>(name: Name, reading: Reading<Name>): Action =>
  table[name].action(reading)

const transition = (taken: string | null, { reading, effects }: Move): Transition => ({
  reading,
  rule: taken,
  action: actionIn(reading.state.name, reading),
  effects: { seen: null, retreat: null, learnt: [], isLeftOut: false, ...effects },
})

// ── what rules see ───────────────────────────────────────────────────────────────────────────────────────────

type SeenAhead = { readonly reading: Reading<'ahead'>; readonly page: ObservedPage }
type SeenPageBehind = {
  readonly reading: Reading
  readonly page: ObservedPage
  readonly behind: SeenPage
}
type SeenAnchor = {
  readonly reading: Reading<'anchor'>
  readonly found: bigint | 'gone' | 'unclear'
  readonly next: Anchor | null
}
type SeenProof = {
  readonly reading: Reading<'proof'>
  readonly answers: readonly SeenPage[]
  /** Rights may hide the record at an end. */
  readonly isHidden: boolean
  readonly verdict: SortingVerdict | null
}
type SeenText = { readonly reading: Reading; readonly page: ObservedPage; readonly verdict: TextVerdict }

type SeenRanges = { readonly reading: Reading } & Omit<RangesEnd, 'kind'>

function pageOf(event: Event): SeenPage {
  if (event.kind !== 'answer') throw new Error(`A ${event.kind} came that nobody asked for`)
  return event.page
}

function isOver(_reading: Reading, event: Event): never {
  throw new Error(`This came after the reading had ended: ${event.kind}`)
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

/** Where a few of the highest rows are gone, that is worth a look; where many are, nothing is proven. */
const mostAnchors = 6

/** To ask at or above the version of the anchor, whether the upstream means above or at least. */
const lowest = (cursor: bigint, anchor: Anchor | null): bigint =>
  anchor === null || anchor.version > cursor ? cursor : anchor.version - 1n

function lookAtAnchor({ reading }: { readonly reading: Reading }, asked: Anchor): Move<'anchor'> {
  return {
    reading: { ...reading, state: { name: 'anchor', asked, looks: reading.anchorsTried } },
    effects: { isLeftOut: true },
  }
}

function askFromAnchor(before: Reading, anchor: Anchor): Move<'ahead'> {
  const reading = { ...before, anchor, anchorsTried: before.anchorsTried + 1 }
  return { reading: ahead(reading, lowest(reading.cursor, anchor)) }
}

function whyInconclusive({ key, version }: Anchor, found: bigint | 'gone' | 'unclear'): string {
  const lacked = `the answer lacked record ${key}, which has version ${version} here`
  const said =
    found === 'gone'
      ? 'it and others before it are gone when asked for by id'
      : found === 'unclear'
        ? 'asked for by id, it cannot be read'
        : found === version
          ? 'asked for by id, it is there'
          : `asked for by id, it has version ${found}`
  return `${lacked}; ${said}: nothing was proven`
}

function whatIsTooLow({ state }: Reading, page: SeenPage): string | false {
  const least = leastToServe(state)
  const tooLow = least === null ? undefined : versionsOf(page).find((version) => version < least)
  return tooLow !== undefined && `asked for changes since ${least}, it served version ${tooLow}`
}

/** Where `since` includes, what has the version below that of the anchor comes as well. */
function isOneOldRow({ reading, page }: SeenAhead): boolean {
  const below = page.since < reading.cursor ? page.versions.filter((version) => version === page.since) : []
  const isAlone = page.received - below.length === 1 && !page.isPerhapsCut
  return !page.isNew && page.hasOld && isAlone && mayBeAtEnd(reading)
}

/** Whether what is asked from the other end is believed. */
const confirmsEnd = ({ sorting, isCut }: Reading): boolean => sorting === 'proven' && !isCut

const maySort = ({ sorting, isCut }: Reading): boolean =>
  !isCut && (sorting === 'proven' || sorting === 'unknown')

/** No row is stored, and no record was ever shown. */
const isNothingKnown = ({ options, cursor, highestServed }: Reading): boolean =>
  cursor === 0n && options.anchor === null && highestServed === null

/** The page that seemed the last, when nothing is newer than it: rows that share its last version may be on none. */
function whatIsOfNewest({ reading, behind, page }: SeenNewest): ObservedPage | false {
  return confirmsEnd(reading) && behind !== null && page.isNew && page.last === behind.last && behind
}

const isPoll = (reading: Reading): boolean => confirmsEnd(reading) && reading.options.until === null

const withinRange = ({ options: { until } }: Reading, version: bigint): bigint =>
  until !== null && version > until ? until : version

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

const isOutOfOrder = (versions: readonly bigint[]): string | false =>
  !isAscending(versions) && outOfOrder(versions)

function isOutOfDescent(versions: readonly bigint[]): string | false {
  const at = versions.findIndex((version, index) => index > 0 && version > (versions[index - 1] ?? version))
  return at >= 0 && `${versions[at]} behind ${versions[at - 1]}, from the newest down`
}

/** Nothing above it was given yet when the first load began: that counts from then, whenever the position gets there. */
const firstTop = ({ options, highestServed }: Reading) =>
  options.from === 0n && options.until === null && highestServed !== null
    ? [learnt('first_top', String(highestServed), 'the highest version served when the first load began')]
    : []

// Ranges rest on the order alone, so nothing else may be in doubt.
const mayReadRanges = ({ reading, page }: SeenSorted): boolean =>
  reading.options.load !== undefined && confirmsEnd(reading) && isCertain(reading) && !page.isOneVersion

const isCertain = ({ position, cursor, anchor, lacked, isCut }: Reading): boolean =>
  position === cursor && anchor === null && lacked === null && !isCut

function begunRanges({ reading, page }: SeenSorted): Unread | false {
  const unread = unreadAhead(reading, page)
  return unread !== null && page.last > reading.rangesAfter && unreadAbove(unread, page.last - 1n)
}

const unreadAhead = ({ unread }: Reading, { last }: ObservedPage): Unread | null =>
  unread !== null && unread.upTo >= last ? unread : null

/** The range that is wanted ends there, or what was there by then: later ones are read when these are. */
function endOfMuch({ options, goal, top }: Reading): bigint | null {
  const highestKnown = goal ?? top
  return options.until ?? (highestKnown === null ? null : highestKnown - 1n)
}

function isTopWanted(seen: SeenSorted): boolean {
  const { reading, page } = seen
  const isWorthIt = page.isPerhapsCut && mayBegin(seen) && endOfMuch(reading) === null
  return isWorthIt && mayReadRanges(seen)
}

const mayBegin = ({ reading, page }: SeenSorted): boolean =>
  (reading.options.load?.readers ?? 1) > 1 && unreadAhead(reading, page) === null

function isMuchAbove(seen: SeenSorted): Far | false {
  const { reading, page } = seen
  const upTo = endOfMuch(reading)
  return upTo !== null && mayBegin(seen) && (isFar(page.versions, upTo, leastRows(reading)) ?? false)
}

const leastRows = ({ options: { load }, largestAnswer }: Reading): number =>
  (load?.leastPages ?? 0) * largestAnswer

/** The questions of the proof have shown the highest version, and how closely they lie where reading begins. */
function isMuchProven({ reading, answers, verdict }: SeenProof): Far | false {
  const { options, highestServed } = reading
  const page = answers[proofQuestions.findIndex(({ pageSize }) => pageSize > 1)]
  const upTo = options.until ?? (highestServed === null ? null : highestServed - 1n)
  const mayBegin = (options.load?.readers ?? 1) > 1 && reading.unread === null && isCertain(reading)
  if (verdict?.sorting !== 'proven' || !mayBegin || upTo === null || !page) return false
  return isFar(versionsOf(page), upTo, leastRows(reading)) ?? false
}

/** Nothing above it was given yet when this began: that counts from then, whenever the position gets there. */
function topAtBeginning({ options, goal, top, highestServed }: Reading): Learnt[] {
  const highestKnown = goal ?? top ?? highestServed
  return options.until === null && highestKnown !== null
    ? [learnt('first_top', String(highestKnown), 'the highest version when reading in ranges began')]
    : []
}

const rangesTo = (above: bigint, { upTo, density }: Far): Omit<State<'ranges'>, 'name'> => ({
  unread: { upTo, ranges: [{ above, upTo }] },
  density,
})

// ── where rules lead ─────────────────────────────────────────────────────────────────────────────────────────

const ahead = (
  reading: Reading,
  since = reading.cursor,
  pageSize = reading.options.pageSize,
): Reading<'ahead'> => ({ ...reading, state: { name: 'ahead', since, pageSize, below: null } })

const inRange = (reading: Reading, since: bigint, below: bigint | null): Reading<'ahead'> => ({
  ...reading,
  state: { name: 'ahead', since, pageSize: reading.options.pageSize, below },
})

const newest = (reading: Reading, behind: ObservedPage | null, page = 1): Reading<'newest'> => ({
  ...reading,
  state: { name: 'newest', since: newestSince(reading, behind), page, behind },
})

const lookInside = (reading: Reading, within: ObservedPage): Reading<'inside'> => ({
  ...reading,
  state: { name: 'inside', within, middle: middleOf(within), lacked: [], question: 'from the middle' },
})

function seenAhead(reading: Reading<'ahead'>, answer: SeenPage): SeenAhead {
  const page = observe(reading, reading.state, answer)
  const fullPages = reading.fullPages + (page.isPerhapsCut ? 1 : 0)
  const blindSteps = page.last > reading.cursor + 1n ? 0 : reading.blindSteps
  return { reading: { ...reading, fullPages, blindSteps }, page }
}

const readRanges = (
  seen: SeenSorted,
  { unread, density }: Omit<State<'ranges'>, 'name'>,
): Move<'ranges'> => ({
  reading: { ...belowLast(seen), state: { name: 'ranges', unread, density } },
})

/** What was concluded from the order of a listing holds no more. */
const sortsRefused = (reading: Reading, why: string): Move<'ahead'> => ({
  reading: ahead({ ...reading, sorting: 'refused', unread: null }),
  effects: { learnt: [learnt('sorting', 'refused', why)] },
})

const prove = (reading: Reading, since: bigint, answers: readonly SeenPage[]): Reading<'proof'> => ({
  ...reading,
  state: { name: 'proof', since, answers, page: 1 },
})

/** From its first page on, with pages as large as they come: in one answer, if there is such a page size. */
function scan(reading: Reading, since: bigint): Reading<'scan'> {
  const { maxPasses, largePageSize } = reading.options
  const begun = beginListing({ askedSize: largePageSize, maxPasses, ceiling: null })
  return { ...reading, state: { name: 'scan', since, listing: begun.listing, question: begun.step } }
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

/** All rows of the version with which the page ends, and which sorted pages begin with. */
function tie(reading: Reading, { since, pageSize, last }: ObservedPage): Reading<'tie'> {
  const begun = beginListing({ askedSize: pageSize, maxPasses: maxTiePasses, ceiling: last })
  return { ...reading, state: { name: 'tie', since, listing: begun.listing, question: begun.step } }
}

/** The proof was wrong, so nothing holds that was concluded from it, by this run or by those before it. */
function retract(reading: Reading, held: string): Move<'scan'> {
  return takeBack(reading, `a page sorted by row version held ${held}`)
}

function takeBack(reading: Reading, evidence: string): Move<'scan'> {
  const { from, restsFrom = from } = reading.options
  return {
    reading: scan(
      { ...reading, position: restsFrom, cursor: restsFrom, sorting: 'ignored', unread: null },
      restsFrom,
    ),
    effects: { retreat: evidence, learnt: [learnt('sorting', 'ignored', evidence)] },
  }
}

function whyCut({ since, last }: ObservedPage, [row]: SeenPage['rows']): string {
  return `a sorted page of what is above ${since} went up to version ${last} without record ${row?.key}, which has version ${row?.version}`
}

/** Only small answers are whole, so nothing holds that was concluded from the order of larger ones. */
function takeCutBack(before: Reading, evidence: string): Move<'ahead'> {
  const { from, restsFrom = from } = before.options
  const reading = { ...before, position: restsFrom, cursor: restsFrom, isCut: true, unread: null }
  return {
    reading: inRange(reading, restsFrom, null),
    effects: { retreat: evidence, learnt: [learnt('sorted_before_cut', 'no', evidence)] },
  }
}

/**
 * An answer of as many records as ever came goes that far above what was asked, at least, when no two rows share a version. But a cap
 * may have shrunk as well: what is behind is read, and the position waits (P6).
 */
function goOnBlindly({ reading, page }: SeenAhead, to: bigint): Move<'ahead'> {
  const from = { ...reading, cursor: to, blindSteps: reading.blindSteps + 1 }
  return { reading: ahead(from, to, page.pageSize) }
}

function giveUp(reading: Reading, note: string): Move<'done'> {
  return { reading: { ...reading, state: { name: 'done', isComplete: false, note, isInconclusive: false } } }
}

const newestHidden = ({ options: { pageSize } }: Reading): string =>
  `the upstream shows none of its ${mostHiddenPages * pageSize} newest records, and what may be below them cannot be told: perhaps the integration user may not see them`

const neverShown = ({ cursor, highestServed }: Reading): string =>
  `pages above version ${cursor} were empty or short, although the upstream showed version ${highestServed}: perhaps the integration user may not see what is between. What is behind it is read, and the position waits`

/** The last version may go on behind the end of the page: only what is below it is complete (P6). */
const belowLast = ({ reading, page }: SeenSorted): Reading => advance(reading, page.last - 1n)

function end(reading: Reading, note: string | null = null): Move<'done'> {
  const { lacked } = reading
  const isRead = reading.position === reading.cursor
  // As of when is not known: what was served is older than a record that is there.
  const isComplete = isRead && lacked === null
  const told = isRead
    ? lacked === null
      ? note
      : `record ${lacked.key} is there and was not served: what came is stored, and the stream does not count as current`
    : whatWaits(reading)
  return { reading: { ...reading, state: { name: 'done', isComplete, note: told, isInconclusive: false } } }
}

const whatWaits = ({ position }: Reading): string =>
  `pages above version ${position} showed nothing, or not all rows of one version: what came behind them is stored, and the position waits`

// ── how states ask ───────────────────────────────────────────────────────────────────────────────────────────

const ask = (request: Ask['request'], traits: Partial<Ask> = {}): Ask => ({
  kind: 'ask',
  mayBeNothing: false,
  isOnlyLook: false,
  mayYield: false,
  ...traits,
  request,
})

const sortsOf = (reading: Reading): SortOrder | null => (reading.sorting === 'refused' ? null : 'ascending')

const pageTwo = (reading: Reading, { since, received }: ObservedPage): Ask['request'] => ({
  since,
  page: 2,
  pageSize: received,
  sorts: sortsOf(reading),
})

const highestAbove = ({ since }: ObservedPage): Ask['request'] => ({
  since,
  page: 1,
  pageSize: 1,
  sorts: 'descending',
})

function proofRequest({ since, answers, page }: State<'proof'>): Ask['request'] {
  const question = proofQuestions[answers.length]
  if (!question) throw new Error('The proof of sorting has no such question')
  return { since, page, ...question }
}

function listingAction(reading: Reading<'scan' | 'tie'>): Action {
  const { since, question } = reading.state
  if (question.kind === 'count') return question
  const { page, pageSize } = question
  return ask({ since, page, pageSize, sorts: sortsOf(reading) })
}
