// The BI role: what it may read, and how much of the server it may use. Each limit is set once, where this role may set it, so that whoever
// takes one back is not overruled.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { schemasOf } from '../../streams/names.ts'
import { DatabaseError } from '../../util/errors.ts'
import type { Queryable } from '../server/session.ts'
import { grantOnce, schemasToGrant } from './bi-grants.ts'

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
  await limitReading(client, 'BI_ROLE', { role, sourceTimezone }, log)
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
      ...{ role, withState: false },
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
      await limitReading(client, 'BI_ROLE', { role, sourceTimezone }, log)
  }
  return lacking
}

async function limitReading(
  client: ClientBase,
  variable: string,
  { role, sourceTimezone }: { readonly role: string; readonly sourceTimezone: string },
  log: Logger,
): Promise<void> {
  const lacking = await limitRole(client, role, sourceTimezone)
  if (lacking.length > 0)
    log.warn(
      { statements: lacking.map(({ statement }) => statement) },
      `${variable} ${lacking.map(({ risk }) => risk).join(', ')}. Have an administrator of Postgres run the statements.`,
    )
}

/** The same for the views over several sources: nothing but these. */
export async function grantUnions(
  client: ClientBase,
  {
    fleetBiRole: role,
    sourceTimezone,
  }: { readonly fleetBiRole: string | null; readonly sourceTimezone: string },
  schemas: readonly string[],
  log: Logger,
): Promise<void> {
  if (role === null) return
  await expectRole(client, role, 'FLEET_BI_ROLE')
  await grantOnce(client, { role, schemas, possible: schemas, withState: false })
  await limitReading(client, 'FLEET_BI_ROLE', { role, sourceTimezone }, log)
}

const isThere = async (client: Queryable, role: string): Promise<boolean> =>
  (await client.query('select from pg_roles where rolname = $1', [role])).rowCount === 1

export async function expectRole(client: Queryable, role: string, variable = 'BI_ROLE'): Promise<void> {
  if (!(await isThere(client, role)))
    throw new DatabaseError(
      `${variable} is ${role}, but this Postgres has no such role. Create it: create role ${pg.escapeIdentifier(role)} login`,
    )
}

/** A limit that a role has not: what it can do, and what sets the limit. */
export type Lacking = { readonly name: string; readonly risk: string; readonly statement: string }

const settings = [
  // An open transaction keeps its tables locked, so that no column can be added.
  [
    'idle_in_transaction_session_timeout',
    '1min',
    'may leave transactions open, which keeps new columns from being added',
  ],
  ['statement_timeout', '1h', 'may run queries without end'],
  ['temp_file_limit', '5GB', 'may fill the disk with what its queries sort'],
] as const

/** Days begin at midnight there. Where nobody named a zone, that of the server stays. */
const settingsFor = (zone: string): readonly (readonly [string, string, string])[] =>
  zone === 'UTC'
    ? settings
    : [...settings, ['timezone', zone, `takes days from the time zone of the server instead of ${zone}`]]

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
export async function lackingLimits(
  client: Queryable,
  role: string,
  zone: string,
): Promise<readonly Lacking[]> {
  const [names, values, risks] = [0, 1, 2].map((part) => settingsFor(zone).map((setting) => setting[part]))
  const { rows } = await client.query<Lacking>(
    `select * from (${lackingSql}) as lacking
     where name = any ($2) or not exists (select from tidemark.role_limit as made where made.role = $1 and made.name = lacking.name)`,
    [role, names, values, risks],
  )
  return rows
}

/** Sets what this role may set. Returns what is left. */
async function limitRole(client: ClientBase, role: string, zone: string): Promise<readonly Lacking[]> {
  const lacking = await lackingLimits(client, role, zone)
  for (const { statement } of lacking)
    await client.query(statement).catch((error) => {
      if (!(error instanceof pg.DatabaseError && error.code === '42501')) throw error
    })
  // Where nothing is allowed, Postgres only says so in a notice. A limit that somebody else has set may be taken back by them, too.
  const left = await lackingLimits(client, role, zone)
  const names = [...settingsFor(zone).map(([name]) => name), ...limitNames]
  const there = names.filter((name) => !left.some((one) => one.name === name))
  await client.query(
    `insert into tidemark.role_limit as made (role, name, value)
     select $1, name, case name when 'timezone' then $3 end from unnest($2::text[]) as name
     on conflict (role, name) do update set value = excluded.value where made.value is distinct from excluded.value`,
    [role, there, zone],
  )
  return left
}
