// Integers of 64 bits.

import { int64, toInt64 } from '../../streams/record.ts'
import { type Cells, minus, nine, writeInt64, writeLargeInt64, writeTextRange, zero } from './cells.ts'
import { type FromJson, typeRules } from './column-type.ts'
import { numberText } from './numeric.ts'

// Zeros in front would make 007 and 7 one key.
const integer = /^-?(?:0|[1-9]\d*)$/
const limits = { positive: '9223372036854775807', negative: '9223372036854775808' }

/** Whether the text of a JSON number is an integer of 64 bits. */
export function fitsInt64(text: string): boolean {
  if (!integer.test(text)) return false
  const isNegative = text.charCodeAt(0) === 0x2d
  const digits = isNegative ? text.slice(1) : text
  if (digits.length !== 19) return digits.length < 19
  return digits <= (isNegative ? limits.negative : limits.positive)
}

const fromJson: FromJson = (value) => {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return `${value}`
  const text = numberText(value)
  return text !== null && fitsInt64(text) ? text : null
}

/** Takes integers in quotes as well. */
const fromDescribed: FromJson = (value) =>
  typeof value === 'number' && Number.isSafeInteger(value) ? `${value}` : (toInt64(value)?.toString() ?? null)

/** Writes an integer of 32 bits into a cell of 64. */
function writeInt32(cells: Cells, number: number): void {
  cells.view.setInt32(cells.binaryEnd, 8)
  cells.view.setInt32(cells.binaryEnd + 4, number < 0 ? -1 : 0)
  cells.view.setInt32(cells.binaryEnd + 8, number)
  cells.binaryEnd += 12
}

function fromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const isNegative = bytes[start] === minus
  const first = isNegative ? start + 1 : start
  // `-0` is written by Postgres as another text than it was read from.
  if (end - first > 19 || (isNegative && bytes[first] === zero)) return false
  let number = 0
  for (let at = first; at < end; at++) {
    const digit = (bytes[at] as number) - zero
    if (digit < 0 || digit > 9) return false
    number = number * 10 + digit
  }
  if (end - first <= 9) writeInt32(cells, isNegative ? -number : number)
  else if (end - first <= 15) writeInt64(cells, isNegative ? -number : number)
  else {
    const exact = BigInt(bytes.toString('latin1', start, end))
    if (exact < int64.min || exact > int64.max) return false
    writeLargeInt64(cells, exact)
  }
  writeTextRange(cells, start, end)
  return true
}

function textFromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  if (end - start > 15 || bytes[start] === minus) return fromBytes(cells, bytes, start, end)
  for (let at = start; at < end; at++) {
    const byte = bytes[at] as number
    if (byte < zero || byte > nine) return false
  }
  writeTextRange(cells, start, end)
  return true
}

export const bigint = typeRules({
  fromJson,
  fromDescribed,
  fromBytes,
  textFromBytes,
  fitsKey: fitsInt64,
  keySql: (column) => `${column}::text`,
})
