// SQL that compares a record with its row: the record is `page`, in the staging table, the row is `mine`. Volatile fields are left
// out (P16). Only makes the text, and says what its answer looks like; runs nothing.

import pg from 'pg'
import type { Difference } from '../../sync/ports/audits.ts'
import { foldName } from '../schema/column-names.ts'
import { distrustedHash, type TableSchema, versionSql } from '../schema/table-schema.ts'

// When a row may be replaced by an older version than its own (P3): when it is known to be wrong (its hash says so), or when a rewind or a new
// epoch said that the upstream itself went back (P14).
/** After a rewind: what was mirrored above its target, and not shown again since. */
export function isRewoundSql(tableSchema: TableSchema, alias: string): string {
  const column = (name: string) =>
    `(select ${name} from tidemark.stream where name = ${pg.escapeLiteral(tableSchema.stream.name)})`
  return `(${versionSql(tableSchema, alias)} > ${column('unguarded_above')} and (${alias}._synced_at <= ${column('unguarded_before')} or ${alias}._synced_at > clock_timestamp()))`
}

const isOtherDeletion = (incoming: string): string =>
  `(${incoming}._deleted_at is null) <> (mine._deleted_at is null)`

const comparedColumns = ({ columns, key, volatile }: TableSchema): readonly string[] =>
  columns.filter((column) => column !== key && !volatile.has(foldName(column.field))).map(({ name }) => name)

const isOtherColumn = (incoming: string, name: string): string =>
  `${incoming}.${pg.escapeIdentifier(name)} is distinct from mine.${pg.escapeIdentifier(name)}`

function rescuedSql({ volatile }: TableSchema, alias: string): string {
  if (volatile.size === 0) return `${alias}._rescued`
  const names = [...volatile].map(pg.escapeLiteral).join(', ')
  return `(select jsonb_object_agg(key, value) from jsonb_each(${alias}._rescued) where lower(key) not in (${names}))`
}

const isOtherContent = (tableSchema: TableSchema, incoming: string): string =>
  [
    `${rescuedSql(tableSchema, incoming)} is distinct from ${rescuedSql(tableSchema, 'mine')}`,
    ...comparedColumns(tableSchema).map((name) => isOtherColumn(incoming, name)),
  ].join(' or ')

/** Whether any value differs, or one of both is deleted. */
export const isOtherSql = (tableSchema: TableSchema, incoming: string): string =>
  `(${isOtherDeletion(incoming)} or ${isOtherContent(tableSchema, incoming)})`

/** The row says that it holds this very record, and does not: somebody changed it here, without a trace (P16). */
export const isDamagedSql = (tableSchema: TableSchema, incoming: string): string =>
  `(${incoming}._hash = mine._hash and (
    (${isOtherDeletion(incoming)} and mine._deleted_reason is distinct from 'absent') or ${isOtherContent(tableSchema, incoming)}
  ))`

export type FoundDifference = {
  readonly key: string
  readonly version: string | null
  readonly mirrored: string | null
  readonly record: string
  readonly is_same_record: boolean
  readonly is_distrusted: boolean
  readonly is_missing: boolean
  readonly is_deletion: boolean
  readonly is_back: boolean
  readonly is_rewound: boolean
  readonly columns: readonly string[]
  readonly rescued: readonly string[]
}

/** What is selected of `page` and `mine`. */
export function differenceSql(tableSchema: TableSchema): string {
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const version = (alias: string) => versionSql(tableSchema, alias)
  const names = comparedColumns(tableSchema).map(
    (name) => `case when ${isOtherColumn('page', name)} then ${pg.escapeLiteral(name)} end`,
  )
  return `page.${key}::text as key, (${version('page') ?? 'null'})::text as version,
      (${version('mine') ?? 'null'})::text as mirrored,
      encode(page._hash, 'hex') as record, coalesce(page._hash = mine._hash, false) as is_same_record,
      coalesce(mine._hash = ${distrustedHash}, false) as is_distrusted,
      mine.${key} is null as is_missing, ${isOtherDeletion('page')} as is_deletion,
      coalesce(page._deleted_at is null and mine._deleted_reason = 'absent', false) as is_back,
      ${version('mine') === null ? 'false' : `coalesce(${isRewoundSql(tableSchema, 'mine')}, false)`} as is_rewound,
      array_remove(array[${names.join(', ')}]::text[], null) as columns,
      array(
        select key from jsonb_each(coalesce(${rescuedSql(tableSchema, 'page')}, '{}')) as theirs (key, value)
        full join jsonb_each(coalesce(${rescuedSql(tableSchema, 'mine')}, '{}')) as ours (key, value) using (key)
        where theirs.value is distinct from ours.value order by key
      ) as rescued`
}

export function toDifference(found: FoundDifference): Difference {
  const version = found.version === null ? null : BigInt(found.version)
  const mirrored = found.mirrored === null ? null : BigInt(found.mirrored)
  const told = {
    key: found.key,
    version,
    record: found.record,
    isLocal: found.is_same_record || found.is_distrusted,
    isBack: found.is_back,
    isRewound: found.is_rewound,
  }
  if (found.is_missing) return { ...told, kind: 'missing', columns: [], mirrored: null }
  const isStale = version === null ? !found.is_same_record : mirrored !== null && version > mirrored
  const columns = [
    ...found.columns,
    ...found.rescued.map((field) => `_rescued.${field}`),
    ...(found.is_deletion ? ['_deleted_at'] : []),
  ]
  return { ...told, kind: isStale ? 'stale' : 'content', columns, mirrored }
}
