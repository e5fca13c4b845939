// Two real clusters of Postgres with streaming replication: the primary is killed and its standby promoted, then the new primary turns
// read-only and keeps its sessions, then the next one falls silent. A worker that names both hosts has to go on by itself each time, without a difference.

import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { differences } from '../support/same-as-source.ts'
import { startTestWorker } from '../support/worker.ts'
import {
  type Cluster,
  findPrograms,
  makePrimary,
  openDirectory,
  password,
  type Runner,
  startCluster,
} from './clusters.ts'

type Log = (text: string) => void

const longestMs = 60_000

export async function postgresFailover(log: Log): Promise<void> {
  const run = await findPrograms()
  await using directory = await openDirectory()
  await using clusters = new AsyncDisposableStack()
  const first = await makePrimary(run, directory.path, clusters)
  const second = await makeStandby(run, directory.path, 'second', first, clusters)
  const [one, two] = [first, second].map(({ port }) => `127.0.0.1:${port}`)
  const url = `postgres://tidemark:${password}@${one},${two}/tidemark?sslmode=disable`
  await using simulator = await startSimulator({ assignments: 300, notes: 100 })
  const often = { STREAMS: 'assignment,assignment_note', SCHEDULE_ASSIGNMENT: '1s' }
  const worker = await startTestWorker(simulator, { url }, often)
  try {
    log(`the first load is at ${one} after ${await untilEqual(first.url, simulator)} s`)

    await first.kill()
    await second.promote()
    for (let id = 1; id <= 50; id++) simulator.source.change('assignment', id)
    log(
      `primary killed, standby promoted: the copy is current after ${await untilEqual(second.url, simulator)} s`,
    )

    const third = await makeStandby(run, directory.path, 'first', second, clusters, first.port)
    simulator.source.change('assignment', 60)
    log(`the old one is back as a standby: current after ${await untilEqual(second.url, simulator)} s`)
    await untilReplayed(second, third)
    await second.run('alter system set default_transaction_read_only = on', 'select pg_reload_conf()')
    await third.promote()
    for (let id = 61; id <= 100; id++) simulator.source.change('assignment', id)
    log(
      `primary turned read-only, with its sessions: current after ${await untilEqual(third.url, simulator)} s`,
    )
    const sessions = await count(
      second.url,
      `select count(*) from pg_stat_activity where application_name like 'tidemark%'`,
    )
    if (sessions > 0)
      throw new Error(`${sessions} sessions of the worker stay at the host that takes no writes`)

    await second.kill()
    const fourth = await makeStandby(run, directory.path, 'second', third, clusters, second.port)
    await untilReplayed(third, fourth)
    await third.freeze()
    await fourth.promote()
    for (let id = 101; id <= 150; id++) simulator.source.change('assignment', id)
    log(`primary fell silent, standby promoted: current after ${await untilEqual(fourth.url, simulator)} s`)
  } finally {
    await worker.stop()
  }
}

/** Seconds until the copy there is the same as the source. */
export async function untilEqual(
  url: string,
  simulator: Awaited<ReturnType<typeof startSimulator>>,
): Promise<string> {
  const startedMs = performance.now()
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  pool.on('error', () => {})
  try {
    for (;;) {
      const found = await differences(pool, simulator, 'assignment').catch((error) => [String(error)])
      const seconds = (performance.now() - startedMs) / 1000
      if (found.length === 0) return seconds.toFixed(1)
      if (seconds * 1000 > longestMs)
        throw new Error(
          `the copy is not current after ${seconds.toFixed(0)} s: ${found.slice(0, 3).join('; ')}`,
        )
      await wait(200)
    }
  } finally {
    await pool.end()
  }
}

async function untilReplayed(primary: Cluster, standby: Cluster): Promise<void> {
  const written = await oneValue(primary.url, 'select pg_current_wal_lsn()')
  for (let attempt = 0; attempt < 100; attempt++) {
    if (await oneValue(standby.url, `select pg_last_wal_replay_lsn() >= '${written}'`)) return
    await wait(100)
  }
  throw new Error('the standby does not keep up')
}

const count = async (url: string, query: string): Promise<number> => Number(await oneValue(url, query))

export async function oneValue(url: string, query: string): Promise<unknown> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query({ text: query, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

async function makeStandby(
  run: Runner,
  directory: string,
  name: string,
  { port }: Cluster,
  clusters: AsyncDisposableStack,
  ownPort?: number,
): Promise<Cluster> {
  const data = join(directory, name)
  await rm(data, { recursive: true, force: true })
  await run(
    'pg_basebackup',
    '-D',
    data,
    '-h',
    '127.0.0.1',
    '-p',
    `${port}`,
    '-U',
    'postgres',
    '-R',
    '-c',
    'fast',
  )
  return await startCluster(run, data, ownPort ?? (await freePort()), clusters)
}
