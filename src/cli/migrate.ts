// `tidemark migrate`: brings the database to the schema of this program. `serve`, `sync` and every other verb that reads the upstream
// into the mirror do so by themselves; this verb is for those who want it done beforehand, or by another role.

import { loadMirrorConfig } from '../config/load.ts'
import { migrateDatabase } from '../store/schema/migrate.ts'
import { openDatabase } from '../store/server/connect.ts'
import { streams } from '../streams/catalog.ts'
import { plural } from '../util/text.ts'
import { type Call, type Command, json } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { expectNoWords } from './parse.ts'

export const migrate: Command = {
  name: 'migrate',
  summary: 'create or update the tables of Tidemark in the database',
  usage: '[--json]',
  options: { json },
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
    if (values.json) stdout.json({ database: address, applied })
    else
      stdout.say(
        applied === 0 ? `${address} is up to date.` : `${address}: ${plural(applied, 'migration')} applied.`,
      )
    return exitCodes.done
  } finally {
    await database.close()
  }
}
