// `tidemark demo`: the stand-in, an embedded Postgres and the worker in one process, so that everything can be seen at work
// without credentials, Docker or Redis. It begins with nothing, or goes on with the demo that ended here, and touches no configuration.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { deserialize, serialize } from 'node:v8'
import { loadConfig, loadHttpPort, loadLogLevel } from '../config/load.ts'
import { statusJson, type WholeStatus } from '../documents/status.ts'
import { freePort } from '../embedded-postgres/cluster.ts'
import { type Simulator, startSimulator } from '../simulator/simulator.ts'
import type { Backup } from '../simulator/source.ts'
import { type Database, openDatabase } from '../store/server/connect.ts'
import { lockKeys } from '../store/server/session.ts'
import { UsageError } from '../util/errors.ts'
import { count } from '../util/text.ts'
import { type Demo, newOneTimeKey } from '../web/demo.ts'
import { serve } from '../worker/serve.ts'
import { openQuestions } from './ask.ts'
import { type Call, type Command, expectNoWords, flag, option, textOf, wholeNumber } from './command.ts'
import { hiddenMs, openDemo } from './demo-incidents.ts'
import { exitCodes } from './exit.ts'
import type { Environment } from './output.ts'
import { announceDemo, demoDirectory } from './running-demo.ts'
import { openGathering } from './status.ts'
import { statusLines } from './status-table.ts'

export const demo: Command = {
  name: 'demo',
  summary: 'try everything with a simulated upstream and a Postgres of its own',
  usage: '[--port N] [--assignments N] [--churn N] [--alerts URL] [--continue|--new]',
  options: {
    port: option('N', 'port of the console (HTTP_PORT, or 8080)'),
    assignments: option('N', 'how many assignments there are (60000)'),
    churn: option('N', 'how many of them change per second (5)'),
    alerts: option('URL', 'an incoming webhook that is told of problems, to try alerts'),
    continue: flag('continue the demo that ended in this directory'),
    new: flag('start a new demo, without asking'),
  },
  examples: ['tidemark demo', 'tidemark demo --assignments 100000 --churn 50', 'tidemark demo --continue'],
  ignoresDemo: true,
  async run(call) {
    const { environment, values, log, stdout } = call
    expectNoWords('demo', call)
    const before = await chooseState(call)
    const play = {
      before,
      assignments: wholeNumber(values, 'assignments', { least: 0, most: 1_000_000 }) ?? 60_000,
      churnPerSecond: wholeNumber(values, 'churn', { least: 0, most: 1_000 }) ?? 5,
      wantedPort: wholeNumber(values, 'port', { least: 0, most: 65_535 }) ?? loadHttpPort(environment),
    }
    // The worker's log would only get between the lines of the demo.
    const quiet = log.child({}, { level: loadLogLevel(environment) ?? 'warn' })
    stdout.say('Starting a Postgres, a simulated upstream and the worker …')
    await playOn({ ...call, log: quiet }, play)
    stdout.say('The demo has ended, and its Postgres is stopped. `tidemark demo --continue` continues it.')
    return exitCodes.done
  },
}

const lastResortMs = 28_000

type Play = {
  /** The demo that it goes on with. */
  readonly before: DemoState | null
  readonly wantedPort: number
  readonly assignments: number
  readonly churnPerSecond: number
}

async function playOn(call: Call, { before, wantedPort, assignments, churnPerSecond }: Play): Promise<void> {
  const { stdout, log } = call
  await using database = await openDatabase({ url: null, directory: resolve(demoDirectory), log })
  const lock = await takeOver(database, before)
  const port = await freePort(wantedPort)
  if (wantedPort !== 0 && port !== wantedPort)
    stdout.say(`Port ${wantedPort} is taken, so the console is on port ${port}.`)
  const records = before
    ? { assignments: 0 }
    : { assignments, notes: 2 * assignments, trackers: 30, objects: 200 }
  await using simulator = await startSimulator({
    ...records,
    churnPerSecond,
    look: 'recorded',
    behaviour: { lateDelayMs: hiddenMs },
  })
  if (before) simulator.source.restoreBackup(before.backup)
  forgetState()
  await mirror(call, { database, simulator, port }).finally(() => lock.release(true))
  keepState(simulator)
}

type Mirroring = {
  readonly database: Database
  readonly simulator: Simulator
  readonly port: number
}

async function mirror(call: Call, { database, simulator, port }: Mirroring): Promise<void> {
  const { values, log, signal, stdout } = call
  const alertsUrl = textOf(values, 'alerts')
  const settings = {
    ...demoSettings(simulator, database.url, port),
    ALERT_SECRETS_KEY_FILE: alertKeyFile(),
    ...(alertsUrl !== null && { ALERT_WEBHOOK_URL: alertsUrl }),
  }
  const key = newOneTimeKey()
  let play: Demo | null = null
  const worker = await serve({ config: loadConfig(settings), log, demo: () => play })
  using _announced = announceDemo(settings)
  try {
    const told = signal.aborted ? Promise.resolve([]) : once(signal, 'abort')
    await Promise.race([told, worker.live])
    if (signal.aborted) return
    const { context, jobs } = await worker.live
    play = openDemo({ simulator, context, requestRun: jobs.requestRun, key, signal, log })
    stdout.write(introduceDemo({ databaseUrl: database.url, pageUrl: worker.url, key: key.text }))
    const gatherFrom = openGathering({ environment: settings, positionals: [], catalogue: context.catalogue })
    await reportStatus(call, async () => statusJson(await gatherFrom(database.pool)))
  } finally {
    setTimeout(() => process.exit(exitCodes.done), lastResortMs).unref()
    await worker.stop()
  }
}

/** Clears what an earlier demo left, unless this one goes on with it. Rejects if another demo runs here: the two would fight. */
async function takeOver(
  { pool }: Database,
  before: DemoState | null,
): Promise<{ release(destroy: boolean): void }> {
  const client = await pool.connect()
  try {
    const { rows } = await client.query<{ is_mine: boolean }>('select pg_try_advisory_lock($1) as is_mine', [
      lockKeys.demo,
    ])
    if (!rows[0]?.is_mine)
      throw new UsageError(`A demo is already running in ${resolve(demoDirectory)}. Stop it first.`)
    // The upstream is the same as before under another address, which a demo alone can know.
    await client.query(
      before
        ? `do $$ begin if to_regclass('tidemark.source') is not null then delete from tidemark.source; end if; end $$`
        : 'drop schema if exists bi, mirror, tidemark, bullmq cascade',
    )
    return client
  } catch (error) {
    client.release(true)
    throw error
  }
}

/** The variables, as `.env` would have them. */
export function demoSettings(simulator: Simulator, databaseUrl: string, port: number): Environment {
  const { credentials, behaviour } = simulator
  return {
    DATABASE_URL: databaseUrl,
    ASSIGNMENT_BASE_URL: simulator.assignmentUrl,
    TRACKING_BASE_URL: simulator.trackingUrl,
    AUTH_URL: simulator.authUrl,
    CLIENT_GUID: credentials.clientGuid,
    SUBJECT_ID: credentials.subjectId,
    API_KEY: credentials.apiKey,
    SOURCE_TIMEZONE: behaviour.timeZone,
    SCHEDULE_TRACKER_OBJECT: '10s',
    HTTP_PORT: String(port),
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    WEBHOOK_SECRET: randomBytes(24).toString('base64url'),
    ADMIN_TOKEN: randomBytes(24).toString('base64url'),
    // Short enough to watch a late commit being caught.
    LOOKBACK: '30s',
    // So that a row tells what it was before.
    HISTORY: 'assignment=1d',
    SCHEDULE_ASSIGNMENT: '3s',
    SCHEDULE_ASSIGNMENT_NOTE: '3s',
  }
}

// ── what the terminal shows: where everything is, something to paste, and how the mirror grows and follows ───────

type Places = { readonly databaseUrl: string; readonly pageUrl: string; readonly key: string }

export function introduceDemo({ databaseUrl, pageUrl, key }: Places): string {
  const query =
    'select city, count(*), round(sum(price)) as price from bi.assignment group by 1 order by 2 desc'
  return `
  A simulated field-service system is being mirrored. Ctrl-C stops the demo.

  Start here         ${pageUrl}/demo?key=${key}
                     (you are the operator; the key works once. Break something and watch Tidemark notice.)
  the console        ${pageUrl}/
  for a BI tool      ${databaseUrl}
                     (schema bi has one view for each stream)
  a query to try     psql '${databaseUrl}' \\
                       -c "${query}"
  how fresh it is    psql '${databaseUrl}' -c "select * from tidemark.freshness"
  for monitoring     ${pageUrl}/metrics and ${pageUrl}/readyz

  Other commands work meanwhile in this directory, for example \`npx tidemark status\`.
  To mirror your own system: \`npx tidemark init\`, then \`npm start\`.

`
}

const redrawMs = 1_000
const lineEveryMs = 10_000

/** On a terminal what `tidemark status` shows, written over, otherwise a line whenever rows came. Ends with the signal. */
async function reportStatus({ signal, stdout }: Call, gather: () => Promise<WholeStatus>): Promise<void> {
  let drawnLines = 0
  let lastText = ''
  for (let before: WholeStatus | null = null; !signal.aborted; ) {
    const status: WholeStatus | null = await gather().catch(() => before)
    if (status && stdout.isTTY) {
      const lines = statusLines(status, stdout, before)
      stdout.write(`${drawnLines > 0 ? `\x1b[${drawnLines}A\x1b[J` : ''}${lines.join('\n')}\n`)
      drawnLines = lines.length
    } else if (status) {
      const text = status.streams
        .map(({ stream, living_rows, rows }) => `${stream} ${count(living_rows ?? rows ?? 0)}`)
        .join(', ')
      if (text !== lastText) stdout.say(`mirrored: ${text}`)
      lastText = text
    }
    before = status
    const isFirst = before?.streams.some(({ read_through }) => read_through === null) ?? true
    await wait(stdout.isTTY || isFirst ? redrawMs : lineEveryMs, undefined, { signal }).catch(() => {})
  }
}

// ── the state of the simulated upstream, kept beside the files of its Postgres when a demo ends, so that the next one can go on with both ──
// It is removed while a demo runs: a demo that is killed must not leave an upstream that is older than its mirror.

type DemoState = { readonly endedAt: Date; readonly backup: Backup }

const stateFile = () => resolve(demoDirectory, 'upstream.bin')
/** The version of the file's format. A file of another version is not read. */
const stateFormat = 1

function keepState({ source }: Pick<Simulator, 'source'>): void {
  const { version, rows } = source.takeBackup()
  // Without the cached bytes of rows, which can be made again.
  const plain = [...rows].map(([name, all]) => [name, all.map((row) => ({ ...row, cached: null }))])
  writeFileSync(stateFile(), serialize({ format: stateFormat, endedAt: new Date(), version, rows: plain }), {
    mode: 0o600,
  })
}

/** With which receivers of alerts are kept that somebody sets up in the console: a demo that goes on can use them still. */
function alertKeyFile(): string {
  const key = resolve(demoDirectory, 'alert-secrets-key')
  if (!existsSync(key)) writeFileSync(key, randomBytes(32).toString('hex'), { mode: 0o600 })
  return key
}

const forgetState = (): void => rmSync(stateFile(), { force: true })

/** Null where no demo ended, or what it left cannot be read any more. */
function readState(): DemoState | null {
  try {
    const kept = deserialize(readFileSync(stateFile()))
    if (kept.format !== stateFormat) return null
    return { endedAt: kept.endedAt, backup: { version: kept.version, rows: new Map(kept.rows) } }
  } catch {
    return null
  }
}

/** The state to go on with; null: the demo begins anew. It does if the person gave no option and cannot be asked. */
async function chooseState({ values, stdout, signal }: Call): Promise<DemoState | null> {
  const [goesOn, isNew] = [values.continue === true, values.new === true]
  if (goesOn && isNew) throw new UsageError('Use either `--continue` or `--new`, not both.')
  if (isNew) return null
  const state = readState()
  if (goesOn) {
    if (values.assignments !== undefined)
      throw new UsageError(
        '`--assignments` is for a new demo; a continued demo keeps the assignments it had.',
      )
    if (state === null)
      throw new UsageError(
        `There is no demo to continue in ${resolve(demoDirectory)}: none ended there, or it was killed.`,
      )
    return state
  }
  if (state === null || values.assignments !== undefined) return null
  if (stdout.isTTY && process.stdin.isTTY) return (await wantsIt(state, { stdout, signal })) ? state : null
  stdout.say(`${stateInWords(state)} This one starts anew; --continue would continue the earlier one.`)
  return null
}

async function wantsIt(state: DemoState, { stdout, signal }: Pick<Call, 'stdout' | 'signal'>) {
  const questions = openQuestions(stdout, signal)
  try {
    stdout.say(stateInWords(state))
    const answer = await questions.ask({ text: 'Continue it?', known: 'yes; no starts a new one' })
    return !/^n/i.test(answer)
  } finally {
    questions.close()
  }
}

const stateInWords = ({ endedAt, backup }: DemoState): string =>
  `A demo with ${count(backup.rows.get('assignment')?.length ?? 0)} work orders ended here at ${endedAt.toISOString().slice(0, 16).replace('T', ' ')} UTC.`
