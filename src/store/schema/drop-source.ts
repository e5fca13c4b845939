// A source is taken out of the database for good: its tables and views, and all that is remembered of it. Nothing of others goes with it:
// what somebody built on its tables keeps them here.

import pg, { type Pool } from 'pg'
import { schemasOf, sourceIn } from '../../streams/names.ts'
import { UsageError } from '../../util/errors.ts'
import { queryAny, queryRow } from '../server/query.ts'
import { inTransaction, takeTurn, withConnection } from '../server/session.ts'
import { noticeSourceSql, sourceSql } from './places.ts'
import { markOf, turnOfSchemas } from './source-schemas.ts'
import { leaveUnions } from './union-views.ts'

/** Only one that the file of sources does not name any more, so that no worker makes it anew. */
export async function dropSource(pool: Pool, name: string): Promise<{ readonly tables: number }> {
  const goneSql = 'select from tidemark.source_config where name = $1 and gone_at is not null'
  if (!(await queryAny(pool, goneSql, [name])))
    throw new UsageError(
      `The source ${name} is still in the file of sources, so workers read it. Take it out there first, and wait until \`tidemark sources list\` says so.`,
    )
  const tables = await dropSchemas(pool, name)
  await forgetSource(pool, name)
  return { tables }
}

/** Whose a line is, in SQL, where another column than `stream` says so. */
const sourceOfLine: Readonly<Record<string, string>> = {
  source: 'name',
  source_config: 'name',
  related_fetch: 'source',
  stream: sourceSql('name'),
  page: sourceSql('"table"'),
  setting_override: sourceSql('name'),
  contract: sourceSql('service'),
  contract_check: sourceSql('service'),
  contract_change: sourceSql('service'),
  service_minute: sourceSql('service'),
  notice: noticeSourceSql,
}

/** No run of it can write after this (P2). The record of who did what stays. */
const forgetSource = (pool: Pool, name: string): Promise<void> =>
  withConnection(pool, (client) =>
    inTransaction(client, async () => {
      await client.query(
        `update tidemark.lease set epoch = epoch + 1
         where stream in (select name from tidemark.stream where ${sourceSql('name')} = $1)`,
        [name],
      )
      const { rows: tables } = await client.query<{ name: string }>(
        `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid and attname = 'stream' and not attisdropped
         where relnamespace = 'tidemark'::regnamespace and relkind = 'r' and relname <> all ($1)
           and not exists (select from pg_inherits where inhrelid = pg_class.oid)`,
        [['action', 'action_log', 'problem_history', 'lease']],
      )
      const remove = (table: string, source: string) =>
        client.query(`delete from tidemark.${pg.escapeIdentifier(table)} where ${source} = $1`, [name])
      for (const one of tables) await remove(one.name, sourceSql('stream'))
      for (const [table, source] of Object.entries(sourceOfLine)) await remove(table, source)
      // Its readers get their rights anew with the next source of that name: nobody took them from them (P20).
      await client.query(
        `delete from tidemark.granted where trim('"' from split_part(object, '.', 1)) = any ($1)`,
        [Object.values(schemasOf(name))],
      )
    }),
  )

/** Rejects while somebody built on it. Returns how many tables there were. */
const dropSchemas = (pool: Pool, source: string): Promise<number> =>
  withConnection(pool, (client) =>
    inTransaction(client, async () => {
      // A worker may be making them.
      await takeTurn(client, turnOfSchemas(source))
      const schemas = Object.values(schemasOf(source))
      const { rows: found } = await client.query<{ name: string }>(
        `select nspname as name from pg_namespace where nspname = any ($1) and obj_description(oid, 'pg_namespace') = $2`,
        [schemas, markOf(source)],
      )
      const names = found.map(({ name }) => name)
      await leaveUnions(client, (key) => sourceIn(key) === source)
      type Contents = { functions: string | null; views: string | null; tables: string | null; count: number }
      const here = await queryRow<Contents>(
        client,
        `select
           (select string_agg(oid::regprocedure::text, ', ') from pg_proc where pronamespace::regnamespace::text = any ($1)) as functions,
           string_agg(pg_class.oid::regclass::text, ', ') filter (where relkind = 'v') as views,
           string_agg(pg_class.oid::regclass::text, ', ') filter (where relkind in ('r', 'p') and not relispartition) as tables,
           (count(*) filter (where relkind in ('r', 'p') and not relispartition))::int as count
         from pg_class join pg_namespace on pg_namespace.oid = relnamespace where nspname = any ($1)`,
        [names],
      )
      const drop = (what: string, which: string | null | undefined) =>
        which ? [`drop ${what} ${which} restrict`] : []
      // Views call functions, and functions read views: in one statement Postgres finds the order of what is of one kind.
      await client.query(
        [
          ...drop('function', here?.functions),
          ...drop('view', here?.views),
          ...drop('table', here?.tables),
          ...names.map((name) => `drop schema ${pg.escapeIdentifier(name)} restrict`),
        ].join(';\n'),
      )
      return here?.count ?? 0
    }),
  )
