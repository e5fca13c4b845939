// The embedded Postgres: started by the first program in a directory, shared by those that come later, stopped by the
// last one that leaves. It outlives a program that was killed, and the next one finds it; killed itself, it is started again.

import { readFile, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from '../log.ts'
import { DatabaseError } from '../util/errors.ts'
import { scramVerifier } from '../util/scram.ts'
import {
  type Cluster,
  choosePort,
  inPlainWords,
  isAlive,
  openCluster,
  superuser,
  workerPasswordOf,
  workerRole,
  writePrivately,
} from './cluster.ts'
import { type Binaries, findBinaries } from './location.ts'

export type EmbeddedServer = {
  readonly url: string
  /** The same without the password, for people and logs (P9). */
  readonly address: string
  readonly urlFile: string
  /** As the superuser; for what only that one may do. */
  readonly adminUrl: string
  /** Stops the server when no other program of this directory uses it. */
  leave(): Promise<void>
}

const database = 'tidemark'
/** Advisory lock in the database `postgres`, shared by the programs that use the server. */
const membersLock = 7_405_613
const rolesLock = 7_405_612
const timeoutMs = 60_000
const pauseMs = 100
const stopLookMs = 20

export async function startEmbedded(options: {
  readonly directory: string
  readonly log: Logger
  /** Where files go that the user who runs Postgres cannot reach otherwise. */
  readonly systemDirectory?: string
}): Promise<EmbeddedServer> {
  const directory = resolve(options.directory)
  const binaries = await findBinaries(options.systemDirectory)
  const cluster = await openCluster(directory, binaries, options.systemDirectory)
  const leaving = new AbortController()
  const { membership, port } = await joinServer(cluster, binaries, leaving.signal)
  const urlOf = (role: string, password: string) =>
    `postgres://${role}:${password}@127.0.0.1:${port}/${database}?sslmode=disable`
  const url = urlOf(workerRole, workerPasswordOf(cluster))
  const address = `postgres://${workerRole}@127.0.0.1:${port}/${database}`
  const urlFile = join(directory, 'url')
  try {
    await createDatabase(membership)
    await createWorker(membership, cluster)
    await writePrivately(urlFile, `${url}\n`, { owner: null })
  } catch (cause) {
    // Nobody else would stop the server, and a server that is left running keeps this program from ending.
    await leaveServer(membership, cluster, binaries).catch(() => {})
    throw inPlainWords(directory, cause)
  }
  options.log.info(
    { address, urlFile },
    'the embedded Postgres is ready; its URL with the password is in the file',
  )
  const kept = keepMember({ cluster, binaries, membership, port, leaving, log: options.log })
  return { url, address, urlFile, adminUrl: urlOf(superuser, cluster.password), leave: kept.leave }
}

type Kept = Membership & {
  readonly cluster: Cluster
  readonly binaries: Binaries
  readonly leaving: AbortController
  readonly log: Logger
}

/** A membership ends with the server, which nobody else would start again (P8). */
function keepMember({ cluster, binaries, leaving, log, ...first }: Kept): Pick<EmbeddedServer, 'leave'> {
  const { signal } = leaving
  let member: pg.Client | null = null
  let joining: Promise<void> = Promise.resolve()
  const become = (client: pg.Client) => {
    member = client
    client.once('end', () => {
      member = null
      if (!signal.aborted) joining = joinAgain()
    })
  }
  async function joinAgain(): Promise<void> {
    log.warn('the embedded Postgres ended unexpectedly (its server.log says why); starting it again')
    while (!signal.aborted && member === null)
      try {
        const { membership, port } = await joinServer(cluster, binaries, signal)
        become(membership)
        if (port === first.port) log.info('the embedded Postgres runs again')
        else log.warn({ port }, 'the embedded Postgres runs again, on another port: restart Tidemark')
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'the embedded Postgres does not start; trying again')
      }
  }
  become(first.membership)
  return {
    async leave() {
      leaving.abort()
      await joining
      // The server may have been started only a moment ago.
      const last = member ?? (await joinRunning(cluster))?.membership
      if (last) await leaveServer(last, cluster, binaries)
    },
  }
}

type Membership = { readonly membership: pg.Client; readonly port: number }

async function joinServer(cluster: Cluster, binaries: Binaries, signal: AbortSignal): Promise<Membership> {
  const deadline = Date.now() + timeoutMs
  let failure: unknown
  while (Date.now() < deadline) {
    signal.throwIfAborted()
    const joined = await joinRunning(cluster)
    if (joined) return joined
    try {
      if ((await runningPort(cluster)) === null) {
        await startServer(cluster, binaries)
        continue
      }
    } catch (error) {
      // Another program started it at the same moment, or the last one is still going down.
      failure = error
    }
    await wait(pauseMs)
  }
  throw new DatabaseError(
    `The embedded Postgres does not start: ${join(cluster.data, 'server.log')} says why. Fix that, or set DATABASE_URL to a Postgres of yours.`,
    { cause: failure },
  )
}

/** Null when there is none, or none that answers yet. */
async function joinRunning(cluster: Cluster): Promise<Membership | null> {
  const port = await runningPort(cluster)
  const membership = port === null ? null : await becomeMember(cluster, port)
  return membership && port !== null ? { membership, port } : null
}

/** Null when no server runs on the cluster. Postgres itself keeps two servers from one data directory. */
async function runningPort({ data }: Cluster): Promise<number | null> {
  const file = join(data, 'postmaster.pid')
  const [pidLine, , , portLine] = (await readIfThere(file))?.split('\n') ?? []
  const pid = Number(pidLine)
  if (!pid || !portLine) return null
  if (await isPostgres(pid)) return Number(portLine)
  // After a kill -9 or a restart of the machine the number may be another program's by now, and Postgres would not start.
  await rm(file, { force: true })
  return null
}

async function isPostgres(pid: number): Promise<boolean> {
  if (!isAlive(pid)) return false
  // Where there is no /proc, a living process gets the benefit of the doubt.
  const stat = await readIfThere(`/proc/${pid}/stat`)
  // Killed, but its parent has not taken notice: in a container it may never do so.
  const isZombie = /\) Z /.test(stat ?? '')
  return stat === null || (stat.includes('(postgres)') && !isZombie)
}

async function startServer(cluster: Cluster, binaries: Binaries): Promise<void> {
  const { data, port } = await choosePort(cluster, binaries)
  const log = join(data, 'server.log')
  await binaries.run('pg_ctl', ['start', '-w', '-s', '-D', data, '-l', log, '-o', serverFlags(port)])
}

export const serverFlags = (port: number | string): string =>
  [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', 'max_connections=200']
    .map((setting) => `-c ${setting}`)
    .join(' ')

async function becomeMember({ password }: Cluster, port: number): Promise<pg.Client | null> {
  const membership = new pg.Client({
    host: '127.0.0.1',
    port,
    user: superuser,
    password,
    database: 'postgres',
  })
  // It ends with the server; whoever uses the server notices by itself.
  membership.on('error', () => {})
  try {
    await membership.connect()
    await membership.query('select pg_advisory_lock_shared($1)', [membersLock])
    return membership
  } catch {
    await membership.end().catch(() => {})
    return null
  }
}

async function createDatabase(membership: pg.Client): Promise<void> {
  try {
    await membership.query(`create database ${pg.escapeIdentifier(database)}`)
  } catch (error) {
    const exists = ['42P04', '23505']
    if (!exists.includes((error as pg.DatabaseError).code ?? '')) throw error
  }
}

/**
 * The role of Tidemark in its database. It may make roles for BI tools, as the guide says, limit them, and end their sessions; those that
 * were made before there was this role are its own to manage too.
 */
const workerSql = (verifier: string): string => `
  create role ${workerRole} login createrole password '${verifier}';
  grant pg_signal_backend, pg_read_all_stats to ${workerRole};
  grant set on parameter temp_file_limit to ${workerRole};
  do $$
  declare earlier text;
  begin
    for earlier in select rolname from pg_roles where not rolsuper and rolname !~ '^pg_' and rolname <> '${workerRole}' loop
      execute format('grant %I to ${workerRole} with admin true, inherit false, set false', earlier);
    end loop;
  end $$;
  alter database ${pg.escapeIdentifier(database)} owner to ${workerRole}`

async function createWorker(membership: pg.Client, cluster: Cluster): Promise<void> {
  const hasWorker = async () =>
    (await membership.query('select from pg_roles where rolname = $1', [workerRole])).rowCount === 1
  if (await hasWorker()) return
  await membership.query('begin')
  // Of several programs that start at once, one makes it.
  await membership.query('select pg_advisory_xact_lock($1)', [rolesLock])
  if (!(await hasWorker())) await membership.query(workerSql(scramVerifier(workerPasswordOf(cluster))))
  await membership.query('commit')
}

async function leaveServer(membership: pg.Client, cluster: Cluster, binaries: Binaries): Promise<void> {
  try {
    await membership.query('select pg_advisory_unlock_shared($1)', [membersLock])
    const { rows } = await membership.query<{ is_last: boolean }>(
      'select pg_try_advisory_lock($1) as is_last',
      [membersLock],
    )
    if (rows[0]?.is_last) await stopServer(cluster, binaries)
  } finally {
    await membership.end().catch(() => {})
  }
}

/** Waits for this server to end and no other: a program that was about to join may have started the next one already. */
async function stopServer({ data }: Cluster, binaries: Binaries): Promise<void> {
  const [pid] = (await readIfThere(join(data, 'postmaster.pid')))?.split('\n') ?? []
  await binaries.run('pg_ctl', ['stop', '-W', '-s', '-m', 'fast', '-D', data])
  const deadline = Date.now() + timeoutMs
  while (await isPostgres(Number(pid))) {
    if (Date.now() > deadline)
      throw new DatabaseError(
        `The embedded Postgres did not stop within a minute: ${join(data, 'server.log')} says why.`,
      )
    await wait(stopLookMs)
  }
}

async function readIfThere(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return null
    throw error
  }
}
