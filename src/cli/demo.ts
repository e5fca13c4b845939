// `tidemark demo`: the stand-in, an embedded Postgres and the worker in one process, so that everything can be seen at work
// without credentials, Docker or Redis. It begins with nothing each time and touches no configuration.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import { type Config, loadConfig, loadLogLevel } from '../config/load.ts'
import { freePort } from '../embedded-postgres/cluster.ts'
import { type Simulator, startSimulator } from '../simulator/simulator.ts'
import { type Database, openDatabase } from '../store/server/connect.ts'
import { lockKeys } from '../store/server/session.ts'
import { streams } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration } from '../util/text.ts'
import { serve } from '../worker/serve.ts'
import { type Call, type Command, type ExitCode, exitCodes, wholeNumber } from './command.ts'
import { expectNoWords } from './parse.ts'

// What the demo shows on the terminal: where everything is, something to paste, and how the mirror grows and follows.
type Places = { readonly databaseUrl: string; readonly pageUrl: string }

export function introduceDemo({ databaseUrl, pageUrl }: Places): string {
  const query =
    'select status_name, count(*), round(sum(price)) as price from bi.assignment group by 1 order by 2 desc'
  return `
  The mirror follows a made-up field-service system. Ctrl-C stops the demo.

  for a BI tool      ${databaseUrl}
                     (schema bi: one view for each stream)
  the status page    ${pageUrl}/
  the worker         ${pageUrl}   and ${pageUrl}/metrics, /readyz
  a query to try     psql '${databaseUrl}' \\
                       -c "${query}"
  how far it is      psql '${databaseUrl}' -c "select * from tidemark.freshness"

  For the real system: copy .env.example to .env, fill in the credentials, npm start.

`
}

type Watched = { readonly pool: Pool; readonly signal: AbortSignal; readonly stdout: NodeJS.WriteStream }
type Count = { readonly stream: string; readonly rows: number; readonly lagMs: number | null }

const redrawMs = 1_000
const lineEveryMs = 10_000

/** On a terminal one table that is written over, otherwise a line now and then. Ends with the signal. */
export async function reportCounts({ pool, signal, stdout }: Watched): Promise<void> {
  let drawnLines = 0
  let lastText = ''
  for (let before: readonly Count[] = []; !signal.aborted; ) {
    const counts = await countRows(pool).catch(() => before)
    if (stdout.isTTY) {
      const lines = counts.map((one) => tableLine(one, before))
      stdout.write(
        `${drawnLines > 0 ? `\x1b[${drawnLines}A` : ''}${lines.map((line) => `\x1b[K${line}\n`).join('')}`,
      )
      drawnLines = lines.length
    } else {
      const text = counts.map(({ stream, rows }) => `${stream} ${count(rows)}`).join(', ')
      if (text !== lastText) stdout.write(`mirrored: ${text}\n`)
      lastText = text
    }
    before = counts
    const isFirst = counts.some(({ lagMs }) => lagMs === null)
    const pauseMs = stdout.isTTY || isFirst ? redrawMs : lineEveryMs
    await wait(pauseMs, undefined, { signal }).catch(() => {})
  }
}

function tableLine({ stream, rows, lagMs }: Count, before: readonly Count[]): string {
  const known = before.find((one) => one.stream === stream)?.rows ?? rows
  const grown = rows === known ? '' : ` (${rows > known ? '+' : ''}${count(rows - known)})`
  const complete =
    lagMs === null ? 'being read for the first time' : `complete as of ${formatDuration(lagMs)} ago`
  return `  ${stream.padEnd(22)}${count(rows).padStart(9)} rows${grown.padEnd(10)} ${complete}`
}

async function countRows(pool: Pool): Promise<readonly Count[]> {
  const { rows: known } = await pool.query<{ name: string; lag_ms: number | null; has_view: boolean }>(
    `select name, extract(epoch from now() - read_through_at)::float8 * 1000 as lag_ms,
       to_regclass(format('bi.%I', name)) is not null as has_view
     from tidemark.stream where name = any ($1)`,
    [streams.map(({ name }) => name)],
  )
  const counts: Count[] = []
  for (const { name } of streams) {
    const one = known.find((found) => found.name === name)
    if (!one) continue
    const { rows } = one.has_view
      ? await pool.query<{ count: number }>(`select count(*)::int as count from bi."${name}"`)
      : { rows: [{ count: 0 }] }
    counts.push({ stream: name, rows: rows[0]?.count ?? 0, lagMs: one.lag_ms })
  }
  return counts
}

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
    const worker = await serve({ config: configFor(simulator, database.url, port), log: quiet })
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
