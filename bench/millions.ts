// Whether a first load stays as fast, and its memory as it is, however many records there are: one load of millions, looked at while it runs.

import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import type { Database } from '../src/store/server/connect.ts'
import { openBenchDatabase } from './postgres.ts'
import { postgresSeconds, postmasterOf, programSeconds, residentMegabytes } from './processes.ts'
import { loader, start, startUpstream } from './programs.ts'
import { loadOfMachine } from './report.ts'

const million = 1_000_000
const pageSize = 5_000
const lookEveryMs = 500
const parts = 10

type Look = {
  readonly rows: number
  readonly atMs: number
  readonly nodeSeconds: number
  readonly postgresSeconds: number
}
/** Between two looks. */
type Part = { readonly from: Look; readonly to: Look; readonly megabytes: number }

/** As a table in Markdown. */
export async function benchMillions(millions: number, say: (what: string) => void): Promise<string> {
  const recordCount = millions * million
  const database = await openBenchDatabase()
  const upstream = await startUpstream(recordCount)
  try {
    const measured = await watchLoad(database, upstream.address, recordCount, (part) =>
      say(cellsOf(part).join(', ')),
    )
    return [tableOf(measured), outcomeOf(measured), loadOfMachine(1)].join('\n\n')
  } finally {
    upstream.stop()
    await database.close()
  }
}

async function watchLoad(
  database: Database,
  upstream: string,
  recordCount: number,
  say: (part: Part) => void,
): Promise<readonly Part[]> {
  const postmaster = await postmasterOf(database)
  const { child, printed } = start(loader(database, upstream, 'incremental', { pageSize }))
  const pid = child.pid ?? 0
  const ended = once(child, 'exit').then(() => 'ended' as const)
  const look = async (): Promise<Look> => ({
    rows: await rowsIn(database),
    ...{
      atMs: performance.now(),
      nodeSeconds: programSeconds(pid),
      postgresSeconds: postgresSeconds(postmaster),
    },
  })
  const measured: Part[] = []
  let from = await look()
  let [last, megabytes, isOver] = [from, 0, false]
  while (measured.length < parts && !isOver) {
    isOver = (await Promise.race([ended, wait(lookEveryMs)])) === 'ended'
    // Of a program that has ended Linux tells nothing more.
    const { nodeSeconds } = last
    last = isOver ? { ...(await look()), nodeSeconds } : await look()
    if (!isOver) megabytes = Math.max(megabytes, residentMegabytes(pid))
    if (!isOver && last.rows < ((measured.length + 1) * recordCount) / parts) continue
    const part = { from, to: last, megabytes }
    say(part)
    measured.push(part)
    ;[from, megabytes] = [last, 0]
  }
  const { status, isComplete, inserted } = JSON.parse(await printed)
  if (status !== 'done' || !isComplete || inserted !== recordCount)
    throw new Error(`the load ended ${status} with ${inserted} rows`)
  return measured
}

/** As Postgres counts them at each commit: counting them anew would cost more than what is measured. */
async function rowsIn({ pool }: Database): Promise<number> {
  const { rows } = await pool.query<{ count: string }>(
    `select n_tup_ins as count from pg_stat_user_tables where relid = to_regclass('mirror.assignment')`,
  )
  return Number(rows[0]?.count ?? 0)
}

const speedOf = ({ from, to }: Part): number => (to.rows - from.rows) / ((to.atMs - from.atMs) / 1000)
/** CPU seconds of a million records. */
const costOf = ({ from, to }: Part, whose: 'nodeSeconds' | 'postgresSeconds'): number =>
  ((to[whose] - from[whose]) / (to.rows - from.rows)) * million

const cellsOf = (part: Part): readonly string[] => [
  `${(part.to.rows / million).toFixed(1)} million`,
  (Math.round(speedOf(part) / 100) * 100).toLocaleString('en'),
  costOf(part, 'nodeSeconds').toFixed(1),
  costOf(part, 'postgresSeconds').toFixed(1),
  `${Math.round(part.megabytes)} MB`,
]

const tableOf = (measured: readonly Part[]): string =>
  [
    '| records so far | rows/s | Node CPU s a million | Postgres CPU s a million | memory at most |',
    '|---:|---:|---:|---:|---:|',
    ...measured.map((part) => `| ${cellsOf(part).join(' | ')} |`),
  ].join('\n')

function outcomeOf(measured: readonly Part[]): string {
  const [first, last] = [measured.at(0), measured.at(-1)]
  if (!first || !last) return ''
  const seconds = (last.to.atMs - first.from.atMs) / 1000
  const cost = (part: Part) => costOf(part, 'nodeSeconds') + costOf(part, 'postgresSeconds')
  return `In all ${Math.round(seconds)} s. The last tenth came at ${(speedOf(last) / speedOf(first)).toFixed(2)} of the speed of the first, for ${(cost(last) / cost(first)).toFixed(2)} times its CPU seconds.`
}
