// The shape of a mirror table: which field has which column. Read from the catalog, so that it holds what is there, not
// what this program believes it made. Read-only.

import pg from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { foldField } from '../../streams/dictionary.ts'
import { mostUnplaced } from '../../streams/field-types.ts'
import { baseOf } from '../../streams/names.ts'
import { isComposite, keyParts } from '../../streams/record.ts'
import { queryRow } from '../server/query.ts'
import { plannedOnce, type Queryable } from '../server/session.ts'
import { type ColumnType, columnTypes, isColumnType } from '../types/table.ts'
import { columnName, foldName } from './column-names.ts'
import { type Named, qualified } from './places.ts'

export type Column = {
  readonly field: string
  readonly name: string
  readonly type: ColumnType
  /** Its type comes from the upstream's description, and no value has come yet: the first values may need another. */
  readonly isUnproven?: boolean
}
export type TableSchema = {
  readonly stream: MirroredStream
  /** Rises with every change of the columns, in the database too. */
  readonly version: number
  readonly key: Column
  /** The row version is the first of these that is not null. Empty for a list stream. */
  readonly versions: readonly Column[]
  /** In the order of the table, which never changes: new columns come last. The key is one of them. */
  readonly columns: readonly Column[]
  /** Columns of fields whose type somebody changed to one that may refuse values: they are kept empty. */
  readonly emptied: readonly string[]
  /** Folded names of fields that have no column and get none: their values are rescued. At most `mostUnplaced` (P10). */
  readonly unplaced: ReadonlySet<string>
  /**
   * Folded names of fields that have other values at the same row version, again and again: a row that differs in them alone is no
   * changed row (P16). Never the key or the row version.
   */
  readonly volatile: ReadonlySet<string>
  /** All column names of the table, also those that somebody else added. */
  readonly takenNames: ReadonlySet<string>
  /** The table that keeps the past of the rows, where there is one, and the columns that it has alike. */
  readonly history: { readonly table: string; readonly columns: readonly string[] } | null
}

// Postgres allows 1,600, but a row must fit a page of 8 kB even when every long value was moved out of it.
export const maxColumns = 400

// The dictionary is found by names, and an index of Postgres holds no entry of a third of a page.
const mostNameBytes = 2_000

/** Whether it is known already that the field has no column and gets none. */
export function getsNoColumn({ unplaced, takenNames }: TableSchema, field: string): boolean {
  const folded = foldName(field)
  if (unplaced.has(folded) || Buffer.byteLength(folded) > mostNameBytes) return true
  // It would be one more that is remembered by name (P10).
  return unplaced.size >= mostUnplaced && (takenNames.size >= maxColumns || takenNames.has(columnName(field)))
}

/** The field by which the source itself says that a record is deleted, folded. */
export const deletionFlag = 'sysdeleted'

/** The hash of a row that is known to be wrong: whatever record comes next replaces it. */
export const distrustedHash = `''::bytea`

/** The history table of a stream, which is named after the stream. */
export const historyOf = (stream: Named) => ({ name: `${stream.name}_history` })

type Row = {
  readonly name: string
  readonly type: string
  readonly is_key: boolean
  readonly field: string | null
  readonly is_unproven: boolean | null
  readonly columns_version: number
  readonly has_history: boolean
  readonly is_in_history: boolean
}

const catalogNames = Object.entries(columnTypes).flatMap(([name, { catalogName }]) =>
  catalogName === null ? [] : [`when '${catalogName}' then '${name}'`],
)

/** Of a line of pg_attribute, as Tidemark calls its types. */
export const columnTypeSql = (attribute: string): string => `
  case format_type(${attribute}.atttypid, ${attribute}.atttypmod)
    ${catalogNames.join(' ')}
    else format_type(${attribute}.atttypid, ${attribute}.atttypmod)
  end`

const tableSql = plannedOnce(
  `select a.attname as name, ${columnTypeSql('a')} as type,
            f.source_name as field, f.described_as is not null and f.records_seen = f.nulls_seen as is_unproven,
            exists (
              select from pg_index i where i.indrelid = a.attrelid and i.indisprimary and a.attnum = any (i.indkey)
            ) as is_key,
            coalesce((select columns_version from tidemark.stream where name = $2), 0) as columns_version,
            exists (select from pg_class h where h.oid = to_regclass($3) and h.relkind = 'p') as has_history,
            exists (
              select from pg_attribute h
              where h.attrelid = to_regclass($3) and h.attname = a.attname and h.atttypid = a.atttypid and not h.attisdropped
            ) as is_in_history
     from pg_attribute a
     left join tidemark.field f on f.stream = $2 and f.column_name = a.attname
     where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
     order by a.attnum`,
  ['text', 'text', 'text'],
)

/** Null when the table does not exist yet. */
export async function readTableSchema(
  client: Queryable,
  stream: MirroredStream,
): Promise<TableSchema | null> {
  const { rows } = await client.query<Row>({
    name: 'tidemark_table_schema',
    text: tableSql,
    values: [qualified(stream), stream.name, qualified(historyOf(stream))],
  })
  const columns = rows.flatMap(({ name, field, type, is_unproven: isUnproven }): Column[] =>
    field !== null && isColumnType(type) ? [{ name, field, type, ...(isUnproven && { isUnproven }) }] : [],
  )
  const keyName = rows.find((row) => row.is_key)?.name
  const key = columns.find((column) => column.name === keyName)
  if (!key) return null
  const { unplaced, volatile } = await readNames(client, stream)
  const emptied = rows.flatMap(({ name, field, type }) =>
    field !== null && !isColumnType(type) ? [{ name, field }] : [],
  )
  const kept = new Set(rows.filter((row) => row.is_in_history).map(({ name }) => name))
  const names = columns.map(({ name }) => name)
  return {
    stream,
    version: rows[0]?.columns_version ?? 0,
    key,
    versions: versionFields(stream).flatMap((field) =>
      columns.filter((column) => foldName(column.field) === field && isNumber(column)),
    ),
    columns,
    emptied: emptied.map((column) => column.name),
    unplaced: new Set([...unplaced, ...emptied.map((column) => foldName(column.field))]),
    volatile: new Set(volatileFields(stream, key, columns, volatile)),
    takenNames: new Set(rows.map((row) => row.name)),
    history: rows[0]?.has_history
      ? { table: qualified(historyOf(stream)), columns: names.filter((name) => kept.has(name)) }
      : null,
  }
}

const namesSql = plannedOnce(
  `select
     array(
       select folded from tidemark.field where stream = $1 and column_name is null and note is not null
       order by first_seen_at, folded limit ${mostUnplaced}
     ) as unplaced,
     array(select folded from tidemark.field where stream = $1 and volatile_since is not null) as volatile`,
  ['text'],
)

/** A query of its own: beside the columns, the names would come once for each of them. */
async function readNames(client: Queryable, { name }: MirroredStream) {
  const query = { name: 'tidemark_field_names', text: namesSql, values: [name] }
  const found = await queryRow<{ unplaced: string[]; volatile: string[] }>(client, query)
  return found ?? { unplaced: [], volatile: [] }
}

function volatileFields(
  stream: MirroredStream,
  key: Column,
  columns: readonly Column[],
  found: readonly string[],
): readonly string[] {
  const named = 'volatileFields' in stream ? stream.volatileFields : null
  // They may be named like their columns.
  const alike = (name: string) => columns.filter(({ field }) => foldField(field) === foldField(name))
  const chosen = named?.flatMap((name) => [name, ...alike(name).map(({ field }) => field)].map(foldName))
  const kept = [foldName(key.field), ...versionFields(stream), deletionFlag]
  return (chosen ?? found).filter((field) => !kept.includes(field))
}

/** The column of a field that became the row version later may have been made for texts: then it is not read as one (`numberVersions`). */
export const isNumber = ({ type }: Pick<Column, 'type'>): boolean => type === 'bigint' || type === 'numeric'

export const versionFields = (stream: MirroredStream): readonly string[] =>
  stream.kind === 'changes' ? stream.versionFields.map(foldName) : []

/** Makes an index for a part of a key of several fields, because people look for the part alone as well. Null: the column is no part. */
export function partIndexSql(
  stream: Named,
  keyField: string,
  { name, field }: Pick<Column, 'name' | 'field'>,
): string | null {
  if (!isComposite(keyField)) return null
  if (!keyParts(keyField).some((part) => foldName(part) === foldName(field))) return null
  const index = pg.escapeIdentifier(`${baseOf(stream.name)}_${name}_of_key`)
  return `create index if not exists ${index} on ${qualified(stream)} (${pg.escapeIdentifier(name)})`
}

/** The row version in SQL, for a table named or aliased as given; null for a list stream. */
export function versionSql(tableSchema: TableSchema, table: string): string | null {
  const columns = tableSchema.versions.map((column) => `${table}.${pg.escapeIdentifier(column.name)}`)
  return columns.length > 1 ? `coalesce(${columns.join(', ')})` : (columns[0] ?? null)
}
