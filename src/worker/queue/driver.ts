// Opens what the queues live in: the Redis that REDIS_URL names, or the database of the mirror. It must answer before any
// queue is made: one that is made while its Postgres is down never recovers.

import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import {
  type BackendFactory,
  createRedisBackend,
  type IQueueBackend,
  type PgPool,
  PostgresConnection,
  PostgresQueueBackend,
  runMigrations,
  withBackend,
} from 'bullmq'
import type { Cluster, Redis } from 'ioredis'
import pg, { type ClientBase, type Pool, type PoolConfig } from 'pg'
import type { Logger } from '../../log.ts'
import { openRedis } from '../../redis/connection.ts'
import { messageOf, UsageError } from '../../util/errors.ts'
import { describeRedis, redisInfoProblem } from '../../util/redis-url.ts'
import { withTimeout } from '../../util/waiting.ts'
import { guardLocks, schema, searchPath } from './postgres-locks.ts'

// BullMQ's classes for both places a queue can live in, Redis and Postgres, with one type for both.
export type Driver =
  | { readonly kind: 'postgres'; readonly pool: Pool }
  | { readonly kind: 'redis'; readonly redis: Redis | Cluster; readonly prefix: string }

// The driver's overloads of on() are wider than what BullMQ describes.
const asPgPool = (pool: Pool): PgPool => pool as Pool & PgPool

/** BullMQ's look at its tables would be the only one: once it fails, a queue never asks Postgres anything again. `openPostgres` has looked. */
class LookedAt extends PostgresConnection {
  override async waitUntilReady(): Promise<void> {}
}

const backend: BackendFactory<IQueueBackend, Driver> = (name, options, extra) => {
  const driver = options.connection
  if (driver.kind === 'redis')
    return unhurried(createRedisBackend(name, { ...options, connection: driver.redis }, extra))
  const connection = asPgPool(driver.pool)
  const listensAs = extra?.withBlockingConnection ? name : undefined
  return unhurried(
    new PostgresQueueBackend(new LookedAt(connection), name, { ...options, connection }, true, listensAs),
  )
}

const refusedMs = 1_000

/** BullMQ's workers ask again at once when a queue refuses them, for example a Redis that is full: without a pause they would do nothing else. */
function unhurried(backend: IQueueBackend): IQueueBackend {
  const take = backend.moveToActive.bind(backend)
  return Object.assign(backend, {
    moveToActive: (...job: Parameters<typeof take>) =>
      take(...job).catch(async (error) => {
        await wait(refusedMs)
        throw error
      }),
  })
}

/** Where a queue or a worker lives. */
export const placed = (driver: Driver): { connection: Driver; prefix?: string } => ({
  connection: driver,
  ...(driver.kind === 'redis' && { prefix: driver.prefix }),
})

export const { Queue, Worker } = withBackend<IQueueBackend, Driver>(backend)

export type OpenDriver = {
  readonly driver: Driver
  /** Where the queue is, for people. */
  readonly address: string
  /** Rejects while nothing can be written there. Of a queue in Postgres only its jobs tell that. */
  ping(): Promise<void>
  /** Makes its tables where they are missing. */
  prepare(): Promise<void>
  close(): Promise<void>
}

type Options = {
  readonly redisUrl: string | null
  /** What the mirror's own pool connects with, and what tells one mirror from another in a shared Redis. */
  readonly database: {
    readonly connection: PoolConfig
    readonly address: string
    readonly cluster: string | null
  }
  readonly log: Logger
}

/** Two sessions wait to be woken: one for the polls, one for the loads. Statements are short, and two at a time are enough for them. */
const poolSize = 4
const connectTimeoutMs = 10_000
const keepAliveMs = 10_000
/** Longer than a queue is at rest between two jobs: a new session costs more than all that is asked of it in that time. */
const idleMs = 90_000
const silenceMs = 30_000
/**
 * Statements and no parameters of the connection: a pooler refuses those. BullMQ's statements wait for each other, and are not tried again.
 * A worker that is frozen in the middle of a transaction must not hold up the queue of all others.
 */
const settingsSql = `
  set search_path = ${searchPath};
  set idle_in_transaction_session_timeout = ${silenceMs};
  set default_transaction_isolation = 'read committed'; set array_nulls = on;
  set statement_timeout = 0; set lock_timeout = 0`
const writtenSeconds = 60

/** How many sessions of Postgres the queue of a worker has at the most. */
export const sessionsOfQueue = (redisUrl: string | null): number => (redisUrl === null ? poolSize : 0)

export const openDriver = ({ redisUrl, database, log }: Options): Promise<OpenDriver> =>
  redisUrl === null ? openPostgres(database, log) : openQueueInRedis(redisUrl, database, log)

/** To make a schema `if not exists` Postgres asks for the right to make one, even where it exists. */
const makeSchemaSql = `do $$ begin if to_regnamespace('${schema}') is null then create schema ${schema}; end if; end $$`
const makingNoSchemaTwice = (client: ClientBase): Pick<ClientBase, 'query'> => ({
  query: ((text: string, values?: unknown[]) =>
    client.query(/^create schema /i.test(text) ? makeSchemaSql : text, values)) as ClientBase['query'],
})

async function openPostgres({ connection, address }: Options['database'], log: Logger): Promise<OpenDriver> {
  const pool = new pg.Pool({
    ...connection,
    max: poolSize,
    connectionTimeoutMillis: connectTimeoutMs,
    idleTimeoutMillis: idleMs,
    application_name: 'tidemark queue',
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveMs,
    // Whatever somebody set for all.
    async onConnect(client) {
      await withTimeout(connectTimeoutMs, client.query(settingsSql))
    },
  })
  // Every worker and queue listens to the pool they share.
  pool.setMaxListeners(0)
  pool.on('error', (error) => log.debug({ err: error }, 'an idle connection of the queue broke'))
  pool.on('connect', (client) => void client.on('error', () => {}))
  const prepare = async () => {
    const client = await pool.connect()
    try {
      await runMigrations(makingNoSchemaTwice(client), schema)
      await guardLocks(client)
    } finally {
      client.release()
    }
  }
  try {
    await prepare()
  } catch (error) {
    await pool.end()
    throw error
  }
  const ping = async () => {}
  return { driver: { kind: 'postgres', pool }, address, ping, prepare, close: () => pool.end() }
}

async function openQueueInRedis(
  redisUrl: string,
  database: Options['database'],
  log: Logger,
): Promise<OpenDriver> {
  // Workers wait for a Redis that is away; a limit would make them fail.
  const { redis, url, trouble, open, close } = openRedis({ redisUrl, name: 'tidemark', retries: null, log })
  const prefix = prefixOf(database)
  const ping = async () => {
    const cause = trouble()
    const why = cause ? messageOf(cause) : redis.status
    if (redis.status !== 'ready') throw new Error(`there is no connection to Redis: ${why}`, { cause })
    // A write and no PING: a Redis that is full, or a replica by now, answers to a PING and takes nothing.
    await redis.set(`${prefix}:written`, '1', 'EX', writtenSeconds)
  }
  await open(async () => {
    // A user of Redis may lack the right to ask.
    const problem = redisInfoProblem(url, await redis.info('server').catch(() => ''))
    if (problem) throw new UsageError(`REDIS_URL ${problem}.`)
    await ping()
  })
  return {
    driver: { kind: 'redis', redis, prefix },
    address: describeRedis(url),
    ping,
    prepare: async () => {},
    close: async () => close(),
  }
}

/**
 * Two mirrors may share one Redis, and both may live at "localhost". A copy of the files of a Postgres has the same cluster and another address: its
 * worker must not take the jobs of the first one. The braces keep a mirror's keys together in a cluster of Redis.
 */
function prefixOf({ address, cluster }: Options['database']): string {
  const store = cluster === null ? address : `${address} ${cluster}`
  return `{tidemark-${createHash('sha256').update(store).digest('hex').slice(0, 12)}}`
}
