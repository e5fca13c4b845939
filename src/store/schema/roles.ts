// Two roles instead of one: the owner of Tidemark's own tables, as whom only `tidemark migrate` runs, and that of the workers, which owns
// the mirror and its views (it adds columns, months and streams as they come) and may read and write the state, but not change what it is.

import pg from 'pg'
import { DatabaseError } from '../../util/errors.ts'
import { scramVerifier } from '../../util/scram.ts'
import { giveOwnership } from '../server/ownership.ts'
import { queryAny, queryRow } from '../server/query.ts'
import { type Queryable, runFound } from '../server/session.ts'
import { expectRole } from './bi-role.ts'

const ofWorkers = ['mirror', 'bi', 'bullmq']

/** What workers need in schema `tidemark`, where they have it not yet. */
const grantsSql = `
  with own as (
    select oid, relname from pg_class
    where relnamespace = 'tidemark'::regnamespace and relkind in ('r', 'p', 'v') and pg_has_role(relowner, 'usage')
      and not exists (select from pg_inherits where inhrelid = pg_class.oid)
  ), wanted (name, privilege) as (
    select relname, unnest(case relname
      -- Nobody changes a line of it.
      when 'action_log' then array['select', 'insert', 'delete']
      -- Workers read which migrations are applied, and lock the table meanwhile, for which Postgres asks this right.
      when 'migration' then array['select', 'update']
      else array['select', 'insert', 'update', 'delete']
    end) from own
  )
  select format('grant %s on tidemark.%I to %I', string_agg(privilege, ', '), name, $1::text) as statement
  from wanted join own on relname = name
  where not has_table_privilege($1, own.oid, privilege) group by name
  union all
  -- A run has its number before it has a line.
  select format('grant usage on sequence %s to %I', numbers.oid::regclass, $1)
  from to_regclass(pg_get_serial_sequence('tidemark.run', 'id')) as numbers (oid) join pg_class using (oid)
  where pg_has_role(relowner, 'usage') and not has_sequence_privilege($1, oid, 'usage')
  union all
  select format('grant execute on function %s to %I', oid::regprocedure, $1) from pg_proc
  where pronamespace = 'tidemark'::regnamespace and pg_has_role(proowner, 'usage') and not has_function_privilege($1, oid, 'execute')`

type Pair = { readonly owner: string; readonly worker: string }

/** One role may have made everything before there were two, whichever it was. */
async function shareOut(client: Queryable, { owner, worker }: Pair): Promise<void> {
  const { rows } = await client.query<{ earlier: string; isMember: boolean; advice: string }>(
    `select rolname as earlier, pg_has_role(current_user, oid, 'usage') as "isMember", format('grant %I to %I', rolname, current_user) as advice
     from pg_roles where rolname = current_user
       or oid in (select nspowner from pg_namespace where nspname = any ($1))
       or oid in (select relowner from pg_class where relnamespace = to_regnamespace('tidemark'))`,
    [['tidemark', ...ofWorkers]],
  )
  for (const { earlier, isMember, advice } of rows)
    if (!isMember)
      throw new DatabaseError(
        `The role ${earlier} made tables of Tidemark, and this role cannot take them over. Have an administrator run: ${advice}`,
      )
  const from = rows.map(({ earlier }) => earlier)
  await giveOwnership(client, { schemas: ['tidemark'], from, to: owner })
  const role = pg.escapeIdentifier(worker)
  // Months of a history are made here.
  if (await queryAny(client, `select where to_regnamespace('tidemark') is not null`))
    await client.query(
      `grant usage on schema tidemark to ${role} with grant option; grant create on schema tidemark to ${role}`,
    )
  await giveOwnership(client, { schemas: ofWorkers, from, to: worker })
}

/** Before migrating: what the two own, where this session may decide that. Null: there is one role for everything. */
export async function takeOver(client: Queryable, worker: string): Promise<Pair | null> {
  await expectRole(client, worker, 'WORKER_ROLE')
  const found = await queryRow<{ owner: string; isMember: boolean; advice: string }>(
    client,
    `select current_user::text as owner, pg_has_role(current_user, $1, 'member') as "isMember",
       format('grant %I to %I', $1, current_user) as advice`,
    [worker],
  )
  if (!found || found.owner === worker) return null
  if (!found.isMember)
    throw new DatabaseError(
      `The role ${found.owner} cannot give tables to WORKER_ROLE, because it is no member of it. Have an administrator run: ${found.advice}`,
    )
  const pair = { owner: found.owner, worker }
  await shareOut(client, pair)
  return pair
}

/** After migrating: gives the workers' role what it needs. The role of this session owns the tables, or is a member of who does. */
export async function handOver(client: Queryable, worker: string): Promise<void> {
  if ((await takeOver(client, worker)) === null) return
  const role = pg.escapeIdentifier(worker)
  await runFound(
    client,
    `select format('grant connect, temporary on database %I to %I', current_database(), $1::text) as statement`,
    [worker],
  )
  // The workers show these to BI_ROLE.
  await client.query(
    `grant select on tidemark.freshness, tidemark.field, tidemark.label, tidemark.in_doubt to ${role} with grant option;
     grant execute on function tidemark.feed_position, tidemark.is_final, tidemark.not_final_because to ${role} with grant option`,
  )
  await runFound(client, grantsSql, [worker])
  // Where the queue is in Postgres. For the workers to make it they would need the right to make any other, too.
  if (await queryAny(client, `select where to_regnamespace('bullmq') is null`))
    await client.query(`create schema bullmq authorization ${role}`)
  await expectApart(client, worker)
}

/** A superuser, or a member of the owner, could do what the owner can. */
async function expectApart(client: Queryable, worker: string): Promise<void> {
  const found = await queryRow<{ owner: string }>(
    client,
    `select distinct pg_get_userbyid(owner) as owner from (
       select relowner from pg_class
       where relnamespace = 'tidemark'::regnamespace and not exists (select from pg_inherits where inhrelid = pg_class.oid)
       union select proowner from pg_proc where pronamespace = 'tidemark'::regnamespace
       union select nspowner from pg_namespace where nspname = 'tidemark'
     ) as owned (owner) where pg_has_role($1, owner, 'member')`,
    [worker],
  )
  if (found)
    throw new DatabaseError(
      `WORKER_ROLE is ${worker}, which may act as ${found.owner}, the owner of the tables of Tidemark: it could change the record of who did what. Choose a role that is no superuser and no member of ${found.owner}.`,
    )
}

export type Roles = {
  readonly owner: string
  readonly worker: string
  readonly workerPassword: string | null
  readonly bi: string | null
  readonly biPassword: string | null
}

/** Makes the roles, and gives the owner what a superuser made here before there were any. The session is that of a superuser. */
export async function prepareRoles(
  client: Queryable,
  { owner, worker, workerPassword, bi, biPassword }: Roles,
): Promise<void> {
  const found = await queryRow<{ database: string; isSuperuser: boolean; known: string[] }>(
    client,
    `select current_database() as database,
       (select rolsuper from pg_roles where rolname = current_user) as "isSuperuser",
       array(select rolname::text from pg_roles where rolname = any ($1)) as known`,
    [[owner, worker, bi]],
  )
  if (!found?.isSuperuser)
    throw new DatabaseError(
      'OWNER_ROLE is for a superuser of Postgres, who makes the roles. To migrate as the owner itself, leave it out and set WORKER_ROLE.',
    )
  const make = async (name: string, how: string) => {
    if (!found.known.includes(name)) await client.query(`create role ${pg.escapeIdentifier(name)} ${how}`)
  }
  const keyed = (password: string) => `password ${pg.escapeLiteral(scramVerifier(password))}`
  await make(owner, 'nologin')
  await make(worker, 'login')
  if (bi !== null && biPassword !== null) await make(bi, `login ${keyed(biPassword)}`)
  const [ownerName, workerName, database] = [owner, worker, found.database].map(pg.escapeIdentifier)
  if (workerPassword !== null) await client.query(`alter role ${workerName} ${keyed(workerPassword)}`)
  // Workers end sessions of readers that hold up a new column; to see for how long those last is a right of its own.
  await client.query(
    `grant ${workerName} to ${ownerName}; grant pg_signal_backend, pg_read_all_stats to ${workerName}`,
  )
  await shareOut(client, { owner, worker })
  await client.query(`alter database ${database} owner to ${ownerName}`)
}
