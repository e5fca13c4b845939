// BullMQ's classes for both places a queue can live in, Redis and Postgres, with one type for both.

import {
  type BackendFactory,
  type Queue as BullQueue,
  createPostgresBackend,
  createRedisBackend,
  type IQueueBackend,
  type PgPool,
  withBackend,
} from 'bullmq'
import type { Redis } from 'ioredis'
import type { Pool } from 'pg'

export type Driver =
  | { readonly kind: 'postgres'; readonly pool: Pool }
  | { readonly kind: 'redis'; readonly redis: Redis; readonly prefix: string }

// The driver's overloads of on() are wider than what BullMQ describes.
const asPgPool = (pool: Pool): PgPool => pool as Pool & PgPool

const backend: BackendFactory<IQueueBackend, Driver> = (name, options, extra) => {
  const driver = options.connection
  return driver.kind === 'postgres'
    ? createPostgresBackend(name, { ...options, connection: asPgPool(driver.pool) }, extra)
    : createRedisBackend(name, { ...options, connection: driver.redis }, extra)
}

/** Where a queue or a worker lives. */
export const placed = (driver: Driver): { connection: Driver; prefix?: string } => ({
  connection: driver,
  ...(driver.kind === 'redis' && { prefix: driver.prefix }),
})

/** As tools of others know a queue; they work with any backend, and their types with one. */
export const forTools = (queue: object): BullQueue => queue as BullQueue

export const { Queue, Worker } = withBackend<IQueueBackend, Driver>(backend)
