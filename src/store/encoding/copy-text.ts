// One value as a field of COPY's text format, or null when its column cannot hold it exactly (P4). Everything that is
// let through here must be taken by Postgres: one refusal would end the whole page.

import type { Json } from '../../json/json.ts'
import { isObject, isUuid } from '../../streams/record.ts'
import {
  type ColumnType,
  cutToMicroseconds,
  fitsInt64,
  fitsNumeric,
  isDate,
  isInstant,
  timeOfDay,
} from '../schema/column-types.ts'

// JSON text as the mirror keeps it: the same text for the same content whatever the order of fields, and always
// something that jsonb can hold (P4, P5).
/** Fields sorted at every level; numbers as they were written. */
export function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalText).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const fields = Object.keys(value).sort()
  return `{${fields.map((field) => `${JSON.stringify(field)}:${canonicalText(value[field] ?? null)}`).join(',')}}`
}

// NUL and lone surrogates, which JSON text can escape and jsonb cannot hold. An even run of backslashes before it is text.
const unholdable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f][0-9a-f]{2})/i

/** Whether jsonb can hold a value; `text` is its JSON text. */
export function fitsJsonb(value: Json, text: string): boolean {
  return !(text.includes('\\u') && unholdable.test(text)) && hasReadableNumbers(value)
}

function hasReadableNumbers(value: Json): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (JSON.isRawJSON(value)) return fitsNumeric(value.rawJSON)
  return Object.values(value).every(hasReadableNumbers)
}

const marker = '$json'

/**
 * What fits no column, as a JSON object by field name. A value that jsonb cannot hold becomes `{"$json": "<its JSON text>"}`,
 * a name `$json:<its JSON text>`; what looks like that already is wrapped too, so that it can always be told.
 */
export function holdable(fields: Iterable<readonly [string, Json]>): string {
  const entries = [...fields].map(
    ([name, value]) => `${JSON.stringify(holdableName(name))}:${holdableValue(value)}`,
  )
  return `{${entries.sort().join(',')}}`
}

export function holdableValue(value: Json): string {
  const text = canonicalText(value)
  const looksWrapped = isObject(value) && Object.hasOwn(value, marker)
  return fitsJsonb(value, text) && !looksWrapped ? text : JSON.stringify({ [marker]: text })
}

function holdableName(name: string): string {
  return name.includes('\0') || !name.isWellFormed() || name.startsWith('$')
    ? `${marker}:${JSON.stringify(name)}`
    : name
}

export type Encode = (value: Json) => string | null

/** How COPY writes null. */
export const copyNull = '\\N'

export const encoders: Readonly<Record<ColumnType, Encode>> = {
  bigint: encodeBigint,
  numeric: encodeNumeric,
  boolean: (value) => (typeof value === 'boolean' ? (value ? 't' : 'f') : null),
  uuid: (value) => (typeof value === 'string' && isUuid(value) ? value : null),
  timestamptz: (value) => (typeof value === 'string' && isInstant(value) ? cutToMicroseconds(value) : null),
  date: (value) => (typeof value === 'string' && isDate(value) ? value : null),
  time: (value) => (typeof value === 'string' ? timeOfDay(value) : null),
  text: encodeText,
  jsonb: encodeJsonb,
}

const hasOffset = /(?:Z|[+-]\d\d:?\d\d)$/
const saysUtc = /(?:UTC|Utc|_utc)$/

/** What follows a date-time of a field that has no offset. */
export const zoneSuffix = (field: string, zone: string | undefined): string =>
  zone === undefined ? (saysUtc.test(field) ? 'Z' : '') : localSuffix(zone)

export const localSuffix = (zone: string): string => ` ${zone}`

/**
 * How a field's date-times are written. Without an offset they are read in the zone of the connection, unless the field says that it
 * is in UTC or a zone was set for it.
 */
export function instantEncoder(field: string, zone: string | undefined): Encode {
  const suffix = zoneSuffix(field, zone)
  if (suffix === '') return encoders.timestamptz
  return (value) => {
    const text = encoders.timestamptz(value)
    return text === null || hasOffset.test(text) ? text : `${text}${suffix}`
  }
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

/** Numbers of this size fit for certain, so that fitsNumeric need not look at them. */
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
  // Only objects and arrays: with scalars, one jsonb column would hold values of several kinds.
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return null
  const text = canonicalText(value)
  return fitsJsonb(value, text) ? escapeCopy(text) : null
}

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

export const escapeCopy = (text: string): string =>
  text.replace(/[\\\t\n\r]/g, (character) => escapes[character] ?? '')
