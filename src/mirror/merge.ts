// The statements that bring a page into its table: the staging table, the COPY into it, and the merge, which is the guard
// of P3. Text only; runs nothing.

import pg from 'pg'
import { distrustedHash, isRewoundSql } from './guard.ts'
import { leadingColumns } from './row-encoding.ts'
import { keepingSql } from './row-history.ts'
import { qualified, type Shape, versionSql } from './shape.ts'

export const stagingTable = 'pg_temp.tidemark_page'

/** Empty again after every commit. */
export const stagingSql = (shape: Shape): string => `
  drop table if exists ${stagingTable};
  create temporary table tidemark_page (${[
    ...leadingColumns,
    ...shape.columns.map((column) => `${pg.escapeIdentifier(column.name)} ${column.type}`),
  ].join(', ')}) on commit delete rows`

export const emptyStagingSql = `delete from ${stagingTable}`
export const copySql = `copy ${stagingTable} from stdin`

// One lookup by key for each row, whatever the planner believes about the size of the table.
export const mergeSettings = `set local enable_hashjoin = off; set local enable_mergejoin = off; set local jit = off`

export type MergedCounts = { readonly inserted: string; readonly updated: string }
export type MergedArrival = {
  readonly key: string
  readonly version: string | null
  readonly is_new: boolean
}

export type MergeOptions = {
  readonly collectArrivals: boolean
  /**
   * No row of the page is expected to replace one: then it is a plain insert, a fifth less work for Postgres. Where a row
   * would replace one after all, also one that another writer commits meanwhile, the unique key refuses the statement (P3).
   */
  readonly onlyInserts: boolean
}

/**
 * Answers with MergedCounts, or with a MergedArrival for each row that was written. Its parameter: how many milliseconds ago the
 * page was read.
 */
export function mergeSql(shape: Shape, { collectArrivals, onlyInserts }: MergeOptions): string {
  const table = qualified(shape.stream)
  const names = shape.columns.map((column) => pg.escapeIdentifier(column.name))
  const key = pg.escapeIdentifier(shape.key.name)
  const version = (alias: string) => versionSql(shape, alias)
  const replaced = names.filter((name) => name !== key).map((name) => `${name} = excluded.${name}`)
  const emptied = shape.emptied.map((name) => `${pg.escapeIdentifier(name)} = null`)
  const replacing = `
      on conflict (${key}) do update set
        ${[...replaced, ...emptied, '_synced_at = now()'].join(', ')},
        _deleted_at = case when excluded._deleted_at is not null then coalesce(mine._deleted_at, now())
                           when ${wentSince} then mine._deleted_at end,
        _deleted_reason = case when excluded._deleted_at is null and ${wentSince} then mine._deleted_reason
                               else excluded._deleted_reason end,
        _hash = excluded._hash, _rescued = excluded._rescued
      where ${isNews(shape, 'excluded', 'excluded._deleted_at is null')}`
  const keeping = keepingSql(shape, 'merged')
  const outcome = collectArrivals
    ? 'select key, version, is_new from merged'
    : 'select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from merged'
  return `
    with merged as (
      insert into ${table} as mine
        (${names.join(', ')}, _first_seen_at, _synced_at, _deleted_at, _deleted_reason, _hash, _rescued)
      select ${names.map((name) => `page.${name}`).join(', ')}, now(), now(),
        case when page._deleted then now() end, case when page._deleted then 'source' end, page._hash, page._rescued
      from ${stagingTable} as page
      -- Rows that would change nothing are left out here: meeting them in "on conflict" would lock and so rewrite them.
      left join ${table} as mine on mine.${key} = page.${key}
      where mine.${key} is null or ${isNews(shape, 'page', 'not page._deleted')}
      -- All writers take their row locks in the same order.
      order by page.${key}${onlyInserts ? '' : replacing}
      returning mine.${key}::text as key, (${version('mine') ?? 'null'})::text as version, mine.xmax = 0 as is_new${keeping && ', mine as written'}
    )${keeping}
    ${outcome}`
}

// The record was asked for and gone after the page had come, which says no more about it than that it was there before (P7).
// Of the two moments this one is taken too late rather than too early.
const wentSince = `(mine._deleted_reason = 'absent' and mine._deleted_at > statement_timestamp() - make_interval(secs => $1::float8 / 1000))`

/** A higher version, or the same version (or a stream that has none) with other content, or back from the dead. */
function isNews(shape: Shape, incoming: string, incomingLives: string): string {
  const isOther = `${incoming}._hash <> mine._hash or (mine._deleted_at is not null and ${incomingLives} and ${wentSince} is not true)`
  const theirs = versionSql(shape, incoming)
  const ours = versionSql(shape, 'mine')
  if (theirs === null) return `(${isOther})`
  const isUnguarded = `mine._hash = ${distrustedHash} or (${theirs} < ${ours} and ${isRewoundSql(shape, 'mine')})`
  return `(${theirs} > ${ours} or (${theirs} = ${ours} and (${isOther})) or ${isUnguarded})`
}
