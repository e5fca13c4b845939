// Which field, or which fields together, tell the records of a stream apart; and twins: records that have one key, though they are not
// the same (P5).

import type { Json, JsonObject } from '../json/json.ts'
import {
  areRising,
  isObject,
  keyNumbers,
  keyParts,
  keyReader,
  keyText,
  type Records,
  type Row,
} from './record.ts'

/** The setting that names another key, and the key that there is. */
export type ChosenBy = { readonly variable: string; readonly keyField: string }

/** The setting that chooses the key of a stream. */
export const keyVariable = ({ name }: { readonly name: string }): string => `KEY_${name.toUpperCase()}`

/**
 * Two records with one key in one answer: the row takes the one with the higher version, or the later one, and the other is kept apart,
 * whole, with the fields that tell them apart (P5).
 */
export function withoutTwins(
  records: Records,
  chosenBy: ChosenBy | null = null,
  usable: () => ReadonlySet<string> = () => usableFields(records.rows),
): Records {
  if (areDistinct(keyNumbers(records.rows))) return { ...records, haveOwnKeys: true }
  const kept = new Map<string, Row>()
  for (const row of records.rows) {
    const other = kept.get(row.key)
    if (other === undefined || (row.version ?? 0n) >= (other.version ?? 0n)) kept.set(row.key, row)
  }
  if (kept.size === records.rows.length) return { ...records, haveOwnKeys: true }
  const textOf = ({ record }: Row) => JSON.stringify(record)
  const isTwin = (row: Row) => {
    const other = kept.get(row.key)
    return other !== undefined && other !== row && textOf(other) !== textOf(row)
  }
  const twins = records.rows.filter(isTwin)
  const pairs = twins.map(({ key, record }) => [record, kept.get(key)?.record ?? {}])
  const reason = twins.length > 0 ? sharedKey(pairs, usable(), chosenBy) : ''
  return {
    ...records,
    rows: [...kept.values()],
    haveOwnKeys: true,
    rejected: [...records.rejected, ...twins.map(({ record }) => ({ record, reason }))],
  }
}

/** False also where it cannot be told: keys that are no numbers, or the same one only as numbers. */
function areDistinct(numbers: Float64Array): boolean {
  if (numbers.length > 1 && areRising(numbers)) return true
  const sorted = numbers.slice().sort()
  for (let index = 0; index < sorted.length; index++)
    if (Number.isNaN(sorted[index]) || (index > 0 && sorted[index] === sorted[index - 1])) return false
  return true
}

/** How the reason of each such record begins in the quarantine. */
export const sharedKeyReason = 'another record of the same answer has its key'
/** Fields that change whenever a record changes: they differ even between two states of one record, so they tell no two records apart. */
const changing = /version|date|time|updat|modif|delet/i

/** Why a record is kept apart whose key another one has, the row. `usable` are the fields that every record has. */
export function sharedKey(
  twins: readonly (readonly JsonObject[])[],
  usable: ReadonlySet<string>,
  chosenBy: ChosenBy | null,
): string {
  const fields = fieldsThatTell(twins, usable)
  if (fields.length === 0) return sharedKeyReason
  const told = chosenBy
    ? `${chosenBy.variable}=${[chosenBy.keyField, ...fields].join(',')}`
    : fields.join(', ')
  return `${sharedKeyReason}; ${told} ${chosenBy || fields.length === 1 ? 'tells' : 'tell'} them apart`
}

const mostFields = 3

/** Fields that may be part of a key and that each of these records has a value in; `among`: no others. */
export function usableFields(
  rows: Iterable<Pick<Row, 'record'>>,
  among: ReadonlySet<string> | null = null,
): ReadonlySet<string> {
  let fields = among && new Set(among)
  for (const { record } of rows) {
    fields ??= new Set(Object.keys(record).filter((field) => !changing.test(field) && !field.includes(',')))
    for (const field of fields) if (keyText(record[field]) === null) fields.delete(field)
  }
  return fields ?? new Set()
}

/** Which of these fields tells all of these twins apart, or which do so together. */
function fieldsThatTell(
  twins: readonly (readonly JsonObject[])[],
  usable: ReadonlySet<string>,
): readonly string[] {
  const nameFirst = (field: string) => Number(!/(?:id|number|code|type)$/i.test(field))
  const fields = [...usable].toSorted((one, other) => nameFirst(one) - nameFirst(other))
  const alike = (pairs: typeof twins, field: string) =>
    pairs.filter((pair) => new Set(pair.map((record) => keyText(record[field]))).size < pair.length)
  const alone = fields.find((field) => alike(twins, field).length === 0)
  if (alone !== undefined) return [alone]
  const together: string[] = []
  let left = twins
  for (const field of fields) {
    const still = alike(left, field)
    if (still.length === left.length) continue
    together.push(field)
    left = still
    if (left.length === 0 || together.length === mostFields) break
  }
  return left.length === 0 ? together : []
}

/**
 * The first candidate that every record has a usable value of, spelt as in the records; null when there is none. Records of one
 * answer are told apart by their keys: a candidate that other records share would make one row of them (P5).
 */
export function chooseKeyField(
  records: readonly Json[],
  candidates: readonly string[],
  areOneAnswer = false,
): string | null {
  const objects = records.filter(isObject)
  const first = objects[0]
  if (!first) return null
  for (const candidate of candidates) {
    const keys = objects.map(keyReader([candidate]))
    if (keys.includes(null) || (areOneAnswer && isShared(keys, objects))) continue
    const names = keyParts(candidate).map((part) =>
      Object.keys(first).find((name) => name.toLowerCase() === part.toLowerCase()),
    )
    return names.includes(undefined) ? null : names.join(',')
  }
  return null
}

function isShared(keys: readonly (string | null)[], records: readonly JsonObject[]): boolean {
  const known = new Map<string | null, string>()
  return records.some((record, index) => {
    const text = JSON.stringify(record)
    const other = known.get(keys[index] ?? null)
    known.set(keys[index] ?? null, text)
    return other !== undefined && other !== text
  })
}
