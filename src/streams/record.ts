// What makes a record a row: its key and, in a changes stream, its row version. Everything else about a record is
// the mirror's business. Field names are matched without regard to case. Where several fields make the key together it is named by all
// of them, with commas between, and a JSON array of their values is its text.

import { hash } from 'node:crypto'
import type { Json, JsonObject } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import {
  hasFields,
  isRecordPage,
  placeOf,
  type RecordList,
  type RecordPage,
  smallNumberAt,
  valueAt,
} from '../wire/record-page.ts'

// Integers of 64 bits: their bounds, and row versions and ids as people type them.
export const int64 = { min: -(2n ** 63n), max: 2n ** 63n - 1n } as const

const digits = /^(?:0|[1-9]\d*)$/

/** A whole number from 0 that fits 64 bits, or null. */
export function parseInt64(text: string): bigint | null {
  if (!digits.test(text) || text.length > 19) return null
  const number = BigInt(text)
  return number <= int64.max ? number : null
}

// What a UUID looks like.
const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export const isUuid = (text: string): boolean => text.length === 36 && uuid.test(text)

/** The fields that make a key together; mostly one. */
export const keyParts = (keyField: string): readonly string[] => keyField.split(',')

export const isComposite = (keyField: string): boolean => keyField.includes(',')

/** A record that can be a row. The key is in canonical text: digits for integers, lower case for UUIDs. */
export type Row = {
  readonly key: string
  readonly version: bigint | null
  /** If the row was only found in the bytes of its page, each access parses the record. */
  readonly record: JsonObject
  /** Where it was found, if its fields are known there. */
  readonly found?: Found
}
export type Found = { readonly page: RecordPage; readonly index: number }
/** A record that cannot be a row; it goes to quarantine, whole (P5). */
export type Rejected = { readonly record: Json; readonly reason: string }
export type Records = {
  readonly rows: readonly Row[]
  readonly rejected: readonly Rejected[]
  /** No two rows have one key. */
  readonly haveOwnKeys?: boolean
  /** Call it when they are written: the memory that they were found in is used for others. */
  readonly release?: () => void
  /** When the records were here, by the clock of this process that never jumps; missing: only just now. */
  readonly readAtMs?: number
}

const integerText = /^-?(?:0|[1-9]\d*)$/

/** Splits a page that has just come into rows and what cannot be one. `versionFields` is null for streams that have no row version. */
export function readRecords(
  records: RecordList,
  keyFields: readonly string[],
  versionFields: readonly string[] | null,
): Records {
  const readAtMs = performance.now()
  const rows: Row[] = []
  const rejected: Rejected[] = []
  const keyOf = keyReader(keyFields)
  const versionOf = versionFields && fieldReader(versionFields)
  const read = (record: Json) => {
    if (!isObject(record)) {
      rejected.push({ record, reason: 'not an object' })
      return
    }
    const key = keyOf(record)
    if (key === null) {
      rejected.push({ record, reason: `no usable key in ${keyFields.join(', ')}` })
      return
    }
    const version = versionOf ? toVersion(versionOf(record)) : null
    if (versionFields && version === null) {
      rejected.push({ record, reason: `no usable row version in ${versionFields.join(', ')}` })
      return
    }
    rows.push({ key, version, record })
  }
  if (!isRecordPage(records)) for (const record of records) read(record)
  else {
    const keys = keyFields.some(isComposite) ? [] : fieldsNamed(records, keyFields)
    const versions = versionFields && fieldsNamed(records, versionFields)
    for (let index = 0; index < records.length; index++) {
      const row = findRow(records, index, keys, versions)
      if (row) rows.push(row)
      else read(records.record(index))
    }
  }
  return { rows, rejected, readAtMs, ...(isRecordPage(records) && { release: records.release }) }
}

/** Makes a row of what stands in the bytes of a page; null where only the parsed record can tell whether it is one. */
function findRow(
  page: RecordPage,
  index: number,
  keys: NamedFields,
  versions: NamedFields | null,
): FoundRow | null {
  if (!hasFields(page, index)) return null
  const keyAt = firstPlace(page, index, keys)
  if (keyAt < 0) return null
  const smallKey = smallNumberAt(page, keyAt)
  const key = smallKey >= 0 ? String(smallKey) : keyText(valueAt(page, keyAt))
  if (key === null) return null
  if (versions === null) return new FoundRow(key, null, page, index)
  const versionAt = firstPlace(page, index, versions)
  const version = versionAt < 0 ? null : versionFrom(page, versionAt)
  return version === null ? null : new FoundRow(key, version, page, index)
}

function versionFrom(page: RecordPage, place: number): bigint | null {
  const small = smallNumberAt(page, place)
  return small >= 0 ? BigInt(small) : toVersion(valueAt(page, place))
}

/** A class, so that all of them share one getter: five thousand objects a page, each with a function of its own, would be expensive. */
class FoundRow implements Row, Found {
  readonly key: string
  readonly version: bigint | null
  readonly page: RecordPage
  readonly index: number

  constructor(key: string, version: bigint | null, page: RecordPage, index: number) {
    this.key = key
    this.version = version
    this.page = page
    this.index = index
  }

  get found(): Found {
    return this
  }

  get record(): JsonObject {
    return this.page.record(this.index) as JsonObject
  }
}

/** For each of some names, the fields that are called so, in any case. */
type NamedFields = readonly (readonly number[])[]

const fieldsNamed = (page: RecordPage, names: readonly string[]): NamedFields =>
  names.map((wanted) =>
    page.order.names.flatMap((name, field) =>
      field > 0 && name.toLowerCase() === wanted.toLowerCase() ? [field] : [],
    ),
  )

/** The place of the first of these fields that is there and not null; -1: there is none, or the record has a field twice. */
function firstPlace(page: RecordPage, index: number, named: NamedFields): number {
  for (let candidate = 0; candidate < named.length; candidate++) {
    const fields = named[candidate] as readonly number[]
    let found = -1
    for (let spelling = 0; spelling < fields.length; spelling++) {
      const place = placeOf(page, index, fields[spelling] as number)
      if (place >= 0 && found >= 0) return -1
      if (place >= 0) found = place
    }
    if (found >= 0) return found
  }
  return -1
}

/** The versions that records have in one field, of those that have one there. */
export function versionsIn(records: RecordList, field: string): readonly bigint[] {
  if (!isRecordPage(records))
    return records.filter(isObject).flatMap((record) => readVersion(record, field) ?? [])
  const named = fieldsNamed(records, [field])
  const versions: bigint[] = []
  for (let index = 0; index < records.length; index++) {
    const at = firstPlace(records, index, named)
    const record = at < 0 ? records.record(index) : null
    const version =
      record === null ? versionFrom(records, at) : isObject(record) ? readVersion(record, field) : null
    if (version !== null) versions.push(version)
  }
  return versions
}

/** The key of each row as a number; NaN: it is no number. */
export function keyNumbers(rows: readonly Row[]): Float64Array {
  const numbers = new Float64Array(rows.length)
  for (let index = 0; index < rows.length; index++) numbers[index] = Number((rows[index] as Row).key)
  return numbers
}

/** Each is larger than the one before it. */
export function areRising(numbers: Float64Array): boolean {
  for (let index = 1; index < numbers.length; index++)
    if (!((numbers[index - 1] as number) < (numbers[index] as number))) return false
  return true
}

/** Names a record that has no key, so that two passes over a list can tell it again. */
export const fingerprint = (record: Json): string => hash('sha256', JSON.stringify(record), 'base64url')

/** Whether a list of that name beside records holds what was wrong with them: `{"errors":[]}` is no empty page. */
export const holdsComplaints = (name: string): boolean =>
  /^(?:validation)?_?(?:error|warning|message|problem)s?$/i.test(name)

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)

const readAssignment = fieldReader(['Assignment'])

/** The assignment in the answer to an extended read: its fields stand beside its groups, or in a member of their own. */
export function assignmentIn(answer: JsonObject): JsonObject {
  const own = readAssignment(answer)
  return isObject(own) ? own : answer
}

const readDeletionFlag = fieldReader(['SysDeleted'])

/** The source itself says that the record is deleted. */
export const isFlaggedDeleted = (record: JsonObject): boolean => saysDeleted(readDeletionFlag(record))

/** What upstreams write for true: the boolean, 1, or the word in any case. */
export function saysDeleted(value: Json | undefined): boolean {
  if (typeof value === 'string') return value.trim().toLowerCase() === 'true' || value.trim() === '1'
  return value === true || value === 1
}

/** An int64 from a number or a string of digits, or null. */
export function toInt64(value: Json | undefined): bigint | null {
  const text = integerSource(value)
  if (text === null) return null
  const integer = BigInt(text)
  return integer >= int64.min && integer <= int64.max ? integer : null
}

const base64Version = /^[A-Za-z0-9+/]{11}=$/

/**
 * A row version from a number, a string of digits, or the eight bytes that SQL Server's rowversion has, as base64. No counter is negative:
 * one record with such a number would otherwise seem to show that the upstream answers to another field.
 */
export function toVersion(value: Json | undefined): bigint | null {
  const integer = toInt64(value)
  if (integer !== null && integer < 0n) return null
  if (integer !== null || typeof value !== 'string' || !base64Version.test(value)) return integer
  const bytes = Buffer.from(value, 'base64')
  const version = bytes.length === 8 ? bytes.readBigUInt64BE() : null
  return version !== null && version <= int64.max ? version : null
}

/** The version that a record has in one field, or null. */
export function readVersion(record: JsonObject, field: string): bigint | null {
  return toVersion(fieldValue(record, { folded: field.toLowerCase(), spelling: field }))
}

/** Field names as a record spells them. */
export const fieldNames = (record: JsonObject): readonly string[] => Object.keys(record)

function integerSource(value: Json | undefined): string | null {
  // Above 2^53 the text of a number is what the upstream wrote; its exact binary value is not.
  const text =
    typeof value === 'number'
      ? String(value)
      : typeof value === 'string'
        ? value
        : JSON.isRawJSON(value)
          ? value.rawJSON
          : null
  return text !== null && integerText.test(text) ? text : null
}

/** The key of a record by the first of some fields that it has, or null where that is no usable one. */
export function keyReader(keyFields: readonly string[]): (record: JsonObject) => string | null {
  const [only = ''] = keyFields
  if (!isComposite(only)) {
    const read = fieldReader(keyFields)
    return (record) => keyText(read(record))
  }
  const readers = keyParts(only).map((part) => fieldReader([part]))
  return (record) => {
    const texts = readers.map((read) => keyText(read(record)))
    return texts.includes(null) ? null : compositeKey(texts.filter((text) => text !== null))
  }
}

/** `[4711,"B"]`, of the texts of its parts; null when it is too long for an index of Postgres. */
function compositeKey(texts: readonly string[]): string | null {
  const parts = texts.map((text) => (toInt64(text) === null ? JSON.stringify(text) : text))
  const key = `[${parts.join(',')}]`
  return key.length > longestKey ? null : key
}

const longestKey = 500

/** A key of several fields as a person writes it, `[4711,"B"]` or `4711,B`, in its own text; null where it is none of these fields. */
export function typedKey(keyField: string, typed: string): string | null {
  if (!isComposite(keyField)) return isUuid(typed) ? typed.toLowerCase() : typed
  const values = typed.startsWith('[') ? listIn(typed) : typed.split(',').map((one) => one.trim())
  const parts = keyParts(keyField)
  if (values?.length !== parts.length) return null
  const record = Object.fromEntries(parts.map((part, index) => [part, values[index] ?? null]))
  return keyReader([keyField])(record)
}

function listIn(text: string): readonly Json[] | null {
  try {
    const parsed = parseJson(Buffer.from(text))
    return Array.isArray(parsed) ? parsed : null
  } catch {
    return null
  }
}

export function keyText(value: Json | undefined): string | null {
  const integer = toInt64(value)
  if (integer !== null) return integer.toString()
  if (typeof value !== 'string' || value === '' || value.length > longestKey) return null
  if (value.includes('\0') || !value.isWellFormed()) return null
  return isUuid(value) ? value.toLowerCase() : value
}

/** Reads the first of some fields that is there and not null. Remembers how the last record spelt each. */
function fieldReader(candidates: readonly string[]): (record: JsonObject) => Json | undefined {
  const wanted = candidates.map((name) => ({ folded: name.toLowerCase(), spelling: name }))
  return (record) => {
    for (const field of wanted) {
      const value = fieldValue(record, field)
      if (value !== undefined) return value
    }
    return undefined
  }
}

/**
 * If a record has several spellings of a field, the first one that is not null counts, as in its row. It must not be the one that the
 * record before had: then what becomes of a record would depend on the page that it is in (P3).
 */
function fieldValue(
  record: JsonObject,
  field: { readonly folded: string; spelling: string },
): Json | undefined {
  for (const name in record) {
    if (name.length !== field.folded.length) continue
    if (name !== field.spelling && name.toLowerCase() !== field.folded) continue
    const value = record[name]
    if (value === undefined || value === null) continue
    field.spelling = name
    return value
  }
  return undefined
}
