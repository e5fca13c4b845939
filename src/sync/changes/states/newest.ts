// Confirms the end from the other end (P12): do the newest records reach down to what is read? And looks at a page from inside: a page
// that was cut before it was sorted lacks rows there.

import type { SeenPage } from '../../lists/listing.ts'
import {
  judgeInside,
  judgeNewest,
  mostHiddenPages,
  newestSize,
  type SeenInside,
  type SeenNewest,
} from '../ends.ts'
import { otherwise, row, rule } from '../rules.ts'
import { type Ask, advance, type ObservedPage, type Reading } from '../state.ts'
import {
  ahead,
  ask,
  confirmsEnd,
  end,
  giveUp,
  isNothingKnown,
  isWritten,
  lookAtAnchor,
  lowest,
  newest,
  pageOf,
  prove,
  takeCutBack,
  tie,
} from './moves.ts'
import { belowLast } from './sorted.ts'

export function askNewest(reading: Reading<'newest'>): Ask {
  const { since, page, behind } = reading.state
  const request = { since, page, pageSize: newestSize(reading), sorts: 'descending' } as const
  return ask(request, { mayBeNothing: behind === null })
}

export const newestRow = row<'newest', SeenNewest>({
  asks: 'What is the newest, and does what is shown reach down to what is read?',
  action: askNewest,
  see: (reading, event) => judgeNewest(reading, pageOf(event)),
  rules: [
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
      ({ reading, page }) => ({ ...end(reading), effects: { isLeftOut: isWritten(reading, page) } }),
    ),
    // Not if the page is as long as any answer: then it may be cut, and that before it was sorted.
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
    otherwise('the newest are never shown', 'done', ({ reading }) => giveUp(reading, newestHidden(reading))),
  ],
})

export const insideRow = row<'inside', SeenInside>({
  asks: 'Asked from the middle of a page, does it show rows that the page lacked?',
  action: ({ state, options: { largePageSize } }) => {
    const { within, middle, question } = state
    const since = question === 'the page again' ? within.since : middle
    const pageSize = Math.min(within.pageSize, largePageSize)
    return ask({ since, page: 1, pageSize, sorts: 'ascending' }, { isOnlyLook: true })
  },
  see: (reading, event) => judgeInside(reading, pageOf(event)),
  rules: [
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
})

/** The page that seemed to be the last, if nothing is newer: then only rows that share its last version can still be missing. */
function whatIsOfNewest({ reading, behind, page }: SeenNewest): ObservedPage | false {
  return confirmsEnd(reading) && behind !== null && page.isNew && page.last === behind.last && behind
}

const withinRange = ({ options: { until } }: Reading, version: bigint): bigint =>
  until !== null && version > until ? until : version

const newestHidden = ({ options: { pageSize } }: Reading): string =>
  `the upstream shows none of its ${mostHiddenPages * pageSize} newest records, and what may be below them cannot be told: perhaps the integration user may not see them`

function whyCut({ since, last }: ObservedPage, [row]: SeenPage['rows']): string {
  return `a sorted page of what is above ${since} went up to version ${last} without record ${row?.key}, which has version ${row?.version}`
}
