// The Postgres and the Redis of the soak, which can be killed and come back where they were.

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { findBinaries } from '../../src/embedded-postgres/binaries.ts'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { serverFlags, startEmbedded } from '../../src/embedded-postgres/server.ts'
import { openLog } from '../../src/log.ts'

export type World = {
  readonly url: string
  /** Ends it as a power cut would, and starts it again after a while. */
  cut(awayMs: number): Promise<void>
  stop(): Promise<void>
  /** After it was stopped; the same one as before. */
  start(): Promise<void>
}

export type PostgresWorld = World & {
  readonly data: string
  /** As `pg_ctl` does it. */
  control(...words: string[]): Promise<void>
}

export async function startPostgres(directory: string): Promise<PostgresWorld> {
  const embedded = await startEmbedded({ directory, log: openLog({ level: 'warn' }) })
  // Whoever stays its member would start it again when it is cut.
  await embedded.leave()
  const data = join(directory, 'postgres')
  const binaries = await findBinaries()
  const { port } = new URL(embedded.url)
  const control = (...words: string[]) => binaries.run('pg_ctl', [...words, '-w', '-s', '-D', data])
  const start = () => control('start', '-l', join(data, 'server.log'), '-o', serverFlags(port))
  await start()
  return {
    // Some faults are what only a superuser can do.
    url: embedded.adminUrl,
    ...{ data, control, start },
    async cut(awayMs) {
      await control('stop', '-m', 'immediate')
      await wait(awayMs)
      await start()
    },
    stop: () => control('stop', '-m', 'immediate'),
  }
}

export type RedisWorld = World & {
  flush(): Promise<void>
  /** A command, as an operator would give it. */
  tell(command: string, ...words: string[]): Promise<unknown>
}

export async function startRedis(directory: string): Promise<RedisWorld> {
  const port = await freePort()
  const url = `redis://127.0.0.1:${port}`
  mkdirSync(directory, { recursive: true })
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--appendonly', 'yes']
  // Written down here, it is there again after each start.
  flags.push('--user', 'app', 'on', '>sesame', '~*', '&*', '+@all')
  let server = await begin()

  async function begin(): Promise<ChildProcess> {
    const child = spawn('redis-server', flags, { stdio: 'ignore' })
    await withRedis((redis) => redis.ping())
    return child
  }

  async function withRedis<Result>(work: (redis: Redis) => Promise<Result>): Promise<Result> {
    const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
    redis.on('error', () => {})
    try {
      return await work(redis)
    } finally {
      redis.disconnect()
    }
  }

  async function kill(): Promise<void> {
    if (server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, 'exit')
    server.kill('SIGKILL')
    await ended
  }

  return {
    url,
    async cut(awayMs) {
      await kill()
      await wait(awayMs)
      server = await begin()
    },
    async start() {
      server = await begin()
    },
    flush: () => withRedis(async (redis) => void (await redis.flushall())),
    tell: (command, ...words) => withRedis((redis) => redis.call(command, ...words)),
    stop: kill,
  }
}
