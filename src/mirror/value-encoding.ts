// One value as a field of COPY's text format, or null when its column cannot hold it exactly (P4). Everything that is
// let through here must be taken by Postgres: one refusal would end the whole page.

import type { Json } from '../json/json.ts'
import { isUuid } from '../uuid.ts'
import { type ColumnType, fitsInt64, fitsNumeric } from './column-types.ts'
import { cutToMicroseconds, isInstant } from './instants.ts'
import { canonicalText, fitsJsonb } from './json-text.ts'

export type Encode = (value: Json) => string | null

/** How COPY writes null. */
export const copyNull = '\\N'

export const encoders: Readonly<Record<ColumnType, Encode>> = {
  bigint: encodeBigint,
  numeric: encodeNumeric,
  boolean: (value) => (typeof value === 'boolean' ? (value ? 't' : 'f') : null),
  uuid: (value) => (typeof value === 'string' && isUuid(value) ? value : null),
  timestamptz: (value) => (typeof value === 'string' && isInstant(value) ? cutToMicroseconds(value) : null),
  text: encodeText,
  jsonb: encodeJsonb,
}

function encodeBigint(value: Json): string | null {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return `${value}`
  const text = numberText(value)
  return text !== null && fitsInt64(text) ? text : null
}

function encodeNumeric(value: Json): string | null {
  if (typeof value === 'number' && isOrdinary(Math.abs(value))) return `${value}`
  const text = numberText(value)
  return text !== null && fitsNumeric(text) ? text : null
}

/** Far from where fitsNumeric would have to look closely. */
const isOrdinary = (size: number): boolean => size === 0 || (size > 1e-300 && size < 1e300)

/** A number as the upstream wrote it. */
function numberText(value: Json): string | null {
  if (typeof value === 'number') return String(value)
  return JSON.isRawJSON(value) ? value.rawJSON : null
}

// Backslash and separators, which COPY reads as its own, and what Postgres cannot hold.
const special = /[\\\t\n\r\0\ud800-\udfff]/

function encodeText(value: Json): string | null {
  if (typeof value !== 'string') return null
  return special.test(value) ? encodeSpecialText(value) : value
}

function encodeSpecialText(text: string): string | null {
  if (text.includes('\0') || !text.isWellFormed()) return null
  return escapeCopy(text)
}

function encodeJsonb(value: Json): string | null {
  // Scalars would make one column of mixed kinds; they belong to a column of their own type.
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return null
  const text = canonicalText(value)
  return fitsJsonb(value, text) ? escapeCopy(text) : null
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

export const escapeCopy = (text: string): string =>
  text.replace(/[\\\t\n\r]/g, (character) => escapes[character] ?? '')
