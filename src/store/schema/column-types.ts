// Which Postgres type a field's values ask for. Decides; encodes nothing.

import { createHash } from 'node:crypto'
import pg from 'pg'
import type { Json } from '../../json/json.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import type { FieldKind } from '../../streams/field-types.ts'
import { isComposite, isUuid, keyParts } from '../../streams/record.ts'

// ISO date-times: which texts are one that Postgres reads as exactly that moment, and how they are cut to microseconds
// (P4). Without an offset they are left to the time zone of the connection.
// 2024-05-06T07:08:09.1234567+02:00; seconds, fraction and offset may be missing.
const tableSchema = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?$/

const daysInMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

export function isInstant(text: string): boolean {
  // The letter T in its place tells most other strings apart at once.
  if (text.charCodeAt(10) !== 0x54 || !tableSchema.test(text)) return false
  const year = number(text, 0) * 100 + number(text, 2)
  const month = number(text, 5)
  const day = number(text, 8)
  const isLeapDay = month === 2 && day === 29 && year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  // Postgres would take 24:00 and :60, but turn them into another text of the same moment.
  return (
    year > 0 &&
    day > 0 &&
    (day <= (daysInMonth[month - 1] ?? 0) || isLeapDay) &&
    number(text, 11) < 24 &&
    number(text, 14) < 60 &&
    (text.charCodeAt(16) !== 0x3a || number(text, 17) < 60) &&
    hasReadableOffset(text)
  )
}

/** The two digits at a place. */
const number = (text: string, at: number): number => text.charCodeAt(at) * 10 + text.charCodeAt(at + 1) - 528

function hasReadableOffset(text: string): boolean {
  const last = text.length
  const sign = text.charCodeAt(last - 6)
  if ((sign === 0x2b || sign === 0x2d) && text.charCodeAt(last - 3) === 0x3a)
    return number(text, last - 5) < 15 && number(text, last - 2) < 60
  const bareSign = text.charCodeAt(last - 5)
  if (last > 16 && (bareSign === 0x2b || bareSign === 0x2d))
    return number(text, last - 4) < 15 && number(text, last - 2) < 60
  return true
}

/** `2024-05-06`. */
export const isDate = (text: string): boolean => text.length === 10 && isInstant(`${text}T00:00`)

const clock = /^(\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)\d*$/

/** `07:08:09.1234567`, cut to microseconds; null for what is no time of day, or has an offset. */
export function timeOfDay(text: string): string | null {
  const [, cut] = clock.exec(text) ?? []
  return cut !== undefined && isInstant(`2000-01-01T${text}`) ? cut : null
}

// The end of a fraction of six digits.
const fractionEnd = 26

/** Cut, never rounded. */
export function cutToMicroseconds(instant: string): string {
  if (instant.length <= fractionEnd || instant.charCodeAt(19) !== 0x2e) return instant
  let end = fractionEnd
  for (; end < instant.length; end++) {
    const character = instant.charCodeAt(end)
    if (character < 0x30 || character > 0x39) break
  }
  // A shorter fraction has its offset within the first 26 characters.
  return isFraction(instant) ? instant.slice(0, fractionEnd) + instant.slice(end) : instant
}

function isFraction(instant: string): boolean {
  for (let at = 20; at < fractionEnd; at++) {
    const character = instant.charCodeAt(at)
    if (character < 0x30 || character > 0x39) return false
  }
  return true
}

/** `date` and `time` only where the upstream's description says so: what looks like one in the data is a text. */
export type ColumnType =
  | 'bigint'
  | 'numeric'
  | 'boolean'
  | 'uuid'
  | 'timestamptz'
  | 'date'
  | 'time'
  | 'text'
  | 'jsonb'

export const columnTypes: readonly string[] = [
  'bigint',
  'numeric',
  'boolean',
  'uuid',
  'timestamptz',
  'date',
  'time',
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
  ['uuid', 'timestamptz', 'date', 'time', 'text'].includes(type)

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

// From the upstream's field names to column names: deterministic, and always something Postgres takes.
/** A field's name as Postgres can hold it. */
export const printable = (field: string): string =>
  field.includes('\0') || !field.isWellFormed() ? JSON.stringify(field) : field

/** Fields whose names differ only in case are one field. */
export const foldName = (field: string): string => printable(field.toLowerCase())

/** The comment by which a column, whatever it is called, can be traced to its field. */
export const fieldComment = (field: string): string => pg.escapeLiteral(`field ${printable(field)}`)

/** The column of a key that several fields make together. */
const ownKeyColumn = '_key'

export const keyColumnName = (keyField: string): string =>
  isComposite(keyField) ? ownKeyColumn : columnName(keyField)

/** As a literal. */
export const keyComment = (keyField: string): string =>
  isComposite(keyField)
    ? pg.escapeLiteral(
        `the values of ${keyParts(keyField).map(printable).join(', ')}, which make the key together`,
      )
    : fieldComment(keyField)

const maxBytes = 63
// Postgres gives these to every table.
const systemColumns = new Set(['tableoid', 'xmin', 'cmin', 'xmax', 'cmax', 'ctid'])

/** `AssignmentIdExt` → `assignment_id_ext`, `SysUpdatedDateUTC` → `sys_updated_date_utc`. */
export function columnName(field: string): string {
  const words = field
    .normalize('NFC')
    // Looks one letter to each side only: names of the upstream may have very many capitals (P10).
    .replace(/(?<=\p{Lu})(?=\p{Lu}\p{Ll})/gu, '_')
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, '$1_$2')
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}]+/gu, '_')
    // A leading underscore marks the mirror's own columns.
    .replace(/^_+|_+$/g, '')
  if (words === '') return `field_${digest(field)}`
  const name = /^\p{N}/u.test(words) ? `field_${words}` : words
  if (systemColumns.has(name)) return `${name}_field`
  return Buffer.byteLength(name) <= maxBytes ? name : shorten(name, field)
}

/** Cuts a long name between characters, and adds a digest that tells it from other names with the same beginning. */
function shorten(name: string, field: string): string {
  const suffix = `_${digest(field)}`
  let kept = ''
  for (const character of name) {
    if (Buffer.byteLength(kept + character) > maxBytes - suffix.length) break
    kept += character
  }
  return kept + suffix
}

const digest = (field: string): string =>
  createHash('sha256').update(foldName(field)).digest('hex').slice(0, 8)

// Column types of fields whose types the upstream documents: those are not taken from the values that happen to come first. There is
// no type for bytes: their base64 stays as it came.
const typeOfKind: Readonly<Record<FieldKind, ColumnType>> = {
  uint8: 'bigint',
  int16: 'bigint',
  int32: 'bigint',
  int64: 'bigint',
  uint64: 'numeric',
  number: 'numeric',
  boolean: 'boolean',
  text: 'text',
  base64: 'text',
  uuid: 'uuid',
  'date-time': 'timestamptz',
  date: 'date',
  time: 'time',
  object: 'jsonb',
}

/** By folded field name; empty for streams whose fields are not documented. */
export const documentedTypes = ({
  fieldKinds = {},
}: Pick<MirroredStream, 'fieldKinds'>): ReadonlyMap<string, ColumnType> =>
  new Map(Object.entries(fieldKinds).map(([field, { kind }]) => [foldName(field), typeOfKind[kind]]))
