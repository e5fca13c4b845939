// What a session of Postgres goes by. Somebody may have set something else for all, for a database or for a role; that is meant for
// people, and what is written and read here must not depend on it.

import type { ClientBase } from 'pg'

type Client = Pick<ClientBase, 'query'>

const settings: Readonly<Record<string, string>> = {
  // Limits would end every reconcile of a large table.
  ...{ statement_timeout: '0', transaction_timeout: '0', lock_timeout: '0' },
  // Of times in another style the driver makes nothing at all.
  datestyle: 'ISO, MDY',
  // A page in its turn finds what the page before it has committed.
  default_transaction_isolation: 'read committed',
  ...{ array_nulls: 'on', quote_all_identifiers: 'off' },
}

/** Those of them that this version of Postgres has. */
const settingsSql = `
  select pg_catalog.set_config(name, value, false) from unnest($1::text[], $2::text[]) as wanted (name, value)
  where pg_catalog.current_setting(name, true) is not null`

/** What everybody could put there is never taken for what Postgres itself has. */
const searchPathSql = `
  select pg_catalog.set_config('search_path', pg_catalog.array_to_string(array(
    select pg_catalog.quote_ident(name) from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as path (name, place)
    where not pg_catalog.has_schema_privilege('public', name, 'create') order by place
  ), ', '), false)`

export async function settleSession(client: Client): Promise<void> {
  await client.query(settingsSql, [Object.keys(settings), Object.values(settings)])
}

/** Where names are looked up that stand without a schema. */
export async function guardSearchPath(client: Client): Promise<void> {
  await client.query(searchPathSql)
}
