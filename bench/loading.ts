// How fast the whole program loads records of the recorded kind from a static upstream, beside raw COPY of the very same rows. Each step is
// a process of its own, the rounds alternate, and of each the median counts.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpus, loadavg } from 'node:os'
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
type Step = {
  readonly name: string
  /** What is not measured. */
  prepare?(): Promise<void>
  run(): Promise<Omit<Measured, 'postgresSeconds'>>
  /** In the first round only: it mostly waits, and one is as good as the next. */
  readonly isOnce?: boolean
}

/** As a table in Markdown. */
export async function benchLoading(say: (what: string) => void): Promise<string> {
  const database = await openBenchDatabase()
  const upstream = await startUpstream()
  try {
    const steps = stepsOf(database, upstream.address)
    const measured = new Map<string, Measured[]>(steps.map(({ name }) => [name, []]))
    const postmaster = await postmasterOf(database)
    for (let round = 0; round < rounds; round++)
      for (const { name, prepare, run, isOnce = false } of steps) {
        if (isOnce && round > 0) continue
        await prepare?.()
        const before = postgresSeconds(postmaster)
        const result = await run()
        const all = { ...result, postgresSeconds: postgresSeconds(postmaster) - before }
        measured.get(name)?.push(all)
        say(
          `${name}: ${all.seconds.toFixed(1)} s, CPU ${all.nodeSeconds?.toFixed(2) ?? '–'} + ${all.postgresSeconds.toFixed(2)} s`,
        )
      }
    return `${tableOf(measured)}\n\n${loadOf()}`
  } finally {
    upstream.stop()
    await database.close()
  }
}

/** Other work on the machine is part of the figures. */
const loadOf = (): string => {
  const [, , fifteenMinutes = 0] = loadavg()
  return `Each figure is the median of ${rounds} ${rounds === 1 ? 'round' : 'rounds'} (with a delay: of one). Load of the machine in the 15 minutes before the end: ${fifteenMinutes.toFixed(1)} on ${cpus().length} cores, of which the bench itself is about 2.`
}

function stepsOf(database: Database, upstream: string): readonly Step[] {
  const load = (kind: string, options: LoadOptions) => () => loadOnce(database, upstream, kind, options)
  const first = (name: string, options: LoadOptions): Step => ({
    name: `first load, ${name}`,
    prepare: () => emptyStore(database),
    run: load('incremental', options),
  })
  const delayed = (delayMs: number, readers: number): Step => ({
    ...first(
      `${delayMs} ms an answer, ${readers === 1 ? 'one reader' : `${readers} readers`}, pages of 1,000`,
      {
        ...{ pageSize: 1_000, delayMs, readers },
      },
    ),
    isOnce: true,
  })
  const raw = (format: string, options: string): Step => ({
    name: `raw COPY, ${format}`,
    prepare: () => copyOut(database, options),
    run: () => copyIn(database, options),
  })
  return [
    ...[delayed(30, 1), delayed(30, 12), delayed(300, 1), delayed(300, 12)],
    first('pages of 1,000', { pageSize: 1_000 }),
    first('pages of 5,000', { pageSize: 5_000 }),
    { name: 'all of it again, unchanged', run: load('lookback', { pageSize: 5_000 }) },
    raw('text', ''),
    raw('binary', ' with (format binary)'),
  ]
}

async function startUpstream(): Promise<{ readonly address: string; stop(): void }> {
  const program = new URL('./upstream.ts', import.meta.url).pathname
  const child = spawn(process.execPath, ['--max-old-space-size=8000', program, String(recordCount)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data')
  return { address: String(line).split(' ')[0] ?? '', stop: () => child.kill() }
}

type LoadOptions = { readonly pageSize: number; readonly delayMs?: number; readonly readers?: number }

async function loadOnce(
  { url }: Database,
  upstream: string,
  kind: string,
  { pageSize, delayMs = 0, readers = 1 }: LoadOptions,
) {
  const program = new URL('./load-once.ts', import.meta.url).pathname
  // As the program itself is started.
  const quickStart = new URL('../bin/quick-start.js', import.meta.url).pathname
  const flags = ['--max-semi-space-size=8', '--import', quickStart]
  const child = spawn(process.execPath, [...flags, program, kind], {
    env: {
      ...process.env,
      ASSIGNMENT_BASE_URL: `${upstream}${delayMs > 0 ? `/${delayMs}ms` : ''}/assignment`,
      AUTH_URL: `${upstream}/auth`,
      SUBJECT_ID: 'bench',
      API_KEY: 'a-key-of-the-bench',
      CLIENT_GUID: '6f1c1d52-3a0b-4f0e-9a53-0b7c9d1e2a11',
      DATABASE_URL: url,
      PAGE_SIZE: String(pageSize),
      LOAD_CONNECTIONS: String(readers),
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

const copied = `/tmp/tidemark_bench_${process.pid}`

/** The rows that are in the table go out of it, to come in again with the indexes and triggers that it has. */
async function copyOut(database: Database, options: string): Promise<void> {
  const names = await columnNames(database)
  await asWriter(
    database,
    `copy mirror.assignment (${names}) to '${copied}'${options}; truncate mirror.assignment`,
  )
  await database.pool.query('checkpoint')
}

async function copyIn(database: Database, options: string): Promise<Omit<Measured, 'postgresSeconds'>> {
  const names = await columnNames(database)
  const began = performance.now()
  await asWriter(database, `copy mirror.assignment (${names}) from '${copied}'${options}`)
  return { seconds: (performance.now() - began) / 1000, nodeSeconds: null, megabytes: null }
}

async function columnNames({ pool }: Database): Promise<string> {
  const { rows } = await pool.query<{ name: string }>(
    `select quote_ident(attname) as name from pg_attribute
     where attrelid = 'mirror.assignment'::regclass and attnum > 0 and not attisdropped order by attnum`,
  )
  return rows.map(({ name }) => name).join(', ')
}

const asWriter = ({ pool }: Database, sql: string): Promise<unknown> =>
  pool.query(`begin; set local tidemark.writer = 'on'; ${sql}; commit`)

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
