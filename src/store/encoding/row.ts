// One row as a line of COPY text: whether the source deleted it, what fits no column (P5), and its columns.

import { type Json, type JsonObject, repeatedFields } from '../../json/json.ts'
import { mostUnplaced } from '../../streams/field-types.ts'
import { type Rejected, type Row, saysDeleted, toInt64, toVersion } from '../../streams/record.ts'
import { foldName } from '../schema/column-names.ts'
import { documentedTypes } from '../schema/documented-types.ts'
import {
  deletionFlag,
  getsNoColumn,
  maxColumns,
  type TableSchema,
  versionFields,
} from '../schema/table-schema.ts'
import { copyNull } from '../types/cells.ts'
import { holdable, holdableValue } from '../types/jsonb.ts'
import { fitsNumeric, numberText } from '../types/numeric.ts'
import { type ColumnType, columnTypes, commonType, keyCheck, typeOf } from '../types/table.ts'
import { escapeCopy } from '../types/text.ts'
import { zoneSuffix } from '../types/timestamptz.ts'
import { addCells, type CopyRows, hashAndFlagColumns } from './copy-rows.ts'

/** Names of fields that came and that the table does not know; those with a value get a column. No more than `mostNewFields` (P10). */
export type NewFields = Set<string>
const mostNewFields = 500

export function noteNewField(newFields: NewFields, tableSchema: TableSchema, field: string): void {
  if (newFields.size < mostNewFields && !getsNoColumn(tableSchema, field)) newFields.add(field)
}

/** Where the values of a field go. */
type FieldPlace = {
  /** The index of its column. */
  readonly column: number
  readonly isVersion: boolean
  /** By this field the source itself says that a record is deleted. */
  readonly isDeletionFlag: boolean
}
/** In place of a column: the field has none and gets none. */
const noColumn = -1
/** In place of a column: the table does not know the field yet. */
const unknownField = -2

// An upstream may make up a field name for every record; what is known of such names is forgotten again (P10).
const mostPlaces = 10_000

function createFinder(tableSchema: TableSchema, newFields: NewFields): (field: string) => FieldPlace {
  const columnOf = new Map(tableSchema.columns.map((column, index) => [foldName(column.field), index]))
  const versionNames = new Set(versionFields(tableSchema.stream))
  const places = new Map<string, FieldPlace>()
  return (field) => {
    const known = places.get(field)
    if (known) return known
    const folded = foldName(field)
    const column = columnOf.get(folded) ?? (getsNoColumn(tableSchema, field) ? noColumn : unknownField)
    if (column === unknownField) noteNewField(newFields, tableSchema, field)
    if (places.size >= mostPlaces) places.clear()
    const place = { column, isVersion: versionNames.has(folded), isDeletionFlag: folded === deletionFlag }
    places.set(field, place)
    return place
  }
}

/** What the rows of one page showed. */
export type PageNotes = {
  /** How often each column had a value; there may be more places than columns. */
  readonly nonNull: Int32Array
  /** How many values of each field fitted no column. */
  readonly rescued: Map<string, number>
  /** Fields without a column, by folded name, and the type that holds their values. */
  readonly fields: Map<string, { readonly field: string; readonly type: ColumnType }>
  /** Names of bigint columns that met a number they cannot hold. */
  readonly widen: Set<string>
  /** By column whose type no value has proven yet, the type that values asked for which it cannot hold. */
  readonly retype: Map<number, ColumnType>
  readonly rejected: Rejected[]
  /** See EncodeOptions: rows are not kept once the table lacks something for them. */
  readonly waitsForGrowth: boolean
}

export const hasGrowth = ({ fields, widen }: PageNotes): boolean => fields.size > 0 || widen.size > 0

/** What the lines begin with, before the columns of the table: names and types. */
export const leadingColumns = { ...hashAndFlagColumns, _rescued: 'jsonb' } as const

const otherVersions = 'fields that differ only in case hold different row versions'
const noVersionColumn = 'the table has no column for its row version'

/** What is known of the table, and the cells of the line in hand. */
type RowEncoder = {
  readonly tableSchema: TableSchema
  readonly placeOf: (field: string) => FieldPlace
  readonly fitsKey: (key: string) => boolean
  readonly keyIndex: number
  readonly versionIndexes: readonly number[]
  readonly encodeColumn: readonly Encode[]
  readonly canWiden: readonly boolean[]
  readonly canRetype: readonly boolean[]
  /** Types of fields that are not taken from their values. */
  readonly knownTypes: ReadonlyMap<string, ColumnType>
  readonly cells: string[]
  /** Whether the hash leaves out each column; null where it leaves out none. */
  readonly isVolatile: readonly boolean[] | null
}
type Rescued = [string, Json][]
type Encode = (value: Json) => string | null

/** A row that does not fit the table's key adds nothing, and is noted as unfit. */
export function createRowEncoder(
  tableSchema: TableSchema,
  settled: ReadonlySet<string>,
  newFields: NewFields,
): (row: Row, notes: PageNotes, rows: CopyRows) => void {
  const encoder = prepareEncoder(tableSchema, settled, newFields)
  return (row, notes, rows) => encodeRow(encoder, row, notes, rows)
}

function prepareEncoder(
  tableSchema: TableSchema,
  settled: ReadonlySet<string>,
  newFields: NewFields,
): RowEncoder {
  const { columns, key, stream } = tableSchema
  const keyIndex = columns.indexOf(key)
  const versionIndexes = tableSchema.versions.map((column) => columns.indexOf(column))
  const documented = documentedTypes(stream)
  const zones = new Map(Object.entries(stream.fieldZones ?? {}))
  return {
    tableSchema,
    placeOf: createFinder(tableSchema, newFields),
    fitsKey: keyCheck(key.type),
    keyIndex,
    versionIndexes,
    encodeColumn: columns.map((column, index): Encode => {
      if (versionIndexes.includes(index)) return encodeVersion
      const { fromJson, fromDescribed } = columnTypes[column.type]
      const from = documented.get(foldName(column.field)) === column.type ? fromDescribed : fromJson
      const suffix = zoneSuffix(column.field, zones.get(foldName(column.field)))
      return (value) => from(value, suffix)
    }),
    canWiden: columns.map(
      (column, index) =>
        column.type === 'bigint' &&
        index !== keyIndex &&
        !versionIndexes.includes(index) &&
        !settled.has(column.name),
    ),
    canRetype: columns.map(
      ({ isUnproven = false, name }, index) =>
        isUnproven && index !== keyIndex && !versionIndexes.includes(index) && !settled.has(name),
    ),
    // A row version is a number even where it is served as a string.
    knownTypes: new Map([...documented, ...versionFields(stream).map((field) => [field, 'bigint'] as const)]),
    cells: new Array(columns.length),
    isVolatile: volatileColumns(tableSchema),
  }
}

/** By column, whether the hash leaves it out; null where it leaves out none. */
export const volatileColumns = ({ columns, volatile }: TableSchema): readonly boolean[] | null =>
  volatile.size > 0 ? columns.map(({ field }) => volatile.has(foldName(field))) : null

function encodeRow(encoder: RowEncoder, row: Row, notes: PageNotes, rows: CopyRows): void {
  const { tableSchema, versionIndexes, cells } = encoder
  if (!encoder.fitsKey(row.key)) {
    const { name, type } = tableSchema.key
    noteRejected(row.record, notes, `the key does not fit column ${name} (${type})`)
    return
  }
  // Read once: for a row that was found in the bytes of its page, each access parses the record again.
  const { record } = row
  const { rescued, isDeleted, isVersionRescued } = placeValues(encoder, row.key, record, notes)
  if (notes.waitsForGrowth && hasGrowth(notes)) return
  if (isVersionRescued && row.version !== null && versionCell(encoder) !== String(row.version)) {
    noteRejected(record, notes, versionIndexes.length > 0 ? otherVersions : noVersionColumn)
    return
  }
  const repeated = record[repeatedFields]
  if (repeated) noteRepeated(notes, repeated)
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

type Placed = {
  /** What fits none of the cells. */
  readonly rescued: Rescued | null
  /** A value of a row version is among that: another field of that name was there first, or it has no column. */
  readonly isVersionRescued: boolean
  /** The source itself says so. */
  readonly isDeleted: boolean
}

/** Fills the cells. */
function placeValues(encoder: RowEncoder, key: string, record: JsonObject, notes: PageNotes): Placed {
  const { cells, placeOf, keyIndex, encodeColumn, canWiden, canRetype, knownTypes } = encoder
  const { columns } = encoder.tableSchema
  const fields = Object.keys(record)
  // One call for all of them: three times as fast as asking by name.
  const values = Object.values(record)
  let rescued: Rescued | null = null
  let isVersionRescued = false
  let flag: Json | undefined
  cells.fill(copyNull)
  cells[keyIndex] = escapeCopy(key)
  countValue(notes, keyIndex)

  for (let index = 0; index < fields.length; index++) {
    const field = fields[index] as string
    const value = values[index] as Json
    const { column, isVersion, isDeletionFlag } = placeOf(field)
    if (isDeletionFlag && flag === undefined) flag = value
    if (value === null) continue
    if (column === keyIndex) {
      if (isKey(value, key)) continue
    } else if (column >= 0) {
      const cell = encodeColumn[column]?.(value) ?? null
      // A field that differs only in case was there first when the cell is taken.
      if (cell !== null && cells[column] === copyNull) {
        cells[column] = cell
        countValue(notes, column)
        continue
      }
      if (canWiden[column] && isWiderNumber(value)) notes.widen.add(columns[column]?.name ?? '')
      else if (canRetype[column]) noteRetype(notes, column, value)
    }
    if (column === unknownField) noteField(notes, knownTypes, field, value)
    rescued ??= []
    rescued.push([field, value])
    notes.rescued.set(field, (notes.rescued.get(field) ?? 0) + 1)
    isVersionRescued ||= isVersion
  }
  return { rescued, isVersionRescued, isDeleted: saysDeleted(flag) }
}

function versionCell({ versionIndexes, cells }: RowEncoder): string | undefined {
  for (const index of versionIndexes) if (cells[index] !== copyNull) return cells[index]
  return undefined
}

function countValue({ nonNull }: PageNotes, column: number): void {
  nonNull[column] = (nonNull[column] ?? 0) + 1
}

const encodeVersion: Encode = (value) => toVersion(value)?.toString() ?? null

function isKey(value: Json, key: string): boolean {
  if (typeof value === 'string') return value === key || value.toLowerCase() === key
  return (typeof value === 'number' && `${value}` === key) || toInt64(value)?.toString() === key
}

/** Of one page: as many fields as a table can have and as are remembered besides. */
export const mostGrowth = maxColumns + mostUnplaced

const isWiderNumber = (value: Json): boolean => {
  const text = numberText(value)
  return text !== null && fitsNumeric(text)
}

function noteField(
  notes: PageNotes,
  knownTypes: ReadonlyMap<string, ColumnType>,
  field: string,
  value: Json,
): void {
  const folded = foldName(field)
  const known = notes.fields.get(folded)
  const type = knownTypes.get(folded) ?? typeOf(value)
  if (type === null) return
  if (!known && notes.fields.size >= mostGrowth && !knownTypes.has(folded)) return
  const common = known ? commonType(known.type, type) : type
  if (common !== known?.type) notes.fields.set(folded, { field: known?.field ?? field, type: common })
}

function noteRetype({ retype }: PageNotes, column: number, value: Json): void {
  const [type, known] = [typeOf(value), retype.get(column)]
  if (type !== null) retype.set(column, known ? commonType(known, type) : type)
}

function noteRepeated(notes: PageNotes, repeated: JsonObject): void {
  for (const path of Object.keys(repeated)) notes.rescued.set(path, (notes.rescued.get(path) ?? 0) + 1)
}

function noteRejected(record: Json, notes: PageNotes, reason: string): void {
  notes.rejected.push({ record, reason })
}

/** Earlier values of repeated fields stand apart, because the last value of such a field may need rescue as well. */
function rescuedText(rescued: readonly [string, Json][], repeated: JsonObject | undefined): string {
  const text = holdable(rescued)
  if (!repeated) return text
  const earlier = `"$repeated":${holdableValue(repeated)}`
  return rescued.length > 0 ? `{${earlier},${text.slice(1)}` : `{${earlier}}`
}
