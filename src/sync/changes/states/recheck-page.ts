// A page that was cut before it was sorted looks like any other. So some full pages are asked for again from their middle: does that show
// rows that the page lacked?

import type { SeenPage } from '../../lists/listing.ts'
import { otherwise, row, rule } from '../rules.ts'
import { holds, isSameRow, type ObservedPage, type Reading, type State, versionsOf } from '../state.ts'
import { ask, nextPage, pageOf, takeCutBack } from './moves.ts'
import { belowLast } from './sorted.ts'

/** Pages with fewer different versions than this are not asked for again. */
const enoughVersions = 8

/** The first full page of a reading is asked for again, the second, the fourth, and so on. */
export const isRechecked = ({ fullPages }: Reading, page: ObservedPage): boolean =>
  page.isPerhapsCut && (fullPages & (fullPages - 1)) === 0 && new Set(page.versions).size >= enoughVersions

/** The last rows of a page, at most so many, are asked for again, with as many behind them. Of a long page that tells as much as half. */
const rowsAgain = 100

/** A version in it. If the page is the beginning of what there is, it holds every record between this and its last version. */
const middleOf = ({ versions }: ObservedPage): bigint =>
  versions[Math.max(versions.length >> 1, versions.length - rowsAgain)] ?? 0n

export const recheck = (reading: Reading, within: ObservedPage): Reading<'recheck-page'> => ({
  ...reading,
  state: { name: 'recheck-page', within, middle: middleOf(within), lacked: [], question: 'from the middle' },
})

type SeenRecheck = {
  readonly reading: Reading
  readonly page: ObservedPage
  readonly answer: SeenPage
  readonly state: State<'recheck-page'>
  /** What the page should have shown and did not, as far as this answer tells. */
  readonly lacked: SeenPage['rows']
}

function judgeRecheck(reading: Reading<'recheck-page'>, answer: SeenPage): SeenRecheck {
  const { state } = reading
  const { within, question } = state
  const judged = { reading, page: within, answer, state }
  if (question === 'from the middle') {
    const isWithin = (version: bigint | null) =>
      version !== null && version > state.middle && version < within.last
    const wanted = answer.rows.filter(({ version }) => isWithin(version))
    return { ...judged, lacked: lackedBy(within, wanted) }
  }
  if (question === 'from the middle again')
    return { ...judged, lacked: state.lacked.filter((row) => holds(answer, row)) }
  // What is above the last version of this answer belongs on a later page: the page does not lack it.
  const last = versionsOf(answer).at(-1) ?? 0n
  const belongs = ({ version }: { version: bigint | null }) => version !== null && version < last
  return { ...judged, lacked: lackedBy(answer, state.lacked.filter(belongs)) }
}

/** Which of some rows a page does not show. Pages are long: each row is looked up, not searched for. */
function lackedBy(page: SeenPage, rows: SeenPage['rows']): SeenPage['rows'] {
  const shown = Map.groupBy(page.rows, ({ key }) => key)
  return rows.filter((row) => !shown.get(row.key)?.some((other) => isSameRow(row, other)))
}

export const recheckPageRow = row<'recheck-page', SeenRecheck>({
  asks: 'Asked from the middle of a page, does it show rows that the page lacked?',
  action: ({ state, options: { largePageSize } }) => {
    const { within, middle, question } = state
    const since = question === 'the page again' ? within.since : middle
    const rows = question === 'the page again' ? largePageSize : 2 * rowsAgain
    const pageSize = Math.min(within.pageSize, rows)
    return ask({ since, page: 1, pageSize, sorts: 'ascending' }, { isOnlyLook: true })
  },
  see: (reading, event) => judgeRecheck(reading, pageOf(event)),
  rules: [
    rule(
      'cut before it was sorted, back to the start',
      'next-page',
      ({ state, lacked }) => state.question === 'from the middle again' && lacked.length > 0 && lacked,
      ({ reading, page }, lacked) => takeCutBack(reading, whyCut(page, lacked)),
    ),
    rule(
      'rows that the page lacked',
      'recheck-page',
      ({ state, lacked }) => state.question !== 'from the middle again' && lacked.length > 0,
      ({ reading, state, lacked }) => ({
        ...reading,
        state: {
          ...state,
          lacked,
          question: state.question === 'from the middle' ? 'the page again' : 'from the middle again',
        },
      }),
    ),
    rule(
      'they came late',
      'next-page',
      ({ state }) => state.question !== 'from the middle',
      ({ reading, page }) => nextPage(reading, { since: page.since, pageSize: page.pageSize }),
    ),
    otherwise('nothing that the page lacked', 'next-page', (seen) => nextPage(belowLast(seen))),
  ],
})

function whyCut({ since, last }: ObservedPage, [row]: SeenPage['rows']): string {
  return `a sorted page of what is above ${since} went up to version ${last} without record ${row?.key}, which has version ${row?.version}`
}
