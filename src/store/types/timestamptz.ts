// Moments. Which texts are one that Postgres reads as exactly that moment, cut to microseconds and never rounded (P4). Without an offset they
// are local to a zone: the field's own, or that of the connection.

import { type Cells, dot, minus, quote, writeInt64, writeLargeInt64, writeTextRange, zero } from './cells.ts'
import { type FromJson, type LocalTime, typeRules } from './column-type.ts'

// 2024-05-06T07:08:09.1234567+02:00; seconds, fraction and offset may be missing. Postgres would take 24:00 and :60, but turn them into another
// text of the same moment.
const pattern =
  /^(?!0000)\d{4}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?(?:Z|[+-](?:0\d|1[0-4]):?[0-5]\d)?$/

export const isInstant = (text: string): boolean =>
  // The letter T in its place tells most other strings apart at once.
  text.charCodeAt(10) === 0x54 &&
  pattern.test(text) &&
  isDayOf(Number(text.slice(0, 4)), Number(text.slice(5, 7)), Number(text.slice(8, 10)))

const daysInMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

const isDayOf = (year: number, month: number, day: number): boolean =>
  day > 0 && (day <= (daysInMonth[month - 1] ?? 0) || (day === 29 && month === 2 && isLeap(year)))

const isLeap = (year: number): boolean => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)

/** Cut, never rounded. */
export const cutToMicroseconds = (instant: string): string =>
  instant.length <= withMicroseconds ? instant : instant.replace(/(\.\d{6})\d+/, '$1')

const withMicroseconds = '2024-05-06T07:08:09.123456'.length

const hasOffset = /(?:Z|[+-]\d\d:?\d\d)$/
const saysUtc = /(?:UTC|Utc|_utc)$/

/** What follows a date-time of a field that has no offset. */
export const zoneSuffix = (field: string, zone: string | undefined): string =>
  zone === undefined ? (saysUtc.test(field) ? 'Z' : '') : localSuffix(zone)

export const localSuffix = (zone: string): string => ` ${zone}`

const fromJson: FromJson = (value, suffix) => {
  const instant = typeof value === 'string' && isInstant(value) ? cutToMicroseconds(value) : null
  return instant === null || hasOffset.test(instant) ? instant : `${instant}${suffix}`
}

const largestSafeSeconds = 9_000_000_000

/** `2024-05-06T07:08:09.1234567+02:00`; fraction and offset may be missing. Cut, never rounded, to microseconds (P4). */
function fromBytes(cells: Cells, bytes: Buffer, start: number, end: number, local: LocalTime): boolean {
  const from = start + 1
  if (end - start < 21 || bytes[start] !== quote || !hasInstantMarks(bytes, from)) return false
  const century = twoDigits(bytes, from)
  const years = twoDigits(bytes, from + 2)
  const month = twoDigits(bytes, from + 5)
  const day = twoDigits(bytes, from + 8)
  const hour = twoDigits(bytes, from + 11)
  const minute = twoDigits(bytes, from + 14)
  const second = twoDigits(bytes, from + 17)
  const year = century * 100 + years
  if (century > 99 || years > 99 || year === 0 || !isDayOf(year, month, day)) return false
  if (hour > 23 || minute > 59 || second > 59) return false
  let at = from + 19
  let micros = 0
  if (bytes[at] === dot) {
    at++
    let digits = 0
    for (; ; at++, digits++) {
      const digit = (bytes[at] as number) - zero
      if (digit < 0 || digit > 9) break
      if (digits < 6) micros = micros * 10 + digit
    }
    if (digits === 0) return false
    for (; digits < 6; digits++) micros *= 10
  }
  const seconds = dayNumber(cells, year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
  let offset: number | null
  if (at === end - 1) offset = local.offsetAt(seconds)
  else {
    offset = readOffset(bytes, at, end - 1)
    if (offset === null) return false
  }
  if (offset === null) cells.isTextOnly = true
  else writeMicros(cells, seconds - offset, micros)
  writeInstantText(cells, bytes, from, at, end - 1, local.suffix)
  return true
}

/** Writes only the text, for the hash. It need not check the value: a text with month 13 is that of no stored row. */
function textFromBytes(cells: Cells, bytes: Buffer, start: number, end: number, { suffix }: LocalTime) {
  const from = start + 1
  if (end - start < 21 || bytes[start] !== quote || !hasInstantMarks(bytes, from)) return false
  let at = from + 19
  if (bytes[at] === dot)
    do at++
    while (isDigit(bytes[at] as number))
  if (at < end - 1 && readOffset(bytes, at, end - 1) === null) return false
  writeInstantText(cells, bytes, from, at, end - 1, suffix)
  return true
}

const isDigit = (byte: number): boolean => byte >= zero && byte <= 0x39

/** The offset behind the fraction, or what stands for it. */
function writeInstantText(
  cells: Cells,
  bytes: Buffer,
  from: number,
  fractionEnd: number,
  end: number,
  suffix: Buffer,
): void {
  writeTextRange(cells, from, Math.min(fractionEnd, from + 26))
  let { textEnd } = cells
  if (fractionEnd < end)
    for (let at = fractionEnd; at < end; at++) cells.text[textEnd++] = bytes[at] as number
  else for (let byte = 0; byte < suffix.length; byte++) cells.text[textEnd++] = suffix[byte] as number
  cells.textEnd = textEnd
}

const hasInstantMarks = (bytes: Buffer, from: number): boolean =>
  bytes[from + 4] === minus &&
  bytes[from + 7] === minus &&
  bytes[from + 10] === 0x54 &&
  bytes[from + 13] === 0x3a &&
  bytes[from + 16] === 0x3a

/** More than 99 where they are no digits. */
function twoDigits(bytes: Buffer, at: number): number {
  const tens = (bytes[at] as number) - zero
  const ones = (bytes[at + 1] as number) - zero
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : 1_000
}

/** Days since 2000-01-01. The last day is remembered, because most date-times of a page are of a few days. */
function dayNumber(cells: Cells, year: number, month: number, day: number): number {
  const wanted = (year * 12 + month) * 32 + day
  if (cells.day === wanted) return cells.dayNumber
  const shifted = month <= 2 ? year - 1 : year
  // Of whole numbers above zero `| 0` is the floor.
  const era = (shifted / 400) | 0
  const ofEra = shifted - era * 400
  const ofYear = (((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) | 0) + day - 1
  const number =
    era * 146_097 + ofEra * 365 + ((ofEra / 4) | 0) - ((ofEra / 100) | 0) + ofYear - 719_468 - 10_957
  cells.day = wanted
  cells.dayNumber = number
  return number
}

/** `Z` or `+02:00`, in seconds; null for anything else. */
function readOffset(bytes: Buffer, at: number, end: number): number | null {
  const first = bytes[at]
  if (first === 0x5a) return at + 1 === end ? 0 : null
  if ((first !== 0x2b && first !== minus) || at + 6 !== end || bytes[at + 3] !== 0x3a) return null
  const hours = twoDigits(bytes, at + 1)
  const minutes = twoDigits(bytes, at + 4)
  if (hours > 14 || minutes > 59) return null
  const seconds = hours * 3_600 + minutes * 60
  return first === minus ? -seconds : seconds
}

function writeMicros(cells: Cells, seconds: number, micros: number): void {
  if (Math.abs(seconds) < largestSafeSeconds) writeInt64(cells, seconds * 1_000_000 + micros)
  else writeLargeInt64(cells, BigInt(seconds) * 1_000_000n + BigInt(micros))
}

export const timestamptz = typeRules({
  catalogName: 'timestamp with time zone',
  isString: true,
  fromJson,
  fromBytes,
  textFromBytes,
})
