// What a BI role may read: the mirror, its views and the freshness of both, also of tables that come later, and nothing
// else. Makes no roles.

import pg, { type ClientBase } from 'pg'
import { DatabaseError } from './connection.ts'

export async function grantReading(client: ClientBase, role: string): Promise<void> {
  const name = pg.escapeIdentifier(role)
  const { rows } = await client.query('select 1 from pg_roles where rolname = $1', [role])
  if (rows.length === 0)
    throw new DatabaseError(
      `BI_ROLE names ${role}, which is no role in this Postgres; make it: create role ${name} login`,
    )
  for (const statement of await missingGrants(client, role)) await client.query(statement)
}

/** Only what is missing: a grant rewrites the catalog's row of its table, and fails when a table grows at the same moment. */
async function missingGrants(client: ClientBase, role: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ statement: string }>(
    `with shown as (select oid, nspname from pg_namespace where nspname in ('mirror', 'bi', 'tidemark'))
     select format('grant usage on schema %I to %I', nspname, $1::text) as statement
     from shown where not has_schema_privilege($1, oid, 'usage')
     union all
     select format('grant select on %I.%I to %I', nspname, relname, $1)
     from pg_class join shown on shown.oid = relnamespace
     where relkind in ('r', 'p', 'v', 'm', 'f') and (nspname <> 'tidemark' or relname = 'freshness')
       and not has_table_privilege($1, pg_class.oid, 'select')
     union all
     select format('alter default privileges in schema %I grant select on tables to %I', nspname, $1)
     from shown
     where nspname <> 'tidemark' and not exists (
       select from pg_default_acl, aclexplode(defaclacl) as given
       where defaclnamespace = shown.oid and defaclobjtype = 'r' and defaclrole = (select oid from pg_roles where rolname = current_user)
         and grantee = (select oid from pg_roles where rolname = $1) and privilege_type = 'SELECT'
     )`,
    [role],
  )
  return rows.map(({ statement }) => statement)
}
