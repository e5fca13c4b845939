// Brings a database to the schema of this program: the fixed tables, the tables of the changes streams, and what BI may
// read. Any number of programs may do it at once; a failure must stop the program.

import { fileURLToPath } from 'node:url'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import type { PoolClient } from 'pg'
import type { Logger } from '../log.ts'
import type { Stream } from '../streams.ts'
import { DatabaseError } from './connection.ts'
import type { Database } from './database.ts'
import { lockKeys } from './lock-keys.ts'
import { grantReading } from './readers.ts'
import { createTable } from './table-creation.ts'

type Options = {
  readonly database: Pick<Database, 'pool'>
  readonly streams: readonly Stream[]
  readonly biRole: string | null
  readonly log: Logger
}

const migrationsFolder = fileURLToPath(new URL('../../migrations', import.meta.url))
const history = { migrationsSchema: 'tidemark', migrationsTable: 'migration' }

/** Returns how many migrations were new to the database. */
export async function migrateDatabase({ database, streams, biRole, log }: Options): Promise<number> {
  const client = await database.pool.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [lockKeys.migration])
    const applied = await applyMigrations(client)
    await client.query(
      'insert into tidemark.stream (name) select unnest($1::text[]) on conflict do nothing',
      [streams.map((stream) => stream.name)],
    )
    for (const stream of streams)
      if (stream.kind === 'changes')
        await createTable(client, stream, { field: stream.keyFields[0] ?? '', type: 'bigint' }, log)
    if (biRole !== null) await grantReading(client, biRole)
    if (applied > 0) log.info({ applied }, 'the database has the schema of this program now')
    return applied
  } finally {
    // Closing the connection gives the lock back, whatever state it is in.
    client.release(true)
  }
}

async function applyMigrations(client: PoolClient): Promise<number> {
  const known = readMigrationFiles({ migrationsFolder })
  const before = await appliedMigrations(client)
  const newest = Math.max(...known.map((migration) => migration.folderMillis))
  if (before.some((at) => at > newest))
    throw new DatabaseError(
      'the database has been migrated by a newer Tidemark than this one: run that version, or one that is newer still',
    )
  try {
    await migrate(drizzle({ client }), { migrationsFolder, ...history })
  } catch (cause) {
    throw new DatabaseError(`the database cannot be migrated: ${messageOf(cause)}; nothing was changed`, {
      cause,
    })
  }
  return known.length - before.length
}

async function appliedMigrations(client: PoolClient): Promise<readonly number[]> {
  const { rows: tables } = await client.query(
    `select 1 from pg_tables where schemaname = $1 and tablename = $2`,
    [history.migrationsSchema, history.migrationsTable],
  )
  if (tables.length === 0) return []
  const { rows } = await client.query<{ created_at: string }>('select created_at from tidemark.migration')
  return rows.map((row) => Number(row.created_at))
}

const messageOf = (error: unknown): string => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : String(cause)
}
