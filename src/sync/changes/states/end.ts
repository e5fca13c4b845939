// Confirms the end from the other end (P12): do the newest records reach down to what is read? A short or empty page does not prove it:
// the upstream may leave out what the user may not see after it cut the page.

import type { SeenPage } from '../../lists/listing.ts'
import { otherwise, row, rule } from '../rules.ts'
import { type Ask, advance, holds, type ObservedPage, observe, type Reading } from '../state.ts'
import {
  ask,
  askEnd,
  confirmsEnd,
  finish,
  giveUp,
  isNothingKnown,
  isWritten,
  lookAtAnchor,
  nextPage,
  nextPageWithAnchor,
  ofOneVersion,
  pageOf,
  prove,
} from './moves.ts'

export function questionOfEnd(reading: Reading<'end'>): Ask {
  const { since, page, behind } = reading.state
  const request = { since, page, pageSize: newestSize(reading), sorts: 'descending' } as const
  return ask(request, { mayBeNothing: behind === null && !isNothingKnown(reading) })
}

/** After this many pages that show nothing new, the search for the newest records ends. */
const mostHiddenPages = 5

/** At least as large as the page that seemed to be the last. */
const newestSize = ({ options, state }: Reading<'end'>): number =>
  Math.max(options.pageSize, state.behind?.pageSize ?? 0)

type SeenEnd = {
  readonly reading: Reading
  readonly behind: ObservedPage | null
  readonly pageNumber: number
  readonly page: ObservedPage
  /** It shows everything from the newest record down to what is read. */
  readonly isClosed: boolean
}

function judgeEnd(reading: Reading<'end'>, answer: SeenPage): SeenEnd {
  const { since, page: pageNumber, behind } = reading.state
  const page = observe(reading, { since, pageSize: newestSize(reading) }, answer)
  const [newest] = answer.rows.filter(({ version }) => version !== null)
  // Where rows share a version, the page may hold one row of the newest version and lack the others.
  const isNewestRead =
    behind !== null && newest !== undefined && holds(behind, newest) && !reading.sharesVersions
  return { reading, behind, pageNumber, page, isClosed: page.hasOld || isNewestRead }
}

export const endRow = row<'end', SeenEnd>({
  asks: 'What is the newest, and does what is shown reach down to what is read?',
  action: questionOfEnd,
  see: (reading, event) => judgeEnd(reading, pageOf(event)),
  rules: [
    rule(
      'without what is known',
      'anchor',
      ({ reading: { anchor }, page, isClosed }: SeenEnd) =>
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
      ({ reading, page }) => ({ reading: finish(reading), effects: { isLeftOut: isWritten(reading, page) } }),
    ),
    // Not if the page is as long as any answer: then it may be cut, and that before it was sorted.
    rule(
      'everything down to what is read',
      'done',
      ({ reading, page, isClosed }) => isClosed && confirmsEnd(reading) && !page.isPerhapsCut,
      ({ reading, page }) => finish(advance(reading, withinRange(reading, page.last))),
    ),
    rule(
      'the newest was just read',
      'done',
      ({ reading, behind, page, isClosed }) =>
        isClosed && confirmsEnd(reading) && behind !== null && page.last === behind.last,
      ({ reading, page }) => finish(advance(reading, withinRange(reading, page.last))),
    ),
    rule(
      'perhaps more of the newest version, which a larger page may hold',
      'next-page',
      (seen) => {
        const behind = whatIsOfNewest(seen)
        return behind !== false && behind.pageSize < seen.reading.options.largePageSize
      },
      ({ reading }) => nextPage(reading, { pageSize: reading.options.largePageSize }),
    ),
    rule('perhaps more of the newest version', 'one-version', whatIsOfNewest, ({ reading }, behind) =>
      ofOneVersion(reading, { ...behind, since: reading.cursor }),
    ),
    rule(
      'nothing from either end',
      'done',
      // Behind a page of records that cannot be rows, an empty one is no empty upstream.
      ({ reading, page, pageNumber }) => page.received === 0 && pageNumber === 1 && isNothingKnown(reading),
      ({ reading }) => finish(reading),
    ),
    rule(
      'more than it shows, and sorting is unknown',
      'proof',
      ({ reading, page }) => page.isNew && reading.sorting === 'unknown',
      ({ reading, page }) => prove({ ...reading, goal: page.last }, reading.cursor, []),
    ),
    rule(
      'more than it shows',
      'next-page',
      ({ page }) => page.isNew,
      ({ reading, behind, page }) =>
        nextPageWithAnchor({ ...reading, goal: leftGoal(reading, behind) ?? page.last }),
    ),
    rule(
      'nothing shown where a poll begins',
      'next-page',
      ({ behind }) => behind === null,
      ({ reading }) => nextPageWithAnchor(reading),
    ),
    rule(
      'nothing shown, perhaps further down',
      'end',
      ({ pageNumber }) => pageNumber < mostHiddenPages,
      ({ reading, behind, pageNumber }) => askEnd(reading, behind, pageNumber + 1),
    ),
    otherwise('the newest are never shown', 'done', ({ reading }) => giveUp(reading, newestHidden(reading))),
  ],
})

/** The page that seemed to be the last, if nothing is newer: then only rows that share its last version can still be missing. */
function whatIsOfNewest({ reading, behind, page }: SeenEnd): ObservedPage | false {
  return confirmsEnd(reading) && behind !== null && page.isNew && page.last === behind.last && behind
}

/** None when the page before has reached it: more has come since, and with the old goal the same page would be asked for without end. */
const leftGoal = ({ goal }: Reading, behind: ObservedPage | null): bigint | null =>
  goal !== null && behind !== null && behind.last >= goal ? null : goal

const withinRange = ({ options: { until } }: Reading, version: bigint): bigint =>
  until !== null && version > until ? until : version

const newestHidden = ({ options: { pageSize } }: Reading): string =>
  `the upstream shows none of its ${mostHiddenPages * pageSize} newest records, and what may be below them cannot be told: perhaps the integration user may not see them`
