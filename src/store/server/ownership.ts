// Gives what is in schemas to another role. Postgres' own `reassign owned` would take all of a database, and nothing of its first superuser.

import pg from 'pg'
import type { Queryable } from './session.ts'

type Given = {
  readonly schemas: readonly string[]
  /** Objects of other roles stay theirs. */
  readonly from: readonly string[]
  readonly to: string
}

// Indexes, sequences of columns and types go with their tables, and so do the parts of a table, which may lie in another schema. The
// new owner of a table must be allowed to create in its schema, so schemas come first.
const statementsSql = `
  with mine as (select oid from pg_roles where rolname = any ($2) and rolname <> $3),
  given as (select oid, nspname, nspowner from pg_namespace where nspname = any ($1))
  select format('alter schema %I owner to %I', nspname, $3::text) as statement from given where nspowner in (select oid from mine)
  union all
  select format('alter %s %s owner to %I',
    case pg_class.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end,
    pg_class.oid::regclass, $3)
  from pg_class left join pg_inherits on inhrelid = pg_class.oid left join pg_class as whole on whole.oid = inhparent
  where pg_class.relowner in (select oid from mine) and pg_class.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
    and coalesce(whole.relnamespace, pg_class.relnamespace) in (select oid from given)
    and not exists (
      select from pg_depend
      where classid = 'pg_class'::regclass and objid = pg_class.oid and deptype in ('a', 'i', 'e')
        and (pg_class.relkind = 'S' or deptype = 'e')
    )
  union all
  select format('alter routine %s owner to %I', oid::regprocedure, $3) from pg_proc
  where proowner in (select oid from mine) and pronamespace in (select oid from given)
    and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = pg_proc.oid and deptype = 'e')
  union all
  select format('alter type %s owner to %I', oid::regtype, $3) from pg_type
  where typowner in (select oid from mine) and typnamespace in (select oid from given) and typtype in ('e', 'd')`

/** What is still to be given. */
export async function ownershipStatements(client: Queryable, given: Given): Promise<readonly string[]> {
  const { schemas, from, to } = given
  const { rows } = await client.query<{ statement: string }>(statementsSql, [schemas, from, to])
  return rows.map(({ statement }) => statement)
}

/** All or nothing: the statements of one query are one transaction. Another program may do the same at the same moment. */
export async function giveOwnership(client: Queryable, given: Given, tries = mostTries): Promise<void> {
  const statements = await ownershipStatements(client, given)
  if (statements.length === 0) return
  await client.query(statements.join(';\n')).catch(async (error) => {
    if (tries <= 1 || !hasMetAnother(error)) throw error
    await giveOwnership(client, given, tries - 1)
  })
}

const mostTries = 5

const hasMetAnother = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && (error.code === '40P01' || /^tuple concurrently/.test(error.message))
