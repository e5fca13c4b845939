// What every fault is tried with: a source that changes each second, a worker of its own process, and a real receiver of alerts. A fault
// begins, and somebody has to be told of it; it ends, and the worker has to be well again with rows equal to the source.

import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Environment } from '../../src/config/load.ts'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { openSoakWorker, type SoakWorker } from '../soak/workers.ts'
import {
  type PostgresWorld,
  type RedisWorld,
  startPostgres as startPostgresIn,
  startRedis as startRedisIn,
} from '../soak/worlds.ts'
import { type AlertReceiver, receiveAlerts } from '../support/alert-receiver.ts'
import { environmentFor } from '../support/environment.ts'
import type { Program } from '../support/installed.ts'
import { differences } from '../support/same-as-source.ts'

export type Fault = {
  readonly name: string
  readonly needs: readonly Program[]
  /** Says what was seen, in one line; rejects with what is wrong. */
  try(stage: Stage): Promise<string>
}

export type Stage = {
  readonly directory: string
  readonly simulator: Simulator
  readonly alerts: AlertReceiver
  startPostgres(): Promise<PostgresWorld>
  startRedis(): Promise<RedisWorld>
  /** What ends with the trial, the last one first. */
  defer(end: () => PromiseLike<unknown>): void
  startWorker(environment: Environment): Promise<TriedWorker>
}

export type TriedWorker = Pick<SoakWorker, 'stop' | 'surprises' | 'kill' | 'start' | 'memoryMb'> & {
  readonly name: string
  isReady(): Promise<boolean>
  log(): string
}

/** Within this somebody has to be told, and the worker well again. */
const longestMs = 120_000
const lookEveryMs = 250

export async function onStage<Result>(work: (stage: Stage) => Promise<Result>): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-fault-'))
  // For a Postgres when root runs it.
  chmodSync(directory, 0o755)
  await using ended = new AsyncDisposableStack()
  let isFine = false
  // The last to be done. After a failure somebody wants to see the logs.
  ended.defer(() => {
    if (isFine) rmSync(directory, { recursive: true, force: true })
  })
  const simulator = ended.use(
    await startSimulator({ assignments: 300, notes: 200, trackers: 5, objects: 10 }),
  )
  const alerts = ended.use(await receiveAlerts())
  const changing = setInterval(() => changeSomething(simulator), 1_000)
  ended.defer(() => clearInterval(changing))
  let number = 0
  const startOne = async <World extends PostgresWorld | RedisWorld>(
    start: (place: string) => Promise<World>,
  ) => {
    const world = await start(join(directory, `world-${++number}`))
    ended.defer(() => world.stop().catch(() => {}))
    return world
  }
  const result = await work({
    directory,
    simulator,
    alerts,
    defer: (end) => ended.defer(async () => void (await end())),
    startPostgres: () => startOne(startPostgresIn),
    startRedis: () => startOne(startRedisIn),
    async startWorker(environment) {
      const port = await freePort()
      const name = `worker-${++number}`
      const often = { SCHEDULE_ASSIGNMENT: '2s', SCHEDULE_ASSIGNMENT_NOTE: '2s', SCHEDULE_DELETIONS: '15s' }
      const settings = {
        ...{
          HTTP_PORT: String(port),
          LOG_LEVEL: 'info',
          ALERT_WEBHOOK_URL: alerts.url,
          ALERT_FORMAT: 'json',
        },
        ...{ ...often, ...environment },
      }
      const worker = openSoakWorker({
        name,
        directory,
        environment: environmentFor(simulator, null, settings),
      })
      ended.defer(async () => void (await worker.stop()))
      const url = `http://127.0.0.1:${port}/readyz`
      return {
        ...worker,
        isReady: () =>
          fetch(url, { signal: AbortSignal.timeout(5_000) }).then(
            ({ ok }) => ok,
            () => false,
          ),
        log: () => readFileSync(join(directory, `${name}.log`), 'utf8'),
      }
    },
  })
  isFine = true
  return result
}

/** Also while the worker cannot see it. */
function changeSomething({ source }: Simulator): void {
  const ids = source.ids('assignment')
  const id = ids[Math.floor(Math.random() * ids.length)]
  if (id !== undefined) source.change('assignment', id)
}

export type Trial = {
  readonly worker: TriedWorker
  /** Where the rows are, for the test itself. */
  readonly databaseUrl: string
  /** It is already there when the worker starts; then `begin` does nothing. */
  readonly begin: () => Promise<unknown>
  readonly end: () => Promise<unknown>
  /** What an alert has to say. */
  readonly sentence: RegExp
  /** The worker stays ready: it serves the mirror, and only part of the work rests. */
  readonly staysReady?: boolean
  /** The worker mends it by itself, maybe before anybody is told. */
  readonly healsItself?: boolean
}

/** The trial of most faults. */
export async function tryFault(stage: Stage, trial: Trial): Promise<string> {
  const { worker } = trial
  const told = await timeUntilTold(stage, trial)
  const endedMs = performance.now()
  await trial.end()
  const wellMs = await untilWell(stage, trial, endedMs)
  expectNoSurprise(worker)
  return `${told}, well ${seconds(wellMs)} after its end, 0 differences`
}

/** A worker that was well before. */
export async function begunWell(stage: Stage, trial: Pick<Trial, 'worker' | 'databaseUrl'>): Promise<number> {
  const startedMs = performance.now()
  return await untilWell(stage, trial, startedMs)
}

async function timeUntilTold({ alerts }: Stage, trial: Trial): Promise<string> {
  const { worker, sentence, staysReady = false, healsItself = false } = trial
  const before = alerts.received().length
  const beganMs = performance.now()
  await trial.begin()
  let notReadyMs: number | null = null
  let alert: { readonly afterMs: number; readonly said: string } | null = null
  for (;;) {
    const afterMs = performance.now() - beganMs
    if (!(await worker.isReady())) notReadyMs ??= afterMs
    const told = alerts.received().slice(before)
    const said = told.find(({ event, what }) => event === 'began' && sentence.test(what))?.what
    if (said !== undefined) alert ??= { afterMs, said }
    if (alert && (staysReady || notReadyMs !== null)) break
    const isOver = afterMs > (healsItself ? healsWithinMs : longestMs)
    if (isOver && healsItself) break
    if (isOver)
      throw new Error(
        `not told within ${seconds(longestMs)}: ${notReadyMs === null ? 'ready all the time' : `not ready after ${seconds(notReadyMs)}`}, ${
          alert === null
            ? `no alert says ${sentence} (${
                told
                  .map(({ what }) => what)
                  .join(' | ')
                  .slice(0, 600) || 'none at all'
              })`
            : 'an alert'
        }`,
      )
    await wait(lookEveryMs)
  }
  const readiness = notReadyMs === null ? 'ready meanwhile' : `not ready after ${seconds(notReadyMs)}`
  return alert === null
    ? `${readiness}, mended by itself before an alert was due`
    : `${readiness}, alert after ${seconds(alert.afterMs)} ("${alert.said}")`
}

/** Alerts are of what lasts for a minute. What the worker mends sooner is told in the log. */
const healsWithinMs = 20_000

/** Milliseconds until the worker is ready and what has changed meanwhile is in its rows. */
export async function untilWell(
  { simulator }: Stage,
  { worker, databaseUrl }: Pick<Trial, 'worker' | 'databaseUrl'>,
  sinceMs: number,
): Promise<number> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1, connectionTimeoutMillis: 5_000 })
  pool.on('error', () => {})
  let why = 'not ready'
  try {
    for (;;) {
      if (await worker.isReady()) {
        const different = await differing(pool, simulator)
        if (different.length === 0) return performance.now() - sinceMs
        why = `${different.length} differences: ${different.slice(0, 3).join('; ')}`
      } else why = 'not ready'
      if (performance.now() - sinceMs > longestMs)
        throw new Error(`not well ${seconds(longestMs)} after its end: ${why}`)
      await wait(lookEveryMs)
    }
  } finally {
    await pool.end()
  }
}

const differing = async (pool: pg.Pool, simulator: Simulator): Promise<readonly string[]> => {
  try {
    const both = [differences(pool, simulator, 'assignment'), differences(pool, simulator, 'assignment_note')]
    return (await Promise.all(both)).flat()
  } catch (error) {
    return [String(error)]
  }
}

export function expectNoSurprise({ surprises }: Pick<TriedWorker, 'surprises'>): void {
  if (surprises.length > 0) throw new Error(surprises.join('; '))
}

export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
