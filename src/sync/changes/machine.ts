// Decides how a changes stream is read: what to ask next, and how far the position may move. Pure: what was seen goes in, the next
// question comes out; it knows no time, no network and no database, so that it can be tried against thousands of hostile upstreams.
// Everything that is decided stands in one table. The experts (state.ts, passes.ts, text-order.ts, hypotheses.ts) only judge.

import { beginListing, continueListing, type SeenPage, wantedKeys } from '../lists/listing.ts'
import type { SortOrder } from '../ports/source.ts'
import { judge, learnt, proofQuestions, type SortingVerdict } from './hypotheses.ts'
import { judgeListing, type SeenListing } from './passes.ts'
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
  isAscending,
  leastToServe,
  mayBeAtEnd,
  type ObservedPage,
  observe,
  outOfOrder,
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

// ── the table ────────────────────────────────────────────────────────────────────────────────────────────────

type SeenAny = { readonly reading: Reading; readonly event: Event }

/** Tried first, in every state. */
const always: readonly Rule<SeenAny>[] = [
  rule(
    'Sorts refused',
    'ahead',
    ({ event }) => event.kind === 'refused' && event,
    ({ reading }, { status }) => ({
      // What was concluded from the order of a listing holds no more.
      reading: ahead({ ...reading, sorting: 'refused' }),
      effects: { learnt: [learnt('sorting', 'refused', `status ${status}`)] },
    }),
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

const goOn: readonly Rule<SeenSorted>[] = [
  rule(
    'beyond the goal',
    'done',
    ({ reading, page }) => reading.goal !== null && page.last > reading.goal,
    (seen) => end(belowLast(seen), 'the source changes as fast as it is read'),
  ),
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

const table: { readonly [Name in StateName]: StateRow<Name> } = {
  ahead: row<'ahead', SeenAhead>({
    asks: 'What is above the position?',
    action: (reading) => {
      const { since, pageSize } = reading.state
      const request = { since, page: 1, pageSize, sorts: sortsOf(reading) }
      return ask(request, { mayBeNothing: mayBeAtEnd(reading), mayYield: true })
    },
    see: (reading, event) => ({ reading, page: observe(reading, pageOf(event)) }),
    rules: [
      // Nothing that it shows or leaves out is believed before that is cleared up (P11).
      rule('without what is known', 'anchor', whatIsLacking, lookAtAnchor),
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
      // A short page proves nothing: its cap may have shrunk, or rows were left out after it was cut.
      rule(
        'a short page',
        'tail',
        ({ page }) => !page.isPerhapsCut,
        (seen) => ({ reading: { ...belowLast(seen), state: { name: 'tail', page: seen.page } } }),
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
      const answers = [...reading.state.answers, pageOf(event)]
      return { reading, answers, verdict: answers.length < proofQuestions.length ? null : judge(answers) }
    },
    rules: [
      rule(
        'another question',
        'proof',
        ({ verdict }) => verdict === null,
        ({ reading, answers }) => ({ reading: prove(reading, reading.state.since, answers) }),
      ),
      rule(
        'sorting proven',
        'ahead',
        ({ verdict }) => verdict?.sorting === 'proven' && verdict,
        ({ reading }, { evidence }) => ({
          reading: ahead({ ...reading, sorting: 'proven' }),
          effects: { learnt: [learnt('sorting', 'proven', evidence), ...firstTop(reading)] },
        }),
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
      ...goOn,
    ],
  }),

  tail: row<'tail', SeenPageBehind>({
    asks: 'Is anything behind a short page?',
    action: (reading) => ask(pageTwo(reading, reading.state.page)),
    see: (reading, event) => ({ reading, page: reading.state.page, behind: pageOf(event) }),
    rules: [
      rule(
        'nothing behind it',
        'done',
        ({ behind }) => behind.received === 0,
        ({ reading, page }) => end(advance(reading, page.last)),
      ),
      rule(
        'out of order, back to the start',
        'scan',
        ({ page, behind }) => isOutOfOrder(versionsBehind(page, behind)),
        ({ reading }, held) => retract(reading, held),
      ),
      // The source may change as fast as it is read. What was there by now is enough; how far is that?
      rule(
        'something behind it',
        'goal',
        ({ reading }) => reading.goal === null,
        ({ reading, page }) => ({ reading: { ...reading, state: { name: 'goal', page } } }),
      ),
      ...goOn,
    ],
  }),

  goal: row<'goal', SeenSorted>({
    asks: 'Which version is the highest now?',
    action: ({ state: { page } }) => ask({ since: page.since, page: 1, pageSize: 1, sorts: 'descending' }),
    see: (reading, event) => {
      const [goal = null] = versionsOf(pageOf(event))
      return { reading: { ...reading, goal }, page: reading.state.page }
    },
    rules: goOn,
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
  const { from, pageSize, sorting, largestAnswer, anchor } = options
  return transition(null, {
    reading: {
      options,
      position: from,
      cursor: from,
      sorting,
      largestAnswer,
      highestServed: null,
      goal: null,
      anchor,
      anchorsTried: 0,
      lacked: null,
      state: { name: 'ahead', since: lowest(from, anchor), pageSize },
    },
  })
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
  readonly verdict: SortingVerdict | null
}
type SeenText = { readonly reading: Reading; readonly page: ObservedPage; readonly verdict: TextVerdict }

function pageOf(event: Event): SeenPage {
  if (event.kind !== 'answer') throw new Error(`A ${event.kind} came that nobody asked for`)
  return event.page
}

function isOver(_reading: Reading, event: Event): never {
  throw new Error(`This came after the reading had ended: ${event.kind}`)
}

/** An answer that should show the anchor and does not: empty, or beginning behind it, or whole. */
function whatIsLacking({ reading: { anchor, sorting }, page }: SeenAhead): Anchor | false {
  if (anchor === null || page.since >= anchor.version) return false
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

const isOutOfOrder = (versions: readonly bigint[]): string | false =>
  !isAscending(versions) && outOfOrder(versions)

/** What the page showed may come again: a late row moved it on, or it was cut to more than is shown. */
function versionsBehind(page: ObservedPage, behind: SeenPage): readonly bigint[] {
  const shown = new Set(page.rows.map(({ key }) => key))
  return [page.last, ...behind.rows.flatMap(({ key, version }) => (shown.has(key) ? [] : (version ?? [])))]
}

/** Nothing above it was given yet when the first load began: that counts from then, whenever the position gets there. */
const firstTop = ({ options, highestServed }: Reading) =>
  options.from === 0n && options.until === null && highestServed !== null
    ? [learnt('first_top', String(highestServed), 'the highest version served when the first load began')]
    : []

// ── where rules lead ─────────────────────────────────────────────────────────────────────────────────────────

const ahead = (
  reading: Reading,
  since = reading.cursor,
  pageSize = reading.options.pageSize,
): Reading<'ahead'> => ({ ...reading, state: { name: 'ahead', since, pageSize } })

const prove = (reading: Reading, since: bigint, answers: readonly SeenPage[]): Reading<'proof'> => ({
  ...reading,
  state: { name: 'proof', since, answers },
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

/** The proof was wrong, so nothing that this run concluded from it holds. */
function retract(reading: Reading, held: string): Move<'scan'> {
  const { from } = reading.options
  const evidence = `a page sorted by row version held ${held}`
  return {
    reading: scan({ ...reading, position: from, cursor: from, sorting: 'ignored' }, from),
    effects: { retreat: evidence, learnt: [learnt('sorting', 'ignored', evidence)] },
  }
}

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
    : `the rows of one version could not be proven complete: the position waits at ${reading.position}`
  return { reading: { ...reading, state: { name: 'done', isComplete, note: told, isInconclusive: false } } }
}

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

function proofRequest({ since, answers }: State<'proof'>): Ask['request'] {
  const question = proofQuestions[answers.length]
  if (!question) throw new Error('The proof of sorting has no such question')
  return { since, page: 1, ...question }
}

function listingAction(reading: Reading<'scan' | 'tie'>): Action {
  const { since, question } = reading.state
  if (question.kind === 'count') return question
  const { page, pageSize } = question
  return ask({ since, page, pageSize, sorts: sortsOf(reading) })
}
