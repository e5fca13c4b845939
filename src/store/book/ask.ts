// How the store asks Postgres. Statements of one or two fixed tables are typed by what `store/tables` says of them; what SQL says better
// is SQL.

import { type AnyColumn, DrizzleQueryError, getTableColumns, type SQL, sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Pool, PoolClient } from 'pg'
import { inTransaction, type Queryable, withConnection } from '../server/session.ts'

/** Of a list: from one moment up to another; null or left out: no bound. */
export type Within = { readonly from?: Date | null; readonly to?: Date | null }

/** An error is that of Postgres: what Drizzle makes of it holds all parameters in its text (P9), and no code. */
export async function ask<Answer>(
  client: Queryable,
  query: (database: NodePgDatabase) => PromiseLike<Answer>,
): Promise<Answer> {
  try {
    return await query(drizzle({ client: client as Pool }))
  } catch (error) {
    throw error instanceof DrizzleQueryError ? (error.cause ?? error) : error
  }
}

/** One transaction on a connection of its own. */
export const inOneTransaction = <Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
): Promise<Result> => withConnection(pool, (client) => inTransaction(client, () => work(client)))

/** As programs show a number that JavaScript may not hold. */
export const asText = <Column extends AnyColumn>(column: Column) =>
  sql<Column['_']['notNull'] extends true ? string : string | null>`${column}::text`

/** For a line that is there already: these columns as they were to be inserted. */
export const overwritten = <Table extends PgTable, Name extends keyof Table['_']['columns'] & string>(
  table: Table,
  names: readonly Name[],
): Record<Name, SQL> => {
  const columns = getTableColumns(table)
  const values = names.map((name) => [name, sql`excluded.${sql.identifier(columns[name]?.name ?? name)}`])
  return Object.fromEntries(values)
}
