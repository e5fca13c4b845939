// Which column takes which field of a page: found out once for all records that have the same fields in the same order.

import type { FieldOrder } from '../../wire/field-order.ts'
import { foldName } from '../schema/column-names.ts'
import { getsNoColumn, type TableSchema, versionFields } from '../schema/table-schema.ts'
import { type NewFields, noteNewField } from './page-notes.ts'

/** Where the values of a page's records go. */
export type FieldPlaces = ReturnType<typeof fieldPlacesOf>

type Options = {
  readonly tableSchema: TableSchema
  readonly newFields: NewFields
  /** Whether a value that fits no column is kept beside them. */
  readonly rescues: boolean
}

export function fieldPlacesOf({ tableSchema, newFields, rescues }: Options, order: FieldOrder) {
  const { columns } = tableSchema
  const versionNames = versionFields(tableSchema.stream)
  const columnOf = new Map(columns.map((column, index) => [foldName(column.field), index]))
  const fieldOf = new Int32Array(columns.length)
  const [mustBeNull, unplaced, flags]: [number[], number[], number[]] = [[], [], []]
  for (let field = 1; field < order.names.length; field++) {
    const folded = foldName(order.names[field] ?? '')
    const column = columnOf.get(folded)
    if (column === undefined) noteNewField(newFields, tableSchema, order.names[field] ?? '')
    if (column !== undefined && fieldOf[column] === 0) fieldOf[column] = field
    else if (column !== undefined || !rescues || versionNames.includes(folded)) mustBeNull.push(field)
    else if (getsNoColumn(tableSchema, order.names[field] ?? '')) unplaced.push(field)
    else mustBeNull.push(field)
    if (folded === 'sysdeleted') flags.push(field)
  }
  const [deletionFlag = 0, ...otherFlags] = flags
  return {
    order,
    /** How many fields were known when it was made. */
    fieldCount: order.names.length,
    /** By column, the number of its field; 0: none of the fields. */
    fieldOf,
    /** Fields that are new to the table, or share a column with another: only the whole record tells where their values go. */
    mustBeNull: Int32Array.from(mustBeNull),
    /** Fields that have no column and get none. */
    unplaced: Int32Array.from(unplaced),
    deletionFlag,
    /** Fields of the same name in other case: which of them counts depends on their order in the record. */
    otherFlags,
  }
}
