// Key-set reading, where the upstream is proven to sort by row version: each request begins at the last version of the page
// before. Pure. Every page is checked; one out of order takes the proof back.

import type { SeenPage } from './listing.ts'
import { listTie, outOfOrder, takeBackProof } from './passes.ts'
import {
  advance,
  ask,
  type Decision,
  end,
  lookAhead,
  type Reading,
  type SortedPage,
  sortsOf,
  versionsOf,
} from './reading.ts'
import { isAscending } from './sorting-proof.ts'
import { askForTheEnd, isPerhapsText } from './text-order.ts'

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
