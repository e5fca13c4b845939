// What Postgres itself takes for the very same rows: COPY from a file into the same table, with the indexes and triggers that it has.

import type { Database } from '../src/store/server/connect.ts'

/** The rows that are in the table go out of it, to come in again. */
export async function copyOut(database: Database, options = ''): Promise<void> {
  const [names, file] = [await columnNames(database), await fileOf(database)]
  await asWriter(
    database,
    `copy mirror.assignment (${names}) to ${file}${options}; truncate mirror.assignment`,
  )
  await database.pool.query('checkpoint')
}

/** Returns the seconds. */
export async function copyIn(database: Database, options = ''): Promise<number> {
  const [names, file] = [await columnNames(database), await fileOf(database)]
  const began = performance.now()
  await asWriter(database, `copy mirror.assignment (${names}) from ${file}${options}`)
  return (performance.now() - began) / 1000
}

async function columnNames({ pool }: Database): Promise<string> {
  const { rows } = await pool.query<{ name: string }>(
    `select quote_ident(attname) as name from pg_attribute
     where attrelid = 'mirror.assignment'::regclass and attnum > 0 and not attisdropped order by attnum`,
  )
  return rows.map(({ name }) => name).join(', ')
}

/** Where the user of the server may write in any case. */
async function fileOf({ pool }: Database): Promise<string> {
  const { rows } = await pool.query<{ file: string }>(
    "select quote_literal(current_setting('data_directory') || '/tidemark_bench') as file",
  )
  return rows[0]?.file ?? ''
}

const asWriter = ({ pool }: Database, sql: string): Promise<unknown> =>
  pool.query(`begin; set local tidemark.writer = 'on'; ${sql}; commit`)
