// The BI role: what it may read (the mirror, its views and how fresh they are, also of tables that come later), and how much of the server it
// may use. Each limit is set once, where this role may set it, so that whoever takes one back is not overruled.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { schemasOf } from '../../streams/names.ts'
import { DatabaseError } from '../../util/errors.ts'
import { arraysOf, queryAny } from '../server/query.ts'
import { hasCode, inTransaction, type Queryable, runFound } from '../server/session.ts'
import { isOfSourceSql } from './source-schemas.ts'

export type BiRole = {
  /** Whose tables and views it reads. */
  readonly source?: string
  /** Null: there is none. */
  readonly biRole: string | null
  readonly biSchemas?: readonly string[]
  /** In which its sessions think, unless somebody sets another for it. */
  readonly sourceTimezone?: string
}

/** Makes no roles. */
export async function grantReading(client: ClientBase, given: BiRole, log: Logger): Promise<void> {
  const { source = '', biRole: role, sourceTimezone = 'UTC' } = given
  if (role === null) return
  await expectRole(client, role)
  await grantOnce(client, { ...schemasFor(given), role, withState: source === '' })
  await limitReading(client, { variable: 'BI_ROLE', role, sourceTimezone }, log)
}

function schemasFor({ source = '', biSchemas = ['bi', 'mirror'] }: BiRole) {
  const { views, tables } = schemasOf(source)
  return {
    schemas: biSchemas.map((schema) => (schema === 'bi' ? views : tables)),
    possible: [views, tables],
  }
}

/** Those of these named sources in which their role has yet to be given something. The limits of each role are set once for the others. */
export async function lackingGrants(
  client: ClientBase,
  sources: readonly (BiRole & { readonly source: string })[],
  log: Logger,
): Promise<readonly string[]> {
  const lacking: string[] = []
  for (const [role, those] of Map.groupBy(sources, ({ biRole }) => biRole)) {
    if (role === null) continue
    const all = those.map(schemasFor)
    const reader = {
      role,
      withState: false,
      schemas: all.flatMap(({ schemas }) => schemas),
      possible: all.flatMap(({ possible }) => possible),
    }
    const open = (await isThere(client, role))
      ? await schemasToGrant(client, reader)
      : new Set(reader.possible)
    const isOpen = (one: BiRole) => schemasFor(one).possible.some((schema) => open.has(schema))
    lacking.push(...those.filter(isOpen).map(({ source }) => source))
    const zones = those.filter((one) => !isOpen(one)).map(({ sourceTimezone = 'UTC' }) => sourceTimezone)
    for (const sourceTimezone of new Set(zones))
      await limitReading(client, { variable: 'BI_ROLE', role, sourceTimezone }, log)
  }
  return lacking
}

/** `variable` names the role. */
type Limited = { readonly variable: string; readonly role: string; readonly sourceTimezone: string }

async function limitReading(client: ClientBase, limited: Limited, log: Logger): Promise<void> {
  const lacking = await limitRole(client, limited.role, limited.sourceTimezone)
  const risks = lacking.map(({ risk }) => risk).join(', ')
  if (lacking.length > 0)
    log.warn(
      { statements: lacking.map(({ statement }) => statement) },
      `${limited.variable} ${risks}. Have an administrator of Postgres run the statements.`,
    )
}

/** The same for the views over several sources: nothing but these. */
export async function grantUnions(
  client: ClientBase,
  fleet: { readonly fleetBiRole: string | null; readonly sourceTimezone: string },
  schemas: readonly string[],
  log: Logger,
): Promise<void> {
  const { fleetBiRole: role, sourceTimezone } = fleet
  if (role === null) return
  await expectRole(client, role, 'FLEET_BI_ROLE')
  await grantOnce(client, { role, schemas, possible: schemas, withState: false })
  await limitReading(client, { variable: 'FLEET_BI_ROLE', role, sourceTimezone }, log)
}

const isThere = (client: Queryable, role: string): Promise<boolean> =>
  queryAny(client, 'select from pg_roles where rolname = $1', [role])

export async function expectRole(client: Queryable, role: string, variable = 'BI_ROLE'): Promise<void> {
  if (!(await isThere(client, role)))
    throw new DatabaseError(
      `${variable} is ${role}, but this Postgres has no such role. Create it: create role ${pg.escapeIdentifier(role)} login`,
    )
}

/** A limit that a role has not: what it can do, and what sets the limit. */
export type Lacking = { readonly name: string; readonly risk: string; readonly statement: string }

const setting = (name: string, value: string, risk: string) => ({ name, value, risk })
const settings = [
  // An open transaction keeps its tables locked, so that no column can be added.
  setting(
    'idle_in_transaction_session_timeout',
    '1min',
    'may leave transactions open, which keeps new columns from being added',
  ),
  setting('statement_timeout', '1h', 'may run queries without end'),
  setting('temp_file_limit', '5GB', 'may fill the disk with what its queries sort'),
]

/** Days begin at midnight there. Where nobody named a zone, that of the server stays. */
function settingsFor(zone: string) {
  if (zone === 'UTC') return settings
  const risk = `takes days from the time zone of the server instead of ${zone}`
  return [...settings, setting('timezone', zone, risk)]
}

const limitNames = ['connection limit', 'temporary', 'create', 'execute']

/** In SQL, of the role $1: those of Postgres’ own limits that neither it nor everybody in this database has. What `public` may do, it may. */
const lackingSql = `
  with known as (select oid, rolname, rolconnlimit from pg_roles where rolname = $1),
  open_to_all (name, acl) as (
    select 'temporary', coalesce(datacl, acldefault('d', datdba)) from pg_database where datname = current_database()
    union all
    select 'create', coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace where nspname = 'public'
    union all
    select 'execute', coalesce(proacl, acldefault('f', proowner)) from pg_proc where oid = 'pg_catalog.lo_from_bytea(oid, bytea)'::regprocedure
  )
  select wanted.name, risk, format('alter role %I in database %I set %s = %L', $1::text, current_database(), wanted.name, wanted.value) as statement
  from known, unnest($2::text[], $3::text[], $4::text[]) as wanted (name, value, risk)
  left join tidemark.role_limit as made on made.role = $1 and made.name = wanted.name
  cross join lateral (
    select max(split_part(setting, '=', 2)) as now from pg_db_role_setting cross join unnest(setconfig) as setting
    where (setrole = known.oid or (setrole = 0 and wanted.name = 'timezone'))
      and setdatabase in (0, (select oid from pg_database where datname = current_database()))
      and lower(split_part(setting, '=', 1)) = wanted.name
  ) as found
  -- A zone that Tidemark set, and nobody else since then, follows the settings.
  where case when made.role is null then found.now is null else made.value <> wanted.value and found.now = made.value end
  union all
  select 'connection limit', 'may take all connections',
    format('alter role %I connection limit %s', $1, greatest(10, current_setting('max_connections')::int / 4))
  from known where rolconnlimit = -1
  union all
  select name, risk, statement from open_to_all join (values
    ('temporary', 'may fill the disk with temporary tables', format(
      'grant temporary on database %1$I to %2$I, %3$I; revoke temporary on database %1$I from public', current_database(), current_user,
      (select rolname from pg_namespace join pg_roles on pg_roles.oid = nspowner where nspname = 'mirror'))),
    ('create', 'may make tables in the schema public', 'revoke create on schema public from public'),
    ('execute', 'may fill the disk with large objects',
      'revoke execute on function pg_catalog.lo_creat(integer), pg_catalog.lo_create(oid), pg_catalog.lo_from_bytea(oid, bytea) from public')
  ) as told (name, risk, statement) using (name)
  where exists (select from aclexplode(acl) where grantee = 0 and lower(privilege_type) = name)`

/** The limits that the role lacks and that were never set. */
export async function lackingLimits(client: Queryable, role: string, zone: string) {
  const { rows } = await client.query<Lacking>(
    `select * from (${lackingSql}) as lacking
     where name = any ($2) or not exists (select from tidemark.role_limit as made where made.role = $1 and made.name = lacking.name)`,
    [role, ...arraysOf(settingsFor(zone), 'name', 'value', 'risk')],
  )
  return rows
}

/** Sets what this role may set. Returns what is left. */
async function limitRole(client: ClientBase, role: string, zone: string): Promise<readonly Lacking[]> {
  const lacking = await lackingLimits(client, role, zone)
  for (const { statement } of lacking)
    await client.query(statement).catch((error) => {
      if (!hasCode(error, /^42501$/)) throw error
    })
  // Where nothing is allowed, Postgres only says so in a notice. A limit that somebody else has set may be taken back by them, too.
  const left = await lackingLimits(client, role, zone)
  const names = [...settingsFor(zone).map(({ name }) => name), ...limitNames]
  const there = names.filter((name) => !left.some((one) => one.name === name))
  await client.query(
    `insert into tidemark.role_limit as made (role, name, value)
     select $1, name, case name when 'timezone' then $3 end from unnest($2::text[]) as name
     on conflict (role, name) do update set value = excluded.value where made.value is distinct from excluded.value`,
    [role, there, zone],
  )
  return left
}

// Each right is given once: whoever takes one back, or narrows it to some columns, is not overruled.
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

async function grantOnce(client: ClientBase, reader: Reader): Promise<void> {
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
    [role, ...arraysOf(wanted, 'object', 'privilege'), wanted.map((one) => one.isHeld || !one.isKnown)],
  )
}

/** Of these schemas those in which `grantOnce` would give or take something. What else it would note is noted. The role must be there. */
async function schemasToGrant(client: ClientBase, reader: Reader): Promise<ReadonlySet<string>> {
  const unnoted = (await readWanted(client, reader)).filter(({ isNoted }) => !isNoted)
  const [wanted, others] = [unnoted.filter(isMissing), unnoted.filter((one) => !isMissing(one))]
  if (others.length > 0) await note(client, reader, others)
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
const takeBack = (client: ClientBase, reader: Reader): Promise<void> =>
  runFound(
    client,
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
async function readWanted(client: ClientBase, { role, schemas, withState }: Reader) {
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
