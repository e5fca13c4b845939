// The schemas of a source that has a name: its tables, its views, and the months of its histories. What the source that the environment
// describes has in `bi` and `tidemark` for those who read, a source has among its own views, so that its readers need nothing else.

import { hash } from 'node:crypto'
import pg, { type ClientBase, type Pool } from 'pg'
import { schemasOf, sourceIn } from '../../streams/names.ts'
import { DatabaseError, UsageError } from '../../util/errors.ts'
import { arraysOf, queryAny, queryRow } from '../server/query.ts'
import { inTransaction, takeTurn, withConnection } from '../server/session.ts'
import { closeNewSql } from './closed-rights.ts'
import { noticeSourceSql, sourceSql } from './places.ts'
import { leaveUnions } from './union-views.ts'

/** Whoever makes or drops the schemas of a source takes this turn first. */
export const turnOfSchemas = (source: string): string => `schemas ${source}`

/** By such words Tidemark knows its schemas again. */
const markOf = (source: string): string => `Tidemark: source ${source}`

/** In SQL, of a line of pg_namespace: whether it holds the tables, views or past of any source. */
export const isOfSourceSql = `(nspname in ('mirror', 'bi') or obj_description(pg_namespace.oid, 'pg_namespace') like 'Tidemark: source %')`

/** Makes what is not there yet. A schema of that name that somebody else made is left alone, and the source cannot be. Nobody else may be at it. */
export async function makeSchemas(client: ClientBase, source: string): Promise<void> {
  await inTransaction(client, async () => {
    for (const { schema } of await schemasToMake(client, [source]))
      await makeSchema(client, { schema, source, what: `The source ${source}` })
    for (const state of await statesToShow(client, [source])) await showState(client, state)
  })
}

/** Those of these sources that lack something of it. */
export async function lackingSchemas(client: ClientBase, sources: readonly string[]) {
  const lacking = [...(await schemasToMake(client, sources)), ...(await statesToShow(client, sources))]
  return lacking.map(({ source }) => source)
}

type OfSource = { readonly schema: string; readonly source: string }

/** Those that are not there, or not known to be ours. */
async function schemasToMake(client: ClientBase, sources: readonly string[]): Promise<readonly OfSource[]> {
  const all = sources.flatMap((source) =>
    Object.values(schemasOf(source)).map((schema) => ({ schema, source, mark: markOf(source) })),
  )
  const { rows } = await client.query<OfSource>(
    `select schema, source from unnest($1::text[], $2::text[], $3::text[]) as wanted (schema, source, mark)
     left join pg_namespace on nspname = schema
     where obj_description(pg_namespace.oid, 'pg_namespace') is distinct from mark`,
    arraysOf(all, 'schema', 'source', 'mark'),
  )
  return rows
}

export async function makeSchema(
  client: ClientBase,
  { schema, source, what }: OfSource & { readonly what: string },
): Promise<void> {
  const found = await queryRow<{ isOurs: boolean }>(
    client,
    `select obj_description(oid, 'pg_namespace') is not distinct from $2 as "isOurs" from pg_namespace where nspname = $1`,
    [schema, markOf(source)],
  )
  if (found?.isOurs) return
  if (found)
    throw new DatabaseError(
      `${what} needs the schema ${schema}, and somebody else has one of that name. Use another name, or rename that schema.`,
    )
  const quoted = pg.escapeIdentifier(schema)
  await client.query(
    `create schema ${quoted}; comment on schema ${quoted} is ${pg.escapeLiteral(markOf(source))}`,
  )
}

/** The same as `bi.history_reaches`, which readers of a source may not see. */
const historyReaches = (schema: string): string => `
  create or replace function ${schema}.history_reaches(stream text, history_from timestamptz, moment timestamptz) returns boolean
    language plpgsql stable set search_path = '' as $$
  begin
    if moment < history_from then
      raise exception 'The history of % begins at %. Nothing is known of %.', stream, history_from, moment
        using errcode = 'data_exception', hint = 'The view freshness says for each stream when its history begins: history_from.';
    end if;
    return true;
  end
  $$;
  grant execute on function ${schema}.history_reaches(text, timestamptz, timestamptz) to public`

type State = {
  /** Quoted. */
  readonly schema: string
  readonly source: string
  readonly views: Readonly<Record<string, string>>
  readonly there: readonly string[]
  readonly comment: string
}

const stateViews = (source: string): State['views'] => ({
  freshness: `select * from tidemark.freshness where source = ${pg.escapeLiteral(source)}`,
  in_doubt: `select * from tidemark.in_doubt where starts_with(stream, ${pg.escapeLiteral(`${source}.`)})`,
  label: `select * from tidemark.label where starts_with(stream, ${pg.escapeLiteral(`${source}.`)})`,
})

/** Made anew only when they are other ones than before: every worker comes here for every source, and whoever reads a view has it locked. */
async function statesToShow(client: ClientBase, sources: readonly string[]): Promise<readonly State[]> {
  type Found = Pick<State, 'source' | 'there'> & { comment: string | null; columns: string }
  const { rows } = await client.query<Found>(
    `select source, obj_description(to_regclass(schema || '.freshness'), 'pg_class') as comment,
       coalesce((
         select string_agg(format('%s %s %s', attrelid::regclass, attname, atttypid), ',' order by attrelid::regclass::text, attnum)
         from pg_attribute
         where attrelid in (select to_regclass('tidemark.' || name) from unnest($3::text[]) as name) and attnum > 0 and not attisdropped
       ), '') as columns,
       array(select name from unnest($3::text[]) as name where to_regclass(schema || '.' || name) is not null) as there
     from unnest($1::text[], $2::text[]) as wanted (source, schema)`,
    [sources, sources.map(viewsOf), Object.keys(stateViews(''))],
  )
  return rows.flatMap(({ source, comment: before, columns, there }) => {
    const [schema, views] = [viewsOf(source), stateViews(source)]
    // Columns that came to the views behind them since are shown, too.
    const edition = hash('sha256', JSON.stringify([views, historyReaches(schema), columns])).slice(0, 8)
    const comment = `how far each stream of the source is (edition ${edition})`
    const isShown = before === comment && there.length === Object.keys(views).length
    return isShown ? [] : [{ schema, source, views, there, comment }]
  })
}

const viewsOf = (source: string): string => pg.escapeIdentifier(schemasOf(source).views)

async function showState(client: ClientBase, { schema, views, there, comment }: State): Promise<void> {
  for (const [name, query] of Object.entries(views)) {
    const view = `${schema}.${name}`
    await client.query(`create or replace view ${view} as ${query}`)
    if (!there.includes(name)) await client.query(closeNewSql(view))
  }
  await client.query(historyReaches(schema))
  await client.query(`comment on view ${schema}.freshness is ${pg.escapeLiteral(comment)}`)
}

// A source is taken out of the database for good: its tables and views, and all that is remembered of it. Nothing of others goes with it:
// what somebody built on its tables keeps them here.

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
