// Turns a page of rows into COPY text for a table of a given shape, and finds out what the shape lacks. The hot loop of
// the program. Touches no database.

import { setImmediate as breathe } from 'node:timers/promises'
import type { Rejected, Row } from '../../streams/record.ts'
import type { ColumnType } from '../schema/column-types.ts'
import type { Growth } from '../schema/grow-table.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { openLines } from './copy-text.ts'
import { createRowEncoder, type PageNotes } from './row.ts'

/** What a page showed of each field, for the data dictionary. */
export type Tally = {
  readonly records: number
  /** By field name, like the next. */
  readonly nonNull: ReadonlyMap<string, number>
  readonly rescued: ReadonlyMap<string, number>
}
export type EncodedPage = {
  /** Null when the table lacks something; then the text is of no use. */
  readonly chunks: readonly Buffer[]
  readonly growth: Growth | null
  readonly rowCount: number
  /** Rows that do not fit the table's key. */
  readonly rejected: readonly Rejected[]
  readonly rescued: number
  readonly tally: Tally
}
export type EncodePage = (rows: readonly Row[]) => Promise<EncodedPage>

const rowsWithoutABreath = 50

/** `settled` names bigint columns that cannot be widened: what they cannot hold is rescued. */
export function createPageEncoder(tableSchema: TableSchema, settled: ReadonlySet<string>): EncodePage {
  const encodeRow = createRowEncoder(tableSchema, settled)
  return async (rows) => {
    const notes: PageNotes = {
      nonNull: new Int32Array(tableSchema.columns.length),
      rescued: new Map(),
      fields: new Map(),
      widen: new Set(),
      rejected: [],
    }
    const lines = openLines()
    let sinceBreath = 0
    for (const row of rows) {
      encodeRow(row, notes, lines)
      if (++sinceBreath === rowsWithoutABreath) {
        sinceBreath = 0
        await breathe()
      }
    }
    return {
      chunks: lines.chunks(),
      growth: growthOf(notes),
      rowCount: rows.length - notes.rejected.length,
      rejected: notes.rejected,
      rescued: sum(notes.rescued.values()),
      tally: {
        records: rows.length,
        nonNull: new Map(
          tableSchema.columns.map((column, index) => [column.field, notes.nonNull[index] ?? 0]),
        ),
        rescued: notes.rescued,
      },
    }
  }
}

function growthOf({ fields, widen }: PageNotes): Growth | null {
  if (fields.size === 0 && widen.size === 0) return null
  return {
    fields: new Map<string, ColumnType>([...fields.values()].map(({ field, type }) => [field, type])),
    widen,
  }
}

const sum = (numbers: Iterable<number>): number => {
  let total = 0
  for (const number of numbers) total += number
  return total
}

// Which rows of a page are written, and in which order. Pure.
export const rowsToWrite = (rows: readonly Row[]): readonly Row[] => inKeyOrder(newestOfEachKey(rows))

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
const inKeyOrder = (rows: readonly Row[]): readonly Row[] =>
  rows.toSorted((one, other) => Number(one.key) - Number(other.key))
