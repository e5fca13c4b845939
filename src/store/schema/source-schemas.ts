// The schemas of a source that has a name: its tables, its views, and the months of its histories. What the source that the environment
// describes has in `bi` and `tidemark` for those who read, a source has among its own views, so that its readers need nothing else.

import { hash } from 'node:crypto'
import pg, { type ClientBase } from 'pg'
import { schemasOf } from '../../streams/names.ts'
import { DatabaseError } from '../../util/errors.ts'
import { arraysOf, queryRow } from '../server/query.ts'
import { inTransaction } from '../server/session.ts'
import { closeNewSql } from './closed-rights.ts'

/** Whoever makes or drops the schemas of a source takes this turn first. */
export const turnOfSchemas = (source: string): string => `schemas ${source}`

/** By such words Tidemark knows its schemas again. */
export const markOf = (source: string): string => `Tidemark: source ${source}`

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
