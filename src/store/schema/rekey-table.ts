// Gives a table another key than it was made with. An empty table that was made by the upstream's description gets the key that the data
// chooses; any table gets the one that an operator chooses (KEY_<STREAM>). One transaction, and the same rows before and after it.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { isComposite, keyParts } from '../../streams/record.ts'
import { sharedKeyReason } from '../../streams/twins.ts'
import { queryAny, queryRow } from '../server/query.ts'
import { changeTable } from '../server/session.ts'
import { type ColumnType, columnTypes, keyCheck, keyFitsSql } from '../types/table.ts'
import { showColumns, withoutView } from './change-view.ts'
import { foldName, keyColumnName, keyComment, printable } from './column-names.ts'
import type { KeyColumn } from './create-table.ts'
import { growTable } from './grow-table.ts'
import { showHistory, withoutHistory } from './history-views.ts'
import { inBiBefore, qualified } from './places.ts'
import { type Column, historyOf, partIndexSql, readTableSchema, type TableSchema } from './table-schema.ts'
import { hideVehicleDays, viewOf } from './views.ts'

/** Whether the first rows can be rows of the table. */
export const suitsKey = ({ key }: Pick<TableSchema, 'key'>, wanted: KeyColumn, keys: readonly string[]) =>
  foldName(key.field) === foldName(wanted.field) && keys.every(keyCheck(key.type))

/** Returns the table as it is then; as it was when only the type differs and there are rows, or a past that is kept. */
export async function rekeyTable(
  client: ClientBase,
  tableSchema: TableSchema,
  wanted: KeyColumn,
  log: Logger,
): Promise<TableSchema> {
  const { stream } = tableSchema
  const table = qualified(stream)
  const isOtherField = foldName(tableSchema.key.field) !== foldName(wanted.field)
  if (!isOtherField && (tableSchema.history || (await hasRows(client, table)))) return tableSchema
  return await changeTable(client, table, 'change the key of', async () => {
    await client.query(`lock table ${table} in access exclusive mode`)
    const known = (await readTableSchema(client, stream)) ?? tableSchema
    if (foldName(known.key.field) === foldName(wanted.field) && (await hasRows(client, table))) return known
    await expectChosen(client, stream.name, wanted)
    const changed = isComposite(wanted.field)
      ? await withOwnColumn(client, known, wanted)
      : await withColumn(client, known, wanted, log)
    if (changed === null) return known
    const removed = await moveKey(client, changed, log)
    await forget(client, changed.tableSchema, wanted)
    const rekeyed = await readTableSchema(client, stream)
    if (!rekeyed) throw new Error(`${table} has no primary key after its key was changed.`)
    log.info(
      { table, key: wanted.field, keyBefore: known.key.field, comeAgain: removed },
      'The table has another key now. Rows that it could not tell from their columns are read again.',
    )
    return rekeyed
  })
}

/** Rejects if the key was chosen anew meanwhile: a run that began with the old key would give the table that one again. */
async function expectChosen(client: ClientBase, stream: string, { field }: KeyColumn): Promise<void> {
  const { key_field: chosen } =
    (await queryRow<{ key_field: string | null }>(
      client,
      'select key_field from tidemark.stream where name = $1',
      [stream],
    )) ?? {}
  if (chosen && foldName(chosen) !== foldName(field))
    throw new Error(`The key of ${stream} is ${chosen} since this run began. The next run goes by it.`)
}

const hasRows = (client: ClientBase, table: string): Promise<boolean> =>
  queryAny(client, `select from ${table} limit 1`)

type Changed = {
  readonly tableSchema: TableSchema
  readonly wanted: KeyColumn
  readonly name: string
  /** In SQL, of a row: its key by its columns, null where they do not tell; null: the column holds it. */
  readonly keySql: ((columns: readonly Column[]) => string) | null
}

/** A key of several fields, in a column of its own. */
async function withOwnColumn(
  client: ClientBase,
  tableSchema: TableSchema,
  wanted: KeyColumn,
): Promise<Changed> {
  const { stream, history } = tableSchema
  const name = keyColumnName(wanted.field)
  const column = pg.escapeIdentifier(name)
  const tables = [qualified(stream), ...(history ? [history.table] : [])]
  await client.query(
    tables
      .map(
        (table) => `alter table ${table} add column if not exists ${column} text;
          comment on column ${table}.${column} is ${keyComment(wanted.field)}`,
      )
      .join(';\n'),
  )
  await client.query('delete from tidemark.field where stream = $1 and column_name = $2', [stream.name, name])
  await client.query(
    `insert into tidemark.field (stream, folded, source_name, column_name, column_type) values ($1, $2, $3, $4, 'text')`,
    [stream.name, foldName(wanted.field), printable(wanted.field), name],
  )
  return { tableSchema, wanted, name, keySql: (columns) => compositeSql(wanted.field, columns) }
}

/** The same text as that of a record's key; null where a column does not hold its value just as it came. */
function compositeSql(keyField: string, columns: readonly Column[]): string {
  const parts = keyParts(keyField).map((part) => {
    const column = columns.find(({ field }) => foldName(field) === foldName(part))
    return column ? partSql(column, (text) => `to_json(${text})::text`) : 'null'
  })
  return `'[' || ${parts.join(` || ',' || `)} || ']'`
}

/** `quoted` makes what it has to be of a text that is no number. */
const partSql = ({ name, type }: Column, quoted: (text: string) => string): string =>
  columnTypes[type].keySql(pg.escapeIdentifier(name), quoted)

/** A key of one field, in the column of that field. */
async function withColumn(
  client: ClientBase,
  tableSchema: TableSchema,
  { field, type }: KeyColumn,
  log: Logger,
): Promise<Changed | null> {
  const isWanted = (column: Column) => foldName(column.field) === foldName(field)
  let known = tableSchema
  if (!known.columns.some(isWanted)) {
    await growTable(client, known, { fields: new Map([[field, type]]), widen: new Set() }, log)
    known = (await readTableSchema(client, known.stream)) ?? known
  }
  const column = known.columns.find(isWanted)
  return column ? { tableSchema: known, wanted: { field, type }, name: column.name, keySql: null } : null
}

/** Returns how many rows were taken out: those that come again, because the upstream is read whole after this. */
async function moveKey(client: ClientBase, changed: Changed, log: Logger): Promise<number> {
  const { tableSchema, wanted, name, keySql } = changed
  const { stream, key, columns, history } = tableSchema
  const table = qualified(stream)
  const [before, after] = [pg.escapeIdentifier(key.name), pg.escapeIdentifier(name)]
  const { rows } = await client.query<{ name: string }>(
    "select conname as name from pg_constraint where conrelid = to_regclass($1) and contype = 'p'",
    [table],
  )
  const drop = rows.map((one) => `alter table ${table} drop constraint ${pg.escapeIdentifier(one.name)}`)
  await client.query([...drop, `alter table ${table} alter column ${before} drop not null`].join(';\n'))
  await moveLinks(client, changed)
  if (keySql)
    await client.query(
      // A deleted record never comes again. Where its columns do not tell the new key, the row keeps the old one.
      `update ${table} as mine set ${after} = coalesce(${keySql(columns)},
         case when _deleted_at is not null then '[' || ${partSql(key, (text) => `to_json(${text})::text`)} || ']' end)`,
    )
  else await retype(client, changed)
  const { rowCount: removed } = await client.query(
    `delete from ${table} as mine using (
       select ctid, row_number() over (
         partition by ${after} order by _deleted_at is null desc, _synced_at desc
       ) as place from ${table}
     ) as ranked
     where mine.ctid = ranked.ctid and (mine.${after} is null or ranked.place > 1)`,
  )
  const parts = columns
    .map((column) => partIndexSql(stream, wanted.field, column))
    .filter((sql) => sql !== null)
  await client.query([`alter table ${table} add primary key (${after})`, ...parts].join(';\n'))
  await showColumns(client, viewOf(stream), [name], log)
  if (history) {
    const kept = columns.filter((column) => history.columns.includes(column.name))
    if (keySql) await client.query(`update ${history.table} as mine set ${after} = ${keySql(kept)}`)
    await client.query(`create index on ${history.table} (${after}, _observed_at)`)
    await hideVehicleDays(client, historyOf(stream))
    await showHistory(client, stream, log)
  }
  return removed ?? 0
}

/** Makes the column that holds the keys now a text, if not all of them are of the type that the first ones have. */
async function retype(client: ClientBase, { tableSchema, wanted, name }: Changed): Promise<void> {
  const { stream, key, columns, history } = tableSchema
  const column = columns.find((one) => one.name === name)
  if (!column) return
  const own = partSql(column, (text) => text)
  // A deleted record never comes again. Where the column does not tell the new key, the row keeps the old one.
  const kept = `coalesce(${own}, case when _deleted_at is not null then ${pg.escapeIdentifier(key.name)}::text end)`
  const tables = [{ table: qualified(stream), keySql: kept }]
  if (history?.columns.includes(name)) tables.push({ table: history.table, keySql: own })
  const type = (await areAll(client, wanted.type, tables)) ? wanted.type : 'text'
  await withoutHistory(client, tableSchema, () =>
    withoutView(client, viewOf(stream), async () => {
      for (const { table, keySql } of tables)
        await client.query(
          `alter table ${table} alter column ${pg.escapeIdentifier(name)} type ${type} using (${keySql})::${type}`,
        )
    }),
  )
  await client.query(`update tidemark.field set column_type = $3 where stream = $1 and column_name = $2`, [
    stream.name,
    name,
    type,
  ])
}

async function areAll(
  client: ClientBase,
  type: ColumnType,
  tables: readonly { readonly table: string; readonly keySql: string }[],
): Promise<boolean> {
  if (type === 'text') return true
  const fits = keyFitsSql(type, 'key')
  const others = tables.map(
    ({ table, keySql }) =>
      `exists (select from (select ${keySql} as key from ${table}) as keys where key is not null and not ${fits})`,
  )
  return await queryAny(client, `select where not (${others.join(' or ')})`)
}

/** Moves the links between assignments and related records to the new keys. Their view names the key: the next reading makes it again. */
async function moveLinks(client: ClientBase, { tableSchema, name, keySql }: Changed): Promise<void> {
  const { stream, key, columns } = tableSchema
  if (stream.kind !== 'related') return
  const before = `mine.${pg.escapeIdentifier(key.name)}::text`
  const after = keySql ? keySql(columns) : `mine.${pg.escapeIdentifier(name)}::text`
  await client.query(
    `with moved as materialized (
       select ${before} as before, ${after} as after from ${qualified(stream)} as mine
     ), gone as (
       delete from tidemark.related_link as link using moved
       where link.stream = $1 and link.key = moved.before and moved.after is not null
       returning link.assignment_id, moved.after
     )
     insert into tidemark.related_link (assignment_id, stream, key)
     select distinct assignment_id, $1, after from gone on conflict do nothing`,
    [stream.name],
  )
  if (stream.belongsTo === 'many')
    await client.query(`drop view if exists ${inBiBefore('assignment_', stream)}`)
}

/** Forgets what was noted by the old keys. Records in quarantine because they shared a key can become rows now. */
async function forget(client: ClientBase, { stream }: TableSchema, { field }: KeyColumn): Promise<void> {
  await client.query('delete from tidemark.suspect where stream = $1', [stream.name])
  await client.query(
    `update tidemark.quarantine set dropped_at = now(), drop_reason = $2
     where stream = $1 and dropped_at is null and starts_with(reason, $3)`,
    [stream.name, `the key is ${printable(field)} now, and everything is read again`, sharedKeyReason],
  )
  await client.query(
    'update tidemark.stream set columns_version = columns_version + 1, blocked_deletions = null where name = $1',
    [stream.name],
  )
}
