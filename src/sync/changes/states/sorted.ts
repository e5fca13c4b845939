// Pages that came sorted, behind which there is more: on to the next one, or, where much is above, in ranges side by side.

import { type Detected, detected } from '../../capabilities.ts'
import type { Unread } from '../../ports/store.ts'
import { densityOf, type Far, isFar, readThrough, unreadAbove } from '../ranges.ts'
import { otherwise, type Rule, row, rule } from '../rules.ts'
import { advance, type ObservedPage, type RangesEnd, type Reading, type State } from '../state.ts'
import {
  confirmsEnd,
  finish,
  isCertain,
  nextPage,
  ofOneVersion,
  sortsRefused,
  takeBack,
  takeCutBack,
} from './moves.ts'

/** A page that came sorted, and there is more. */
type SeenSorted = { readonly reading: Reading; readonly page: ObservedPage }

type SeenRanges = { readonly reading: Reading } & Omit<RangesEnd, 'kind'>

export const pastTheRange = rule<SeenSorted, 'done', bigint>(
  'past the range',
  'done',
  ({ reading: { options }, page }) => options.until !== null && page.last > options.until && options.until,
  ({ reading }, until) => finish(advance(reading, until)),
)

export const beyondTheGoal = rule<SeenSorted, 'done', true>(
  'beyond the goal',
  'done',
  ({ reading, page }) => reading.goal !== null && page.last > reading.goal,
  (seen) => finish(belowLast(seen)),
)

// An earlier run, or this one, has read some ranges above: that counts, and only the rest is read.
export const rangesWereBegun = rule<SeenSorted, 'ranges', Unread>(
  'ranges were begun',
  'ranges',
  (seen) => mayReadRanges(seen) && begunRanges(seen),
  (seen, unread) => readRanges(seen, { unread, density: densityOf(seen.page.versions) ?? 0 }),
)

export const muchIsAbove = rule<SeenSorted, 'ranges', Far>(
  'much is above',
  'ranges',
  (seen) => mayReadRanges(seen) && isMuchAbove(seen),
  (seen, far) => ({
    reading: readRanges(seen, rangesTo(belowLast(seen).cursor, far)),
    effects: { detected: topAtBeginning(seen.reading) },
  }),
)

export const goOn: readonly Rule<SeenSorted>[] = [
  rule(
    'several versions',
    'next-page',
    ({ page }) => !page.isOneVersion,
    (seen) => nextPage(belowLast(seen)),
  ),
  rule(
    'one version, a larger page may hold it',
    'next-page',
    ({ reading, page }) => page.pageSize < reading.options.largePageSize,
    (seen) =>
      nextPage(belowLast(seen), { since: seen.page.since, pageSize: seen.reading.options.largePageSize }),
  ),
  otherwise('one version fills the largest page', 'one-version', (seen) =>
    ofOneVersion(belowLast(seen), seen.page),
  ),
]

export const rangesRow = row<'ranges', SeenRanges>({
  asks: 'What is above, in ranges of versions that are read side by side.',
  action: ({ state: { unread, density } }) => ({ kind: 'ranges', unread, density }),
  see: (reading, event) => {
    if (event.kind !== 'ranges') throw new Error(`A ${event.kind} came that nobody asked for`)
    const { unread, fell, tied } = event
    const sharesVersions = reading.sharesVersions || tied !== undefined
    const after = { ...advance(reading, readThrough(unread)), unread, sharesVersions }
    return { reading: after, unread, fell, ...(tied !== undefined && { tied }) }
  },
  rules: [
    rule(
      'out of order, back to the start',
      'passes',
      ({ fell }) => fell?.how === 'out of order' && fell.why,
      ({ reading }, why) => takeBack(reading, why),
    ),
    rule(
      'one was cut before it was sorted, back to the start',
      'next-page',
      ({ fell }) => fell?.how === 'cut' && fell.why,
      ({ reading }, why) => takeCutBack(reading, why),
    ),
    rule(
      'Sorts refused in one',
      'next-page',
      ({ fell }) => fell?.how === 'refused' && fell.why,
      ({ reading }, why) => sortsRefused(reading, why),
    ),
    rule(
      'all read',
      'next-page',
      ({ unread }) => unread.ranges.length === 0,
      ({ reading, tied }) => behindRanges({ ...reading, unread: null }, tied),
    ),
    // The lowest range that is left is read from below, page after page. The others are taken up again behind it.
    otherwise('one could not be read to its end', 'next-page', ({ reading, unread }) =>
      nextPage({ ...reading, rangesAfter: unread.ranges[0]?.upTo ?? unread.upTo }),
    ),
  ],
})

/**
 * Ranges end just below what was the newest record when they began, so probably that one alone is left. Where rows share versions, the
 * one before is asked for as well: when it is shown from the other end too, nothing is left between them.
 */
const behindRanges = (reading: Reading, tied: bigint = reading.cursor + 1n): Reading<'next-page'> =>
  nextPage(reading, { since: tied - 1n, isPerhapsLast: reading.options.until === null })

// Ranges rest on the order alone, so nothing else may be in doubt.
const mayReadRanges = ({ reading, page }: SeenSorted): boolean =>
  reading.options.load !== undefined && confirmsEnd(reading) && isCertain(reading) && !page.isOneVersion

function begunRanges({ reading, page }: SeenSorted): Unread | false {
  const unread = unreadAhead(reading, page)
  return unread !== null && page.last > reading.rangesAfter && unreadAbove(unread, page.last - 1n)
}

const unreadAhead = ({ unread }: Reading, { last }: ObservedPage): Unread | null =>
  unread !== null && unread.upTo >= last ? unread : null

/** Where reading in ranges ends: where the wanted range ends, or just below the highest version known. What is newer is read afterwards. */
const endOfMuch = ({ options, goal, highestServed }: Reading): bigint | null => {
  const top = goal ?? highestServed
  return options.until ?? (top === null ? null : top - 1n)
}

const mayBegin = ({ reading, page }: SeenSorted): boolean =>
  (reading.options.load?.readers ?? 1) > 1 && unreadAhead(reading, page) === null

function isMuchAbove(seen: SeenSorted): Far | false {
  const { reading, page } = seen
  const upTo = endOfMuch(reading)
  // Where so many full pages came, versions lie closer than those before them did: as much may follow.
  const isLong = reading.fullPages >= (reading.options.load?.leastPages ?? 0)
  return (
    upTo !== null && mayBegin(seen) && (isFar(page.versions, upTo, isLong ? 0 : leastRows(reading)) ?? false)
  )
}

export const leastRows = ({ options: { load }, largestAnswer }: Reading): number =>
  (load?.leastPages ?? 0) * largestAnswer

/** The highest version when this reading in ranges began. What existed then is not late, whenever the position gets there. */
export function topAtBeginning({ options, goal, highestServed }: Reading): Detected[] {
  const highestKnown = goal ?? highestServed
  return options.until === null && highestKnown !== null
    ? [detected('first_top', String(highestKnown), 'the highest version when reading in ranges began')]
    : []
}

export const rangesTo = (above: bigint, { upTo, density }: Far): Omit<State<'ranges'>, 'name'> => ({
  unread: { upTo, ranges: [{ above, upTo }] },
  density,
})

const readRanges = (seen: SeenSorted, ranges: Omit<State<'ranges'>, 'name'>): Reading<'ranges'> => ({
  ...belowLast(seen),
  state: { name: 'ranges', ...ranges },
})

/** The last version may go on behind the end of the page: only what is below it is complete (P6). */
export const belowLast = ({ reading, page }: SeenSorted): Reading => advance(reading, page.last - 1n)
