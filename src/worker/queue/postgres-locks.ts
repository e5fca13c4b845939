// What Tidemark replaces in a queue that lives in Postgres: its locks, and its events, which nobody reads. BullMQ takes advisory locks
// whose keys follow from the names of queues and jobs, and everybody who can connect can take these too: one of them, held for ever, would
// freeze all workers. Here its functions get the same locks from lines of a table that nobody else may read.

import type { ClientBase } from 'pg'

const lineOf = (key: string) => `from tidemark_lock as line where line.key = ${key}`
const make = (key: string) => `insert into tidemark_lock as line (key) values (${key}) on conflict do nothing`
/** Two keys of 32 bits, as one. */
const bothKeys = '(($1::bigint << 32) | ($2::bigint & 4294967295))'

const wait = (name: string, parameters: string, key: string, strength: 'update' | 'share') => `
  create or replace function ${name}(${parameters}) returns void language plpgsql as $$
  begin
    ${make(key)};
    perform ${lineOf(key)} for ${strength};
  end $$`

const locksSql = [
  'create table if not exists tidemark_lock (key bigint primary key)',
  wait('pg_advisory_xact_lock', 'bigint', '$1', 'update'),
  wait('pg_advisory_xact_lock', 'integer, integer', bothKeys, 'update'),
  wait('pg_advisory_xact_lock_shared', 'bigint', '$1', 'share'),
  wait('pg_advisory_xact_lock_shared', 'integer, integer', bothKeys, 'share'),
  `create or replace function pg_try_advisory_xact_lock(bigint) returns boolean language plpgsql as $$
  begin
    ${make('$1')};
    perform ${lineOf('$1')} for update skip locked;
    return found;
  end $$`,
  // Otherwise each step of a job inserts a row, deletes one later, and wakes whoever listens.
  `create or replace function publish_event(p_queue text, p_event text, p_data jsonb) returns bigint language sql as $$ select 0::bigint $$`,
].join(';\n')

/** For the sessions of the queue. Postgres looks up its own names first unless the path says otherwise, as here. */
export const searchPath = (schema: string): string => `${schema},pg_catalog`

/** After BullMQ has made its functions. Any number of workers may do it at once. */
export async function guardLocks(client: ClientBase, schema: string): Promise<void> {
  await client.query('begin')
  try {
    await client.query(`lock table ${schema}.migration in share update exclusive mode`)
    await client.query(locksSql)
    // Functions look up names as the session did that made them.
    const { rows } = await client.query<{ statement: string }>(
      `select format('alter function %s set search_path = %s', oid::regprocedure, $2::text) as statement
       from pg_proc where pronamespace = $1::regnamespace and prokind = 'f'
         and exists (select from unnest(proconfig) as setting where setting like 'search_path=%' and setting not like '%pg_catalog%')`,
      [schema, searchPath(schema)],
    )
    await client.query(rows.map(({ statement }) => statement).join(';\n'))
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
