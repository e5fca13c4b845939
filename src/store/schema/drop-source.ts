// Takes a source out of the database for good: its tables and views, and all that is remembered of it. Nothing of others goes with it: what
// somebody built on its tables keeps them here.

import pg, { type Pool } from 'pg'
import { schemasOf, sourceIn } from '../../streams/names.ts'
import { UsageError } from '../../util/errors.ts'
import { inTransaction, takeTurn, withConnection } from '../server/session.ts'
import { noticeSourceSql, sourceSql } from './places.ts'
import { markOf, turnOfSchemas } from './source-schemas.ts'
import { leaveUnions } from './union-views.ts'

/** Only one that the file of sources does not name any more, so that no worker makes it anew. */
export async function dropSource(pool: Pool, name: string): Promise<{ readonly tables: number }> {
  const { rows } = await pool.query<{ isGone: boolean }>(
    'select gone_at is not null as "isGone" from tidemark.source_config where name = $1',
    [name],
  )
  if (!rows[0]?.isGone)
    throw new UsageError(
      `The source ${name} is still in the file of sources, so workers read it. Take it out there first, and wait until \`tidemark sources list\` says so.`,
    )
  const tables = await dropSchemas(pool, name)
  await forgetSource(pool, name)
  return { tables }
}

/** By source, not by stream. */
const bySource = [
  ['source', 'name'],
  ['source_config', 'name'],
  ['related_fetch', 'source'],
] as const
/** By stream, or by what else stands after the source and a dot, in another column than `stream`. */
const byStream = [
  ['stream', 'name'],
  ['page', 'table'],
  ['setting_override', 'name'],
  ['contract', 'service'],
  ['contract_check', 'service'],
  ['contract_change', 'service'],
  ['service_minute', 'service'],
] as const

/** No run of it can write after this (P2). Returns how many lines there were. The record of who did what stays. */
const forgetSource = (pool: Pool, name: string): Promise<number> =>
  withConnection(pool, (client) =>
    inTransaction(client, async () => {
      const { rows: streams } = await client.query<{ name: string }>(
        `select name from tidemark.stream where ${sourceSql('name')} = $1`,
        [name],
      )
      await client.query('update tidemark.lease set epoch = epoch + 1 where stream = any ($1)', [
        streams.map((one) => one.name),
      ])
      const { rows: tables } = await client.query<{ name: string }>(
        `select relname as name from pg_class join pg_attribute on attrelid = pg_class.oid and attname = 'stream' and not attisdropped
         where relnamespace = 'tidemark'::regnamespace and relkind = 'r' and relname <> all ($1)
           and not exists (select from pg_inherits where inhrelid = pg_class.oid)`,
        [['action', 'action_log', 'problem_history', 'lease']],
      )
      let lines = 0
      const remove = async (table: string, where: string) => {
        const { rowCount } = await client.query(
          `delete from tidemark.${pg.escapeIdentifier(table)} where ${where} = $1`,
          [name],
        )
        lines += rowCount ?? 0
      }
      for (const one of tables) await remove(one.name, sourceSql('stream'))
      for (const [table, column] of byStream) await remove(table, sourceSql(pg.escapeIdentifier(column)))
      for (const [table, column] of bySource) await remove(table, column)
      await remove('notice', noticeSourceSql)
      // Its readers get their rights anew with the next source of that name: nobody took them from them (P20).
      await client.query(
        `delete from tidemark.granted where trim('"' from split_part(object, '.', 1)) = any ($1)`,
        [Object.values(schemasOf(name))],
      )
      return lines
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
      const { rows } = await client.query<{
        functions: string | null
        views: string | null
        tables: string | null
        count: number
      }>(
        `select
           (select string_agg(oid::regprocedure::text, ', ') from pg_proc where pronamespace::regnamespace::text = any ($1)) as functions,
           string_agg(pg_class.oid::regclass::text, ', ') filter (where relkind = 'v') as views,
           string_agg(pg_class.oid::regclass::text, ', ') filter (where relkind in ('r', 'p') and not relispartition) as tables,
           (count(*) filter (where relkind in ('r', 'p') and not relispartition))::int as count
         from pg_class join pg_namespace on pg_namespace.oid = relnamespace where nspname = any ($1)`,
        [names],
      )
      const [here] = rows
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
