// `tidemark demo`: the stand-in, an embedded Postgres and the worker in one process, so that everything can be seen at work
// without credentials, Docker or Redis. It begins with nothing each time and touches no configuration.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { type Call, type Command, type ExitCode, exitCodes } from '../cli/command.ts'
import { expectNoWords } from '../cli/parse.ts'
import { wholeNumber } from '../cli/whole-number.ts'
import { type Config, loadConfig, loadLogLevel } from '../config.ts'
import { freePort } from '../free-port.ts'
import { type Database, openDatabase } from '../mirror/database.ts'
import { lockKeys } from '../mirror/lock-keys.ts'
import { type Simulator, startSimulator } from '../simulator/simulator.ts'
import { UsageError } from '../usage-error.ts'
import { startWorker } from '../worker.ts'
import { introduceDemo, reportCounts } from './demo-report.ts'

export const demo: Command = {
  name: 'demo',
  summary: 'show everything at work: a made-up upstream, an embedded Postgres and the worker',
  usage: '[--port N] [--assignments N] [--churn N]',
  options: {
    port: { type: 'string', value: 'N', describe: 'port of the worker (8080, or a free one)' },
    assignments: { type: 'string', value: 'N', describe: 'how many assignments there are (5000)' },
    churn: { type: 'string', value: 'N', describe: 'changes a second (5)' },
  },
  examples: ['tidemark demo', 'tidemark demo --assignments 100000 --churn 50'],
  run,
}

const directory = '.tidemark/demo'
const usualPort = 8080
const lastResortMs = 28_000

async function run({ environment, positionals, values, signal, log, stdout }: Call): Promise<ExitCode> {
  expectNoWords('demo', { positionals })
  const assignments = wholeNumber(values, 'assignments', { least: 0, most: 1_000_000 }) ?? 5_000
  const churnPerSecond = wholeNumber(values, 'churn', { least: 0, most: 1_000 }) ?? 5
  const wantedPort = wholeNumber(values, 'port', { least: 0, most: 65_535 }) ?? usualPort
  // What the worker says of itself would only get between the lines.
  const quiet = log.child({}, { level: loadLogLevel(environment) ?? 'warn' })

  stdout.write('Starting an embedded Postgres, the made-up upstream and the worker …\n')
  const database = await openDatabase({ url: null, directory: resolve(directory), log: quiet })
  try {
    const lock = await beginWithNothing(database)
    const port = await freePort(wantedPort)
    if (wantedPort !== 0 && port !== wantedPort)
      stdout.write(`Port ${wantedPort} is taken: the worker listens on ${port} instead.\n`)
    await using simulator = await startSimulator({
      assignments,
      notes: 2 * assignments,
      trackers: 30,
      objects: 200,
      churnPerSecond,
      behaviour: { deletes: 'soft' },
    })
    const worker = await startWorker({ config: configFor(simulator, database.url, port), log: quiet })
    try {
      const told = signal.aborted ? Promise.resolve([]) : once(signal, 'abort')
      await Promise.race([told, worker.live])
      if (!signal.aborted) {
        stdout.write(introduceDemo({ databaseUrl: database.url, pageUrl: worker.url }))
        await reportCounts({ pool: database.pool, signal, stdout })
      }
    } finally {
      setTimeout(() => process.exit(exitCodes.done), lastResortMs).unref()
      await worker.stop()
      lock.release(true)
    }
  } finally {
    await database.close()
  }
  stdout.write('The demo is over; its Postgres is stopped.\n')
  return exitCodes.done
}

/** What is left of an earlier demo came from an upstream that is gone. Two demos in one directory would fight. */
async function beginWithNothing({ pool }: Database): Promise<{ release(destroy: boolean): void }> {
  const client = await pool.connect()
  try {
    const { rows } = await client.query<{ is_mine: boolean }>('select pg_try_advisory_lock($1) as is_mine', [
      lockKeys.demo,
    ])
    if (!rows[0]?.is_mine) throw new UsageError(`Another demo uses ${resolve(directory)}: stop it first`)
    await client.query('drop schema if exists bi, mirror, tidemark, bullmq cascade')
    return client
  } catch (error) {
    client.release(true)
    throw error
  }
}

function configFor(simulator: Simulator, databaseUrl: string, port: number): Config {
  const { credentials } = simulator
  return loadConfig({
    DATABASE_URL: databaseUrl,
    ASSIGNMENT_BASE_URL: simulator.assignmentUrl,
    TRACKING_BASE_URL: simulator.trackingUrl,
    AUTH_URL: simulator.authUrl,
    CLIENT_GUID: credentials.clientGuid,
    SUBJECT_ID: credentials.subjectId,
    API_KEY: credentials.apiKey,
    SCHEDULE_TRACKER_OBJECT: '10s',
    HTTP_PORT: String(port),
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    WEBHOOK_SECRET: randomBytes(24).toString('base64url'),
  })
}
