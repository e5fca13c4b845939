// Brings a database to the schema of this program: the fixed tables, the tables of the changes streams, and what BI may
// read. Any number of programs may do it at once; a failure must stop the program.

import { fileURLToPath } from 'node:url'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import pg, { type ClientBase, type PoolClient } from 'pg'
import type { Logger } from '../../log.ts'
import type { Stream } from '../../streams/catalog.ts'
import { DatabaseError, messageOf } from '../../util/errors.ts'
import type { Database } from '../server/connect.ts'
import { inTransaction, limitLockWaits, retryOnLockTimeout } from '../server/session.ts'
import { closeToEverybody } from './closed-rights.ts'
import { createTable } from './create-table.ts'
import { isLocallyChangedSql, watchTable } from './watch-table.ts'

// What a BI role may read: the mirror, its views and the freshness of both, also of tables that come later, and nothing
// else. Makes no roles.
async function grantReading(client: ClientBase, role: string, log: Logger): Promise<void> {
  const name = pg.escapeIdentifier(role)
  const { rows } = await client.query('select 1 from pg_roles where rolname = $1', [role])
  if (rows.length === 0)
    throw new DatabaseError(
      `BI_ROLE is ${role}, but this Postgres has no such role. Create it: create role ${name} login`,
    )
  for (const statement of await missingGrants(client, role)) await client.query(statement)
  await limitIdleTransactions(client, role, log)
}

/**
 * Limits how long a transaction of the BI role may be left open: it keeps its tables locked, so that no column can be added. A limit
 * that the role has already stays.
 */
async function limitIdleTransactions(client: ClientBase, role: string, log: Logger): Promise<void> {
  const { rows } = await client.query<{ database: string; isLimited: boolean }>(
    `select current_database() as database, exists (
       select from pg_db_role_setting cross join unnest(setconfig) as setting
       where setrole = (select oid from pg_roles where rolname = $1)
         and setdatabase in (0, (select oid from pg_database where datname = current_database()))
         and setting like 'idle\\_in\\_transaction\\_session\\_timeout=%'
     ) as "isLimited"`,
    [role],
  )
  const [found] = rows
  if (!found || found.isLimited) return
  const names = [role, found.database].map((name) => pg.escapeIdentifier(name))
  const statement = `alter role ${names.join(' in database ')} set idle_in_transaction_session_timeout = '1min'`
  try {
    await client.query(statement)
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.code === '42501')) throw error
    log.warn(
      { statement },
      'BI_ROLE may leave transactions open, which keeps new columns from being added. Have an administrator run the statement.',
    )
  }
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

type Options = {
  readonly database: Pick<Database, 'pool'>
  readonly streams: readonly Stream[]
  readonly biRole: string | null
  readonly log: Logger
}

const migrationsFolder = fileURLToPath(new URL('../../../migrations', import.meta.url))
const history = { migrationsSchema: 'tidemark', migrationsTable: 'migration' }

/** Returns how many migrations were new to the database. */
export async function migrateDatabase({ database, streams, biRole, log }: Options): Promise<number> {
  const [client, guard] = [await database.pool.connect(), await database.pool.connect()]
  try {
    await keepOthersFromMigrating(guard)
    const applied = await applyMigrations(client)
    await closeToEverybody(client)
    await client.query(
      'insert into tidemark.stream (name) select unnest($1::text[]) on conflict do nothing',
      [streams.map((stream) => stream.name)],
    )
    for (const stream of streams)
      if (stream.kind === 'changes')
        await createTable(client, stream, { field: stream.keyFields[0] ?? '', type: 'bigint' }, log)
    await watchTables(client)
    if (biRole !== null) await grantReading(client, biRole, log)
    if (applied > 0) log.info({ applied }, 'The database was migrated to the tables of this version.')
    return applied
  } finally {
    // Closing the connection gives the lock back, whatever state it is in.
    guard.release(true)
    client.release(true)
  }
}

// What Postgres says when another program makes the same schema or table at the same moment.
const madeByAnother = ['42P06', '42P07', '23505']

/**
 * Lets no other program migrate until the connection is closed, by a lock on the table of applied migrations: its rows can be read and
 * written meanwhile, and nobody else may lock it.
 */
async function keepOthersFromMigrating(guard: ClientBase): Promise<void> {
  const { migrationsSchema: schema, migrationsTable: table } = history
  const isThere = async () =>
    (await guard.query('select where to_regclass($1) is not null', [`${schema}.${table}`])).rowCount === 1
  while (!(await isThere()))
    // Makes the table just as the migrator would.
    await guard
      .query(
        `create schema if not exists ${schema};
         create table if not exists ${schema}.${table} (id serial primary key, hash text not null, created_at bigint)`,
      )
      .catch((error) => {
        if (!madeByAnother.includes((error as pg.DatabaseError).code ?? '')) throw error
      })
  await guard.query(
    `begin; set local idle_in_transaction_session_timeout = 0;
     lock table ${schema}.${table} in share update exclusive mode`,
  )
}

/** Begins to watch tables that are not watched yet: an earlier version may have made them, or a run when the first records came. */
async function watchTables(client: ClientBase): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select name from tidemark.stream as known where ${isLocallyChangedSql}`,
  )
  for (const stream of rows)
    await retryOnLockTimeout(client, `mirror.${stream.name}`, 'watch', () =>
      inTransaction(client, async () => {
        await limitLockWaits(client)
        await watchTable(client, stream)
      }),
    )
}

/** Changes nothing; rejects unless the database has the schema of this program. */
export async function expectMigrated({ pool, address }: Pick<Database, 'pool' | 'address'>): Promise<void> {
  const client = await pool.connect()
  try {
    const { known, before } = await compareMigrations(client)
    const due = known.length - before.length
    if (before.length === 0)
      throw new DatabaseError(
        `The database ${address} holds no mirror yet. \`tidemark sync\` makes one; \`tidemark migrate\` makes its empty tables.`,
      )
    if (due > 0)
      throw new DatabaseError(
        `The tables in ${address} were made by an older version of Tidemark: ${due === 1 ? 'one migration is' : `${due} migrations are`} due. Run \`tidemark migrate\`; workers that start do so too.`,
      )
  } finally {
    client.release()
  }
}

async function compareMigrations(client: ClientBase) {
  const known = readMigrationFiles({ migrationsFolder })
  const before = await appliedMigrations(client)
  const newest = Math.max(...known.map((migration) => migration.folderMillis))
  if (before.some((at) => at > newest))
    throw new DatabaseError(
      'A newer Tidemark than this one has migrated the database. Run that version, or a newer one.',
    )
  return { known, before }
}

async function applyMigrations(client: PoolClient): Promise<number> {
  const { known, before } = await compareMigrations(client)
  try {
    await migrate(drizzle({ client }), { migrationsFolder, ...history })
  } catch (cause) {
    // The cause inside says what Postgres said.
    const reason = messageOf(cause instanceof Error ? (cause.cause ?? cause) : cause)
    throw new DatabaseError(`The database cannot be migrated: ${reason}. Nothing was changed.`, { cause })
  }
  return known.length - before.length
}

async function appliedMigrations(client: ClientBase): Promise<readonly number[]> {
  const { rows: tables } = await client.query(
    `select 1 from pg_tables where schemaname = $1 and tablename = $2`,
    [history.migrationsSchema, history.migrationsTable],
  )
  if (tables.length === 0) return []
  const { rows } = await client.query<{ created_at: string }>('select created_at from tidemark.migration')
  return rows.map((row) => Number(row.created_at))
}
