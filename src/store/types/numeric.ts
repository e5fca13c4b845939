// Decimals of any length, each with the digits that it was written with.

import type { Json } from '../../json/json.ts'
import { type Cells, dot, minus, nine, quote, writeTextRange, zero } from './cells.ts'
import { type FromJson, typeRules } from './column-type.ts'

// Larger numbers do not fit a double: no BI tool could read them, and Postgres would write out all of their digits.
const maxExponent = 308
const maxDigits = 1000

/** Whether a number's text can be a `numeric` that others can read. */
export function fitsNumeric(text: string): boolean {
  if (text.length > maxDigits) return false
  const exponentAt = text.search(/e/i)
  const exponent = exponentAt < 0 ? 0 : Number(text.slice(exponentAt + 1))
  const digits = exponentAt < 0 ? text : text.slice(0, exponentAt)
  const point = digits.indexOf('.')
  const wholeDigits = (point < 0 ? digits.length : point) + exponent
  const fractionDigits = (point < 0 ? 0 : digits.length - point - 1) - exponent
  return wholeDigits <= maxExponent + 2 && fractionDigits <= maxDigits
}

/** A number as the upstream wrote it. */
export function numberText(value: Json): string | null {
  if (typeof value === 'number') return String(value)
  return JSON.isRawJSON(value) ? value.rawJSON : null
}

const fromJson: FromJson = (value) => {
  if (typeof value === 'number' && isOrdinary(Math.abs(value))) return `${value}`
  const text = numberText(value)
  return text !== null && fitsNumeric(text) ? text : null
}

/** Numbers of this size fit for certain, so that fitsNumeric need not look at them. */
const isOrdinary = (size: number): boolean => size === 0 || (size > 1e-300 && size < 1e300)

const decimal = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

/** Takes numbers in quotes as well. */
const fromDescribed: FromJson = (value, suffix) => {
  if (typeof value !== 'string') return fromJson(value, suffix)
  return decimal.test(value) && fitsNumeric(value) ? value : null
}

// More digits might not fit into a cell.
const mostDigits = 100

/** Writes a decimal without exponent as Postgres holds it: groups of four digits from the point on, and how many stood behind the point. */
function fromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const isNegative = bytes[start] === minus
  const first = isNegative ? start + 1 : start
  if (end - first > mostDigits) return false
  let point = first
  for (; point < end; point++) {
    const byte = bytes[point] as number
    if (byte < zero || byte > nine) break
  }
  if (point === first || (point < end && bytes[point] !== dot)) return false
  const { view, binaryEnd } = cells
  const fraction = point < end ? end - point - 1 : 0
  let at = binaryEnd + 12
  let groups = 0
  let weight = ((point - first + 3) >> 2) - 1
  for (let from = first; from < end; ) {
    if (from === point) {
      from++
      continue
    }
    // Fewer than four digits are only in the first group; behind the last digit stand zeros.
    const groupEnd = from + (from < point ? (point - from) & 3 || 4 : 4)
    let group = 0
    for (; from < groupEnd; from++) {
      const value = from < end ? (bytes[from] as number) - zero : 0
      // An exponent.
      if (value < 0 || value > 9) return false
      group = group * 10 + value
    }
    if (groups === 0 && group === 0) weight--
    else {
      view.setUint16(at, group)
      at += 2
      groups++
    }
  }
  while (groups > 0 && view.getUint16(at - 2) === 0) {
    at -= 2
    groups--
  }
  view.setInt32(binaryEnd, at - binaryEnd - 4)
  view.setUint16(binaryEnd + 4, groups)
  view.setInt16(binaryEnd + 6, groups === 0 ? 0 : weight)
  view.setUint16(binaryEnd + 8, isNegative && groups > 0 ? 0x4000 : 0)
  view.setUint16(binaryEnd + 10, fraction)
  cells.binaryEnd = at
  writeTextRange(cells, start, end)
  return true
}

/** Whether a text in SQL, which may be anything, is an integer of 64 bits. */
export const isInt64Sql = (text: string): string =>
  `case when ${text} ~ '^-?(0|[1-9][0-9]{0,18})$' then ${fitsInt64Sql(`(${text})::numeric`)} else false end`

const fitsInt64Sql = (number: string): string =>
  `${number} between -9223372036854775808 and 9223372036854775807`

/** The text of a number as it stands there. */
function copyNumber(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  if (end - start > mostDigits || (bytes[start] as number) > nine) return false
  if (bytes[start] === quote) return false
  writeTextRange(cells, start, end)
  return true
}

export const numeric = typeRules({
  fromJson,
  fromDescribed,
  fromBytes,
  textFromBytes: copyNumber,
  keySql: (column) =>
    `(case when ${column} = trunc(${column}) and ${fitsInt64Sql(column)} then trunc(${column})::text end)`,
})
