// Which Postgres type a field's values ask for. Decides; encodes nothing.

import type { Json } from '../json/json.ts'
import { isUuid } from '../uuid.ts'
import { isInstant } from './instants.ts'

export type ColumnType = 'bigint' | 'numeric' | 'boolean' | 'uuid' | 'timestamptz' | 'text' | 'jsonb'

export const columnTypes: readonly string[] = [
  'bigint',
  'numeric',
  'boolean',
  'uuid',
  'timestamptz',
  'text',
  'jsonb',
] satisfies readonly ColumnType[]

/** The type for one value; null asks for none. */
export function typeOf(value: Json): ColumnType | null {
  switch (typeof value) {
    case 'boolean':
      return 'boolean'
    case 'number':
      return fitsInt64(String(value)) ? 'bigint' : 'numeric'
    case 'string':
      return isUuid(value) ? 'uuid' : isInstant(value) ? 'timestamptz' : 'text'
    default:
      if (value === null) return null
      if (JSON.isRawJSON(value)) return fitsInt64(value.rawJSON) ? 'bigint' : 'numeric'
      return 'jsonb'
  }
}

/** The type for two values of one field. The first decides between kinds; within a kind, the type that holds both. */
export function commonType(first: ColumnType, next: ColumnType): ColumnType {
  if (first === 'bigint' && next === 'numeric') return 'numeric'
  return first !== next && isStringType(first) && isStringType(next) ? 'text' : first
}

const isStringType = (type: ColumnType): boolean =>
  type === 'uuid' || type === 'timestamptz' || type === 'text'

/** Whether a text is one that a key column of this type can hold. */
export function keyCheck(type: ColumnType): (key: string) => boolean {
  if (type === 'bigint') return fitsInt64
  return type === 'uuid' ? isUuid : () => true
}

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

// Beyond what a double can hold no BI tool could read the number, and Postgres would write it out in full.
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
