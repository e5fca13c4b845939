// The ordinary way: one `insert … on conflict do update` of the ORM for each page, into a table of the same columns.

import { type SQL, sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import {
  bigint,
  boolean,
  numeric,
  type PgColumnBuilderBase,
  pgTable,
  text,
  timestamp,
  uuid,
} from 'drizzle-orm/pg-core'
import type { Json, JsonObject } from '../src/json/json.ts'
import type { Column, TableSchema } from '../src/store/schema/table-schema.ts'
import type { Database } from '../src/store/server/connect.ts'
import type { ColumnType } from '../src/store/types/table.ts'
import type { Records } from '../src/streams/record.ts'

const builders: Readonly<Record<ColumnType, (name: string) => PgColumnBuilderBase>> = {
  bigint: (name) => bigint(name, { mode: 'number' }),
  numeric: (name) => numeric(name),
  boolean: (name) => boolean(name),
  uuid: (name) => uuid(name),
  timestamptz: (name) => timestamp(name, { withTimezone: true, mode: 'string' }),
  date: (name) => text(name),
  time: (name) => text(name),
  text: (name) => text(name),
  jsonb: (name) => text(name),
}

/** Returns the rows per second. */
export async function writeTheOrdinaryWay(
  database: Database,
  tableSchema: TableSchema,
  pages: Iterable<Records>,
): Promise<number> {
  const columns = Object.fromEntries(
    tableSchema.columns.map(({ name, type }) => [name, builders[type](name)]),
  )
  const table = pgTable('ordinary', columns)
  const key = table[tableSchema.key.name]
  if (!key) throw new Error('the table of the bench has no key')
  await database.pool.query(`
    drop table if exists ordinary;
    create table ordinary (${tableSchema.columns.map(({ name, type }) => `"${name}" ${type}`).join(', ')}, primary key ("${tableSchema.key.name}"))`)
  const client = await database.pool.connect()
  const orm = drizzle({ client })
  const set: Record<string, SQL> = Object.fromEntries(
    tableSchema.columns.map(({ name }) => [name, sql`excluded.${sql.identifier(name)}`]),
  )
  let rowCount = 0
  const start = performance.now()
  for (const page of pages) {
    rowCount += page.rows.length
    const values = page.rows.map((row) => valuesOf(tableSchema.columns, row.record))
    await orm.insert(table).values(values).onConflictDoUpdate({ target: key, set })
  }
  const seconds = (performance.now() - start) / 1000
  client.release()
  return rowCount / seconds
}

const valuesOf = (columns: readonly Column[], record: JsonObject): Record<string, Json> =>
  Object.fromEntries(columns.map(({ name, field }) => [name, record[field] ?? null]))
