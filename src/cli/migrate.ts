// `tidemark migrate`: brings the database to the schema of this program. `serve`, `sync` and every other verb that reads the upstream
// into the mirror do so by themselves; this verb is for those who want it done beforehand, or by another role.

import type { ClientBase } from 'pg'
import { sourceOfEnvironment } from '../config/environment.ts'
import {
  loadConfig,
  loadDescriptionConfig,
  loadMirrorConfig,
  type MirrorConfig,
  namesUpstream,
} from '../config/load.ts'
import { readSettings } from '../config/settings.ts'
import { mirroredStreams, openUpstreams } from '../configured.ts'
import type { Logger } from '../log.ts'
import { openDescriptions } from '../openapi/descriptions.ts'
import { type BiRole, grantReading } from '../store/schema/bi-role.ts'
import { dueMigrations, migrateDatabase } from '../store/schema/migrate.ts'
import { type Lock, planMigrations } from '../store/schema/migration-plan.ts'
import { handOver, prepareRoles, takeOver } from '../store/schema/roles.ts'
import { type Database, openDatabase } from '../store/server/connect.ts'
import { withConnection } from '../store/server/session.ts'
import { remarkOn } from '../streams/settings.ts'
import { UsageError } from '../util/errors.ts'
import { count, plural } from '../util/text.ts'
import { type Call, type Command, expectNoWords, flag, json } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { alignedTable } from './output.ts'

export const migrate: Command = {
  name: 'migrate',
  summary: 'create or update the tables of Tidemark in the database',
  usage: '[--plan] [--json]',
  options: {
    plan: flag('change nothing: print which migrations are due, and what would wait for them'),
    json,
  },
  examples: [
    'tidemark migrate',
    'tidemark migrate --plan',
    'DATABASE_URL=postgres://owner@db/mirror tidemark migrate',
  ],
  async run(call) {
    const { environment, values, log, stdout, stderr } = call
    expectNoWords('migrate', call)
    const config = loadMirrorConfig(environment)
    if (values.plan) return await showPlan(call, config)
    const { biRole, biSchemas, sourceTimezone, ownerRole } = config
    const source = sourceOfEnvironment(environment)
    for (const setting of readSettings(environment)().settings)
      if (setting.lacks === 'OWNER_ROLE') stderr.say(`${setting.name} ${remarkOn(setting)}.`)
    await using administrator =
      ownerRole === null ? null : await openAdministrator({ ...config, ownerRole }, log)
    await using database = await openDatabase({ url: config.databaseUrl, role: ownerRole, log })
    if (config.workerRole !== null) await takeOver(database.pool, config.workerRole)
    // An administrator may set all limits of BI_ROLE.
    const applied = await migrateDatabase({
      database,
      source,
      streams: call.catalogue,
      biSchemas,
      sourceTimezone,
      log,
      biRole: administrator ? null : biRole,
    })
    const described = await makeDescribedTables(call, database)
    if (config.workerRole !== null) await handOver(database.pool, config.workerRole)
    await administrator?.grantReading({ source, biRole, biSchemas, sourceTimezone })
    const { address } = database
    const done = applied === 0 ? ' is up to date.' : `: ${plural(applied, 'migration')} applied.`
    if (values.json) stdout.json({ database: address, applied, described })
    else stdout.say(`${address}${done}`)
    if (described.length > 0 && !values.json)
      stdout.say(`The upstream describes ${described.join(', ')}: their tables and views have all columns.`)
    return exitCodes.done
  },
}

const whatWaits: Readonly<Record<Lock, string>> = {
  'access exclusive': 'reads and writes',
  'share row exclusive': 'writes',
  share: 'writes',
  'share update exclusive': 'other changes of the table',
  'row exclusive': 'nothing',
}

/** As the role that is in DATABASE_URL. */
async function showPlan({ log, values, stdout }: Call, { databaseUrl }: MirrorConfig): Promise<ExitCode> {
  await using database = await openDatabase({ url: databaseUrl, log })
  const plan = await withConnection(database.pool, async (client) =>
    planMigrations(client, await dueMigrations(client)),
  )
  const { address } = database
  const due = new Set(plan.map(({ migration }) => migration))
  if (values.json) stdout.json({ database: address, due: [...due], statements: plan })
  else if (due.size === 0) stdout.say(`${address} is up to date: no migration is due.`)
  else {
    stdout.say(
      `${address}: ${plural(due.size, 'migration')} due. They run in one transaction, which keeps each lock to its end.`,
    )
    const rows = plan.flatMap(({ migration, statement, locks }) =>
      locks.map(({ table, lock, rows }) => [
        ...[migration.slice(0, 4), lock, table, rows === null ? '' : count(rows), whatWaits[lock], statement],
      ]),
    )
    if (rows.length > 0)
      stdout.say(alignedTable(['NO.', 'LOCK', 'TABLE', 'ROWS', 'MUST WAIT', 'STATEMENT'], rows))
    else stdout.say('None of them locks a table that is there.')
  }
  return exitCodes.done
}

/** Makes the roles of OWNER_ROLE and WORKER_ROLE. */
async function openAdministrator(config: MirrorConfig & { readonly ownerRole: string }, log: Logger) {
  const { databaseUrl, workerRole: worker, workerPassword, biRole: bi, biPassword } = config
  if (databaseUrl === null || worker === null)
    throw new UsageError(
      'With OWNER_ROLE, set DATABASE_URL (as a superuser of Postgres) and WORKER_ROLE too.',
    )
  const database = await openDatabase({ url: databaseUrl, log })
  const work = (given: (client: ClientBase) => Promise<void>) => withConnection(database.pool, given)
  try {
    await work((client) =>
      prepareRoles(client, { owner: config.ownerRole, worker, workerPassword, bi, biPassword }),
    )
  } catch (error) {
    await database.close()
    throw error
  }
  return {
    grantReading: (role: BiRole) => work((client) => grantReading(client, role, log)),
    [Symbol.asyncDispose]: () => database.close(),
  }
}

/** Makes tables by the upstream's description, from the upstream if it is configured, or from a file. Returns the names of the streams. */
async function makeDescribedTables(
  { environment, catalogue, log, signal }: Call,
  { pool }: Database,
): Promise<readonly string[]> {
  // Somebody who knows no credentials can prepare the database as well.
  const whole = namesUpstream(environment) ? loadConfig(environment) : null
  const config = whole ?? loadDescriptionConfig(environment)
  const opened = whole && openUpstreams({ config: whole, log })
  const upstreams = opened ?? { assignment: null, tracking: null }
  try {
    const mirrored = mirroredStreams(config, catalogue)
    const descriptions = await openDescriptions({ pool, config, upstreams, catalogue, mirrored, log })
    return await descriptions.refresh({ olderThanMs: 0, signal })
  } finally {
    opened?.close()
  }
}
