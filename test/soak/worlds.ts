// The Postgres and the Redis of the soak, which can be killed and come back where they were.

import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { freePort } from '../../src/embedded-postgres/cluster.ts'
import { findBinaries } from '../../src/embedded-postgres/location.ts'
import { serverFlags, startEmbedded } from '../../src/embedded-postgres/server.ts'
import { openLog } from '../../src/log.ts'
import { primaryName, startRedisServer, startSentinels } from '../support/redis-servers.ts'

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

/** After a crash it repeats what it had written since the last checkpoint, beside everything else that runs here. */
const longestStartSeconds = '600'

export async function startPostgres(directory: string): Promise<PostgresWorld> {
  const embedded = await startEmbedded({ directory, log: openLog({ level: 'warn' }) })
  // Whoever stays its member would start it again when it is cut.
  await embedded.leave()
  const data = join(directory, 'postgres')
  const binaries = await findBinaries()
  const { port } = new URL(embedded.url)
  const control = (...words: string[]) => binaries.run('pg_ctl', [...words, '-w', '-s', '-D', data])
  const start = () =>
    control('start', '-t', longestStartSeconds, '-l', join(data, 'server.log'), '-o', serverFlags(port))
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
  // Users that are written down here are there again after each start.
  const settings = ['appendonly yes', 'user app on >sesame ~* &* +@all']
  const { start, kill, tell } = await startRedisServer({ directory, port, settings })
  return {
    url: `redis://127.0.0.1:${port}`,
    async cut(awayMs) {
      await kill()
      await wait(awayMs)
      await start()
    },
    ...{ start, tell, stop: kill },
    flush: async () => void (await tell('FLUSHALL')),
  }
}

/** Three that sentinels watch. When the primary is cut off, another one takes its place. */
export async function startRedisWithSentinels(directory: string): Promise<RedisWorld> {
  const all = await startSentinels({ directory, servers: 3, sentinels: 3, downAfterMs: 2_000 })
  const places = all.sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')
  const tell: RedisWorld['tell'] = async (...words) => await (await all.primary()).tell(...words)
  return {
    url: `redis+sentinel://${places}/${primaryName}`,
    async cut(awayMs) {
      const primary = await all.primary()
      await primary.kill()
      await all.untilMoved(primary)
      await wait(awayMs)
      await primary.start()
      await all.untilWhole()
    },
    start: async () => void (await Promise.all(all.servers.map((server) => server.start()))),
    async stop() {
      await all[Symbol.asyncDispose]()
    },
    tell,
    flush: async () => void (await tell('FLUSHALL')),
  }
}
