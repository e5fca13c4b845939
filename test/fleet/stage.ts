// What every trial of a fleet happens on: a Postgres, a Redis, the simulated upstream of many clients, and several workers that read all of
// them by one file of sources, which trials rewrite while they run.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { type Fleet, type FleetClient, startFleet } from '../../src/simulator/fleet.ts'
import { fleetSettings } from '../../src/simulator/fleet-settings.ts'
import type { Finding } from '../soak/verdict.ts'
import { openSoakWorker, type SoakWorker } from '../soak/workers.ts'
import {
  type PostgresWorld,
  type RedisWorld,
  startPostgres,
  startRedis,
  startRedisWithSentinels,
} from '../soak/worlds.ts'
import { differences } from '../support/same-as-source.ts'

export type Scale = {
  readonly sources: number
  readonly hosts: number
  readonly workers: number
  /** Of the largest source, in each of two streams. */
  readonly rows: number
  readonly minutes: number
  readonly seed: number
  /** Redis has replicas and sentinels, which name another primary when it is cut off. */
  readonly hasSentinels: boolean
  /** The checkout of another version, whose workers read first; null: those of this one. */
  readonly older: string | null
}
export type Stage = {
  readonly scale: Scale
  readonly fleet: Fleet
  readonly postgres: PostgresWorld
  readonly redis: RedisWorld
  readonly workers: readonly SoakWorker[]
  readonly pool: pg.Pool
  readonly sources: SourcesFile
  readonly say: (what: string) => void
  /** More of this version, which are not among the workers. */
  openWorkers(count: number): Promise<readonly SoakWorker[]>
  /** The name of its source; empty for that of the environment. */
  sourceOf(client: FleetClient): string
  /** A command as an operator gives it, and how it ended. */
  cli(...words: readonly string[]): Promise<{ readonly code: number; readonly output: string }>
  /** Writes the file, and waits until every worker reads so many sources by it. Returns milliseconds. */
  change(change: Parameters<SourcesFile['write']>[0], sourceCount: number): Promise<number>
}
export type Trial = {
  readonly name: string
  readonly what: string
  run(stage: Stage): Promise<readonly Finding[]>
}

/** The file of sources, as trials change it. Names that are left out are gone from it. */
export type SourcesFile = {
  write(change?: {
    readonly defaults?: Readonly<Record<string, unknown>>
    readonly without?: readonly string[]
    /** Settings of single sources. */
    readonly of?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  }): void
  writeText(text: string): void
}

const longestChangeMs = 600_000
const program = fileURLToPath(new URL('../../bin/tidemark.js', import.meta.url))

export async function onStage<Result>(
  scale: Scale,
  say: Stage['say'],
  work: (stage: Stage) => Promise<Result>,
): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-fleet-'))
  // For the Postgres of the stage when root runs it.
  chmodSync(directory, 0o755)
  say(`logs in ${directory}`)
  await using ended = new AsyncDisposableStack()
  const postgres = await startPostgres(join(directory, 'database'))
  ended.defer(() => postgres.stop())
  await countStatements(postgres)
  say(`Postgres is at ${postgres.url}`)
  const redis = await (scale.hasSentinels ? startRedisWithSentinels : startRedis)(join(directory, 'redis'))
  ended.defer(() => redis.stop())
  const { sources: clients, hosts, rows: assignments, seed } = scale
  const fleet = ended.use(await startFleet({ ...{ clients, hosts, assignments, seed }, hasOwnFaults: false }))
  const { environment: ofFirst, file } = fleetSettings(fleet.clients)
  const sources = openFile(join(directory, 'sources.yaml'), file)
  sources.write()
  const environment = {
    ...ofFirst,
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    SOURCES_FILE: join(directory, 'sources.yaml'),
    LOG_LEVEL: 'info',
  }
  let opened = 0
  const openWorkers = async (count: number, ofProgram = program) => {
    const started: SoakWorker[] = []
    for (let number = 1; number <= count; number++) {
      const settings = { ...environment, HTTP_PORT: String(await freePort()) }
      const name = `worker-${++opened}`
      const worker = openSoakWorker({ name, directory, environment: settings, program: ofProgram })
      ended.defer(async () => void (await worker.stop()))
      started.push(worker)
    }
    return started
  }
  const workers = await openWorkers(
    scale.workers,
    scale.older === null ? program : join(scale.older, 'bin/tidemark.js'),
  )
  const pool = new pg.Pool({ connectionString: postgres.url, max: 4 })
  pool.on('error', () => {})
  ended.defer(() => pool.end())
  return await work({
    ...{ scale, fleet, postgres, redis, workers, pool, sources, say, openWorkers },
    sourceOf: (client) => (client === fleet.clients[0] ? '' : client.name),
    async cli(...words) {
      const child = spawn(process.execPath, [program, ...words], {
        cwd: directory,
        env: { PATH: process.env.PATH, ...environment },
      })
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
      const [code] = await once(child, 'exit')
      return { code, output }
    },
    async change(change, sourceCount) {
      const opened = ({ name }: SoakWorker) =>
        readFileSync(join(directory, `${name}.log`), 'utf8').split('A source is read from now on').length
      const before = new Map(workers.map((worker) => [worker, opened(worker)]))
      const startedMs = performance.now()
      sources.write(change)
      const isTaken = () => workers.every((one) => opened(one) >= (before.get(one) ?? 0) + sourceCount)
      while (!isTaken() && performance.now() - startedMs < longestChangeMs) await wait(500)
      return performance.now() - startedMs
    },
  })
}

async function countStatements({ url, control, start }: PostgresWorld): Promise<void> {
  const tell = async (statement: string) => {
    const client = new pg.Client(url)
    await client.connect()
    await client.query(statement)
    await client.end()
  }
  await tell(`alter system set shared_preload_libraries = 'pg_stat_statements'`)
  await control('stop', '-m', 'fast')
  await start()
  await tell('create extension pg_stat_statements')
}

function openFile(
  path: string,
  { defaults, sources }: ReturnType<typeof fleetSettings>['file'],
): SourcesFile {
  let generation = 0
  const writeText = (text: string) => {
    // No worker reads half of it.
    writeFileSync(`${path}.new`, text)
    renameSync(`${path}.new`, path)
  }
  return {
    writeText,
    write({ defaults: more = {}, without = [], of = {} } = {}) {
      generation++
      const named = Object.entries(sources).filter(([name]) => !without.includes(name))
      const changed = named.map(([name, settings]) => [name, { ...settings, ...of[name] }])
      const all = { ...defaults, ...more }
      writeText(JSON.stringify({ generation, defaults: all, sources: Object.fromEntries(changed) }, null, 1))
    },
  }
}

export type Equality = { readonly tookMs: number; readonly different: readonly string[] }

/** Waits until each of these sources has equal rows here; whoever calls has ended all changes. */
export async function untilEqual(
  { pool, sourceOf }: Pick<Stage, 'pool' | 'sourceOf'>,
  clients: readonly FleetClient[],
  longestMs: number,
): Promise<Equality> {
  const startedMs = performance.now()
  let left = clients
  for (;;) {
    const different: string[] = []
    const unequal: FleetClient[] = []
    for (const client of left) {
      const found = await differencesOf(pool, client, sourceOf(client))
      different.push(...found)
      if (found.length > 0) unequal.push(client)
    }
    const tookMs = Math.round(performance.now() - startedMs)
    if (unequal.length === 0 || tookMs > longestMs) return { tookMs, different }
    left = unequal
    await wait(1_000)
  }
}

async function differencesOf(pool: pg.Pool, client: FleetClient, source: string): Promise<readonly string[]> {
  try {
    const streams = ['assignment', 'assignment_note'] as const
    const found = await Promise.all(streams.map((stream) => differences(pool, client, stream, source)))
    return found.flat().map((one) => `${client.name}: ${one}`)
  } catch (error) {
    // The table is not there yet, or Postgres is away.
    return [`${client.name}: ${String(error)}`]
  }
}

export const equalityFinding = (what: string, { tookMs, different }: Equality): Finding => ({
  what,
  isFine: different.length === 0,
  told: `${different.length} differences after ${(tookMs / 1000).toFixed(0)} s${different.slice(0, 5).map((one) => `\n            ${one}`)}`,
})
