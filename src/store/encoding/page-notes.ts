// What the rows of one page showed: which fields had values, what fitted no column, and what the table lacks for them.

import type { Json } from '../../json/json.ts'
import { mostUnplaced } from '../../streams/field-types.ts'
import type { Rejected } from '../../streams/record.ts'
import { foldName } from '../schema/column-names.ts'
import { getsNoColumn, maxColumns, type TableSchema } from '../schema/table-schema.ts'
import { type ColumnType, commonType, typeOf } from '../types/table.ts'

/** Names of fields that came and that the table does not know; those with a value get a column. No more than `mostNewFields` (P10). */
export type NewFields = Set<string>
const mostNewFields = 500

export function noteNewField(newFields: NewFields, tableSchema: TableSchema, field: string): void {
  if (newFields.size < mostNewFields && !getsNoColumn(tableSchema, field)) newFields.add(field)
}

/** Of one page: as many fields as a table can have and as are remembered besides. */
const mostGrowth = maxColumns + mostUnplaced

/** What the rows of one page showed. `columnCount`: of the table as it is; `waitsForGrowth`: as in EncodeOptions. */
export const newNotes = (columnCount: number, waitsForGrowth: boolean) => ({
  /** How often each column had a value, with room for the columns that the table may get. */
  nonNull: new Int32Array(columnCount + (waitsForGrowth ? mostGrowth : 0)),
  /** How many values of each field fitted no column. */
  rescued: new Map<string, number>(),
  /** Fields without a column, by folded name, and the type that holds their values. */
  fields: new Map<string, NewField>(),
  /** Names of bigint columns that met a number they cannot hold. */
  widen: new Set<string>(),
  /** By column whose type no value has proven yet, the type that values asked for which it cannot hold. */
  retype: new Map<number, ColumnType>(),
  rejected: [] as Rejected[],
  /** Rows are not kept once the table lacks something for them. */
  waitsForGrowth,
})
export type PageNotes = ReturnType<typeof newNotes>
export type NewField = { readonly field: string; readonly type: ColumnType }

export const hasGrowth = ({ fields, widen }: PageNotes): boolean => fields.size > 0 || widen.size > 0

export function countValue({ nonNull }: PageNotes, column: number): void {
  nonNull[column] = (nonNull[column] ?? 0) + 1
}

export function countRescued({ rescued }: PageNotes, field: string): void {
  rescued.set(field, (rescued.get(field) ?? 0) + 1)
}

export function noteField(
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
