// The statements that bring a page into its table: the COPY of what is all new, the staging table for the rest, and the merge,
// which is the guard of P3. Text only; runs nothing.

import pg from 'pg'
import { leadingColumns } from '../encoding/row.ts'
import { keepingSql } from '../schema/row-history.ts'
import { qualified, type TableSchema, versionSql } from '../schema/table-schema.ts'

// When a row may be replaced by an older version than its own (P3): when it is known to be wrong, or when a rewind said that
// the upstream itself may have gone back. SQL text only.
/** Such a row takes whatever comes next. */
export const distrustedHash = `''::bytea`

/** After a rewind: what was mirrored above its target, and not written again since. */
export function isRewoundSql(tableSchema: TableSchema, alias: string): string {
  const column = (name: string) =>
    `(select ${name} from tidemark.stream where name = ${pg.escapeLiteral(tableSchema.stream.name)})`
  return `(${versionSql(tableSchema, alias)} > ${column('unguarded_above')} and ${alias}._synced_at <= ${column('unguarded_before')})`
}

export const stagingTable = 'pg_temp.tidemark_page'

/** Empty again after every commit. */
export const stagingSql = (tableSchema: TableSchema): string => `
  drop table if exists ${stagingTable};
  create temporary table tidemark_page (${[
    ...Object.entries(leadingColumns).map(([name, type]) => `${name} ${type}`),
    ...tableSchema.columns.map((column) => `${pg.escapeIdentifier(column.name)} ${column.type}`),
  ].join(', ')}) on commit delete rows`

export const emptyStagingSql = `delete from ${stagingTable}`
export const stageSql = `copy ${stagingTable} from stdin`

/**
 * Straight into the table: two thirds of the work, where all rows are new. Where one would replace a row after all, also one that
 * another writer commits meanwhile, the unique key refuses the page (P3).
 */
export const insertSql = (tableSchema: TableSchema): string =>
  `copy ${qualified(tableSchema.stream)} (${[...Object.keys(leadingColumns), ...columnNames(tableSchema)].join(', ')}) from stdin`

const columnNames = ({ columns }: TableSchema): string[] =>
  columns.map(({ name }) => pg.escapeIdentifier(name))

// One lookup by key for each row, whatever the planner believes about the size of the table.
export const mergeSettings = `set local enable_hashjoin = off; set local enable_mergejoin = off; set local jit = off`

export type MergedCounts = { readonly inserted: string; readonly updated: string }
export type MergedArrival = {
  readonly key: string
  readonly version: string | null
  readonly is_new: boolean
}

/**
 * Answers with MergedCounts, or with a MergedArrival for each row that was written. Its parameter: how many milliseconds ago the
 * page was read.
 */
export function mergeSql(tableSchema: TableSchema, tellsArrivals: boolean): string {
  const table = qualified(tableSchema.stream)
  const names = columnNames(tableSchema)
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const version = (alias: string) => versionSql(tableSchema, alias)
  const replaced = names.filter((name) => name !== key).map((name) => `${name} = excluded.${name}`)
  const emptied = tableSchema.emptied.map((name) => `${pg.escapeIdentifier(name)} = null`)
  const keeping = keepingSql(tableSchema, 'merged')
  const outcome = tellsArrivals
    ? 'select key, version, is_new from merged'
    : 'select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from merged'
  return `
    with merged as (
      insert into ${table} as mine
        (${names.join(', ')}, _first_seen_at, _synced_at, _deleted_at, _deleted_reason, _hash, _rescued)
      select ${names.map((name) => `page.${name}`).join(', ')}, now(), now(),
        page._deleted_at, page._deleted_reason, page._hash, page._rescued
      from ${stagingTable} as page
      -- Rows that would change nothing are left out here: meeting them in "on conflict" would lock and so rewrite them.
      left join ${table} as mine on mine.${key} = page.${key}
      where mine.${key} is null or ${isNews(tableSchema, 'page')}
      -- All writers take their row locks in the same order.
      order by page.${key}
      on conflict (${key}) do update set
        ${[...replaced, ...emptied, '_synced_at = now()'].join(', ')},
        _deleted_at = case when excluded._deleted_at is not null then coalesce(mine._deleted_at, now())
                           when ${wentSince} then mine._deleted_at end,
        _deleted_reason = case when excluded._deleted_at is null and ${wentSince} then mine._deleted_reason
                               else excluded._deleted_reason end,
        _hash = excluded._hash, _rescued = excluded._rescued
      where ${isNews(tableSchema, 'excluded')}
      returning mine.${key}::text as key, (${version('mine') ?? 'null'})::text as version, mine.xmax = 0 as is_new,
        mine._deleted_at is null as is_living${keeping && ', mine as written'}
    ), living as (
      -- What is shown again is missing no more.
      delete from tidemark.suspect using merged
      where suspect.stream = ${pg.escapeLiteral(tableSchema.stream.name)} and suspect.key = merged.key
        and merged.is_living
    )${keeping}
    ${outcome}`
}

// The record was asked for and gone after the page had come, which says no more about it than that it was there before (P7).
// Of the two moments this one is taken too late rather than too early.
const wentSince = `(mine._deleted_reason = 'absent' and mine._deleted_at > statement_timestamp() - make_interval(secs => $1::float8 / 1000))`

/** A higher version, or the same version (or a stream that has none) with other content, or back from the dead. */
function isNews(tableSchema: TableSchema, incoming: string): string {
  const isBack = `mine._deleted_at is not null and ${incoming}._deleted_at is null and ${wentSince} is not true`
  const isOther = `${incoming}._hash <> mine._hash or (${isBack})`
  const theirs = versionSql(tableSchema, incoming)
  const ours = versionSql(tableSchema, 'mine')
  if (theirs === null) return `(${isOther})`
  const isUnguarded = `mine._hash = ${distrustedHash} or (${theirs} < ${ours} and ${isRewoundSql(tableSchema, 'mine')})`
  return `(${theirs} > ${ours} or (${theirs} = ${ours} and (${isOther})) or ${isUnguarded})`
}
