// Opens connections to Redis, for the queue and for the budgets: to one server, to the primary that the sentinels name, or to a cluster.

import { Cluster, Redis } from 'ioredis'
import type { Logger } from '../log.ts'
import { backoff, delayAfter } from '../util/backoff.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { describeRedis, type RedisUrl, readRedisUrl } from '../util/redis-url.ts'
import { sentence } from '../util/text.ts'
import { withTimeout } from '../util/waiting.ts'
import { followSentinels } from './sentinels.ts'

export type RedisConnection = {
  readonly redis: Redis | Cluster
  readonly url: RedisUrl
  /** Why there is no connection; null: there is one, or nothing is known. */
  trouble(): Error | null
  /** Connects and does this first. When either fails it is over, and the error says why and where. */
  open<Result>(first: () => Promise<Result>, longestMs?: number): Promise<Result>
  close(): void
}

type Options = {
  readonly redisUrl: string
  /** What Redis calls the connection. */
  readonly name: string
  /** How often a command is sent again when the connection breaks; null: until there is one. */
  readonly retries: number | null
  readonly log: Logger
}

const connectTimeoutMs = 10_000
/** Another one is tried then. */
const oneOfManyTimeoutMs = 3_000
const keepAliveMs = 10_000
/**
 * Longer than any command takes: BullMQ has some that wait in Redis, for ten seconds. A server that is gone without a word is left then, and the
 * sentinels may know another one.
 */
const silenceMs = 12_000
const openTimeoutMs = 20_000

export function openRedis({ redisUrl, name, retries, log }: Options): RedisConnection {
  const url = readRedisUrl(redisUrl)
  let trouble: Error | null = null
  let isOpening = false
  const common = {
    ...commonOptions(url),
    ...{ connectionName: name, maxRetriesPerRequest: retries },
    // A primary that becomes a replica keeps its connections. The address, or the sentinels, may lead to the new primary by now. BullMQ's own
    // connections are copies of this one, and do the same.
    reconnectOnError(error: Error) {
      const isReplica = /READONLY|MASTERDOWN/.test(error.message)
      if (isReplica) trouble = error
      return isReplica
    },
  }
  // Whoever opens it tries again.
  const { redis, close } = connect(url, common, (attempt) => (isOpening ? null : delay(attempt)))
  const note = (error: Error) => {
    // That none of a cluster answers says less than what one of them said.
    trouble = 'lastNodeError' in error && error.lastNodeError instanceof Error ? error.lastNodeError : error
    log.debug({ err: error }, `the connection ${name} to Redis has trouble`)
  }
  redis.on('error', note)
  redis.on('node error', note)
  redis.on('ready', () => {
    trouble = null
  })
  return {
    ...{ redis, url, close, trouble: () => (redis.status === 'ready' ? null : trouble) },
    async open(first, longestMs = openTimeoutMs) {
      isOpening = true
      try {
        await withTimeout(longestMs, redis.connect())
        return await withTimeout(longestMs, first())
      } catch (error) {
        const seen = redis.status === 'ready' ? error : (trouble ?? error)
        close()
        const cause = redis instanceof Cluster && isClosed(seen) ? await reasonOf(url, common) : seen
        if (cause instanceof UsageError) throw cause
        throw new Error(
          `Redis at ${describeRedis(url)} cannot be used: ${redisTrouble(cause)} Check REDIS_URL.`,
          { cause },
        )
      } finally {
        isOpening = false
      }
    },
  }
}

/** What the driver says of a server that is gone, or that is no Redis, tells a person nothing. */
export function redisTrouble(error: unknown): string {
  const said = messageOf(error)
  if (/maxRetriesPerRequest/.test(said)) return 'it cannot be reached.'
  return /^Unknown RESP type|^Protocol error/.test(said) ? 'what answers there is no Redis.' : sentence(said)
}

const commonOptions = ({ kind, user, password, db, family, isTls }: RedisUrl) => ({
  ...{ username: user, password, db, family, keepAlive: keepAliveMs, socketTimeout: silenceMs },
  lazyConnect: true,
  connectTimeout: kind === 'single' ? connectTimeoutMs : oneOfManyTimeoutMs,
  ...(isTls && { tls: {} }),
})

const isClosed = (error: unknown): boolean => messageOf(error) === 'Connection is closed.'

/** Of nodes that cannot be reached, a cluster says no more than that: so one of them is asked. */
async function reasonOf({ hosts }: RedisUrl, common: Common): Promise<unknown> {
  const redis = new Redis({ ...common, ...hosts[0], retryStrategy: () => null })
  let seen: unknown = null
  redis.on('error', (error) => {
    seen = error
  })
  await redis.connect().catch((error) => {
    seen ??= error
  })
  redis.disconnect()
  return seen
}

const delay = (attempt: number): number => delayAfter(backoff.redis, attempt)

type Common = ReturnType<typeof commonOptions> & {
  readonly connectionName: string
  readonly maxRetriesPerRequest: number | null
  readonly reconnectOnError: (error: Error) => boolean
}

/** `askAgainMs`: until all sentinels are asked again; null: never. */
function connect(
  url: RedisUrl,
  common: Common,
  askAgainMs: (attempt: number) => number | null,
): Pick<RedisConnection, 'redis' | 'close'> {
  const { kind, hosts } = url
  if (kind === 'sentinel') {
    const times = { timeoutMs: oneOfManyTimeoutMs, askAgainMs, listenAgainMs: delay }
    const following = followSentinels({ url, ...times })
    const redis = new Redis({ ...common, ...following.options, retryStrategy: delay })
    const close = () => {
      following.close()
      redis.disconnect()
    }
    return { redis, close }
  }
  const redis =
    kind === 'single'
      ? new Redis({ ...common, ...hosts[0], retryStrategy: delay })
      : new Cluster([...hosts], {
          ...{ lazyConnect: true, clusterRetryStrategy: delay, redisOptions: common },
          // By name: certificates are made out to names.
          dnsLookup: (host, found) => found(null, host),
        })
  return { redis, close: () => redis.disconnect() }
}
