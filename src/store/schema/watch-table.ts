// Notices what others do to a table of the mirror (P15): triggers that note every statement which is not Tidemark's own, the OID of the
// table, by which one that was dropped or replaced shows, and what it lacks of its columns. What was noted is mended by the next run.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { baseOf, sourceIn, tableName } from '../../streams/names.ts'
import { queryAny, queryRow } from '../server/query.ts'
import { hasCode, unlessRefused } from '../server/session.ts'
import { columnTypes } from '../types/table.ts'
import { showColumns } from './change-view.ts'
import { definitions, ownColumns } from './own-columns.ts'
import { baseSql, inBi, type Named, qualified, schemaSql } from './places.ts'
import { columnTypeSql, readTableSchema } from './table-schema.ts'
import { viewOf } from './views.ts'

const triggers = ['tidemark_local_change', 'tidemark_local_delete']

// The trigger for deletes counts the rows. The others do not see rows: collecting them would slow down Tidemark's own writes as well.
const triggerSql = (table: string): string => {
  const isOfOthers = `for each statement when (current_setting('tidemark.writer', true) is distinct from 'on') execute function tidemark.note_local_change()`
  return `
    create or replace trigger tidemark_local_change after insert or update or truncate on ${table} ${isOfOthers};
    create or replace trigger tidemark_local_delete after delete on ${table} referencing old table as gone ${isOfOthers};
    ${triggers.map((name) => `alter table ${table} enable always trigger ${name}`).join(';\n')}`
}

// In SQL, of a line `known` of tidemark.stream. In a database that was restored whole all tables have other OIDs, this one too; that
// is consistent with itself, and no damage.
const stateOidSql = `'tidemark.stream'::regclass::oid::bigint`
// Both columns of the index of pg_class by name are compared with single values: in a large fleet hundreds of tables have one name.
const tableOidSql = `(
  select oid::bigint from pg_class
  where relname = ${baseSql('known.name')} and relkind in ('r', 'p')
    and relnamespace = (select oid from pg_namespace where nspname = ${schemaSql('known.name')}))`
const triggerCountSql = `(
  select count(*)::int from pg_trigger
  where tgrelid = known.table_oid::oid and tgenabled = 'A' and tgname in ('${triggers.join("', '")}'))`

const typesSql = Object.keys(columnTypes)
  .map((type) => `'${type}'`)
  .join(', ')

/** Types that this program does not make are all alike. */
const knownTypeSql = (type: string) => `array_position(array[${typesSql}], ${type})`

/**
 * No trigger tells of a column that was dropped, renamed or given another type, nor of a key. The keys are counted, because for an `exists`
 * Postgres would read those of all tables.
 */
const isAlteredSql = `(
  exists (
    select column_name, ${knownTypeSql('column_type')} from tidemark.field
    where stream = known.name and column_name is not null and column_type is not null
    except
    select attname::text, ${knownTypeSql(columnTypeSql('a'))} from pg_attribute as a
    where attrelid = known.table_oid::oid and attnum > 0 and not attisdropped
  )
  or 0 = (select count(*) from pg_index where indrelid = known.table_oid::oid and indisprimary)
  or ${ownColumns.length} > (
    select count(*) from pg_attribute
    where attrelid = known.table_oid::oid and attname in ('${ownColumns.map(({ name }) => name).join("', '")}') and not attisdropped
  ))`

/** Whether somebody changed the table of a line `known` of tidemark.stream since a run looked, or it is not watched. */
export const isLocallyChangedSql = `(
  exists (select from tidemark.local_change where stream = known.name and run_id is null)
  or known.table_oid is distinct from ${tableOidSql}
  or (known.table_oid is not null and (
    known.state_oid is distinct from ${stateOidSql} or ${triggerCountSql} < ${triggers.length} or ${isAlteredSql}
  ))
)`

type Watched = {
  readonly table_oid: string | null
  readonly known_oid: string | null
  readonly triggers: number
  readonly is_altered: boolean
}
export type Change = 'drop' | 'replace' | 'alter' | 'unwatch'

/**
 * Notes what happened to the table while nobody saw it, and watches the one that is there now. Within a transaction. Returns what it
 * noted. Does nothing when all is as it was.
 */
export async function watchTable(client: ClientBase, stream: Named): Promise<Change | null> {
  const found = await queryRow<Watched>(
    client,
    `select ${tableOidSql} as table_oid, ${triggerCountSql} as triggers, ${isAlteredSql} as is_altered,
       case when known.state_oid = ${stateOidSql} then known.table_oid end as known_oid
     from tidemark.stream as known where name = $1`,
    [stream.name],
  )
  if (!found) return null
  const change = changeOf(found)
  if (change !== null) await noteChange(client, stream, change)
  const { table_oid: tableOid, known_oid: knownOid } = found
  if (tableOid !== null && (tableOid !== knownOid || change !== null))
    await client.query(triggerSql(qualified(stream)))
  if (change !== null) await noteColumns(client, stream)
  if (tableOid !== knownOid || change === 'alter')
    await client.query(
      `update tidemark.stream
       set table_oid = $2, state_oid = ${stateOidSql},
           columns_version = columns_version + case when $3 then 1 else 0 end
       where name = $1`,
      [stream.name, tableOid, change !== null],
    )
  return change
}

/**
 * Which columns there are now: those that the table has no more are made again when their fields come. What was told of such a column
 * goes with it: a field without a column of which something is told gets none.
 */
const noteColumns = (client: ClientBase, { name }: Named) =>
  client.query(
    `update tidemark.field as known
     set column_name = attname, column_type = case when attnum is not null then ${columnTypeSql('a')} end,
       note = case when attnum is not null then known.note end
     from tidemark.field as mine
     left join pg_attribute as a on attrelid = to_regclass($2) and attname = column_name and not attisdropped
     where mine.stream = $1 and mine.column_name is not null and known.stream = mine.stream and known.folded = mine.folded`,
    [name, qualified({ name })],
  )

function changeOf({ table_oid, known_oid, triggers: count, is_altered }: Watched): Change | null {
  if (known_oid === null) return null
  if (table_oid === null) return 'drop'
  if (table_oid !== known_oid) return 'replace'
  if (is_altered) return 'alter'
  return count < triggers.length ? 'unwatch' : null
}

/** Whatever it was, what a description has made of the table may be gone. */
const noteChange = (client: ClientBase, { name }: Named, change: Change) =>
  client.query(
    `with made as (update tidemark.source_config set made_by = null where name = $3)
     insert into tidemark.local_change (stream, operation, transaction)
     values ($1, $2, pg_current_xact_id()::text::bigint)
     on conflict (stream, operation, transaction) where run_id is null do nothing`,
    [name, change, sourceIn(name)],
  )

/** Whether another table was put in its place, or it lacks something, and no run has acted upon it yet. */
export async function toBeAdopted(client: ClientBase, { name }: Named): Promise<'replace' | 'alter' | null> {
  const found = await queryRow<{ operation: 'replace' | 'alter' }>(
    client,
    `select operation from pg_tables, tidemark.local_change
     where schemaname = ${schemaSql('stream')} and tablename = ${baseSql('stream')} and stream = $1 and operation in ('replace', 'alter') and run_id is null
     order by operation desc limit 1`,
    [name],
  )
  return found?.operation ?? null
}

/**
 * Gives a table that somebody put in place of ours, or altered, what ours have: Tidemark's own columns, a primary key, the view. Where
 * that cannot be done it is set aside under another name, and a new one can be made.
 */
export async function adoptTable(
  client: ClientBase,
  stream: MirroredStream,
  keyColumn: string,
  { change, log }: { readonly change: 'replace' | 'alter'; readonly log: Logger },
): Promise<void> {
  const complete = async () => {
    await completeTable(client, stream, keyColumn)
    const tableSchema = await readTableSchema(client, stream)
    if (tableSchema?.key.name !== keyColumn) throw new Error(`its key is not ${keyColumn}`)
    // One of ours may have columns to which somebody gave other types.
    if (change === 'replace' && tableSchema.emptied.length > 0)
      throw new Error(`columns are of types that Tidemark does not write: ${tableSchema.emptied.join(', ')}`)
    const names = tableSchema.columns.map(({ name }) => name)
    await showColumns(client, viewOf(stream), names, log)
  }
  const isOfTable = (error: unknown): error is Error => !hasCode(error, /^(?:08|57|40|55)/)
  const cause = await unlessRefused(client, 'adopting', complete, isOfTable)
  if (cause === null) return
  const hideSql = `drop view if exists ${inBi(stream)} restrict`
  const aside = await setAside(client, stream, hideSql).catch((error) => {
    throw Object.assign(error, { cause })
  })
  log.warn({ err: cause, ...aside }, 'A table that is not like those of Tidemark was set aside.')
  await watchTable(client, stream)
}

/** Renames the table, so that it is kept under another name, once what shows it is hidden. Returns both names. */
export async function setAside(client: ClientBase, { name }: Named, hideSql: string) {
  const table = qualified({ name })
  const aside = `${name}_set_aside_${Date.now()}`
  await client.query(`${hideSql}; alter table ${table} rename to ${pg.escapeIdentifier(baseOf(aside))}`)
  return { table, aside: tableName(aside) }
}

async function completeTable(client: ClientBase, stream: MirroredStream, keyColumn: string): Promise<void> {
  const table = qualified(stream)
  const key = pg.escapeIdentifier(keyColumn)
  const nullable = ownColumns.map(({ name, type }) => ({
    name,
    type: type.split(' ')[0] ?? type,
    meaning: '',
  }))
  await client.query(
    `${nullable.map((column) => `alter table ${table} add column if not exists ${definitions([column])}`).join(';\n')};
     update ${table} set _first_seen_at = coalesce(_first_seen_at, now()), _synced_at = coalesce(_synced_at, now()),
       _hash = coalesce(_hash, '') where _first_seen_at is null or _synced_at is null or _hash is null;
     alter table ${table} alter column _first_seen_at set default now(), alter column _first_seen_at set not null,
       alter column _synced_at set default now(), alter column _synced_at set not null, alter column _hash set not null`,
  )
  const keySql = `select from pg_index where indrelid = to_regclass($1) and indisprimary`
  if (!(await queryAny(client, keySql, [table])))
    await client.query(
      `alter table ${table} add primary key (${key});
       create index if not exists ${pg.escapeIdentifier(`${baseOf(stream.name)}_synced_at_again`)} on ${table} (_synced_at);
       create index if not exists ${pg.escapeIdentifier(`${baseOf(stream.name)}_deleted_at_again`)} on ${table} (_deleted_at)
         where _deleted_at is not null`,
    )
}
