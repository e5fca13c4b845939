// How long a change takes from its commit upstream to its row in Postgres: `tidemark serve` as a process of its own against the simulator,
// in which twenty records change each second, polled on a schedule and announced by webhooks.

import type { ChildProcess } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { freePort } from '../src/embedded-postgres/cluster.ts'
import { type Simulator, startSimulator } from '../src/simulator/simulator.ts'
import type { Database } from '../src/store/server/connect.ts'
import { openBenchDatabase } from './postgres.ts'
import { loadOfMachine } from './report.ts'
import { ended, type Queue, queues, startRedis, startWorker } from './rest.ts'

const assignments = 2_000
const changesPerSecond = 20
const intervalSeconds = Number(process.env.BENCH_INTERVAL_SECONDS ?? 10)
/** Postgres is asked so often whether a change has arrived; it counts as arrived when the answer comes. */
const lookEveryMs = 20
const longestStartMs = 180_000
/** After the last change, for those on their way. */
const lingerMs = 3_000 * intervalSeconds

const ways = ['polled', 'announced by webhooks'] as const
type Way = (typeof ways)[number]

type Measured = {
  readonly way: Way
  readonly queue: Queue
  readonly changes: number
  /** Of those that arrived, the shortest first. */
  readonly latenciesMs: readonly number[]
}

/** As a table in Markdown. */
export async function benchLatency(minutes: number, say: (what: string) => void): Promise<string> {
  const all: Measured[] = []
  for (const queue of queues)
    for (const way of ways) {
      const measured = await measure(way, queue, minutes)
      say(lineOf(measured))
      all.push(measured)
    }
  return `${tableOf(all)}\n\n${loadOfMachine(1)}`
}

async function measure(way: Way, queue: Queue, minutes: number): Promise<Measured> {
  await using opened = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'tidemark-bench-latency-'))
  opened.defer(() => rm(directory, { recursive: true, force: true }))
  const database = await openBenchDatabase()
  opened.defer(() => database.close())
  const simulator = opened.use(await startSimulator({ assignments, notes: 0, trackers: 20 }))
  const redis = queue === 'Redis' ? await startRedis(directory) : null
  if (redis) opened.defer(() => ended(redis.child))
  const worker = startWorker(
    { ...simulator, databaseUrl: database.url, redisUrl: redis?.url ?? null },
    directory,
    await variablesOf(way),
  )
  opened.defer(() => ended(worker))
  await untilSettled(way, { database, simulator, worker })
  return { way, queue, ...(await follow(database, simulator, minutes)) }
}

async function variablesOf(way: Way): Promise<Readonly<Record<string, string>>> {
  const schedule = { SCHEDULE_ASSIGNMENT: `${intervalSeconds}s` }
  if (way === 'polled') return schedule
  const port = String(await freePort())
  return {
    HTTP_PORT: port,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    WEBHOOK_SECRET: 'a-webhook-secret-of-the-bench',
  }
}

type Parts = { readonly database: Database; readonly simulator: Simulator; readonly worker: ChildProcess }

/** Everything is read and compared, and the worker has subscribed itself. */
async function untilSettled(way: Way, { database, simulator, worker }: Parts): Promise<void> {
  const isSettled = async () => {
    const { rows } = await database.pool.query(
      `select from tidemark.stream where name = 'assignment' and last_reconcile_at is not null`,
    )
    return rows.length > 0 && (way === 'polled' || simulator.source.count('webhook_subscription') > 0)
  }
  for (const deadlineMs = Date.now() + longestStartMs; !(await isSettled()); await wait(500)) {
    if (worker.exitCode !== null) throw new Error('the worker ended')
    if (Date.now() > deadlineMs) throw new Error('the worker did not read everything in time')
  }
}

/** Each record changes again only after all others have, so each of its versions arrives. */
async function follow({ pool }: Database, { source }: Simulator, minutes: number) {
  const ids = source.ids('assignment')
  const changedAtMs = new Map<bigint, number>()
  const latenciesMs: number[] = []
  let changes = 0
  const beganMs = performance.now()
  const endsMs = beganMs + minutes * 60_000
  const change = () => {
    const due = ((Math.min(performance.now(), endsMs) - beganMs) / 1_000) * changesPerSecond
    for (; changes < due; changes++) {
      const { version } = source.change('assignment', ids[changes % ids.length] ?? 0)
      changedAtMs.set(version, performance.now())
    }
  }
  const timer = setInterval(change, 1_000 / changesPerSecond)
  let last = source.highestVersion('assignment')
  while (performance.now() < endsMs || (changedAtMs.size > 0 && performance.now() < endsMs + lingerMs)) {
    const { rows } = await pool.query<{ version: string }>(
      'select sys_row_version as version from mirror.assignment where sys_row_version > $1',
      [last],
    )
    const nowMs = performance.now()
    for (const version of rows.map((row) => BigInt(row.version))) {
      const atMs = changedAtMs.get(version)
      if (atMs !== undefined) latenciesMs.push(nowMs - atMs)
      changedAtMs.delete(version)
      if (version > last) last = version
    }
    await wait(lookEveryMs)
  }
  clearInterval(timer)
  return { changes, latenciesMs: latenciesMs.toSorted((a, b) => a - b) }
}

const share = ({ latenciesMs }: Measured, part: number): number =>
  latenciesMs[Math.min(latenciesMs.length - 1, Math.floor(part * latenciesMs.length))] ?? Number.NaN

const goals: Readonly<Record<Way, string>> = {
  polled: `≤ ${seconds(intervalSeconds * 500 + 100)} / ≤ ${seconds(intervalSeconds * 1_000 + 300)}`,
  'announced by webhooks': 'p95 < 1.00 s',
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)} s`
}

function lineOf(measured: Measured): string {
  const { way, queue, changes, latenciesMs } = measured
  const name = `${way}${way === 'polled' ? ` every ${intervalSeconds} s` : ''}, queue in ${queue}`
  const times = [0.5, 0.95, 1].map((part) => seconds(share(measured, part)))
  return `| ${[name, `${latenciesMs.length} of ${changes}`, ...times, goals[way]].join(' | ')} |`
}

const tableOf = (all: readonly Measured[]): string =>
  [
    `| ${changesPerSecond} changes a second, one worker | arrived | p50 | p95 | longest | goal p50 / p95 |`,
    '|---|---:|---:|---:|---:|---:|',
    ...all.map(lineOf),
  ].join('\n')
