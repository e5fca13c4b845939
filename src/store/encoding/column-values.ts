// What one parsed value becomes in its column, and what becomes of one that does not fit: it is kept beside the columns (P5), and may show that
// the table needs another column.

import type { Json, JsonObject } from '../../json/json.ts'
import { foldField } from '../../streams/dictionary.ts'
import { toVersion } from '../../streams/record.ts'
import { foldName } from '../schema/column-names.ts'
import { documentedTypes } from '../schema/documented-types.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { holdable, holdableValue } from '../types/jsonb.ts'
import { fitsNumeric, numberText } from '../types/numeric.ts'
import { columnTypes, commonType, typeOf } from '../types/table.ts'
import { zoneSuffix } from '../types/timestamptz.ts'
import type { PageNotes } from './page-notes.ts'

/** Values that fit no column, by the names of their fields: they are kept (P5). */
export type Rescued = [string, Json][]
export type ColumnValues = ReturnType<typeof columnValues>
/** A text for COPY, or null for a value that does not fit. */
type Encode = (value: Json) => string | null

/** `settled` names bigint columns that cannot be widened. */
export function columnValues(tableSchema: TableSchema, settled: ReadonlySet<string>) {
  const { columns, key, versions, stream } = tableSchema
  const keyIndex = columns.indexOf(key)
  const versionIndexes = versions.map((column) => columns.indexOf(column))
  const documented = documentedTypes(stream)
  const zones = new Map(Object.entries(stream.fieldZones ?? {}))
  const mayChange = columns.map(
    ({ name }, index) => index !== keyIndex && !versionIndexes.includes(index) && !settled.has(name),
  )
  return {
    keyIndex,
    versionIndexes,
    /** By column. */
    encode: columns.map((column, index): Encode => {
      if (versionIndexes.includes(index)) return encodeVersion
      const { fromJson, fromDescribed } = columnTypes[column.type]
      const from = documented.get(foldName(column.field)) === column.type ? fromDescribed : fromJson
      const suffix = zoneSuffix(column.field, zones.get(foldField(column.field)))
      return (value) => from(value, suffix)
    }),
    /** Notes what a value that does not fit its column asks of the table. */
    noteUnfit(notes: PageNotes, index: number, value: Json): void {
      const column = columns[index]
      if (!column || !mayChange[index]) return
      if (column.type === 'bigint' && isWiderNumber(value)) notes.widen.add(column.name)
      else if (column.isUnproven) noteRetype(notes, index, value)
    },
  }
}

const encodeVersion: Encode = (value) => toVersion(value)?.toString() ?? null

const isWiderNumber = (value: Json): boolean => {
  const text = numberText(value)
  return text !== null && fitsNumeric(text)
}

function noteRetype({ retype }: PageNotes, column: number, value: Json): void {
  const [type, known] = [typeOf(value), retype.get(column)]
  if (type !== null) retype.set(column, known ? commonType(known, type) : type)
}

/** Earlier values of repeated fields stand apart, because the last value of such a field may need rescue as well. */
export function rescuedText(rescued: readonly [string, Json][], repeated: JsonObject | undefined): string {
  const text = holdable(rescued)
  if (!repeated) return text
  const earlier = `"$repeated":${holdableValue(repeated)}`
  return rescued.length > 0 ? `{${earlier},${text.slice(1)}` : `{${earlier}}`
}
