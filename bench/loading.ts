// How fast the whole program loads records from a static upstream, beside raw COPY of the very same rows: long ones like those of a recorded
// service, shorter ones, and ones that are like neither. Each step is a process of its own, the rounds alternate, and of each the median counts.

import type { Database } from '../src/store/server/connect.ts'
import { emptyStore, openBenchDatabase } from './postgres.ts'
import { median, postgresSeconds, postmasterOf } from './processes.ts'
import { type BenchUpstream, type LoadOptions, loader, start, startUpstream } from './programs.ts'
import { copyIn, copyOut } from './raw-copy.ts'
import { loadOfMachine } from './report.ts'
import { kindsOfRecords } from './static-records.ts'

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
  /** Calls `begin` when what is measured begins, if that is not at once. */
  run(begin: () => void): Promise<Omit<Measured, 'postgresSeconds'>>
  /** In the first round only, and not for the shorter records: it mostly waits, and one is as good as the next. */
  readonly isOnce?: boolean
}

/** As tables in Markdown, one for each kind of records. */
export async function benchLoading(say: (what: string) => void): Promise<string> {
  const database = await openBenchDatabase()
  const tables: string[] = []
  try {
    for (const kind of kindsOfRecords) {
      const upstream = await startUpstream(recordCount, kind)
      const steps = stepsOf(database, upstream.address).filter(({ isOnce }) => !isOnce || kind !== 'plain')
      const records = `${await shapeOf(upstream)}${kind === 'unlike' ? ', unlike the others' : ''}`
      say(records)
      tables.push(tableOf(records, await measure(database, steps, say).finally(() => upstream.stop())))
    }
  } finally {
    await database.close()
  }
  return `${tables.join('\n\n')}\n\n${loadOfMachine(rounds, 'with a delay: of one')}`
}

async function measure(
  database: Database,
  steps: readonly Step[],
  say: (what: string) => void,
): Promise<ReadonlyMap<string, readonly Measured[]>> {
  const measured = new Map<string, Measured[]>(steps.map(({ name }) => [name, []]))
  const postmaster = await postmasterOf(database)
  for (let round = 0; round < rounds; round++)
    for (const { name, prepare, run, isOnce = false } of steps) {
      if (isOnce && round > 0) continue
      await prepare?.()
      let before = postgresSeconds(postmaster)
      const result = await run(() => {
        before = postgresSeconds(postmaster)
      })
      const all = { ...result, postgresSeconds: postgresSeconds(postmaster) - before }
      measured.get(name)?.push(all)
      say(
        `${name}: ${all.seconds.toFixed(1)} s, CPU ${all.nodeSeconds?.toFixed(2) ?? '–'} + ${all.postgresSeconds.toFixed(2)} s`,
      )
    }
  return measured
}

const somePage = '/assignment/api/Assignment/neworchanged/0?Page=1&PageSize=1000'

/** What the records are like, as the head of their table. */
async function shapeOf({ address }: BenchUpstream): Promise<string> {
  const text = await (await fetch(`${address}${somePage}`)).text()
  const records: readonly object[] = JSON.parse(text)
  const kilobytes = (text.length / records.length / 1000).toFixed(1)
  const fields = Object.keys(records[0] ?? {}).length
  return `${recordCount.toLocaleString('en')} records of ${fields} fields, ${kilobytes} KB of JSON`
}

function stepsOf(database: Database, upstream: string): readonly Step[] {
  const load = (kind: string, options: LoadOptions) => (begin: () => void) =>
    loadOnce(database, upstream, { kind, ...options }, begin)
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
    run: async () => ({ seconds: await copyIn(database, options), nodeSeconds: null, megabytes: null }),
  })
  return [
    ...[delayed(30, 1), delayed(30, 12), delayed(300, 1), delayed(300, 12)],
    first('pages of 1,000', { pageSize: 1_000 }),
    first('pages of 5,000', { pageSize: 5_000 }),
    { name: 'all of it again, unchanged', run: load('lookback', { pageSize: 5_000 }) },
    {
      name: 'the same, by a program that has read it before',
      run: load('lookback', { pageSize: 5_000, isAgain: true }),
    },
    raw('text', ''),
    raw('binary', ' with (format binary)'),
  ]
}

async function loadOnce(
  database: Database,
  upstream: string,
  { kind, ...options }: LoadOptions & { readonly kind: string },
  begin: () => void,
) {
  const { child, printed } = start(loader(database, upstream, kind, options))
  if (options.isAgain) child.stdout?.once('data', begin)
  const { seconds, nodeSeconds, megabytes, status, isComplete } = JSON.parse(await printed)
  if (status !== 'done' || !isComplete) throw new Error(`the ${kind} run ended ${status}`)
  return { seconds, nodeSeconds, megabytes }
}

function tableOf(records: string, measured: ReadonlyMap<string, readonly Measured[]>): string {
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
    `| ${records} | s | Node CPU s | Postgres CPU s | memory | ratio to raw COPY, text |`,
    '|---|---:|---:|---:|---:|---:|',
    ...[...measured.keys()].map(line),
  ].join('\n')
}
