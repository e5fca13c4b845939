// The statements that bring a page into its table: the COPY of what is all new, the staging table for the rest, and the merge,
// which is the guard of P3. Text only; runs nothing.

import { hash } from 'node:crypto'
import pg from 'pg'
import { leadingColumns } from '../encoding/row.ts'
import { touchedSql } from '../schema/own-columns.ts'
import { qualified } from '../schema/places.ts'
import { keepingSql } from '../schema/row-history.ts'
import { distrustedHash, type TableSchema, versionSql } from '../schema/table-schema.ts'
import { differenceSql, type FoundDifference, isDamagedSql, isRewoundSql } from './difference-sql.ts'

const stagedColumns = ({ columns }: TableSchema): string =>
  [
    ...Object.entries(leadingColumns).map(([name, type]) => `${name} ${type}`),
    ...columns.map((column) => `${pg.escapeIdentifier(column.name)} ${column.type}`),
  ].join(', ')

/** A staging table of a connection: one for all tables of the same columns, so that few are made. */
export const stagingTable = (tableSchema: TableSchema): string =>
  `pg_temp.tidemark_page_${hash('sha256', stagedColumns(tableSchema)).slice(0, 16)}`

/** Every commit empties it, or the end of the transaction drops it. */
export const stagingSql = (tableSchema: TableSchema, onCommit: 'delete rows' | 'drop'): string =>
  `create temporary table ${stagingTable(tableSchema)} (${stagedColumns(tableSchema)}) on commit ${onCommit}`

export const emptyStagingSql = (tableSchema: TableSchema): string =>
  `delete from ${stagingTable(tableSchema)}`
export const stageSql = (tableSchema: TableSchema): string => `copy ${stagingTable(tableSchema)} from stdin`

/**
 * Copies rows straight into the table, which takes two thirds of the work where all rows are new. After `expectNewSql`, which belongs into
 * the same message, it takes none if one of them is there after all, without an error in the log of Postgres. If another writer commits one
 * at that very moment, the unique key refuses the page (P3).
 */
export const insertSql = (tableSchema: TableSchema): string =>
  `copy ${qualified(tableSchema.stream)} (${insertedColumns(tableSchema)}) from stdin`
export const insertConditionSql = `where current_setting('tidemark.are_new')::boolean`

/** Instead, for rows that were staged: leaves out those that another writer has just brought. */
export const insertStagedSql = (tableSchema: TableSchema): string => `
  insert into ${qualified(tableSchema.stream)} (${insertedColumns(tableSchema)})
  select ${insertedColumns(tableSchema)} from ${stagingTable(tableSchema)} order by ${pg.escapeIdentifier(tableSchema.key.name)} on conflict do nothing`

const insertedColumns = (tableSchema: TableSchema): string =>
  [...Object.keys(leadingColumns), ...columnNames(tableSchema)].join(', ')

export function expectNewSql({ stream, key }: TableSchema, keys: readonly string[]): string {
  const name = pg.escapeIdentifier(key.name)
  return `select set_config('tidemark.are_new', (not exists (
    select from unnest(${arrayLiteral(keys)}::${key.type}[]) as page (key) join ${qualified(stream)} as mine on mine.${name} = page.key
  ))::text, true); `
}

/** The driver escapes letter by letter, which takes megabytes of memory for a page of keys. Numbers need none of it. */
function arrayLiteral(keys: readonly string[]): string {
  const numbers = keys.join(',')
  if (/^[-\d,]*$/.test(numbers)) return `'{${numbers}}'`
  return pg.escapeLiteral(`{${keys.map((key) => `"${key.replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`)
}

const columnNames = ({ columns }: TableSchema): string[] =>
  columns.map(({ name }) => pg.escapeIdentifier(name))

// One lookup by key for each row, whatever the planner believes about the size of the table.
export const mergeSettings = `set local enable_hashjoin = off; set local enable_mergejoin = off`

export type MergedCounts = { readonly inserted: string; readonly updated: string }
export type MergedArrival = FoundDifference & {
  readonly is_written: boolean
  readonly is_new: boolean
}

/**
 * What a merge returns. `counts`: how many rows it wrote. `arrivals`: what the written rows were before. `differences`: also which
 * records are older than their row; and such a merge mends rows that somebody changed here without a trace.
 */
export type MergeReturns = 'counts' | 'arrivals' | 'differences'

/**
 * Answers with MergedCounts, or with a MergedArrival for each row that was written, and for each that has a newer version where
 * differences are told. Its parameter: how many milliseconds ago the page was read.
 */
export function mergeSql(tableSchema: TableSchema, returns: MergeReturns): string {
  const mends = returns === 'differences'
  const table = qualified(tableSchema.stream)
  const names = columnNames(tableSchema)
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const version = (alias: string) => versionSql(tableSchema, alias)
  const replaced = names.filter((name) => name !== key).map((name) => `${name} = excluded.${name}`)
  const emptied = tableSchema.emptied.map((name) => `${pg.escapeIdentifier(name)} = null`)
  const keeping = keepingSql(tableSchema, 'merged', { readAgain: true })
  const from = `${stagingTable(tableSchema)} as page
      left join ${table} as mine on mine.${key} = page.${key}`
  const older = mends && version('page') !== null ? ` or ${version('page')} < ${version('mine')}` : ''
  const before = `before as materialized (
      select ${differenceSql(tableSchema)}
      from ${from}
      where mine.${key} is null or ${isNews(tableSchema, incomingRow(tableSchema, 'page', mends))}${older}
    ), `
  const outcome =
    returns !== 'counts'
      ? `select before.*, merged.key is not null as is_written, coalesce(merged.is_new, false) as is_new
         from before left join merged using (key)`
      : 'select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from merged'
  return `
    with ${returns === 'counts' ? '' : before}merged as (
      insert into ${table} as mine
        (${names.join(', ')}, _first_seen_at, _synced_at, _deleted_at, _deleted_reason, _hash, _rescued)
      select ${names.map((name) => `page.${name}`).join(', ')}, now(), now(),
        page._deleted_at, page._deleted_reason, page._hash, page._rescued
      from ${from}
      -- Rows that would change nothing are left out here: meeting them in "on conflict" would lock and so rewrite them.
      where mine.${key} is null or ${isNews(tableSchema, incomingRow(tableSchema, 'page', mends))}
      -- All writers take their row locks in the same order.
      order by page.${key}
      on conflict (${key}) do update set
        ${[...replaced, ...emptied, touchedSql].join(', ')},
        _deleted_at = case when excluded._deleted_at is not null then coalesce(mine._deleted_at, now())
                           when ${wentSince} then mine._deleted_at end,
        _deleted_reason = case when excluded._deleted_at is null and ${wentSince} then mine._deleted_reason
                               else excluded._deleted_reason end,
        _hash = excluded._hash, _rescued = excluded._rescued
      where ${isNews(tableSchema, incomingRow(tableSchema, 'excluded', mends))}
      returning mine.${key}::text as key, mine.xmax = 0 as is_new,
        mine._deleted_at is null as is_living${keeping && ', mine as written, mine.xmin'}
    ), living as (
      -- What is shown again is missing no more.
      delete from tidemark.suspect using merged
      where suspect.stream = ${pg.escapeLiteral(tableSchema.stream.name)} and suspect.key = merged.key
        and merged.is_living
      returning evidence
    ), revived as (
      -- The list showed it before, and that may have hidden a vanished one when records were counted.
      update tidemark.stream set ranks_agreed_at = null
      where name = ${pg.escapeLiteral(tableSchema.stream.name)} and exists (select from living where evidence is not null)
    )${keeping}
    ${outcome}`
}

/** The keys of a page whose rows should have been merged and were not, because a trigger left them out. Its parameter as for the merge. */
export const leftOutSql = (tableSchema: TableSchema): string => `
  select page.${pg.escapeIdentifier(tableSchema.key.name)}::text as key
  from ${stagingTable(tableSchema)} as page left join ${qualified(tableSchema.stream)} as mine using (${pg.escapeIdentifier(tableSchema.key.name)})
  where mine.${pg.escapeIdentifier(tableSchema.key.name)} is null or ${isNews(tableSchema, incomingRow(tableSchema, 'page', false))}`

// A look found the record gone after this page had been read: the page shows only that the record was there before, so the row stays
// deleted (P7). The time of the reading is rather taken too late than too early.
const wentSince = `(mine._deleted_reason = 'absent' and mine._deleted_at > statement_timestamp() - make_interval(secs => $1::float8 / 1000))`

/** In SQL: what is asked of a row that comes. */
const incomingRow = (tableSchema: TableSchema, alias: string, mends: boolean) => ({
  hash: `${alias}._hash`,
  isLiving: `${alias}._deleted_at is null`,
  version: versionSql(tableSchema, alias),
  /** The condition by which rows are mended that somebody changed here without a trace (P16); empty: they are not. */
  isDamaged: mends ? ` or ${isDamagedSql(tableSchema, alias)}` : '',
})
type Incoming = ReturnType<typeof incomingRow>

/**
 * Selects which rows of a page would change something. Parameters: 1 as for the merge, 2 to 4 keys, versions and hashes, 5 whether the
 * source says that they are deleted. Changes that somebody made here without a trace cannot be seen by these.
 */
export function probeSql(tableSchema: TableSchema): string {
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const { type } = tableSchema.key
  const keys = type === 'bigint' ? '$2::bigint[]' : `$2::text[]::${type}[]`
  const isVersioned = versionSql(tableSchema, 'mine') !== null
  const incoming = {
    hash: 'page.hash',
    isLiving: 'not page.is_deleted',
    version: isVersioned ? 'page.version' : null,
    isDamaged: '',
  }
  return `
    select page.place::int as place, mine.${key} is null as is_new
    from unnest(${keys}, $3::bigint[], $4::bytea[], $5::boolean[])
      with ordinality as page (key, version, hash, is_deleted, place)
    left join ${qualified(tableSchema.stream)} as mine on mine.${key} = page.key
    where mine.${key} is null or ${isNews(tableSchema, incoming)}
    order by page.place`
}

/**
 * Whether a record replaces its row: it has a higher version, or other content at the same version (or in a stream without versions), or
 * it lives and its row is marked as deleted. Of two records with one version the one that was read last wins. A record that was gone and
 * is there again counts in any version: it may come from a backup.
 */
function isNews(tableSchema: TableSchema, { hash, isLiving, version: theirs, isDamaged }: Incoming): string {
  const isBack = `mine._deleted_at is not null and ${isLiving} and ${wentSince} is not true`
  const isOther = `${hash} <> mine._hash or (${isBack})`
  const ours = versionSql(tableSchema, 'mine')
  if (theirs === null) return `(${isOther}${isDamaged})`
  // Also when the record is the same as before: writing the row notes that it was shown again, and ends the doubt.
  const isUnguarded = `mine._hash = ${distrustedHash} or ${isRewoundSql(tableSchema, 'mine')}`
  const isThereAgain = `(mine._deleted_reason = 'absent' and ${isBack})`
  // A row that was written while the row version was another field may have none in this one.
  const isFirst = `(${ours} is null and ${theirs} is not null)`
  return `(${theirs} > ${ours} or (${theirs} = ${ours} and (${isOther})) or ${isFirst} or ${isThereAgain} or ${isUnguarded}${isDamaged})`
}
