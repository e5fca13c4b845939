// `tidemark migrate`: brings the database to the schema of this program. Every program that writes does so by itself; this
// verb is for those who want it done beforehand, or by another role.

import type { Pool } from 'pg'
import { loadMirrorConfig } from '../config/load.ts'
import { openMigratedDatabase } from '../context.ts'
import { migrateDatabase } from '../store/schema/migrate.ts'
import { openDatabase } from '../store/server/connect.ts'
import { streams } from '../streams/catalog.ts'
import { plural } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes } from './command.ts'
import { expectNoWords } from './parse.ts'

export const migrate: Command = {
  name: 'migrate',
  summary: 'bring the database to the schema of this version',
  usage: '[--json]',
  options: { json: { type: 'boolean', describe: 'print one JSON document' } },
  examples: ['tidemark migrate', 'DATABASE_URL=postgres://owner@db/mirror tidemark migrate'],
  run: runMigrate,
}

async function runMigrate({ environment, positionals, values, log, stdout }: Call): Promise<ExitCode> {
  expectNoWords('migrate', { positionals })
  const { databaseUrl, biRole } = loadMirrorConfig(environment)
  const database = await openDatabase({ url: databaseUrl, log })
  try {
    const applied = await migrateDatabase({ database, streams, biRole, log })
    const { address } = database
    stdout.write(
      values.json ? `${JSON.stringify({ database: address, applied })}\n` : `${sentence(address, applied)}\n`,
    )
    return exitCodes.done
  } finally {
    await database.close()
  }
}

const sentence = (address: string, applied: number): string =>
  applied === 0 ? `${address} is up to date` : `${address}: ${plural(applied, 'migration')} applied`

// For verbs that need the mirror alone: its database, migrated, for as long as the verb takes.
export async function withDatabase(
  { environment, log }: Call,
  work: (pool: Pool) => Promise<void>,
): Promise<ExitCode> {
  const database = await openMigratedDatabase(loadMirrorConfig(environment), log)
  try {
    await work(database.pool)
    return exitCodes.done
  } finally {
    await database.close()
  }
}
