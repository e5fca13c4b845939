// `tidemark migrate`: brings the database to the schema of this program. Every program that writes does so by itself; this
// verb is for those who want it done beforehand, or by another role.

import { type Call, type Command, type ExitCode, exitCodes } from '../cli/command.ts'
import { expectNoWords } from '../cli/parse.ts'
import { loadMirrorConfig } from '../config.ts'
import { plural } from '../count.ts'
import { openDatabase } from '../mirror/database.ts'
import { migrateDatabase } from '../mirror/migrate.ts'
import { streams } from '../streams.ts'

export const migrate: Command = {
  name: 'migrate',
  summary: 'bring the database to the schema of this version',
  usage: '[--json]',
  options: { json: { type: 'boolean', describe: 'print one JSON document' } },
  examples: ['tidemark migrate', 'DATABASE_URL=postgres://owner@db/mirror tidemark migrate'],
  run,
}

async function run({ environment, positionals, values, log, stdout }: Call): Promise<ExitCode> {
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
