// What sorts numbers as text has 10 before 9, and 104 before 27: behind a page whose versions have more digits than what was read
// before, shorter ones may stand, which reading on from its last version would pass over for good. Pure. Looks at the end first,
// where 9 stands behind 10; and counts where that shows too little: without shorter ones, there are as many rows in all as long ones
// and those of the page that are shorter.

import type { SeenPage } from '../lists/listing.ts'
import { outOfOrder, takeBackProof } from './machine.ts'
import { ask, type Count, type Decision, type Reading, type SortedPage, versionsOf } from './state.ts'

/** Some of them may be no rows, and have no version. */
const fromTheEnd = 100
/** A source that grows with each question is never counted. It is believed: read in passes, it would never be read whole either. */
const maxQuestions = 120

export const isPerhapsText = ({ cursor }: Reading, page: SortedPage): boolean =>
  digitsOf(page.last) > digitsOf(cursor) && !showsNumbers(versionsOf(page))

/** It holds 9 before 10. */
const showsNumbers = (versions: readonly bigint[]): boolean =>
  versions.some((version, index) => {
    const before = versions[index - 1] ?? version
    return digitsOf(before) < digitsOf(version) && String(before) > String(version)
  })

export const askForTheEnd = (reading: Reading, page: SortedPage): Decision =>
  ask(
    { ...reading, phase: { name: 'text', page, count: null } },
    { since: page.since, page: 1, pageSize: fromTheEnd, sorts: '-RowVersion' },
  )

/** Null when no shorter version can stand behind the page. */
export function sawTextOrder(
  reading: Reading,
  page: SortedPage,
  count: Count | null,
  answer: SeenPage,
): Decision | null {
  return count ? sawRow(reading, page, count, answer.received > 0) : sawEnd(reading, page, answer)
}

function sawEnd(reading: Reading, page: SortedPage, answer: SeenPage): Decision | null {
  const [end] = versionsOf(answer)
  if (end === undefined) return answer.received > 0 ? takeBackProof(reading, outOfOrder([])) : null
  if (end < page.last) return takeBackProof(reading, outOfOrder([page.last, end]))
  if (!hasRoomForShorter(reading.cursor, page.last, end)) return null
  const row = Math.max(1, page.received)
  return askRow(reading, page, {
    shown: 0,
    beyond: null,
    asked: { isOfAll: false, row },
    stride: row,
    questions: 0,
    noneInAll: null,
    oneInAll: null,
  })
}

/** Is there a number above the cursor with fewer digits than `last`, which as text stands between `last` and `end`? */
export function hasRoomForShorter(cursor: bigint, last: bigint, end: bigint): boolean {
  for (let digits = digitsOf(cursor); digits < digitsOf(last); digits++) {
    const beginningOf = (version: bigint) => BigInt(String(version).slice(0, digits))
    const above = cursor > beginningOf(last) ? cursor : beginningOf(last)
    if (above < beginningOf(end)) return true
  }
  return false
}

function sawRow(reading: Reading, page: SortedPage, count: Count, isThere: boolean): Decision | null {
  const { asked, shown, beyond, noneInAll, oneInAll } = count
  const { row } = asked
  if (count.questions >= maxQuestions) return null
  if (asked.isOfAll) {
    if (!isThere)
      return shown === 0 ? null : askLong(reading, page, { ...count, noneInAll: row, oneInAll: null }, shown)
    // Perhaps the source has grown since.
    if (oneInAll !== row) return askLong(reading, page, { ...count, stride: 1, oneInAll: row }, row)
    const held = `versions shorter than ${page.last} behind it: ${shown} records above ${belowLong(page)}, and more in all`
    return takeBackProof(reading, held)
  }
  if (isThere && row === shown && noneInAll === shown + 1) return null
  return search(reading, page, {
    ...count,
    shown: isThere ? Math.max(shown, row) : shown < row ? shown : 0,
    beyond: isThere ? (beyond !== null && beyond > row ? beyond : null) : row,
    noneInAll: isThere ? noneInAll : null,
  })
}

function search(reading: Reading, page: SortedPage, count: Count): Decision | null {
  const { shown, beyond } = count
  if (shown > farRow) return null
  if (beyond === null)
    return askLong(reading, page, { ...count, stride: 2 * count.stride }, shown + count.stride)
  if (beyond - shown > 1) return askLong(reading, page, count, Math.floor((shown + beyond) / 2))
  return askRow(reading, page, { ...count, asked: { isOfAll: true, row: beyond } })
}

/** Where there are so many, each page is served for ever. */
const farRow = 1_000_000_000

const askLong = (reading: Reading, page: SortedPage, count: Count, row: number): Decision =>
  askRow(reading, page, { ...count, asked: { isOfAll: false, row } })

function askRow(reading: Reading, page: SortedPage, count: Count): Decision {
  const { isOfAll, row } = count.asked
  return ask(
    { ...reading, phase: { name: 'text', page, count: { ...count, questions: count.questions + 1 } } },
    {
      since: isOfAll ? page.since : belowLong(page),
      page: isOfAll ? row + shorterOn(page) : row,
      pageSize: 1,
      sorts: 'RowVersion',
    },
  )
}

/** Above it, all versions have as many digits as the last one of the page, or more. */
const belowLong = ({ last }: SortedPage): bigint => 10n ** BigInt(digitsOf(last) - 1) - 1n

const shorterOn = (page: SortedPage): number =>
  versionsOf(page).filter((version) => digitsOf(version) < digitsOf(page.last)).length

const digitsOf = (version: bigint): number => String(version).length
