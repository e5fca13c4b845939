// What a statement yields, in the shape that its reader wants: rows, one row, a column, a value, a number of rows. And lines as `unnest`
// takes them.

import type { QueryConfig, QueryResultRow } from 'pg'
import type { Queryable } from './session.ts'

export const queryRows = async <Row extends QueryResultRow>(
  client: Queryable,
  statement: string | QueryConfig,
  values?: readonly unknown[],
): Promise<readonly Row[]> => (await client.query<Row>(statement, values && [...values])).rows

/** The first row; null: there is none. */
export const queryRow = async <Row extends QueryResultRow>(
  ...asked: Parameters<typeof queryRows>
): Promise<Row | null> => (await queryRows<Row>(...asked))[0] ?? null

/** The first column of all rows. */
export const queryColumn = async <Value>(...asked: Parameters<typeof queryRows>): Promise<readonly Value[]> =>
  (await queryRows<Record<string, Value>>(...asked)).flatMap((row) => Object.values(row).slice(0, 1))

/** The first column of the first row; null: there is none, or it is null. */
export const queryValue = async <Value>(...asked: Parameters<typeof queryRows>): Promise<Value | null> =>
  (await queryColumn<Value>(...asked))[0] ?? null

/** How many rows it wrote or found. */
export const queryCount = async (...[client, statement, values]: Parameters<typeof queryRows>) =>
  (await client.query(statement, values && [...values])).rowCount ?? 0

/** Whether it wrote or found any. */
export const queryAny = async (...asked: Parameters<typeof queryRows>) => (await queryCount(...asked)) > 0

/** Lines as `unnest` takes them: an array for each of these members. */
export const arraysOf = <Line extends object>(lines: readonly Line[], ...names: readonly (keyof Line)[]) =>
  names.map((name) => lines.map((line) => line[name]))
