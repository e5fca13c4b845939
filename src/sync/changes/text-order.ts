// An upstream that sorts numbers as text puts 10 before 9, and 104 before 27. When the versions of a page have more digits than what was
// read before, shorter ones may stand behind it, and reading on from its last version would pass over them for good. Pure. A look at the
// end comes first: there 9 stands behind 10. Where that tells too little, records are counted: if no shorter ones are behind the page,
// there are as many records in all as there are long ones, and shorter ones on the page.

import type { SeenPage } from '../lists/listing.ts'
import type { ChangesRequest } from '../ports/source.ts'
import { type DigitCount, isOutOfDescent, type ObservedPage, outOfOrder, versionsOf } from './state.ts'

export type TextVerdict =
  /** Nobody knows yet: another row has to be looked for. */
  | { readonly kind: 'look'; readonly count: DigitCount }
  /** No shorter version can stand behind the page. */
  | { readonly kind: 'numbers' }
  | { readonly kind: 'text'; readonly evidence: string }

/** What was asked: the page in doubt, and the count so far, which is null while only the end is looked at. */
type TextQuestion = { readonly page: ObservedPage; readonly count: DigitCount | null }

/** More than one, because some of them may be no rows, and have no version. */
const fromTheEnd = 100
/** A source that grows with each question cannot be counted. Its order is believed: read in passes, it would never be read whole either. */
const maxQuestions = 120
/** An upstream that shows a record even in this place shows one in every place, and cannot be counted. */
const farRow = 1_000_000_000

const numbers: TextVerdict = { kind: 'numbers' }

/** Whether the question has to be asked at all. */
export const isPerhapsText = (cursor: bigint, page: ObservedPage): boolean =>
  digitsOf(page.last) > digitsOf(cursor) && !showsNumbers(page.versions)

/** The page holds a version like 9 before one like 10. */
const showsNumbers = (versions: readonly bigint[]): boolean =>
  versions.some((version, index) => {
    const before = versions[index - 1] ?? version
    return digitsOf(before) < digitsOf(version) && String(before) > String(version)
  })

export function textRequest({ page, count }: TextQuestion): ChangesRequest {
  if (!count) return { since: page.since, page: 1, pageSize: fromTheEnd, sorts: 'descending' }
  const { isOfAll, row } = count.asked
  return {
    since: isOfAll ? page.since : belowLong(page),
    page: isOfAll ? row + shorterOn(page) : row,
    pageSize: 1,
    sorts: 'ascending',
  }
}

export function judgeTextOrder(cursor: bigint, { page, count }: TextQuestion, answer: SeenPage): TextVerdict {
  return count ? judgeRow(page, count, answer.received > 0) : judgeEnd(cursor, page, answer)
}

function judgeEnd(cursor: bigint, page: ObservedPage, answer: SeenPage): TextVerdict {
  const versions = versionsOf(answer)
  const [end] = versions
  if (end === undefined) return answer.received > 0 ? text(outOfOrder([])) : numbers
  if (end < page.last) return text(outOfOrder([page.last, end]))
  const isOutOfOrder = isOutOfDescent(versions)
  if (isOutOfOrder) return text(isOutOfOrder)
  if (!hasRoomForShorter(cursor, page.last, end)) return numbers
  const row = Math.max(1, page.received)
  return look({
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

function judgeRow(page: ObservedPage, count: DigitCount, isThere: boolean): TextVerdict {
  const { asked, shown, beyond, noneInAll, oneInAll } = count
  const { row } = asked
  if (count.questions >= maxQuestions) return numbers
  if (asked.isOfAll) {
    if (!isThere)
      return shown === 0 ? numbers : lookAtLong({ ...count, noneInAll: row, oneInAll: null }, shown)
    // Perhaps the source has only grown since the long ones were counted.
    if (oneInAll !== row) return lookAtLong({ ...count, stride: 1, oneInAll: row }, row)
    return text(
      `versions shorter than ${page.last} behind it: ${shown} records above ${belowLong(page)}, and more in all`,
    )
  }
  if (isThere && row === shown && noneInAll === shown + 1) return numbers
  return search({
    ...count,
    shown: isThere ? Math.max(shown, row) : shown < row ? shown : 0,
    beyond: isThere ? (beyond !== null && beyond > row ? beyond : null) : row,
    noneInAll: isThere ? noneInAll : null,
  })
}

function search(count: DigitCount): TextVerdict {
  const { shown, beyond, stride } = count
  if (shown > farRow) return numbers
  if (beyond === null) return lookAtLong({ ...count, stride: 2 * stride }, shown + stride)
  if (beyond - shown > 1) return lookAtLong(count, Math.floor((shown + beyond) / 2))
  return look({ ...count, asked: { isOfAll: true, row: beyond } })
}

const lookAtLong = (count: DigitCount, row: number): TextVerdict =>
  look({ ...count, asked: { isOfAll: false, row } })

const look = (count: DigitCount): TextVerdict => ({
  kind: 'look',
  count: { ...count, questions: count.questions + 1 },
})

const text = (evidence: string): TextVerdict => ({ kind: 'text', evidence })

/** Above it, all versions have as many digits as the last one of the page, or more. */
const belowLong = ({ last }: ObservedPage): bigint => 10n ** BigInt(digitsOf(last) - 1) - 1n

const shorterOn = (page: ObservedPage): number =>
  page.versions.filter((version) => digitsOf(version) < digitsOf(page.last)).length

const digitsOf = (version: bigint): number => String(version).length
