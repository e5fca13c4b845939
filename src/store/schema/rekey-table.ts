// Gives a table that has no rows yet another key: it was made by what the upstream says about itself, and the data chose otherwise.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { inTransaction, limitLockWaits, retryOnLockTimeout } from '../server/session.ts'
import { foldName, keyCheck } from './column-types.ts'
import type { KeyColumn } from './create-table.ts'
import { growTable } from './grow-table.ts'
import { type Column, qualified, readTableSchema, type TableSchema } from './table-schema.ts'
import { viewOf, withoutView } from './views.ts'

/** Whether the first rows can be rows of the table. */
export const suitsKey = (
  { key }: Pick<TableSchema, 'key'>,
  wanted: KeyColumn,
  keys: readonly string[],
): boolean => foldName(key.field) === foldName(wanted.field) && keys.every(keyCheck(key.type))

/** Returns the table as it is then; as it was when it has rows, or a past that is kept. */
export async function rekeyEmptyTable(
  client: ClientBase,
  tableSchema: TableSchema,
  wanted: KeyColumn,
  log: Logger,
): Promise<TableSchema> {
  const { stream } = tableSchema
  const table = qualified(stream)
  const { rows } = await client.query<{ has_rows: boolean }>(
    `select exists (select from ${table}) as has_rows`,
  )
  if (rows[0]?.has_rows || tableSchema.history) return tableSchema
  return await retryOnLockTimeout(`change the key of ${table}`, () =>
    inTransaction(client, async () => {
      await limitLockWaits(client)
      await client.query(`lock table ${table} in access exclusive mode`)
      const { rowCount } = await client.query(`select from ${table} limit 1`)
      if ((rowCount ?? 0) > 0) return tableSchema
      const column = await columnFor(client, tableSchema, wanted, log)
      if (column === null) return tableSchema
      await moveKey(client, tableSchema, column, wanted)
      log.info({ table, key: column.name }, 'The first records have another key than was expected.')
      return (await readTableSchema(client, stream)) ?? tableSchema
    }),
  )
}

async function columnFor(
  client: ClientBase,
  tableSchema: TableSchema,
  { field, type }: KeyColumn,
  log: Logger,
): Promise<Column | null> {
  const isWanted = (column: Column) => foldName(column.field) === foldName(field)
  const known = tableSchema.columns.find(isWanted)
  if (known) return known
  await growTable(client, tableSchema, { fields: new Map([[field, type]]), widen: new Set() }, log)
  return (await readTableSchema(client, tableSchema.stream))?.columns.find(isWanted) ?? null
}

async function moveKey(
  client: ClientBase,
  { stream, key }: TableSchema,
  column: Column,
  { type }: KeyColumn,
): Promise<void> {
  const table = qualified(stream)
  const { rows } = await client.query<{ name: string }>(
    "select conname as name from pg_constraint where conrelid = to_regclass($1) and contype = 'p'",
    [table],
  )
  const [old, name] = [pg.escapeIdentifier(key.name), pg.escapeIdentifier(column.name)]
  const drop = rows.map((one) => `alter table ${table} drop constraint ${pg.escapeIdentifier(one.name)}`)
  await client.query([...drop, `alter table ${table} alter column ${old} drop not null`].join(';\n'))
  if (column.type !== type)
    await withoutView(client, viewOf(stream), async () => {
      await client.query(
        `alter table ${table} alter column ${name} type ${type} using ${name}::text::${type}`,
      )
    })
  await client.query(`alter table ${table} add primary key (${name})`)
  await client.query(`update tidemark.field set column_type = $3 where stream = $1 and column_name = $2`, [
    stream.name,
    column.name,
    type,
  ])
  await client.query('update tidemark.stream set columns_version = columns_version + 1 where name = $1', [
    stream.name,
  ])
}
