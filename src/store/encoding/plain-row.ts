// Rows that are encoded from the bytes of their page, to the same text and so the same hash as src/store/encoding/row.ts would give them. A
// value that stands there just as its column takes it is copied; any other is parsed, alone. Records that only tell as a whole where their
// values go are left to row.ts: those with a field twice, in several spellings, or unknown to the table.

import { hash } from 'node:crypto'
import { foldField } from '../../streams/dictionary.ts'
import type { Found, Row } from '../../streams/record.ts'
import { valueAt } from '../../wire/record-page.ts'
import type { Column, TableSchema } from '../schema/table-schema.ts'
import { copyNull, mostCellBytes, newCells, viewOf, writeNull, writeText } from '../types/cells.ts'
import { type LocalTime, type TypeRules, typeRules } from '../types/column-type.ts'
import { repeatsFields } from '../types/jsonb.ts'
import { columnTypes } from '../types/table.ts'
import { escapeCopy } from '../types/text.ts'
import { zoneSuffix } from '../types/timestamptz.ts'
import { type ColumnValues, type Rescued, rescuedText } from './column-values.ts'
import { addBinary, addHash, addRescued, addText, beginBinary, type CopyRows } from './copy-rows.ts'
import { type FieldPlaces, fieldPlacesOf } from './field-places.ts'
import { countRescued, type NewFields, type PageNotes } from './page-notes.ts'
import { volatileColumns } from './row.ts'

/** By the suffix that names the zone of a date-time without an offset. Where a zone is missing, Postgres reads the text. */
export type LocalTimes = ReadonlyMap<string, LocalTime['offsetAt']>

/** Adds the row, or answers false and adds nothing. */
export type EncodePlainRow = (row: Row, notes: PageNotes, rows: CopyRows) => boolean

type Options = {
  readonly tableSchema: TableSchema
  readonly values: ColumnValues
  readonly localTimes: LocalTimes
  readonly newFields: NewFields
  /**
   * Only the hash of a row is made. Few values are checked: one that does not fit its column may get a text that no stored row has. Where
   * fields are volatile, rows are encoded all the same.
   */
  readonly onlyHashes?: boolean
  /** The table will have these columns: what does not fit them may show that they have to be others. */
  readonly isExpected?: boolean
}

export function createPlainRowEncoder(options: Options): EncodePlainRow {
  const encoder = openEncoder(options)
  return (row, notes, rows) => row.found !== undefined && encodePlainRow(encoder, row, row.found, notes, rows)
}

type PlainEncoder = ReturnType<typeof openEncoder>

function openEncoder({ onlyHashes = false, isExpected = false, localTimes, ...known }: Options) {
  const { tableSchema } = known
  const { columns, key, stream } = tableSchema
  const zones = new Map(Object.entries(stream.fieldZones ?? {}))
  const isVolatile = volatileColumns(tableSchema)
  return {
    ...known,
    /**
     * A value that fits no column is kept beside them. Otherwise its row is left to row.ts: the hash leaves out volatile fields wherever
     * they stand.
     */
    rescues: !isExpected && isVolatile === null,
    /** What fits no column of the row in hand. */
    rescued: [] as Rescued,
    rescuedColumns: [] as number[],
    /** By column, how it is written. */
    rules: columns.map((column) => (isSimple(tableSchema, column) ? columnTypes[column.type] : neverCopied)),
    keyIndex: columns.indexOf(key),
    localTimes: columns.map(({ field, type }): LocalTime | null => {
      if (type !== 'timestamptz') return null
      const suffix = zoneSuffix(field, zones.get(foldField(field)))
      const offsetAt = suffix === 'Z' ? () => 0 : (localTimes.get(suffix) ?? (() => null))
      return { suffix: Buffer.from(suffix), offsetAt }
    }),
    cells: newCells(),
    /** By column; null where the hash leaves out none. */
    isVolatile,
    /** Where the cells of volatile columns begin and end in the text of the row. */
    leftOut: [] as number[],
    places: null as FieldPlaces | null,
    /** Only the hash of each row is added. */
    onlyHashes: onlyHashes && isVolatile === null,
  }
}

/** Keys and row versions are read from their bytes only if they are of the usual types. */
function isSimple({ key, versions }: TableSchema, column: Column): boolean {
  if (versions.includes(column)) return column.type === 'bigint'
  return column !== key || columnTypes[column.type].fitsKey !== null
}

const neverCopied = typeRules({ fromJson: () => null })

/** Where the fields of a record stand in its page: the first one, and how many there are. */
type Fields = { readonly page: Found['page']; readonly first: number; readonly count: number }

/** Where the value of a field begins; 0: the record has no such field; less: it is null. */
const startOf = ({ page, first, count }: Fields, field: number): number =>
  field < count ? (page.places.valueStarts[first + field] as number) : 0

function encodePlainRow(
  encoder: PlainEncoder,
  row: Row,
  { page, index }: Found,
  notes: PageNotes,
  rows: CopyRows,
): boolean {
  const { order } = page
  if (encoder.places?.order !== order || encoder.places.fieldCount !== order.names.length)
    encoder.places = fieldPlacesOf(encoder, order)
  const { recordStarts, recordEnds, firstFields } = page.places
  encoder.cells.source = page.view
  const first = firstFields[index] as number
  const fields: Fields = { page, first, count: (firstFields[index + 1] as number) - first }
  const { places, cells } = encoder
  const { mustBeNull } = places
  for (let at = 0; at < mustBeNull.length; at++)
    if (startOf(fields, mustBeNull[at] as number) > 0) return false
  const flag = deletionAt(places, fields)
  if (flag === null) return false
  prepareCells(encoder, (recordEnds[index] as number) - (recordStarts[index] as number), rows)
  let hashedEnd = writeCells(encoder, places, row, fields, notes)
  if (hashedEnd < 0) return false
  for (const field of places.unplaced)
    if (startOf(fields, field) > 0)
      encoder.rescued.push([order.names[field] ?? '', valueAt(page, first + field)])
  if (encoder.rescued.length > 0) hashedEnd += writeRescued(encoder, rows, notes)
  const digest = hash('sha1', hashedText(encoder, hashedEnd), 'binary')
  if (encoder.onlyHashes) addHash(rows, row, digest, flag)
  else if (flag || cells.isTextOnly) addText(rows, row, cells, digest, flag)
  else addBinary(rows, row, cells, digest)
  return true
}

/** Puts what fits no column before the columns (P5). Returns by how much they move in the text. */
function writeRescued({ cells, rescued, onlyHashes }: PlainEncoder, rows: CopyRows, notes: PageNotes) {
  const json = rescuedText(rescued, undefined)
  const text = Buffer.from(escapeCopy(json))
  const shift = text.length - copyNull.length
  if (cells.textEnd + shift > cells.text.length) {
    cells.text = Buffer.concat([cells.text], cells.text.length + shift)
    cells.textView = viewOf(cells.text)
  }
  cells.text.copyWithin(text.length, copyNull.length, cells.textEnd)
  text.copy(cells.text)
  cells.textEnd += shift
  if (!onlyHashes) addRescued(rows, cells, Buffer.from(json))
  for (const [field] of rescued) countRescued(notes, field)
  // So that long values are not kept until the next row comes (P10).
  rescued.length = 0
  return shift
}

/** Whether the source says that the record is deleted; null: it says so in another way than by a boolean. */
function deletionAt({ deletionFlag, otherFlags }: FieldPlaces, fields: Fields): boolean | null {
  for (let at = 0; at < otherFlags.length; at++)
    if (startOf(fields, otherFlags[at] as number) !== 0) return null
  const start = deletionFlag === 0 ? 0 : startOf(fields, deletionFlag)
  if (start <= 0) return false
  const byte = fields.page.bytes[start]
  return byte === 0x74 ? true : byte === 0x66 ? false : null
}

/** Makes room for a row, and begins it. */
function prepareCells(
  { cells, localTimes, rules, rescued, rescuedColumns }: PlainEncoder,
  recordBytes: number,
  rows: CopyRows,
): void {
  const most = recordBytes + (rules.length + 2) * mostCellBytes + localTimes.length * longestSuffix
  rescued.length = 0
  rescuedColumns.length = 0
  // COPY's text format doubles the backslashes of JSON.
  if (cells.text.length < 2 * most) {
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

/** Returns where the last cell ends that is not null; -1 when only the whole record tells. */
function writeCells(
  encoder: PlainEncoder,
  places: FieldPlaces,
  { key }: Row,
  fields: Fields,
  notes: PageNotes,
): number {
  const { rules, keyIndex, localTimes, cells, isVolatile, leftOut, onlyHashes, rescued, rescuedColumns } =
    encoder
  const { fieldOf } = places
  const { page, first, count } = fields
  const { bytes } = page
  const { valueStarts, valueEnds } = page.places
  const { nonNull } = notes
  let hashedEnd = 0
  leftOut.length = 0
  for (let column = 0; column < rules.length; column++) {
    const field = fieldOf[column] as number
    const start = field > 0 && field < count ? (valueStarts[first + field] as number) : 0
    if (start <= 0) {
      if (column === keyIndex) return giveUp(encoder, places, fields, notes, column)
      writeNull(cells)
      continue
    }
    const end = valueEnds[first + field] as number
    const cellStart = cells.textEnd
    const type = rules[column] as TypeRules
    const local = localTimes[column] as LocalTime
    if (column === keyIndex && !isKeyAt(key, bytes, start, end))
      return giveUp(encoder, places, fields, notes, column)
    const { binaryEnd } = cells
    const write = onlyHashes ? type.textFromBytes : type.fromBytes
    const isCopied = (end >= 0 || type.takesEscapes) && write(cells, bytes, start, end, local)
    // Of a hash only the text counts: the binary form of the next cell overwrites that of this one.
    if (onlyHashes) cells.binaryEnd = binaryEnd
    if (!isCopied) {
      const fits = column === keyIndex ? null : writeParsed(encoder, column, page, first + field, notes)
      if (fits === null) return giveUp(encoder, places, fields, notes, column)
      if (!fits) {
        rescued.push([page.order.names[field] ?? '', valueAt(page, first + field)])
        rescuedColumns.push(column)
        writeNull(cells)
        continue
      }
    }
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
  { rescuedColumns }: PlainEncoder,
  { fieldOf }: FieldPlaces,
  fields: Fields,
  { nonNull }: PageNotes,
  columnEnd: number,
): -1 {
  for (let column = 0; column < columnEnd; column++) {
    const field = fieldOf[column] as number
    if (field > 0 && startOf(fields, field) > 0) nonNull[column] = (nonNull[column] as number) - 1
  }
  for (const column of rescuedColumns) nonNull[column] = (nonNull[column] as number) + 1
  return -1
}

/** A longer value is parsed with its record, which is written in a way that holds it in memory once (P10). */
const longValueBytes = 65_536

/** Parses a value that its column does not take as it stands. False: it does not fit. Null: only the whole record tells what becomes of it. */
function writeParsed(
  { values, rules, cells, localTimes, rescues }: PlainEncoder,
  column: number,
  page: Found['page'],
  place: number,
  notes: PageNotes,
): boolean | null {
  const start = page.places.valueStarts[place] as number
  const end = page.places.valueEnds[place] as number
  if ((end < 0 ? ~end : end) - start > longValueBytes) return null
  const value = valueAt(page, place)
  if (repeatsFields(value)) return null
  const cell = values.encode[column]?.(value) ?? null
  if (cell === null) {
    if (!rescues || values.versionIndexes.includes(column)) return null
    values.noteUnfit(notes, column, value)
    return false
  }
  const { textEnd, source } = cells
  writeText(cells, cell)
  const cellEnd = cells.textEnd
  // Most are then read once more from their own text, such as a number in quotes, or a row version in base64.
  cells.textEnd = textEnd
  cells.source = cells.textView
  const local = localTimes[column] as LocalTime
  const isRead = (rules[column] as TypeRules).fromBytes(cells, cells.text, textEnd + 1, cellEnd, local)
  cells.source = source
  if (isRead) return true
  cells.textEnd = cellEnd
  cells.isTextOnly = true
  return true
}

/** Whether the bytes of a value are those of the row's key. */
function isKeyAt(key: string, bytes: Buffer, start: number, end: number): boolean {
  if (end < 0) return false
  const from = bytes[start] === 0x22 ? start + 1 : start
  if (end - from - (from - start) !== key.length) return false
  for (let at = 0; at < key.length; at++) if (bytes[from + at] !== key.charCodeAt(at)) return false
  return true
}
