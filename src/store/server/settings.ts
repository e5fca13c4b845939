// The settings of Tidemark's sessions of Postgres. Somebody may have set other values for the server, a database or a role. Those are meant
// for people's queries, and what Tidemark writes and reads must not depend on them.

import type { Queryable } from './session.ts'

const settings: Readonly<Record<string, string>> = {
  // Limits would end every reconcile of a large table.
  statement_timeout: '0',
  transaction_timeout: '0',
  lock_timeout: '0',
  // The driver cannot read times in another style.
  datestyle: 'ISO, MDY',
  // With fewer digits Postgres would round seconds and counts.
  extra_float_digits: '1',
  // A page has to see what the page before it has committed, though its own transaction began earlier.
  default_transaction_isolation: 'read committed',
  array_nulls: 'on',
  quote_all_identifiers: 'off',
  // To compile one of these statements takes longer than to run it.
  jit: 'off',
}

/** Sets those that this version of Postgres knows. */
const settingsSql = `
  select pg_catalog.set_config(name, value, false) from unnest($1::text[], $2::text[]) as wanted (name, value)
  where pg_catalog.current_setting(name, true) is not null`

/** Leaves out schemas in which others may create: nothing that they put there is taken for a function of Postgres itself. */
const searchPathSql = `
  select pg_catalog.set_config('search_path', pg_catalog.array_to_string(array(
    select pg_catalog.quote_ident(nspname)
    from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as path (name, place)
    join pg_catalog.pg_namespace on nspname = name
    where name <> 'pg_catalog' and not exists (
      select from pg_catalog.aclexplode(coalesce(nspacl, pg_catalog.acldefault('n', nspowner)))
      left join pg_catalog.pg_roles on pg_roles.oid = grantee
      where privilege_type = 'CREATE' and not coalesce(rolsuper or rolname in (current_user, 'pg_database_owner'), false)
    ) order by place
  ), ', '), false)`

/** Also settles in which schemas names without a schema are looked up. */
export async function settleSession(client: Queryable): Promise<void> {
  await client.query(settingsSql, [Object.keys(settings), Object.values(settings)])
  await client.query(searchPathSql)
}
