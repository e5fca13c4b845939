// What Tidemark replaces in a queue that lives in Postgres: its locks, and its events, which nobody reads. BullMQ takes advisory locks
// whose keys follow from the names of queues and jobs, and everybody who can connect can take these too: one of them, held for ever, would
// freeze all workers. Here its functions get the same locks from lines of a table that nobody else may read.

import type { ClientBase } from 'pg'

export const schema = 'bullmq'
/** Postgres looks up its own names first unless the path says otherwise, as here. */
export const searchPath = `${schema},pg_catalog`

const lineOf = (key: string) => `from tidemark_lock as line where line.key = ${key}`
const makeLine = (key: string) =>
  `insert into tidemark_lock as line (key) values (${key}) on conflict do nothing`
/** Two keys of 32 bits, as one. */
const bothKeys = '(($1::bigint << 32) | ($2::bigint & 4294967295))'

const waiting = (name: string, parameters: string, key: string, strength: 'update' | 'share') => `
  create or replace function ${name}(${parameters}) returns void language plpgsql as $$
  begin
    ${makeLine(key)};
    perform ${lineOf(key)} for ${strength};
  end $$`

const locksSql = [
  'create table if not exists tidemark_lock (key bigint primary key)',
  waiting('pg_advisory_xact_lock', 'bigint', '$1', 'update'),
  waiting('pg_advisory_xact_lock', 'integer, integer', bothKeys, 'update'),
  waiting('pg_advisory_xact_lock_shared', 'bigint', '$1', 'share'),
  waiting('pg_advisory_xact_lock_shared', 'integer, integer', bothKeys, 'share'),
  `create or replace function pg_try_advisory_xact_lock(bigint) returns boolean language plpgsql as $$
  begin
    ${makeLine('$1')};
    perform ${lineOf('$1')} for update skip locked;
    return found;
  end $$`,
  // Otherwise each step of a job inserts a row, deletes one later, and wakes whoever listens.
  `create or replace function publish_event(p_queue text, p_event text, p_data jsonb) returns bigint language sql as $$ select 0::bigint $$`,
].join(';\n')

/** After BullMQ has made its functions. Any number of workers may do it at once. */
export async function guardLocks(client: ClientBase): Promise<void> {
  await client.query('begin')
  try {
    await client.query(`lock table ${schema}.migration in share update exclusive mode`)
    await client.query(locksSql)
    // Functions look up names as the session did that made them.
    const { rows } = await client.query<{ statement: string }>(
      `select format('alter function %s set search_path = %s', oid::regprocedure, $2::text) as statement
       from pg_proc where pronamespace = $1::regnamespace and prokind = 'f'
         and exists (select from unnest(proconfig) as setting where setting like 'search_path=%' and setting not like '%pg_catalog%')`,
      [schema, searchPath],
    )
    await client.query(rows.map(({ statement }) => statement).join(';\n'))
    await client.query('commit')
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}
