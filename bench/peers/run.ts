// `npm run bench:peers`: loads the same upstream into the same Postgres with Tidemark, dlt and Singer, and writes what each takes into
// docs/how-it-works/performance.md. Nothing else should run meanwhile. Needs python3 and PyPI.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Database } from '../../src/store/server/connect.ts'
import { emptyStore, openBenchDatabase } from '../postgres.ts'
import { median, postgresSeconds, postmasterOf } from '../processes.ts'
import { start, startUpstream } from '../programs.ts'
import { copyIn, copyOut } from '../raw-copy.ts'
import { loadOfMachine, machine, writeBlock } from '../report.ts'
import { preparePython } from './python.ts'
import { dlt, type Place, singer, type Tool, tidemark } from './tools.ts'

const recordCount = Number(process.env.BENCH_RECORDS ?? 200_000)
const fewer = Math.round(recordCount * 0.3)
const rounds = Number(process.env.BENCH_ROUNDS ?? 3)
const readers = 12
const pathOf = (file: string): string => fileURLToPath(new URL(file, import.meta.url))
const say = (what: string) => process.stderr.write(`${what}\n`)

type Taken = {
  readonly seconds: number
  readonly cpuSeconds: number | null
  readonly megabytes: number | null
}
type Measured = Taken & { readonly postgresSeconds: number }
type Step = Pick<Tool, 'name' | 'makes'> & {
  readonly rows: number
  /** In the first round only: it is so slow that others do not matter. */
  readonly isOnce: boolean
  prepare(): Promise<void>
  run(): Promise<Taken>
}
type Source = Pick<Place, 'upstream' | 'recordCount' | 'pageSize'>

function stepsOf(
  database: Database,
  programs: string,
  { many, few }: Record<'many' | 'few', string>,
): readonly Step[] {
  const all: Source = { upstream: many, recordCount, pageSize: 5_000 }
  const slow: Source = { upstream: `${few}/300ms`, recordCount: fewer, pageSize: 1_000 }
  const step = (tool: Tool, source: Source, isOnce = false): Step => ({
    ...{ name: tool.name, makes: tool.makes, rows: source.recordCount, isOnce },
    prepare: () => emptyAll(database),
    run: () => runTool(tool, database, programs, source),
  })
  return [
    step(singer(false, 'Singer, defaults', 'one row a key'), all, true),
    step(dlt('defaults', 'dlt, defaults', 'a row a record'), all, true),
    step(singer(true, 'Singer, at its best', 'one row a key'), all),
    step(dlt('merge', 'dlt, at its best, merged by key', 'one row a key'), all),
    step(dlt('arrow', 'dlt, at its best', 'a row a record'), all),
    step(tidemark('Tidemark', 1), all),
    {
      ...{
        name: 'raw COPY, text',
        makes: 'the rows and indexes of Tidemark',
        rows: recordCount,
        isOnce: false,
      },
      prepare: () => copyOut(database),
      run: async () => ({ seconds: await copyIn(database), cpuSeconds: null, megabytes: null }),
    },
    step(dlt('parallel', `300 ms an answer: dlt, ${readers} at once`, 'a row a record'), slow),
    step(tidemark(`300 ms an answer: Tidemark, ${readers} readers`, readers), slow),
  ]
}

async function emptyAll(database: Database): Promise<void> {
  await emptyStore(database)
  await database.pool.query(`
    drop schema if exists dlt cascade;
    drop schema if exists dlt_staging cascade;
    drop schema if exists singer cascade`)
  await database.pool.query('checkpoint')
}

async function runTool(
  { name, table, pipe }: Tool,
  database: Database,
  programs: string,
  source: Source,
): Promise<Taken> {
  const directory = await mkdtemp(join(tmpdir(), 'tidemark-peers-'))
  try {
    const { commands, environment } = await pipe({ ...source, programs, directory, url: database.url })
    const words = [join(programs, 'python'), pathOf('./measure.py'), JSON.stringify(commands)]
    const taken: Taken = JSON.parse(await start({ words, environment }).printed)
    const { rows } = await database.pool.query<{ count: string }>(`select count(*) from ${table}`)
    if (Number(rows[0]?.count) !== source.recordCount)
      throw new Error(`${name} left ${rows[0]?.count} rows of ${source.recordCount}`)
    return taken
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

async function measureAll(database: Database, steps: readonly Step[]): Promise<string> {
  const measured = new Map<Step, Measured[]>(steps.map((step) => [step, []]))
  const postmaster = await postmasterOf(database)
  for (let round = 0; round < rounds; round++)
    for (const step of steps) {
      if (step.isOnce && round > 0) continue
      await step.prepare()
      const before = postgresSeconds(postmaster)
      const taken = await step.run()
      const one = { ...taken, postgresSeconds: postgresSeconds(postmaster) - before }
      measured.get(step)?.push(one)
      say(
        `${step.name}: ${one.seconds.toFixed(1)} s, CPU ${one.cpuSeconds?.toFixed(1) ?? '–'} + ${one.postgresSeconds.toFixed(1)} s`,
      )
    }
  return tableOf(measured)
}

function tableOf(measured: ReadonlyMap<Step, readonly Measured[]>): string {
  const lines = [...measured].map(([step, all]) => {
    const middle = (value: (one: Measured) => number | null) => median(all.flatMap((one) => value(one) ?? []))
    const seconds = middle((one) => one.seconds)
    return { step, seconds, speed: step.rows / seconds, middle }
  })
  const raw = lines.find(({ step }) => step.name.startsWith('raw COPY'))?.speed ?? 0
  return [
    '| | records | s | rows/s | its CPU s | Postgres CPU s | memory | ratio to raw COPY | makes |',
    '|---|---:|---:|---:|---:|---:|---:|---:|---|',
    ...lines.map(({ step, seconds, speed, middle }) => {
      const [cpu, peak] = [middle((one) => one.cpuSeconds), middle((one) => one.megabytes)]
      const cells = [
        ...[step.name, step.rows.toLocaleString('en'), seconds.toFixed(1)],
        (Math.round(speed / 100) * 100).toLocaleString('en'),
        ...[cpu > 0 ? cpu.toFixed(1) : '', middle((one) => one.postgresSeconds).toFixed(1)],
        ...[peak > 0 ? `${Math.round(peak)} MB` : '', (speed / raw).toFixed(2), step.makes],
      ]
      return `| ${cells.join(' | ')} |`
    }),
  ].join('\n')
}

/** Exits with one line when something is missing. */
const programs = await preparePython(pathOf('../../.tidemark/peers')).catch((error: Error) => {
  say(error.message)
  process.exit(1)
})
const database = await openBenchDatabase()
const upstreams = { many: await startUpstream(recordCount), few: await startUpstream(fewer) }
try {
  const addresses = { many: upstreams.many.address, few: upstreams.few.address }
  const lines = await measureAll(database, stepsOf(database, programs, addresses))
  const { rows } = await database.pool.query<{ version: string }>(
    `select current_setting('server_version') as version`,
  )
  const shown = `${lines}\n\n${loadOfMachine(rounds, 'of defaults: of one')}\n\n${machine(rows[0]?.version ?? '')}`
  process.stdout.write(`${shown}\n`)
  writeBlock('peers', shown)
} finally {
  upstreams.many.stop()
  upstreams.few.stop()
  await database.close()
}
