// What it costs a first load that everybody can see how far it is: the same load with and without its recording, in pairs, for the
// machine is never twice the same. CPU seconds of Node and of Postgres together.

import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startRecorder } from '../src/store/runs/progress.ts'
import type { Database } from '../src/store/server/connect.ts'
import { knownStreams } from '../src/streams/catalog.ts'
import { benchLog, emptyStore, openBenchDatabase } from './postgres.ts'
import { median, postgresSeconds, postmasterOf } from './processes.ts'
import { loader, start, startUpstream } from './programs.ts'
import { loadOfMachine } from './report.ts'

const recordCount = Number(process.env.BENCH_RECORDS ?? 200_000)
const pairs = Number(process.env.BENCH_ROUNDS ?? 9)
const without = fileURLToPath(new URL('./without-recorder.ts', import.meta.url))

const aloneSeconds = 20

/** Milliseconds of CPU for each second, beside those of the same loop without it: no load has to be compared with another. */
async function recorderAlone({ pool }: Database, postmaster: number): Promise<number> {
  const { rows } = await pool.query<{ id: string }>(
    `insert into tidemark.run (stream, kind, status, host, pid, started_at)
     values ('assignment', 'incremental', 'running', 'bench', 1, now()) returning id::text`,
  )
  const [stream] = knownStreams
  const needs = {
    ...{ pool, stream, kind: 'incremental', runId: rows[0]?.id ?? '', startedAt: new Date(), isFirst: true },
    ...{ backfill: null, from: { position: 0n }, versionField: null, waitsFor: () => null, log: benchLog },
  } as unknown as Parameters<typeof startRecorder>[0]
  const written = { inserted: 1_000, updated: 0, unchanged: 0, quarantined: 0, rescued: 0 }
  const spend = async (isRecorded: boolean) => {
    const recorder = isRecorded ? startRecorder(needs) : null
    const [nodeBefore, postgresBefore] = [process.cpuUsage(), postgresSeconds(postmaster)]
    const endsAtMs = performance.now() + aloneSeconds * 1_000
    for (let page = 1; performance.now() < endsAtMs; page++) {
      recorder?.asked({ requests: page, bytes: page * 1_500_000, records: page * 1_000 })
      recorder?.committed('assignment', { written, newlyQuarantined: 0 })
      await wait(20)
    }
    const { user, system } = process.cpuUsage(nodeBefore)
    const seconds = (user + system) / 1_000_000 + postgresSeconds(postmaster) - postgresBefore
    await recorder?.end({ status: 'done', isComplete: true, error: null } as Parameters<
      typeof recorder.end
    >[0])
    return seconds
  }
  await spend(true)
  return ((await spend(true)) - (await spend(false))) * (1_000 / aloneSeconds)
}

/** As a paragraph in Markdown. */
export async function benchRecording(say: (what: string) => void): Promise<string> {
  const database = await openBenchDatabase()
  const upstream = await startUpstream(recordCount)
  try {
    const postmaster = await postmasterOf(database)
    const load = async (isRecorded: boolean) => {
      await emptyStore(database)
      const { words, environment } = loader(database, upstream.address, 'incremental', { pageSize: 1_000 })
      const [node = '', ...rest] = words
      const before = postgresSeconds(postmaster)
      const { printed } = start({
        words: isRecorded ? words : [node, '--import', without, ...rest],
        environment,
      })
      const { nodeSeconds } = JSON.parse(await printed)
      return nodeSeconds + postgresSeconds(postmaster) - before
    }
    const [all, allBare]: [number[], number[]] = [[], []]
    await load(true)
    for (let pair = 0; pair < pairs; pair++) {
      // Whoever comes first has no advantage.
      const isFirst = pair % 2 === 0
      const [one, other] = [await load(isFirst), await load(!isFirst)]
      const [recorded, bare] = isFirst ? [one, other] : [other, one]
      all.push(recorded)
      allBare.push(bare)
      say(`with its recording ${recorded.toFixed(2)} CPU s, without ${bare.toFixed(2)}`)
    }
    const alone = await recorderAlone(database, postmaster)
    const percent = (share: number) => `${(share * 100).toFixed(1)} %`
    const more = all.map((one, pair) => one / (allBare[pair] ?? one) - 1).toSorted((a, b) => a - b)
    const quarter = Math.floor(more.length / 4)
    const [low, high] = [more[quarter] ?? 0, more[more.length - 1 - quarter] ?? 0]
    const [least, leastBare] = [Math.min(...all), Math.min(...allBare)]
    return `Of ${pairs} pairs of first loads of ${recordCount.toLocaleString('en')} records, one half of each with it and one without, the median pair took ${percent(median(more))} more CPU with it, the middle half of the pairs ${percent(low)} to ${percent(high)}. The cheapest load with it took ${least.toFixed(2)} CPU s, the cheapest without ${leastBare.toFixed(2)}. Other work on the machine only adds to either.\n\nThe recorder alone, told of a page every 20 ms, takes ${alone.toFixed(1)} ms of CPU each second, Node and Postgres together.\n\n${loadOfMachine(1)}`
  } finally {
    upstream.stop()
    await database.close()
  }
}
