// The Postgres and the Redis of the tests, started once for all that need them: given ones first, containers second,
// programs of this machine third. What cannot be had is told loudly, and fails where CI is set.

import { type ChildProcess, spawn } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { freePort, openCluster, superuser } from '../../src/embedded-postgres/cluster.ts'
import { findBinaries } from '../../src/embedded-postgres/location.ts'
import { serverFlags } from '../../src/embedded-postgres/server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of a Postgres in which databases may be made; null when there is none. */
    databaseUrl: string | null
    /** Of the same by a socket, where it has one. */
    databaseSocketUrl: string | null
    redisUrl: string | null
    /** A directory for whatever the programs under test leave behind; it goes with the tests. */
    scratch: string
  }
}

type Service = { readonly url: string; readonly socketUrl?: string; stop(): Promise<void> }

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const scratch = await makeDirectory('tidemark-tests-')
  const { databaseUrl, databaseSocketUrl, redisUrl, stop } = await startServices()
  project.provide('databaseUrl', databaseUrl)
  project.provide('databaseSocketUrl', databaseSocketUrl)
  project.provide('redisUrl', redisUrl)
  project.provide('scratch', scratch)
  return async () => {
    await stop()
    await rm(scratch, { recursive: true, force: true })
  }
}

/** Null: it cannot be had. */
export type Services = {
  readonly databaseUrl: string | null
  readonly databaseSocketUrl: string | null
  readonly redisUrl: string | null
  stop(): Promise<void>
}

export async function startServices(): Promise<Services> {
  const hasDocker = await answersDocker()
  const [database, redis] = await Promise.all([
    obtain('Postgres', [given('TEST_DATABASE_URL'), hasDocker ? postgresContainer : null, embeddedPostgres]),
    obtain('Redis', [given('TEST_REDIS_URL'), hasDocker ? redisContainer : null, redisServer]),
  ])
  return {
    databaseUrl: database?.url ?? null,
    databaseSocketUrl: database?.socketUrl ?? null,
    redisUrl: redis?.url ?? null,
    stop: async () => {
      await Promise.all([database?.stop(), redis?.stop()])
    },
  }
}

/** Root's Postgres runs as another user, and keeps its data there only if that user can enter. */
async function makeDirectory(prefix: string): Promise<string> {
  const directory = await mkdtemp(join(quickestPlace(), prefix))
  await chmod(directory, 0o755)
  return directory
}

/** Where one asked for, otherwise in memory where there is plenty: a database that is made and dropped costs a quarter there. */
function quickestPlace(): string {
  if (process.env.TMPDIR) return tmpdir()
  const [memory, plenty] = ['/dev/shm', 4e9]
  try {
    const { bavail, bsize } = statfsSync(memory)
    if (bavail * bsize > plenty) return memory
  } catch {}
  return tmpdir()
}

type Start = () => Promise<Service>

async function obtain(what: string, ways: readonly (Start | null)[]): Promise<Service | null> {
  const problems: string[] = []
  for (const start of ways) {
    if (!start) continue
    try {
      return await start()
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error))
    }
  }
  const message = `there is no ${what} for the tests: ${problems.join('; ')}`
  if (process.env.CI) throw new Error(message)
  process.stderr.write(`\n*** SKIPPED: ${message} ***\n\n`)
  return null
}

function given(variable: string): Start | null {
  const url = process.env[variable]
  return url ? async () => ({ url, stop: async () => {} }) : null
}

const dockerTimeoutMs = 2_000

function answersDocker(): Promise<boolean> {
  return new Promise((resolve) => {
    const ping = request({ socketPath: '/var/run/docker.sock', path: '/_ping', timeout: dockerTimeoutMs })
    ping.on('response', (response) => resolve(response.resume().statusCode === 200))
    ping.on('timeout', () => ping.destroy())
    ping.on('error', () => resolve(false))
    ping.end()
  })
}

async function postgresContainer(): Promise<Service> {
  const { GenericContainer, Wait } = await import('testcontainers')
  const container = await new GenericContainer('postgres:17')
    .withEnvironment({ POSTGRES_PASSWORD: 'test' })
    .withSharedMemorySize(256 * 1024 * 1024)
    .withExposedPorts(5432)
    .withWaitStrategy(Wait.forLogMessage('ready to accept connections', 2))
    .start()
  // Where the tests run in a container themselves, that is another host.
  const address = `${container.getHost()}:${container.getMappedPort(5432)}`
  const url = `postgres://postgres:test@${address}/postgres?sslmode=disable`
  await preferSpeed(url)
  return { url, stop: async () => void (await container.stop()) }
}

async function redisContainer(): Promise<Service> {
  const { GenericContainer } = await import('testcontainers')
  const container = await new GenericContainer('redis:7').withExposedPorts(6379).start()
  const url = `redis://${container.getHost()}:${container.getMappedPort(6379)}`
  return { url, stop: async () => void (await container.stop()) }
}

/** A server as of the program, which also listens on a socket: what is sent there costs a fifth less of a test, and needs no password. */
async function embeddedPostgres(): Promise<Service & { readonly socketUrl: string }> {
  const directory = await makeDirectory('tidemark-pg-')
  const binaries = await findBinaries()
  const { data, password, port } = await openCluster(directory, binaries)
  await writeFile(join(data, 'pg_hba.conf'), 'local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n')
  const flags = `${serverFlags(port)} -c unix_socket_directories=${data}`
  await binaries.run('pg_ctl', ['start', '-w', '-s', '-D', data, '-l', join(data, 'server.log'), '-o', flags])
  // Tests make databases and roles.
  const url = `postgres://${superuser}:${password}@127.0.0.1:${port}/postgres`
  await preferSpeed(url)
  return {
    url,
    socketUrl: `postgres://${superuser}@/postgres?host=${data}&port=${port}`,
    async stop() {
      const kept = await keptDatabases(url)
      await binaries.run('pg_ctl', ['stop', '-w', '-s', '-m', 'fast', '-D', data])
      if (kept.length === 0 || process.env.KEEP_TEST_DATABASES === 'no')
        await rm(directory, { recursive: true, force: true })
      else
        process.stderr.write(
          `\nThe databases of failed tests (${kept.join(', ')}) stay in ${directory}/postgres\n`,
        )
    },
  }
}

/** What a power failure would take away, no test looks for. */
async function preferSpeed(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  for (const setting of ['fsync', 'full_page_writes', 'synchronous_commit'])
    await client.query(`alter system set ${setting} = off`)
  await client.query('select pg_reload_conf()')
  await client.end()
}

/** A test file drops its database, unless a test of it failed. */
async function keptDatabases(url: string): Promise<readonly string[]> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    `select datname as name from pg_database where datname like 'tidemark\\_test\\_%'`,
  )
  await client.end()
  return rows.map((row) => row.name)
}

async function redisServer(): Promise<Service> {
  const directory = await mkdtemp(join(tmpdir(), 'tidemark-test-redis-'))
  const port = await freePort()
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '']
  const server = spawn('redis-server', flags, { stdio: 'ignore' })
  const stop = async () => {
    const ended = new Promise((resolve) => server.once('exit', resolve))
    if (server.kill()) await ended
    await rm(directory, { recursive: true, force: true })
  }
  try {
    await untilAnswering(server, port)
  } catch (error) {
    await stop()
    throw error
  }
  return { url: `redis://127.0.0.1:${port}`, stop }
}

async function untilAnswering(server: ChildProcess, port: number): Promise<void> {
  let failure: Error | null = null
  server.once('error', (cause) => {
    failure = new Error('redis-server cannot be started', { cause })
  })
  server.once('exit', (code) => {
    failure ??= new Error(`redis-server ended with code ${code}`)
  })
  for (let attempt = 0; attempt < 100; attempt++) {
    if (await answersPing(port)) return
    if (failure) throw failure
    await wait(50)
  }
  throw new Error('redis-server does not answer')
}

function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.once('error', () => resolve(false))
    socket.once('data', (answer) => {
      resolve(answer.toString().startsWith('+PONG'))
      socket.destroy()
    })
  })
}
