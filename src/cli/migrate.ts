// `tidemark migrate`: brings the database to the schema of this program. `serve`, `sync` and every other verb that reads the upstream
// into the mirror do so by themselves; this verb is for those who want it done beforehand, or by another role.

import { ConfigError, loadConfig, loadContractConfig, loadMirrorConfig } from '../config/load.ts'
import { mirroredStreams, openConfiguredUpstream } from '../configured.ts'
import { openContracts } from '../contracts.ts'
import { migrateDatabase } from '../store/schema/migrate.ts'
import { type Database, openDatabase } from '../store/server/connect.ts'
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

async function run(call: Call): Promise<ExitCode> {
  const { environment, values, log, stdout } = call
  expectNoWords('migrate', call)
  const { databaseUrl, biRole } = loadMirrorConfig(environment)
  const database = await openDatabase({ url: databaseUrl, log })
  try {
    const applied = await migrateDatabase({ database, streams, biRole, log })
    const described = await makeDescribedTables(call, database)
    const { address } = database
    if (values.json) stdout.json({ database: address, applied, described })
    else {
      stdout.say(
        applied === 0 ? `${address} is up to date.` : `${address}: ${plural(applied, 'migration')} applied.`,
      )
      if (described.length > 0)
        stdout.say(`The upstream describes ${described.join(', ')}: their tables and views have all columns.`)
    }
    return exitCodes.done
  } finally {
    await database.close()
  }
}

/** Makes tables by the upstream's description, from the upstream if it is configured, or from a file. Returns the names of the streams. */
async function makeDescribedTables(
  { environment, log, signal }: Call,
  { pool }: Database,
): Promise<readonly string[]> {
  const whole = upstreamConfig(environment)
  const config = whole ?? loadContractConfig(environment)
  const upstreams = {
    assignment: whole && openConfiguredUpstream({ config: whole, log }, 'assignment'),
    tracking: whole && openConfiguredUpstream({ config: whole, log }, 'tracking'),
  }
  try {
    const mirrored = mirroredStreams(config)
    const contracts = await openContracts({ pool, config, upstreams, mirrored, log })
    return await contracts.refresh({ olderThanMs: 0, signal })
  } finally {
    upstreams.assignment?.close()
    upstreams.tracking?.close()
  }
}

/** Null if the configuration is not complete: somebody who knows no credentials can prepare the database as well. */
function upstreamConfig(environment: Call['environment']) {
  try {
    return loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return null
    throw error
  }
}
