// The types that a column can have, and which of them the values of a field ask for. A new one is a file like its neighbours and a line here.

import type { Json } from '../../json/json.ts'
import { isUuid } from '../../streams/record.ts'
import { bigint, fitsInt64 } from './bigint.ts'
import { boolean } from './boolean.ts'
import { date } from './date.ts'
import { jsonb } from './jsonb.ts'
import { isInt64Sql, numeric } from './numeric.ts'
import { text } from './text.ts'
import { time } from './time.ts'
import { isInstant, timestamptz } from './timestamptz.ts'
import { uuid, uuidPattern } from './uuid.ts'

export const columnTypes = { bigint, numeric, boolean, uuid, timestamptz, date, time, text, jsonb } as const
export type ColumnType = keyof typeof columnTypes

export const isColumnType = (name: string): name is ColumnType => Object.hasOwn(columnTypes, name)

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
  return first !== next && columnTypes[first].isString && columnTypes[next].isString ? 'text' : first
}

/** The type of a key whose values are of this type: any other can be told apart by its text. */
export const keyType = (type: ColumnType): ColumnType => (columnTypes[type].fitsKey ? type : 'text')

/** Whether a text is one that a key column of this type can hold. */
export const keyCheck = (type: ColumnType): ((key: string) => boolean) =>
  columnTypes[type].fitsKey ?? (() => true)

/** The same in SQL. */
export const keyFitsSql = (type: ColumnType, text: string): string =>
  type === 'uuid' ? `${text} ~* '${uuidPattern}'` : type === 'text' ? 'true' : isInt64Sql(text)

/** In SQL: the text as a key of this type, null where the column cannot hold it. */
export const keyFromSql = (type: ColumnType, text: string): string =>
  type === 'text' ? text : `case when ${keyFitsSql(type, text)} then ${text}::${type} end`
