// How the store asks Postgres. Statements of one or two fixed tables are typed by what `store/tables` says of them; what SQL says better
// is SQL.

import { type AnyColumn, DrizzleQueryError, sql } from 'drizzle-orm'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { Pool, PoolClient, QueryConfig, QueryResultRow } from 'pg'
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

/** What SQL yields: the lines. */
export const queryRows = async <Row extends QueryResultRow>(
  client: Queryable,
  statement: string | QueryConfig,
  values?: readonly unknown[],
): Promise<readonly Row[]> => (await client.query<Row>(statement, values && [...values])).rows

/** The first line; null: there is none. */
export const queryRow = async <Row extends QueryResultRow>(
  ...asked: Parameters<typeof queryRows>
): Promise<Row | null> => (await queryRows<Row>(...asked))[0] ?? null

/** The first column of all lines. */
export const queryColumn = async <Value>(...asked: Parameters<typeof queryRows>): Promise<readonly Value[]> =>
  (await queryRows<Record<string, Value>>(...asked)).flatMap((row) => Object.values(row).slice(0, 1))

/** The first column of the first line; null: there is none, or it is null. */
export const queryValue = async <Value>(...asked: Parameters<typeof queryRows>): Promise<Value | null> =>
  (await queryColumn<Value>(...asked))[0] ?? null

/** How many lines it wrote or found. */
export const queryCount = async (...[client, statement, values]: Parameters<typeof queryRows>) =>
  (await client.query(statement, values && [...values])).rowCount ?? 0

/** Whether it wrote or found any. */
export const queryAny = async (...asked: Parameters<typeof queryRows>) => (await queryCount(...asked)) > 0

/** One transaction on a connection of its own. */
export const inOneTransaction = <Result>(
  pool: Pool,
  work: (client: PoolClient) => Promise<Result>,
): Promise<Result> => withConnection(pool, (client) => inTransaction(client, () => work(client)))

/** Lines as `unnest` takes them: an array for each of these members. */
export const arraysOf = <Line extends object>(lines: readonly Line[], ...names: readonly (keyof Line)[]) =>
  names.map((name) => lines.map((line) => line[name]))

/** As programs show a number that JavaScript may not hold. */
export const asText = <Column extends AnyColumn>(column: Column) =>
  sql<Column['_']['notNull'] extends true ? string : string | null>`${column}::text`
