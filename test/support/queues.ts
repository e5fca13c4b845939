// The queue of the worker in both places it can live in, for tests that must hold in both.

import { Redis } from 'ioredis'
import pg from 'pg'
import { inject } from 'vitest'
import { type OpenDriver, openDriver } from '../../src/worker/queue/driver.ts'
import { quietLog, type TestDatabase } from './database.ts'

export type Backend = 'postgres' | 'redis'

/** For `describe.skipIf(!hasBackend(…))`. */
export const hasBackend = (backend: Backend): boolean =>
  inject('databaseUrl') !== null && (backend === 'postgres' || inject('redisUrl') !== null)

export const redisUrlOf = (backend: Backend): string | null =>
  backend === 'redis' ? inject('redisUrl') : null

export const openTestQueue = (backend: Backend, database: TestDatabase): Promise<OpenDriver> =>
  openDriver({ redisUrl: redisUrlOf(backend), database, log: quietLog })

/** Empties the queue of one mirror, as a flush does. */
export async function flushQueue(queue: OpenDriver, database: TestDatabase): Promise<void> {
  if (queue.driver.kind === 'redis') {
    const redis = new Redis(redisUrlOf('redis') ?? '')
    const keys = await redis.keys(`${queue.driver.prefix}*`)
    if (keys.length > 0) await redis.del(...keys)
    redis.disconnect()
    return
  }
  const client = new pg.Client(database.url)
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname = 'bullmq' and tablename not like '%migration%' and tablename not like '%schema%'`,
  )
  let isFlushed = false
  while (!isFlushed)
    try {
      await client.query(`truncate ${rows.map(({ name }) => name).join(', ')} cascade`)
      isFlushed = true
    } catch (error) {
      // A live worker locks the same tables, in an order of its own.
      const isDeadlock = error instanceof pg.DatabaseError && error.code === '40P01'
      if (!isDeadlock) throw error
    }
  await client.end()
}
