// The rights of a BI role: to read the mirror, its views and how fresh they are, also of tables that come later. Each is given once: whoever
// takes one back, or narrows it to some columns, is not overruled.

import type { ClientBase } from 'pg'
import { inTransaction } from '../server/session.ts'
import { isOfSourceSql } from './source-schemas.ts'

type Reader = {
  readonly role: string
  /** Where it may read. */
  readonly schemas: readonly string[]
  /** Where the settings could let it read. Other rights of the role have nothing to do with them. */
  readonly possible: readonly string[]
  /** Also in schema `tidemark`. */
  readonly withState: boolean
}

/** In schema `tidemark`: the view for reports, and what the dictionary is made of. */
const readable = ['freshness', 'field', 'label', 'in_doubt']
/** Functions there that it may call. */
const callable = ['feed_position', 'is_final', 'not_final_because']

export async function grantOnce(client: ClientBase, reader: Reader): Promise<void> {
  await inTransaction(client, async () => {
    await forgetFormerRole(client, reader)
    await takeBack(client, reader)
    const wanted = await readWanted(client, reader)
    for (const { statement } of wanted.filter(isMissing)) await client.query(statement)
    await note(client, reader, wanted)
  })
}

async function note(client: ClientBase, { role }: Reader, wanted: readonly Wanted[]): Promise<void> {
  await client.query(
    `insert into tidemark.granted as known (role, role_id, object, privilege, revoked_at)
     select rolname, pg_roles.oid, object, privilege, case when not is_held then now() end
     from pg_roles, unnest($2::text[], $3::text[], $4::boolean[]) as found (object, privilege, is_held) where rolname = $1
     on conflict (role, object, privilege) do update set revoked_at = excluded.revoked_at
     where (known.revoked_at is null) <> (excluded.revoked_at is null)`,
    [
      role,
      wanted.map(({ object }) => object),
      wanted.map(({ privilege }) => privilege),
      wanted.map(({ isKnown, isHeld }) => isHeld || !isKnown),
    ],
  )
}

/** Of these schemas those in which `grantOnce` would give or take something. What else it would note is noted. The role must be there. */
export async function schemasToGrant(client: ClientBase, reader: Reader): Promise<ReadonlySet<string>> {
  const unnoted = (await readWanted(client, reader)).filter(({ isNoted }) => !isNoted)
  const wanted = unnoted.filter(isMissing)
  if (unnoted.length > wanted.length)
    await note(
      client,
      reader,
      unnoted.filter((one) => !isMissing(one)),
    )
  const { rows } = await client.query<{ schema: string }>(
    `select distinct ${schemaOfGrantSql} as schema from tidemark.granted
     where role = $1 and (${schemaOfGrantSql} = any ($2) or exists (select from pg_roles where ${isFormerRoleSql}))`,
    [reader.role, dropped(reader)],
  )
  return new Set([...wanted, ...rows].map(({ schema }) => schema))
}

/** In SQL, of a line of tidemark.granted. */
const schemaOfGrantSql = `trim('"' from split_part(object, '.', 1))`

/** In SQL, of a line of tidemark.granted and one of pg_roles. */
const isFormerRoleSql = `rolname = role and role_id <> oid and not exists (
       select from pg_namespace, aclexplode(nspacl)
       where (nspname in ('bi', 'mirror', 'tidemark') or ${isOfSourceSql}) and grantee = pg_roles.oid
     )`

const dropped = ({ schemas, possible }: Reader): readonly string[] =>
  possible.filter((schema) => !schemas.includes(schema))

/** A role that was dropped has lost everything; one of another cluster, which a restore brought along, has it under another number. */
const forgetFormerRole = (client: ClientBase, { role }: Reader) =>
  client.query(`delete from tidemark.granted using pg_roles where role = $1 and ${isFormerRoleSql}`, [role])

/** In schemas that the settings name no more. What somebody else gave there stays. */
async function takeBack(client: ClientBase, reader: Reader): Promise<void> {
  const { rows } = await client.query<{ statement: string | null }>(
    `with former as (
       delete from tidemark.granted where role = $1 and ${schemaOfGrantSql} = any ($2)
       returning object, privilege, replace(privilege, 'select by default of ', '') as creator, revoked_at is null as is_held
     )
     select case
       when privilege = 'usage' then format('revoke usage on schema %s from %I', object, $1)
       when privilege = 'select' and to_regclass(object) is not null then format('revoke select on %s from %I', object, $1)
       when exists (select from pg_roles where rolname = creator and pg_has_role(oid, 'usage'))
       then format('alter default privileges for role %I in schema %s revoke select on tables from %I', creator, object, $1)
     end as statement
     from former where is_held`,
    [reader.role, dropped(reader)],
  )
  for (const { statement } of rows) if (statement !== null) await client.query(statement)
}

type Wanted = {
  readonly schema: string
  readonly object: string
  readonly privilege: string
  readonly isHeld: boolean
  readonly isKnown: boolean
  /** As it is. */
  readonly isNoted: boolean
  readonly statement: string
}

const isMissing = ({ isKnown, isHeld }: Wanted): boolean => !isKnown && !isHeld

/** Leaves out tables and views of others, of which the role of this session cannot give anything. */
async function readWanted(
  client: ClientBase,
  { role, schemas, withState }: Reader,
): Promise<readonly Wanted[]> {
  const { rows } = await client.query<Wanted>(
    `with shown as (select oid, nspname from pg_namespace where nspname = any ($2) or (nspname = 'tidemark' and $5)),
     wanted (schema, object, privilege, "isHeld", statement) as (
       select nspname::text, nspname::text, 'usage', has_schema_privilege($1, oid, 'usage'), format('grant usage on schema %I to %I', nspname, $1::text)
       from shown
       union all
       select nspname, format('%I.%I', nspname, relname), 'select', has_table_privilege($1, pg_class.oid, 'select'),
         format('grant select on %I.%I to %I', nspname, relname, $1)
       from pg_class join shown on shown.oid = relnamespace
       where relkind in ('r', 'p', 'v', 'm', 'f') and (nspname <> 'tidemark' or relname = any ($3))
         and has_table_privilege(pg_class.oid, 'select with grant option')
       union all
       select 'tidemark', oid::regprocedure::text, 'execute', has_function_privilege($1, oid, 'execute'),
         format('grant execute on function %s to %I', oid::regprocedure, $1)
       from pg_proc where $5 and pronamespace = 'tidemark'::regnamespace and proname = any ($4)
         and has_function_privilege(oid, 'execute with grant option')
       union all
       select nspname, nspname, 'select by default of ' || current_user, exists (
           select from pg_default_acl, aclexplode(defaclacl)
           where defaclnamespace = shown.oid and defaclobjtype = 'r' and pg_get_userbyid(defaclrole) = current_user
             and pg_get_userbyid(grantee) = $1 and privilege_type = 'SELECT'
         ), format('alter default privileges in schema %I grant select on tables to %I', nspname, $1)
       from shown where nspname <> 'tidemark'
     )
     select wanted.*, known.role is not null as "isKnown", coalesce((known.revoked_at is null) = "isHeld", false) and known.role is not null as "isNoted"
     from wanted left join tidemark.granted as known on known.role = $1 and (known.object, known.privilege) = (wanted.object, wanted.privilege)`,
    [role, schemas, readable, callable, withState],
  )
  return rows
}
