// What the program costs while nothing happens: `tidemark serve` as a process of its own on a source of three streams in which nobody
// changes anything, after everything is read, with the queue in Redis and with it in Postgres. Counts CPU, transactions, rows written,
// requests, memory and what is added to the disk; prints the statements that were sent most often.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { freePort } from '../src/embedded-postgres/cluster.ts'
import { startEmbedded } from '../src/embedded-postgres/server.ts'
import { type Simulator, startSimulator } from '../src/simulator/simulator.ts'
import { openDatabase } from '../src/store/server/connect.ts'
import { benchLog } from './postgres.ts'
import { postgresSeconds, postmasterOf, programSeconds, residentMegabytes } from './processes.ts'
import { loadOfMachine } from './report.ts'

const program = fileURLToPath(new URL('../bin/tidemark.js', import.meta.url))
const records = { assignments: 1_200, notes: 600, trackers: 200 }
/** After the last stream was compared, until look-backs, which reach ten minutes back, read nothing of the first load any more. */
const quietMs = Number(process.env.BENCH_QUIET_SECONDS ?? 720) * 1_000
const longestReadMs = 180_000
const shownStatements = 40

export const queues = ['Redis', 'Postgres'] as const
export type Queue = (typeof queues)[number]

type Table = {
  readonly name: string
  readonly inserted: number
  readonly updated: number
  readonly deleted: number
}
type Sample = {
  readonly atMs: number
  readonly node: number
  readonly postgres: number
  readonly redis: number
  readonly transactions: number
  readonly requests: number
  readonly walBytes: number
  readonly diskBytes: number
  readonly tables: ReadonlyMap<string, Table>
  readonly statements: ReadonlyMap<string, number>
}
type Measured = { readonly queue: Queue; readonly minutes: number; readonly megabytes: number } & Readonly<
  Record<'from' | 'to', Sample>
>

/** As a table in Markdown. */
export async function benchRest(
  minutes: number,
  which: readonly Queue[],
  say: (what: string) => void,
): Promise<string> {
  const all: Measured[] = []
  for (const queue of which) {
    const measured = await measure(queue, minutes, say)
    say(`${statementsOf(measured)}\n\n${tablesOf(measured)}`)
    all.push(measured)
  }
  return `${tableOf(all)}\n\n${loadOfMachine(1)}`
}

async function measure(queue: Queue, minutes: number, say: (what: string) => void): Promise<Measured> {
  await using opened = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'tidemark-bench-rest-'))
  opened.defer(() => rm(directory, { recursive: true, force: true }))
  const postgres = opened.use(await startPostgres(directory))
  const simulator = opened.use(await startSimulator(records))
  const redis = queue === 'Redis' ? await startRedis(directory) : null
  if (redis) opened.defer(() => ended(redis.child))
  const worker = startWorker(
    { ...simulator, databaseUrl: postgres.url, redisUrl: redis?.url ?? null },
    directory,
  )
  opened.defer(() => ended(worker))
  const look = await openLook(postgres, { worker, redis: redis?.child ?? null, simulator })
  opened.defer(look.close)
  say(`queue in ${queue}: reading ${records.assignments + records.notes + records.trackers} rows`)
  await look.untilRead()
  await wait(quietMs)
  say(`queue in ${queue}: at rest, measuring for ${minutes} min`)
  const from = await look.sample()
  const sizes: number[] = []
  for (let second = 0; second < minutes * 60; second += 5) {
    await wait(5_000)
    sizes.push(residentMegabytes(worker.pid ?? 0))
  }
  return { queue, minutes, from, to: await look.sample(), megabytes: Math.max(...sizes) }
}

type Server = AsyncDisposable & { readonly url: string; readonly adminUrl: string }

/** One of its own that counts statements. */
async function startPostgres(directory: string): Promise<Server> {
  const start = () => startEmbedded({ directory, log: benchLog })
  const first = await start()
  await asAdmin(first.adminUrl, `alter system set shared_preload_libraries = 'pg_stat_statements'`)
  await first.leave()
  const { url, adminUrl, leave } = await start()
  await asAdmin(adminUrl, 'create extension pg_stat_statements')
  return { url, adminUrl, [Symbol.asyncDispose]: leave }
}

async function asAdmin(url: string, statement: string): Promise<void> {
  const admin = new pg.Client(url)
  await admin.connect()
  await admin.query(statement).finally(() => admin.end())
}

export async function startRedis(directory: string) {
  const port = await freePort()
  const words = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '']
  const child = spawn('redis-server', [...words, '--maxmemory-policy', 'noeviction'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  return { child, url: `redis://127.0.0.1:${port}` }
}

type Around = Pick<Simulator, 'assignmentUrl' | 'trackingUrl' | 'authUrl' | 'credentials'> & {
  readonly databaseUrl: string
  readonly redisUrl: string | null
}

/** `variables` go before those of its surroundings. */
export function startWorker(
  around: Around,
  directory: string,
  variables: Readonly<Record<string, string>> = {},
): ChildProcess {
  const { clientGuid, subjectId, apiKey } = around.credentials
  // As the first line of the program has it, which is not read here: a program in between would not be measured.
  const child = spawn(process.execPath, ['--max-semi-space-size=8', program, 'serve'], {
    cwd: directory,
    env: {
      ...{ PATH: process.env.PATH, HOME: process.env.HOME },
      ...{ MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '262144', MALLOC_TRIM_THRESHOLD_: '262144' },
      ASSIGNMENT_BASE_URL: around.assignmentUrl,
      TRACKING_BASE_URL: around.trackingUrl,
      AUTH_URL: around.authUrl,
      CLIENT_GUID: clientGuid,
      SUBJECT_ID: subjectId,
      API_KEY: apiKey,
      STREAMS: 'assignment,assignment_note,tracker_object',
      DATABASE_URL: around.databaseUrl,
      ...(around.redisUrl !== null && { REDIS_URL: around.redisUrl }),
      HTTP_PORT: '0',
      LOG_LEVEL: 'warn',
      ...variables,
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  child.on('exit', (code) => code && process.stderr.write(`the worker ended with ${code}\n`))
  return child
}

export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  child.kill()
  await once(child, 'exit')
}

type Watched = {
  readonly worker: ChildProcess
  readonly redis: ChildProcess | null
  readonly simulator: Simulator
}

async function openLook({ url, adminUrl }: Server, { worker, redis, simulator }: Watched) {
  const database = await openDatabase({ url, log: benchLog })
  const postmaster = await postmasterOf(database)
  const pool = new pg.Pool({ connectionString: adminUrl, max: 1 })
  let asked = 0
  const forget = simulator.onRequest(() => {
    asked += 1
  })
  const one = async (text: string) => (await pool.query(text)).rows[0] ?? {}
  return {
    async close() {
      forget()
      await database.close()
      await pool.end()
    },
    async untilRead() {
      const deadlineMs = Date.now() + longestReadMs
      while (Date.now() < deadlineMs) {
        const { read } = await one(isReadSql).catch(() => ({ read: 0 }))
        if (read === 3) return
        if (worker.exitCode !== null) throw new Error('the worker ended')
        await wait(1_000)
      }
      throw new Error('the streams were not read in time')
    },
    async sample(): Promise<Sample> {
      const { rows: tables } = await pool.query(tablesSql)
      const { rows: statements } = await pool.query(statementsSql)
      const { transactions, wal, disk } = await one(sizesSql)
      return {
        atMs: performance.now(),
        node: programSeconds(worker.pid ?? 0),
        postgres: postgresSeconds(postmaster),
        redis: redis ? programSeconds(redis.pid ?? 0) : 0,
        ...{ transactions, walBytes: wal, diskBytes: disk },
        requests: asked,
        tables: new Map(tables.map((table) => [table.name, table])),
        statements: new Map(statements.map(({ text, calls }) => [text, calls])),
      }
    },
  }
}

/** A list is compared by every poll; the others are, once their first load is over. */
const isReadSql = `
  select count(*)::int as read from tidemark.stream
  where name in ('assignment', 'assignment_note', 'tracker_object') and first_read_through_at is not null
    and (name = 'tracker_object' or last_reconcile_at is not null)`

const tablesSql = `
  select schemaname || '.' || relname as name, n_tup_ins::float8 as inserted, n_tup_upd::float8 as updated,
    n_tup_del::float8 as deleted
  from pg_stat_all_tables where schemaname not in ('pg_toast', 'information_schema') and schemaname !~ '^pg_temp'`

const statementsSql = `
  select left(regexp_replace(query, '\\s+', ' ', 'g'), 150) as text, sum(calls)::float8 as calls
  from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database()) group by 1`

const sizesSql = `
  select xact_commit + xact_rollback as transactions, pg_database_size(current_database())::float8 as disk,
    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as wal
  from (select xact_commit::float8, xact_rollback::float8 from pg_stat_database where datname = current_database()) as known`

const isWritten = ({ inserted, updated, deleted }: Table) => inserted + updated + deleted

function changesOf({ from, to }: Measured): readonly Table[] {
  return [...to.tables.values()]
    .map((table) => {
      const before = from.tables.get(table.name)
      return {
        name: table.name,
        inserted: table.inserted - (before?.inserted ?? 0),
        updated: table.updated - (before?.updated ?? 0),
        deleted: table.deleted - (before?.deleted ?? 0),
      }
    })
    .filter((table) => isWritten(table) > 0)
    .toSorted((a, b) => isWritten(b) - isWritten(a))
}

function statementsOf({ queue, minutes, from, to }: Measured): string {
  const more = [...to.statements]
    .map(([text, calls]) => ({ text, perMinute: (calls - (from.statements.get(text) ?? 0)) / minutes }))
    .filter(({ perMinute }) => perMinute > 0)
    .toSorted((a, b) => b.perMinute - a.perMinute)
  const sum = more.reduce((all, { perMinute }) => all + perMinute, 0)
  const lines = more
    .slice(0, shownStatements)
    .map(({ text, perMinute }) => `${perMinute.toFixed(1).padStart(8)}  ${text}`)
  return `queue in ${queue}, statements a minute, ${sum.toFixed(0)} in all:\n${lines.join('\n')}`
}

function tablesOf(measured: Measured): string {
  const each = (count: number) => (count / measured.minutes).toFixed(1).padStart(8)
  const lines = changesOf(measured).map(
    ({ name, inserted, updated, deleted }) => `${each(inserted)}${each(updated)}${each(deleted)}  ${name}`,
  )
  return `rows inserted, updated and deleted a minute:\n${lines.join('\n')}`
}

/** Those of Tidemark and its queue; the catalogue's are shown apart. */
const isOwn = ({ name }: Table) => !name.startsWith('pg_catalog.')

function tableOf(all: readonly Measured[]): string {
  const cpu = (pick: (sample: Sample) => number) => (one: Measured) =>
    (((pick(one.to) - pick(one.from)) * 1_000_000) / (one.to.atMs - one.from.atMs)).toFixed(2)
  const minutely = (count: (one: Measured) => number) => (one: Measured) =>
    (count(one) / one.minutes).toFixed(1)
  const written = (which: (table: Table) => boolean, count: (table: Table) => number) =>
    minutely((one) =>
      changesOf(one)
        .filter(which)
        .reduce((sum, table) => sum + count(table), 0),
    )
  const kilobytes = (pick: (sample: Sample) => number) =>
    minutely((one) => (pick(one.to) - pick(one.from)) / 1_000)
  const lines: readonly (readonly [string, (one: Measured) => string])[] = [
    ['CPU of Node, ms a second', cpu(({ node }) => node)],
    ['CPU of Postgres, ms a second', cpu(({ postgres }) => postgres)],
    ['CPU of Redis, ms a second', cpu(({ redis }) => redis)],
    ['transactions a minute', minutely((one) => one.to.transactions - one.from.transactions)],
    ['rows inserted a minute', written(isOwn, ({ inserted }) => inserted)],
    ['rows updated a minute', written(isOwn, ({ updated }) => updated)],
    ['rows deleted a minute', written(isOwn, ({ deleted }) => deleted)],
    ['rows of the catalogue written a minute', written((table) => !isOwn(table), isWritten)],
    ['requests a minute', minutely((one) => one.to.requests - one.from.requests)],
    ['memory, MB', ({ megabytes }) => megabytes.toFixed(0)],
    ['WAL, kB a minute', kilobytes(({ walBytes }) => walBytes)],
    ['growth of the database, kB a minute', kilobytes(({ diskBytes }) => diskBytes)],
  ]
  const minutes = all[0]?.minutes ?? 0
  return [
    `| at rest for ${minutes} min | ${all.map(({ queue }) => `queue in ${queue}`).join(' | ')} |`,
    `|---|${all.map(() => '---:|').join('')}`,
    ...lines.map(([what, cell]) => `| ${what} | ${all.map(cell).join(' | ')} |`),
  ].join('\n')
}
