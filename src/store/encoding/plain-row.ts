// Plain rows: those whose values stand in the bytes of their page just as their columns take them. They are encoded without being
// parsed, to the same text and so the same hash as src/store/encoding/row.ts would give them; every other row is left to it.

import { hash } from 'node:crypto'
import type { Found, Row } from '../../streams/record.ts'
import type { FieldOrder } from '../../wire/field-order.ts'
import { foldName } from '../schema/column-names.ts'
import type { Column, TableSchema } from '../schema/table-schema.ts'
import { type Cells, copyNull, mostCellBytes, newCells, viewOf, writeNull } from '../types/cells.ts'
import type { LocalTime, TypeRules } from '../types/column-type.ts'
import { columnTypes } from '../types/table.ts'
import { zoneSuffix } from '../types/timestamptz.ts'
import { addBinary, addHash, addText, beginBinary, type CopyRows } from './copy-rows.ts'
import { type NewFields, noteNewField, type PageNotes, volatileColumns } from './row.ts'

/** By the suffix that names the zone of a date-time without an offset. Where a zone is missing, Postgres reads the text. */
export type LocalTimes = ReadonlyMap<string, LocalTime['offsetAt']>

/** Adds the row, or answers false and adds nothing. */
export type EncodePlainRow = (row: Row, notes: PageNotes, rows: CopyRows) => boolean

/** Where the values of a page's records go. */
type Places = {
  readonly order: FieldOrder
  /** How many fields were known when it was made. */
  readonly fieldCount: number
  /** By column, the number of its field; 0: none of the fields. */
  readonly fieldOf: Int32Array
  /** Fields that have no column, or share one with another: a row is only plain without them. */
  readonly mustBeNull: Int32Array
  readonly deletionFlag: number
  /** Fields of the same name in other case: which of them counts depends on their order in the record. */
  readonly otherFlags: readonly number[]
}

type PlainEncoder = {
  readonly tableSchema: TableSchema
  /** By column, how it is written. */
  readonly rules: readonly TypeRules[]
  readonly keyIndex: number
  readonly localTimes: readonly (LocalTime | null)[]
  readonly cells: Cells
  /** By column; null where the hash leaves out none. */
  readonly isVolatile: readonly boolean[] | null
  /** Where the cells of volatile columns begin and end in the text of the row. */
  readonly leftOut: number[]
  places: Places | null
  readonly newFields: NewFields
  /** Only the hash of each row is added. */
  readonly onlyHashes: boolean
}

/**
 * With `onlyHashes` only the hash of a row is made. Values are not checked: one that does not fit its column has a text that no stored
 * row has. Where fields are volatile, rows are encoded all the same.
 */
export function createPlainRowEncoder(
  tableSchema: TableSchema,
  localTimes: LocalTimes,
  newFields: NewFields,
  onlyHashes = false,
): EncodePlainRow {
  const { columns, key, stream } = tableSchema
  const zones = new Map(Object.entries(stream.fieldZones ?? {}))
  const isVolatile = volatileColumns(tableSchema)
  const encoder: PlainEncoder = {
    tableSchema,
    rules: columns.map((column) =>
      isSimple(tableSchema, column) ? columnTypes[column.type] : columnTypes.jsonb,
    ),
    keyIndex: columns.indexOf(key),
    localTimes: columns.map(({ field, type }) => {
      if (type !== 'timestamptz') return null
      const suffix = zoneSuffix(field, zones.get(foldName(field)))
      const offsetAt = suffix === 'Z' ? () => 0 : (localTimes.get(suffix) ?? (() => null))
      return { suffix: Buffer.from(suffix), offsetAt }
    }),
    cells: newCells(),
    isVolatile,
    leftOut: [],
    places: null,
    newFields,
    onlyHashes: onlyHashes && isVolatile === null,
  }
  return (row, notes, rows) => row.found !== undefined && encodePlainRow(encoder, row, row.found, notes, rows)
}

/** Keys and row versions are read from their bytes only if they are of the usual types. */
function isSimple({ key, versions }: TableSchema, column: Column): boolean {
  if (versions.includes(column)) return column.type === 'bigint'
  return column !== key || columnTypes[column.type].fitsKey !== null
}

function placesOf({ tableSchema, newFields }: PlainEncoder, order: FieldOrder): Places {
  const { columns } = tableSchema
  const columnOf = new Map(columns.map((column, index) => [foldName(column.field), index]))
  const fieldOf = new Int32Array(columns.length)
  const mustBeNull: number[] = []
  const flags: number[] = []
  for (let field = 1; field < order.names.length; field++) {
    const folded = foldName(order.names[field] ?? '')
    const column = columnOf.get(folded)
    if (column === undefined) noteNewField(newFields, tableSchema, order.names[field] ?? '')
    if (column === undefined || fieldOf[column] !== 0) mustBeNull.push(field)
    else fieldOf[column] = field
    if (folded === 'sysdeleted') flags.push(field)
  }
  const [deletionFlag = 0, ...otherFlags] = flags
  return {
    order,
    fieldCount: order.names.length,
    fieldOf,
    mustBeNull: Int32Array.from(mustBeNull),
    deletionFlag,
    otherFlags,
  }
}

function encodePlainRow(
  encoder: PlainEncoder,
  row: Row,
  { page, index }: Found,
  notes: PageNotes,
  rows: CopyRows,
): boolean {
  const { order } = page
  if (encoder.places?.order !== order || encoder.places.fieldCount !== order.names.length)
    encoder.places = placesOf(encoder, order)
  const { recordStarts, recordEnds, firstFields, valueStarts } = page.places
  encoder.cells.source = page.view
  const first = firstFields[index] as number
  const fieldCount = (firstFields[index + 1] as number) - first
  const { places, cells } = encoder
  const { mustBeNull } = places
  for (let at = 0; at < mustBeNull.length; at++) {
    const field = mustBeNull[at] as number
    if (field < fieldCount && (valueStarts[first + field] as number) > 0) return false
  }
  const flag = deletionAt(places, page, index)
  if (flag === null) return false
  prepareCells(encoder, (recordEnds[index] as number) - (recordStarts[index] as number), rows)
  const hashedEnd = writeCells(encoder, places, row, page, first, fieldCount, notes)
  if (hashedEnd < 0) return false
  const digest = hash('sha1', hashedText(encoder, hashedEnd), 'binary')
  if (encoder.onlyHashes) addHash(rows, row, digest, flag)
  else if (flag || cells.isTextOnly) addText(rows, row, cells, digest, flag)
  else addBinary(rows, row, cells, digest)
  return true
}

/** Whether the source says that the record is deleted; null: it says so in another way than by a boolean. */
function deletionAt(
  { deletionFlag, otherFlags }: Places,
  { bytes, places: { firstFields, valueStarts } }: Found['page'],
  index: number,
): boolean | null {
  const first = firstFields[index] as number
  const fieldCount = (firstFields[index + 1] as number) - first
  for (let at = 0; at < otherFlags.length; at++) {
    const field = otherFlags[at] as number
    if (field < fieldCount && valueStarts[first + field] !== 0) return null
  }
  const place = first + deletionFlag
  if (deletionFlag === 0 || deletionFlag >= fieldCount) return false
  const start = valueStarts[place] as number
  if (start <= 0) return false
  return bytes[start] === 0x74 ? true : bytes[start] === 0x66 ? false : null
}

/** Makes room for a row, and begins it. */
function prepareCells({ cells, localTimes, rules }: PlainEncoder, recordBytes: number, rows: CopyRows): void {
  const most = recordBytes + (rules.length + 2) * mostCellBytes + localTimes.length * longestSuffix
  if (cells.text.length < most) {
    cells.text = Buffer.alloc(2 * most)
    cells.textView = viewOf(cells.text)
  }
  beginBinary(rows, cells, most, rules.length)
  cells.isTextOnly = false
  // The first cell is for rescued values: a plain row has none.
  for (let at = 0; at < copyNull.length; at++) cells.text[at] = copyNull.charCodeAt(at)
  cells.textEnd = copyNull.length
}

const longestSuffix = 64

/** Returns where the last cell ends that is not null; -1 when the row is not plain. */
function writeCells(
  { rules, keyIndex, localTimes, cells, isVolatile, leftOut, onlyHashes }: PlainEncoder,
  { fieldOf }: Places,
  { key }: Row,
  { bytes, places: { valueStarts, valueEnds } }: Found['page'],
  first: number,
  fieldCount: number,
  { nonNull }: PageNotes,
): number {
  let hashedEnd = 0
  leftOut.length = 0
  for (let column = 0; column < rules.length; column++) {
    const field = fieldOf[column] as number
    const start = field > 0 && field < fieldCount ? (valueStarts[first + field] as number) : 0
    if (start <= 0) {
      if (column === keyIndex) return giveUp(nonNull, fieldOf, valueStarts, first, fieldCount, column)
      writeNull(cells)
      continue
    }
    const end = valueEnds[first + field] as number
    const cellStart = cells.textEnd
    const type = rules[column] as TypeRules
    const local = localTimes[column] as LocalTime
    if (
      (end < 0 && !type.takesEscapes) ||
      (column === keyIndex && !isKeyAt(key, bytes, start, end)) ||
      !(onlyHashes
        ? writeHashedCell(cells, type, bytes, start, end, local)
        : type.fromBytes(cells, bytes, start, end, local))
    )
      return giveUp(nonNull, fieldOf, valueStarts, first, fieldCount, column)
    if (isVolatile?.[column]) leftOut.push(cellStart, cells.textEnd)
    else hashedEnd = cells.textEnd
    nonNull[column] = (nonNull[column] as number) + 1
  }
  return hashedEnd
}

/** The text of the row, where volatile fields are as if they were empty (P16). */
function hashedText({ cells: { text }, leftOut }: PlainEncoder, end: number): Buffer {
  if (leftOut.length === 0) return text.subarray(0, end)
  const parts: Buffer[] = []
  let kept = 0
  for (let at = 0; at < leftOut.length && (leftOut[at] as number) < end; at += 2) {
    parts.push(text.subarray(kept, leftOut[at]), emptyCell)
    kept = leftOut[at + 1] as number
  }
  return Buffer.concat([...parts, text.subarray(kept, end)])
}

const emptyCell = Buffer.from(`\t${copyNull}`)

/** Takes back what was counted of the row. */
function giveUp(
  nonNull: Int32Array,
  fieldOf: Int32Array,
  valueStarts: Int32Array,
  first: number,
  fieldCount: number,
  columnEnd: number,
): -1 {
  for (let column = 0; column < columnEnd; column++) {
    const field = fieldOf[column] as number
    if (field > 0 && field < fieldCount && (valueStarts[first + field] as number) > 0)
      nonNull[column] = (nonNull[column] as number) - 1
  }
  return -1
}

/** Writes only the text of a cell: the binary form of the next one overwrites that of this one. */
function writeHashedCell(
  cells: Cells,
  type: TypeRules,
  bytes: Buffer,
  start: number,
  end: number,
  local: LocalTime,
): boolean {
  const { binaryEnd } = cells
  const isWritten = type.textFromBytes(cells, bytes, start, end, local)
  cells.binaryEnd = binaryEnd
  return isWritten
}

/** Whether the bytes of a value are those of the row's key. */
function isKeyAt(key: string, bytes: Buffer, start: number, end: number): boolean {
  if (end < 0) return false
  const from = bytes[start] === 0x22 ? start + 1 : start
  if (end - from - (from - start) !== key.length) return false
  for (let at = 0; at < key.length; at++) if (bytes[from + at] !== key.charCodeAt(at)) return false
  return true
}
