// The Postgres of the bench: a new database in the one that BENCH_DATABASE_URL names, or an embedded Postgres of its own, as
// it comes.

import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbedded } from '../src/embedded-postgres/server.ts'
import { openLog } from '../src/log.ts'
import { migrateDatabase } from '../src/store/schema/migrate.ts'
import { type Database, openDatabase } from '../src/store/server/connect.ts'
import { knownStreams as streams } from '../src/streams/catalog.ts'

export const benchLog = openLog({ level: 'warn' })

/** With an empty mirror in it. */
export async function openBenchDatabase(): Promise<Database> {
  const given = process.env.BENCH_DATABASE_URL
  return await (given ? openGiven(given) : openEmbedded())
}

const rightsOfCopy = 'pg_read_server_files, pg_write_server_files, pg_read_all_settings, pg_checkpoint'

async function openEmbedded(): Promise<Database> {
  const directory = await mkdtemp(join(tmpdir(), 'tidemark-bench-'))
  const { url, adminUrl, leave } = await startEmbedded({ directory, log: benchLog })
  // Raw COPY writes and reads a file of the server.
  const role = pg.escapeIdentifier(new URL(url).username)
  await asAdmin(adminUrl, `grant ${rightsOfCopy} to ${role}`)
  const database = await openDatabase({ url, log: benchLog })
  await emptyStore(database)
  return {
    ...database,
    async close() {
      await database.close()
      await leave()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function openGiven(given: string): Promise<Database> {
  const name = `tidemark_bench_${randomBytes(4).toString('hex')}`
  await asAdmin(given, `create database ${name} template template0 encoding 'UTF8'`)
  const url = Object.assign(new URL(given), { pathname: `/${name}` }).href
  const database = await openDatabase({ url, log: benchLog })
  await emptyStore(database)
  return {
    ...database,
    async close() {
      await database.close()
      await asAdmin(given, `drop database ${name} with (force)`)
    },
  }
}

async function asAdmin(url: string, statement: string): Promise<void> {
  const admin = new pg.Client(url)
  await admin.connect()
  await admin.query(statement)
  await admin.end()
}

export async function emptyStore(database: Database): Promise<void> {
  await database.pool.query(`
    drop schema if exists bi cascade;
    drop schema if exists mirror cascade;
    drop schema if exists tidemark cascade`)
  await migrateDatabase({ database, streams, biRole: null, log: benchLog })
}
