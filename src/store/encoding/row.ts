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

// Where the fields of a record go. Records of one stream mostly carry the same fields in the same order, so the answer
// is worked out once for each order and found again by comparing names.
/** In place of a column: the field has none and gets none. */
const noColumn = -1
/** In place of a column: the table does not know the field yet. */
const unknownField = -2

export type RecordPlan = {
  readonly fields: readonly string[]
  /** For each field, the index of its column. */
  readonly columns: Int32Array
  /** Each field has a column to itself, or none; those of the row version have one. */
  readonly isPlain: boolean
  /** The field by which the source itself says that a record is deleted. */
  readonly deletionFlag: string | null
}

// An upstream may make up a field name for every record; what was planned for such names is forgotten again (P10).
const maxPlans = 200

/** Names of fields that came and that the table does not know; those with a value get a column. No more than `mostNewFields` (P10). */
export type NewFields = Set<string>
const mostNewFields = 500

export function noteNewField(newFields: NewFields, tableSchema: TableSchema, field: string): void {
  if (newFields.size < mostNewFields && !getsNoColumn(tableSchema, field)) newFields.add(field)
}

function createPlanner(tableSchema: TableSchema, newFields: NewFields): (record: JsonObject) => RecordPlan {
  const columnOf = new Map(tableSchema.columns.map((column, index) => [foldName(column.field), index]))
  const versionNames = new Set(versionFields(tableSchema.stream))
  const plans = new Map<string, RecordPlan>()
  let last: RecordPlan = makePlan([])

  function makePlan(fields: readonly string[]): RecordPlan {
    const folded = fields.map(foldName)
    const places = fields.map(
      (field, index) =>
        columnOf.get(folded[index] ?? '') ?? (getsNoColumn(tableSchema, field) ? noColumn : unknownField),
    )
    for (const [index, field] of fields.entries())
      if (places[index] === unknownField) noteNewField(newFields, tableSchema, field)
    const columns = places.filter((place) => place >= 0)
    const isPlain =
      new Set(columns).size === columns.length &&
      folded.every((name, index) => !versionNames.has(name) || (places[index] ?? noColumn) >= 0)
    const flag = folded.indexOf(deletionFlag)
    return {
      fields,
      columns: Int32Array.from(places),
      isPlain,
      deletionFlag: flag < 0 ? null : (fields[flag] ?? null),
    }
  }

  return (record) => {
    const fields = Object.keys(record)
    if (isSame(fields, last.fields)) return last
    const order = fields.join('\0')
    let plan = plans.get(order)
    if (!plan || !isSame(fields, plan.fields)) {
      if (plans.size >= maxPlans) plans.clear()
      plan = makePlan(fields)
      plans.set(order, plan)
    }
    last = plan
    return plan
  }
}

function isSame(fields: readonly string[], others: readonly string[]): boolean {
  if (fields.length !== others.length) return false
  for (let index = 0; index < fields.length; index++) if (fields[index] !== others[index]) return false
  return true
}

/** What the rows of one page showed. */
export type PageNotes = {
  /** How often each column had a value. */
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
  readonly planOf: (record: JsonObject) => RecordPlan
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
    planOf: createPlanner(tableSchema, newFields),
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
  const plan = encoder.planOf(record)
  const rescued = placeValues(encoder, plan, { key: row.key, record }, notes)
  if (notes.waitsForGrowth && hasGrowth(notes)) return
  if (!plan.isPlain && row.version !== null && versionCell(encoder) !== String(row.version)) {
    noteRejected(record, notes, versionIndexes.length > 0 ? otherVersions : noVersionColumn)
    return
  }
  const repeated = record[repeatedFields]
  if (repeated) noteRepeated(notes, repeated)
  const isDeleted = plan.deletionFlag !== null && saysDeleted(record[plan.deletionFlag])
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

/** Fills the cells; returns what fits none of them. */
function placeValues(
  encoder: RowEncoder,
  plan: RecordPlan,
  { key, record }: Pick<Row, 'key' | 'record'>,
  notes: PageNotes,
): Rescued | null {
  const { cells, keyIndex, encodeColumn, canWiden, canRetype, knownTypes } = encoder
  const { columns } = encoder.tableSchema
  // One call for all of them: three times as fast as asking by name.
  const values = Object.values(record)
  let rescued: Rescued | null = null
  cells.fill(copyNull)
  cells[keyIndex] = escapeCopy(key)
  countValue(notes, keyIndex)

  for (let index = 0; index < plan.fields.length; index++) {
    const value = values[index]
    if (value === null || value === undefined) continue
    const column = plan.columns[index] ?? unknownField
    if (column === keyIndex) {
      if (isKey(value, key)) continue
    } else if (column >= 0) {
      const cell = encodeColumn[column]?.(value) ?? null
      // A field that differs only in case was there first when the cell is taken.
      if (cell !== null && (plan.isPlain || cells[column] === copyNull)) {
        cells[column] = cell
        countValue(notes, column)
        continue
      }
      if (canWiden[column] && isWiderNumber(value)) notes.widen.add(columns[column]?.name ?? '')
      else if (canRetype[column]) noteRetype(notes, column, value)
    }
    const field = plan.fields[index] ?? ''
    if (column === unknownField) noteField(notes, knownTypes, field, value)
    rescued ??= []
    rescued.push([field, value])
    notes.rescued.set(field, (notes.rescued.get(field) ?? 0) + 1)
  }
  return rescued
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
const mostGrowth = maxColumns + mostUnplaced

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
