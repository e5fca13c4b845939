// How fast the whole program loads records of the recorded kind from a static upstream, beside raw COPY of the very same rows. Each step is
// a process of its own, the rounds alternate, and of each the median counts.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ClientBase } from 'pg'
import type { Database } from '../src/store/server/connect.ts'
import { emptyStore, openBenchDatabase } from './postgres.ts'
import { median, postgresSeconds } from './processes.ts'

const recordCount = Number(process.env.BENCH_RECORDS ?? 200_000)
const rounds = Number(process.env.BENCH_ROUNDS ?? 5)

type Measured = {
  readonly seconds: number
  readonly nodeSeconds: number | null
  readonly postgresSeconds: number
  readonly megabytes: number | null
}
type Step = { readonly name: string; run(): Promise<Omit<Measured, 'postgresSeconds'>> }

/** As a table in Markdown. */
export async function benchLoading(say: (what: string) => void): Promise<string> {
  const database = await openBenchDatabase()
  const upstream = await startUpstream()
  try {
    const steps = stepsOf(database, upstream.address)
    const measured = new Map<string, Measured[]>(steps.map(({ name }) => [name, []]))
    const postmaster = await postmasterOf(database)
    for (let round = 0; round < rounds; round++)
      for (const { name, run } of steps) {
        const before = postgresSeconds(postmaster)
        const result = { ...(await run()), postgresSeconds: 0 }
        const all = { ...result, postgresSeconds: postgresSeconds(postmaster) - before }
        measured.get(name)?.push(all)
        say(
          `${name}: ${all.seconds.toFixed(1)} s, CPU ${all.nodeSeconds?.toFixed(2) ?? '–'} + ${all.postgresSeconds.toFixed(2)} s`,
        )
      }
    return tableOf(measured)
  } finally {
    upstream.stop()
    await database.close()
  }
}

function stepsOf(database: Database, upstream: string): readonly Step[] {
  const load = (pageSize: number, kind: string) => loadOnce(database, upstream, pageSize, kind)
  const loadAnew = async (pageSize: number) => {
    await emptyStore(database)
    return await load(pageSize, 'incremental')
  }
  return [
    { name: 'first load, pages of 1,000', run: () => loadAnew(1_000) },
    { name: 'first load, pages of 5,000', run: () => loadAnew(5_000) },
    { name: 'all of it again, unchanged', run: () => load(5_000, 'lookback') },
    { name: 'raw COPY, text', run: () => copyRaw(database, '') },
    { name: 'raw COPY, binary', run: () => copyRaw(database, ' with (format binary)') },
  ]
}

async function startUpstream(): Promise<{ readonly address: string; stop(): void }> {
  const program = new URL('./upstream.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--max-old-space-size=8000', program, String(recordCount), '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data')
  return { address: String(line).split(' ')[0] ?? '', stop: () => child.kill() }
}

async function loadOnce(database: Database, upstream: string, pageSize: number, kind: string) {
  const program = new URL('./load-once.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--max-semi-space-size=8', program, kind], {
    env: {
      ...process.env,
      ASSIGNMENT_BASE_URL: `${upstream}/assignment`,
      AUTH_URL: `${upstream}/auth`,
      SUBJECT_ID: 'bench',
      API_KEY: 'a-key-of-the-bench',
      CLIENT_GUID: '6f1c1d52-3a0b-4f0e-9a53-0b7c9d1e2a11',
      DATABASE_URL: database.url,
      PAGE_SIZE: String(pageSize),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  await once(child, 'close')
  const { seconds, nodeSeconds, megabytes, status, isComplete } = JSON.parse(printed)
  if (status !== 'done' || !isComplete) throw new Error(`the ${kind} run ended ${status}`)
  return { seconds, nodeSeconds, megabytes }
}

/** The rows that are in the table, out of it and in again, with the indexes and triggers it has. */
async function copyRaw(database: Database, format: string) {
  const client = await database.pool.connect()
  try {
    const { rows: columns } = await client.query<{ name: string }>(
      `select quote_ident(attname) as name from pg_attribute
       where attrelid = 'mirror.assignment'::regclass and attnum > 0 and not attisdropped order by attnum`,
    )
    const names = columns.map(({ name }) => name).join(', ')
    const file = `tidemark_bench_${process.pid}`
    await client.query(`begin; set local tidemark.writer = 'on'`)
    await client.query(`copy mirror.assignment (${names}) to '/tmp/${file}'${format}`)
    await client.query('truncate mirror.assignment; commit; checkpoint')
    const began = performance.now()
    await copyFrom(client, `copy mirror.assignment (${names}) from '/tmp/${file}'${format}`)
    return { seconds: (performance.now() - began) / 1000, nodeSeconds: null, megabytes: null }
  } finally {
    client.release()
  }
}

async function copyFrom(client: ClientBase, sql: string): Promise<void> {
  await client.query(`begin; set local tidemark.writer = 'on'; ${sql}; commit`)
}

async function postmasterOf(database: Database): Promise<number> {
  const { rows } = await database.pool.query<{ pid: string }>(
    `select split_part(pg_read_file('postmaster.pid'), E'\\n', 1) as pid`,
  )
  return Number(rows[0]?.pid)
}

function tableOf(measured: ReadonlyMap<string, readonly Measured[]>): string {
  const middle = (name: string, value: (one: Measured) => number | null) =>
    median((measured.get(name) ?? []).flatMap((one) => value(one) ?? []))
  const raw = middle('raw COPY, text', ({ seconds }) => seconds)
  const line = (name: string) => {
    const seconds = middle(name, (one) => one.seconds)
    const node = middle(name, (one) => one.nodeSeconds)
    const peak = middle(name, (one) => one.megabytes)
    const cells = [
      seconds.toFixed(2),
      node > 0 ? node.toFixed(2) : '',
      middle(name, (one) => one.postgresSeconds).toFixed(2),
      peak > 0 ? `${Math.round(peak)} MB` : '',
      (raw / seconds).toFixed(2),
    ]
    return `| ${name} | ${cells.join(' | ')} |`
  }
  return [
    `| ${recordCount.toLocaleString('en')} records | s | Node CPU s | Postgres CPU s | memory | ratio to raw COPY, text |`,
    '|---|---:|---:|---:|---:|---:|',
    ...[...measured.keys()].map(line),
  ].join('\n')
}
