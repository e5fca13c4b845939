// One row as a line of COPY text: whether the source deleted it, what fits no column (P5), and its columns.

import { type Json, type JsonObject, repeatedFields } from '../../json/json.ts'
import { type Row, saysDeleted, toInt64 } from '../../streams/record.ts'
import { foldName } from '../schema/column-names.ts'
import { documentedTypes } from '../schema/documented-types.ts'
import { deletionFlag, getsNoColumn, type TableSchema, versionFields } from '../schema/table-schema.ts'
import { copyNull } from '../types/cells.ts'
import { type ColumnType, keyCheck } from '../types/table.ts'
import { escapeCopy } from '../types/text.ts'
import { type ColumnValues, type Rescued, rescuedText } from './column-values.ts'
import { addCells, type CopyRows, hashAndFlagColumns } from './copy-rows.ts'
import {
  countRescued,
  countValue,
  hasGrowth,
  type NewFields,
  noteField,
  noteNewField,
  type PageNotes,
} from './page-notes.ts'

/** In place of a column: the field has none and gets none. */
const noColumn = -1
/** In place of a column: the table does not know the field yet. */
const unknownField = -2

// An upstream may make up a field name for every record; what is known of such names is forgotten again (P10).
const mostPlaces = 10_000

/** Where the values of a field go. */
function createFinder(tableSchema: TableSchema, newFields: NewFields) {
  const columnOf = new Map(tableSchema.columns.map((column, index) => [foldName(column.field), index]))
  const versionNames = new Set(versionFields(tableSchema.stream))
  const find = (field: string) => {
    const folded = foldName(field)
    const column = columnOf.get(folded) ?? (getsNoColumn(tableSchema, field) ? noColumn : unknownField)
    if (column === unknownField) noteNewField(newFields, tableSchema, field)
    const isVersion = versionNames.has(folded)
    /** By this field the source itself says that a record is deleted. */
    const isDeletionFlag = folded === deletionFlag
    return { column, isVersion, isDeletionFlag }
  }
  const places = new Map<string, ReturnType<typeof find>>()
  return (field: string) => {
    const known = places.get(field)
    if (known) return known
    const place = find(field)
    if (places.size >= mostPlaces) places.clear()
    places.set(field, place)
    return place
  }
}

/** What the lines begin with, before the columns of the table: names and types. */
export const leadingColumns = { ...hashAndFlagColumns, _rescued: 'jsonb' } as const

const otherVersions = 'fields that differ only in case hold different row versions'
const noVersionColumn = 'the table has no column for its row version'

/** A row that does not fit the table's key adds nothing, and is noted as unfit. */
export function createRowEncoder(tableSchema: TableSchema, values: ColumnValues, newFields: NewFields) {
  const encoder = openEncoder(tableSchema, values, newFields)
  return (row: Row, notes: PageNotes, rows: CopyRows): void => encodeRow(encoder, row, notes, rows)
}

type RowEncoder = ReturnType<typeof openEncoder>

/** What is known of the table, and the cells of the line in hand. */
const openEncoder = (tableSchema: TableSchema, values: ColumnValues, newFields: NewFields) => ({
  tableSchema,
  placeOf: createFinder(tableSchema, newFields),
  fitsKey: keyCheck(tableSchema.key.type),
  values,
  /** Types of fields that are not taken from their values. A row version is a number even where it is served as a string. */
  knownTypes: new Map<string, ColumnType>([
    ...documentedTypes(tableSchema.stream),
    ...versionFields(tableSchema.stream).map((field) => [field, 'bigint'] as const),
  ]),
  cells: new Array<string>(tableSchema.columns.length),
  isVolatile: volatileColumns(tableSchema),
})

/** By column, whether the hash leaves it out; null where it leaves out none. */
export const volatileColumns = ({ columns, volatile }: TableSchema): readonly boolean[] | null =>
  volatile.size > 0 ? columns.map(({ field }) => volatile.has(foldName(field))) : null

function encodeRow(encoder: RowEncoder, row: Row, notes: PageNotes, rows: CopyRows): void {
  const { tableSchema, values, cells } = encoder
  if (!encoder.fitsKey(row.key)) {
    const { name, type } = tableSchema.key
    notes.rejected.push({ record: row.record, reason: `the key does not fit column ${name} (${type})` })
    return
  }
  // Read once: for a row that was found in the bytes of its page, each access parses the record again.
  const { record } = row
  const { rescued, isDeleted, isVersionRescued } = placeValues(encoder, row.key, record, notes)
  if (notes.waitsForGrowth && hasGrowth(notes)) return
  if (isVersionRescued && row.version !== null && versionCell(encoder) !== String(row.version)) {
    const reason = values.versionIndexes.length > 0 ? otherVersions : noVersionColumn
    notes.rejected.push({ record, reason })
    return
  }
  const repeated = record[repeatedFields]
  if (repeated) for (const path of Object.keys(repeated)) countRescued(notes, path)
  const all = [rescuedCellOf(rescued, repeated), ...cells]
  addCells(rows, row, all, isDeleted, lastingCells(encoder, rescued, repeated))
  // Cleared at once, so that long values are not kept until the next row comes (P10).
  cells.fill(copyNull)
}

const rescuedCellOf = (rescued: Rescued | null, repeated: JsonObject | undefined): string =>
  rescued || repeated ? escapeCopy(rescuedText(rescued ?? [], repeated)) : copyNull

/** The cells that the hash is made from: volatile fields are left out of it, as if they were empty (P16). Null: all of them. */
function lastingCells(
  { tableSchema, cells, isVolatile }: RowEncoder,
  rescued: Rescued | null,
  repeated: JsonObject | undefined,
): readonly string[] | null {
  if (isVolatile === null) return null
  const kept = rescued?.filter(([field]) => !tableSchema.volatile.has(foldName(field))) ?? []
  const lasting = cells.map((cell, column) => (isVolatile[column] ? copyNull : cell))
  return [rescuedCellOf(kept.length > 0 ? kept : null, repeated), ...lasting]
}

/** Fills the cells. */
function placeValues(encoder: RowEncoder, key: string, record: JsonObject, notes: PageNotes) {
  const { cells, placeOf, knownTypes } = encoder
  const { keyIndex, encode, noteUnfit } = encoder.values
  const fields = Object.keys(record)
  // One call for all of them: three times as fast as asking by name.
  const fieldValues = Object.values(record)
  // What fits none of the cells.
  let rescued: Rescued | null = null
  // A value of a row version is among that: another field of that name was there first, or it has no column.
  let isVersionRescued = false
  let flag: Json | undefined
  cells.fill(copyNull)
  cells[keyIndex] = escapeCopy(key)
  countValue(notes, keyIndex)

  for (let index = 0; index < fields.length; index++) {
    const field = fields[index] as string
    const value = fieldValues[index] as Json
    const { column, isVersion, isDeletionFlag } = placeOf(field)
    if (isDeletionFlag && flag === undefined) flag = value
    if (value === null) continue
    if (column === keyIndex) {
      if (isKey(value, key)) continue
    } else if (column >= 0) {
      const cell = encode[column]?.(value) ?? null
      // A field that differs only in case was there first when the cell is taken.
      if (cell !== null && cells[column] === copyNull) {
        cells[column] = cell
        countValue(notes, column)
        continue
      }
      noteUnfit(notes, column, value)
    }
    if (column === unknownField) noteField(notes, knownTypes, field, value)
    rescued ??= []
    rescued.push([field, value])
    countRescued(notes, field)
    isVersionRescued ||= isVersion
  }
  return { rescued, isVersionRescued, isDeleted: saysDeleted(flag) }
}

function versionCell({ values: { versionIndexes }, cells }: RowEncoder): string | undefined {
  for (const index of versionIndexes) if (cells[index] !== copyNull) return cells[index]
  return undefined
}

function isKey(value: Json, key: string): boolean {
  if (typeof value === 'string') return value === key || value.toLowerCase() === key
  return (typeof value === 'number' && `${value}` === key) || toInt64(value)?.toString() === key
}
