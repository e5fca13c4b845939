// What Postgres gives to everybody by itself and Tidemark takes back: running its functions, and using the types of its tables and views
// (a column of such a type, in anybody's table, keeps a column of the mirror from being changed).

import pg, { type ClientBase } from 'pg'
import { runFound } from '../server/session.ts'

// Only what the role may take back, and only what is open: a revoke rewrites the catalog's row of its function or type.
const openSql = `
  select format('revoke execute on function %s from public', oid::regprocedure) as statement
  from pg_proc where pronamespace = 'tidemark'::regnamespace and pg_has_role(proowner, 'usage')
    and exists (select from aclexplode(coalesce(proacl, acldefault('f', proowner))) where grantee = 0)
  union all
  select format('revoke usage on type %s from public', pg_type.oid::regtype)
  from pg_type join pg_namespace on pg_namespace.oid = typnamespace
  where (nspname in ('tidemark', 'mirror', 'bi') or obj_description(pg_namespace.oid, 'pg_namespace') like 'Tidemark: source %') and typelem = 0 and pg_has_role(typowner, 'usage')
    and exists (select from aclexplode(coalesce(typacl, acldefault('T', typowner))) where grantee = 0)
  union all
  select 'alter default privileges revoke execute on functions from public'
  where not exists (
    select from pg_default_acl
    where defaclrole = (select oid from pg_roles where rolname = current_user) and defaclnamespace = 0 and defaclobjtype = 'f'
      and not exists (select from aclexplode(defaclacl) where grantee = 0)
  )`

/** For a table or view that was just made. Who could not read one of that name before gets no right by default to read this one. */
export const closeNewSql = (table: string): string => `
  revoke usage on type ${table} from public;
  do $close$ declare statement text; begin
    for statement in
      select format('revoke select on %s from %I', ${pg.escapeLiteral(table)}, rolname) from tidemark.granted join pg_roles on rolname = role
      where to_regclass(object) = to_regclass(${pg.escapeLiteral(table)}) and privilege = 'select' and revoked_at is not null
    loop execute statement; end loop;
  end $close$`

/** Functions that the role of this program makes later are closed too; types of tables have no such default. */
export const closeToEverybody = (client: ClientBase): Promise<void> => runFound(client, openSql)
