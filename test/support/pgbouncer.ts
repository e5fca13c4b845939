// A PgBouncer before a Postgres, for tests of what a pooler does to a worker.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { findBinaries } from '../../src/embedded-postgres/location.ts'

export type Pooler = AsyncDisposable & {
  readonly url: string
  /** From now on it has so many sessions of Postgres. */
  resize(poolSize: number): void
  stop(): Promise<void>
  /** After it was stopped; at the same address. */
  start(): Promise<void>
}

type Options = {
  readonly mode: 'session' | 'transaction'
  readonly poolSize: number
  /** Sessions are given in turn, and not the one first that was used last. */
  readonly takesTurns?: boolean
}

export async function startPooler(
  databaseUrl: string,
  { mode, poolSize, takesTurns = false }: Options,
): Promise<Pooler> {
  const { owner } = await findBinaries()
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-pgbouncer-'))
  const file = join(directory, 'pgbouncer.ini')
  const port = await freePort()
  const configure = (size: number) =>
    writeFileSync(file, settings(databaseUrl, { port, mode, size, takesTurns }))
  configure(poolSize)
  if (owner) for (const path of [directory, file]) await chown(path, owner.uid, owner.gid)
  const url = new URL(databaseUrl)
  Object.assign(url, { hostname: '127.0.0.1', port: String(port) })
  const start = async () => {
    const started = spawn('pgbouncer', [file], { stdio: 'ignore', ...owner })
    await untilAnswering(url.href)
    return started
  }
  let server = await start()
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, 'exit')
    server.kill('SIGKILL')
    await ended
  }
  return {
    url: url.href,
    resize(size) {
      configure(size)
      server.kill('SIGHUP')
    },
    stop,
    async start() {
      server = await start()
    },
    [Symbol.asyncDispose]: stop,
  }
}

type Settings = Required<Pick<Options, 'mode' | 'takesTurns'>> & {
  readonly port: number
  readonly size: number
}

/** No parameter is ignored: what PgBouncer refuses by itself, it refuses here. */
function settings(databaseUrl: string, { port, mode, size, takesTurns }: Settings): string {
  const target = new URL(databaseUrl)
  const password = decodeURIComponent(target.password)
  return `[databases]
* = host=${target.hostname} port=${target.port || '5432'} user=${decodeURIComponent(target.username)}${password && ` password=${password}`}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${size}
max_client_conn = 1000
server_round_robin = ${Number(takesTurns)}
`
}

async function untilAnswering(url: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const client = new pg.Client({ connectionString: url })
    client.on('error', () => {})
    try {
      await client.connect()
      await client.query('select 1')
      return
    } catch (error) {
      if (attempt === 100) throw error
      await wait(100)
    } finally {
      await client.end().catch(() => {})
    }
  }
}
