// Turns a page of rows into what COPY takes for a table of a given shape, and finds out what the shape lacks. The hot loop of
// the program. Touches no database.

import { setImmediate as breathe } from 'node:timers/promises'
import { areRising, keyNumbers, type Rejected, type Row } from '../../streams/record.ts'
import { openSpareBytes } from '../../wire/spare-bytes.ts'
import { columnName } from '../schema/column-names.ts'
import type { Growth } from '../schema/grow-table.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { type ColumnType, commonType } from '../types/table.ts'
import { columnValues } from './column-values.ts'
import { type CopyRows, type EncodedRows, encodedRows, openCopyRows } from './copy-rows.ts'
import { hasGrowth, type NewField, type NewFields, newNotes, type PageNotes } from './page-notes.ts'
import { createPlainRowEncoder, type EncodePlainRow, type LocalTimes } from './plain-row.ts'
import { createRowEncoder } from './row.ts'

/** What a page showed of each field, for the data dictionary. */
export type Tally = {
  readonly records: number
  /** By field name, like the next. */
  readonly nonNull: ReadonlyMap<string, number>
  readonly rescued: ReadonlyMap<string, number>
  /** Fields that the table does not know. Those of them that came with a value get a column; the others were only ever null. */
  readonly newFields: readonly string[]
}
export type EncodedPage = ReturnType<typeof pageOf>
export type EncodePage = (rows: readonly Row[], options?: EncodeOptions) => Promise<EncodedPage>
export type EncodeOptions = {
  /** Every row is parsed and written as a line of text: for that form Postgres says best what it refuses. */
  readonly isAllText?: boolean
  /**
   * If the table lacks something, only find out what: the rows are encoded once more when the table has it, so they are not kept, and
   * not all of them are parsed. Only what the table lacks is certain then, not how often each field came.
   */
  readonly waitsForGrowth?: boolean
  /** The rows are probably in the table already: make only their hashes, and encode a row in full only where that cannot be done. */
  readonly onlyHashes?: boolean
}
// Enough for two pages.
const mostSpareBytes = 16 * 1024 * 1024
const rowsWithoutABreath = 50
const someRows = 20
/** A plain row takes this share of the time that a parsed one takes. */
const plainRowShare = 1 / 20

/** `settled` names bigint columns that cannot be widened: what they cannot hold is rescued. */
export function createPageEncoder(
  tableSchema: TableSchema,
  settled: ReadonlySet<string>,
  localTimes: LocalTimes = new Map(),
): EncodePage {
  const spare = openSpareBytes(mostSpareBytes)
  const newFields: NewFields = new Set()
  const known = { tableSchema, localTimes, newFields, values: columnValues(tableSchema, settled) }
  const encodeRow = createRowEncoder(tableSchema, known.values, newFields)
  const encodePlainRow = createPlainRowEncoder(known)
  const hashPlainRow = createPlainRowEncoder({ ...known, onlyHashes: true })
  // Values of fields that are new to the table, or of another type, are parsed with their records until its columns are known.
  const encoderWith = (fields: readonly NewField[]) => {
    const expected = withColumns(tableSchema, fields)
    const values = columnValues(expected, settled)
    return createPlainRowEncoder({ ...known, values, tableSchema: expected, isExpected: true })
  }
  // A function of its own that never awaits and is called often: the engine optimizes that best.
  function encodeSome(
    rows: readonly Row[],
    from: number,
    notes: PageNotes,
    copyRows: CopyRows,
    { isAllText, encodePlain }: { readonly isAllText: boolean; readonly encodePlain: EncodePlainRow },
  ): number {
    const end = Math.min(rows.length, from + someRows)
    let parsed = 0
    for (let next = from; next < end; next++) {
      const row = rows[next] as Row
      if (isAllText || !encodePlain(row, notes, copyRows)) {
        encodeRow(row, notes, copyRows)
        parsed++
      }
    }
    return parsed
  }
  return async (rows, { isAllText = false, waitsForGrowth = false, onlyHashes = false } = {}) => {
    const notes = newNotes(tableSchema.columns.length, waitsForGrowth)
    let copyRows = openCopyRows(rows.length, spare)
    let encodePlain = onlyHashes ? hashPlainRow : encodePlainRow
    let lacking: readonly NewField[] = []
    let sinceBreath = 0
    for (let next = 0; next < rows.length; next += someRows) {
      if (sinceBreath >= rowsWithoutABreath) {
        await breathe()
        sinceBreath = 0
      }
      const parsed = encodeSome(rows, next, notes, copyRows, { isAllText, encodePlain })
      sinceBreath += parsed + someRows * plainRowShare
      if (!waitsForGrowth || !hasGrowth(notes)) continue
      encodedRows(copyRows).release()
      copyRows = openCopyRows(someRows, spare)
      const fields = [...notes.fields.values()]
      // Compared by identity: a field whose type has changed is a new object.
      if (fields.length === lacking.length && fields.every((field, at) => field === lacking[at])) continue
      lacking = fields
      // A row that is plain for the table as it will be needs nothing else, so it need not be parsed.
      encodePlain = encoderWith(fields)
    }
    return pageOf(rows.length, tableSchema, encodedRows(copyRows), notes, newFields)
  }
}

function pageOf(
  records: number,
  tableSchema: TableSchema,
  encoded: EncodedRows,
  notes: PageNotes,
  newFields: NewFields,
) {
  const nonNull = tableSchema.columns.map(({ field }, index) => [field, notes.nonNull[index] ?? 0] as const)
  const tally: Tally = {
    records,
    nonNull: new Map(nonNull),
    rescued: notes.rescued,
    newFields: [...newFields],
  }
  return {
    /** The rows, without those that were rejected. */
    encoded,
    /** What the table lacks for these rows; null: nothing. Until the table has it, `encoded` is of no use. */
    growth: growthOf(notes, tableSchema),
    /** Rows that do not fit the table's key. */
    rejected: notes.rejected as readonly Rejected[],
    rescued: notes.rescued.values().reduce((total, count) => total + count, 0),
    tally,
  }
}

/** Those that there are stand first. */
const withColumns = (tableSchema: TableSchema, fields: readonly NewField[]): TableSchema => ({
  ...tableSchema,
  columns: [
    ...tableSchema.columns,
    ...fields.map(({ field, type }) => ({ field, type, name: columnName(field) })),
  ],
})

function growthOf({ fields, widen, retype, nonNull }: PageNotes, { columns }: TableSchema): Growth | null {
  const other = [...retype].flatMap(([column, asked]): (readonly [number, ColumnType])[] => {
    if (nonNull[column] === 0) return [[column, asked]]
    // Where some values fit, the others are the exception, unless one type holds them all.
    const common = commonType(columns[column]?.type ?? asked, asked)
    return common === columns[column]?.type ? [] : [[column, common]]
  })
  if (fields.size === 0 && widen.size === 0 && other.length === 0) return null
  return {
    fields: new Map<string, ColumnType>([...fields.values()].map(({ field, type }) => [field, type])),
    widen,
    ...(other.length > 0 && {
      retype: new Map(other.map(([column, type]) => [columns[column]?.name ?? '', type])),
    }),
  }
}

// Which rows of a page are written, and in which order. Pure.
export const rowsToWrite = (rows: readonly Row[], haveOwnKeys = false): readonly Row[] =>
  inKeyOrder(haveOwnKeys ? rows : newestOfEachKey(rows))

/** The newest version of each key; of equal versions the one that came last. */
function newestOfEachKey(rows: readonly Row[]): readonly Row[] {
  const newest = new Map<string, Row>()
  for (const row of rows) {
    const other = newest.get(row.key)
    if (!other || other.version === null || row.version === null || row.version >= other.version)
      newest.set(row.key, row)
  }
  return newest.size === rows.length ? rows : [...newest.values()]
}

/** All writers take their row locks in the same order. The merge sorts for itself, and knows how other keys than numbers sort. */
function inKeyOrder(rows: readonly Row[]): readonly Row[] {
  const keys = keyNumbers(rows)
  if (areRising(keys)) return rows
  const places = Array.from(rows.keys())
  places.sort((one, other) => (keys[one] as number) - (keys[other] as number))
  return places.map((place) => rows[place] as Row)
}
