// Two real clusters of Postgres with streaming replication: the primary is killed and its standby promoted, then the new primary turns
// read-only and keeps its sessions, then the next one falls silent. A worker that names both hosts has to go on by itself each time, without a difference.

import { execFile } from 'node:child_process'
import { appendFile, chmod, chown, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { differences } from '../support/same-as-source.ts'
import { startTestWorker } from '../support/worker.ts'

type Log = (text: string) => void
type Runner = (program: string, ...args: string[]) => Promise<string>
type Cluster = {
  readonly port: number
  readonly url: string
  run(...statements: string[]): Promise<void>
  /** As after a power failure. */
  kill(): Promise<void>
  /** As a machine that is gone: nothing comes from it, not even that it is gone. */
  freeze(): Promise<void>
  promote(): Promise<void>
}

const longestMs = 60_000
const password = 'of-a-trial'

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
async function untilEqual(
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

async function oneValue(url: string, query: string): Promise<unknown> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const { rows } = await client.query({ text: query, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

// ── clusters ─────────────────────────────────────────────────────────────────────────────────────────────────

const exec = promisify(execFile)

/** Those of Debian, run as the user postgres where this program is root's. */
async function findPrograms(): Promise<Runner> {
  const versions = await readdir('/usr/lib/postgresql').catch(() => [])
  const version = versions.toSorted((a, b) => Number(a) - Number(b)).at(-1)
  if (!version) throw new Error('this trial needs Postgres of Debian: apt install postgresql')
  const owner = await ownerOf()
  return async (program, ...args) =>
    (await exec(`/usr/lib/postgresql/${version}/bin/${program}`, args, { ...owner, cwd: '/' })).stdout
}

async function ownerOf(): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {}
  const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => exec('id', [flag, 'postgres'])))
  return { uid: Number(uid?.stdout), gid: Number(gid?.stdout) }
}

async function openDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'tidemark-failover-'))
  await chmod(path, 0o755)
  const { uid, gid } = await ownerOf()
  if (uid !== undefined && gid !== undefined) await chown(path, uid, gid)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

async function makePrimary(run: Runner, directory: string, clusters: AsyncDisposableStack): Promise<Cluster> {
  const data = join(directory, 'first')
  await run('initdb', '-D', data, '-U', 'postgres', '-E', 'UTF8', '--no-sync', '-A', 'trust')
  const cluster = await start(run, data, await freePort(), clusters)
  await cluster.run(`create role tidemark superuser login password '${password}'`, 'create database tidemark')
  return cluster
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
  return await start(run, data, ownPort ?? (await freePort()), clusters)
}

async function start(
  run: Runner,
  data: string,
  port: number,
  clusters: AsyncDisposableStack,
): Promise<Cluster> {
  await appendFile(
    join(data, 'postgresql.conf'),
    `\nport = ${port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\nwal_keep_size = '256MB'\n`,
  )
  const control = (...words: string[]) => run('pg_ctl', '-D', data, '-w', ...words)
  await control('-l', `${data}.log`, 'start')
  const kill = async () => void (await control('-m', 'immediate', 'stop').catch(() => {}))
  clusters.defer(kill)
  const postmaster = Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n')[0])
  return {
    port,
    url: `postgres://postgres@127.0.0.1:${port}/tidemark?sslmode=disable`,
    async run(...statements) {
      const client = new pg.Client(`postgres://postgres@127.0.0.1:${port}/postgres?sslmode=disable`)
      await client.connect()
      try {
        for (const statement of statements) await client.query(statement)
      } finally {
        await client.end()
      }
    },
    kill,
    async freeze() {
      const { stdout } = await exec('ps', ['-o', 'pid=', '--ppid', `${postmaster}`])
      const all = [postmaster, ...stdout.split(/\s+/).filter(Boolean).map(Number)]
      for (const pid of all) process.kill(pid, 'SIGSTOP')
      clusters.defer(() => all.forEach(thaw))
    },
    promote: async () => void (await control('promote')),
  }
}

function thaw(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // It ended.
  }
}
