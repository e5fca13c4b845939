// Opens connections to Redis, for the queue and for the budgets: to one server, to the primary that the sentinels name, or to a cluster.

import { Cluster, Redis } from 'ioredis'
import type { Logger } from './log.ts'
import { backoff, delayAfter } from './util/backoff.ts'
import { messageOf, UsageError } from './util/errors.ts'
import { describeRedis, type RedisUrl, readRedisUrl } from './util/redis-url.ts'
import { sentence } from './util/text.ts'
import { withTimeout } from './util/waiting.ts'

export type RedisConnection = {
  readonly redis: Redis | Cluster
  readonly url: RedisUrl
  /** Why there is no connection; null: there is one, or nothing is known. */
  trouble(): Error | null
  /** Connects and does this first. When either fails it is over, and the error says why and where. */
  open<Result>(first: () => Promise<Result>, longestMs?: number): Promise<Result>
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
  const delay = (attempt: number) => delayAfter(backoff.redis, attempt)
  const redis = connect(url, {
    common: {
      ...commonOptions(url),
      ...{ connectionName: name, maxRetriesPerRequest: retries },
      // A primary that becomes a replica keeps its connections. The address, or the sentinels, may lead to the new primary by now. BullMQ's own
      // connections are copies of this one, and do the same.
      reconnectOnError(error) {
        const isReplica = /READONLY|MASTERDOWN/.test(error.message)
        if (isReplica) trouble = error
        return isReplica
      },
    },
    delay,
    // Whoever opens it tries again.
    sentinelDelay: (attempt) => (isOpening ? null : delay(attempt)),
  })
  const note = (error: Error) => {
    // That all were asked says less than what they said.
    if (/^All sentinels are unreachable/.test(error.message)) return
    trouble = plain(url, error)
    log.debug({ err: error }, `the connection ${name} to Redis has trouble`)
  }
  for (const event of ['error', 'sentinelError', 'node error']) redis.on(event, note)
  redis.on('ready', () => {
    trouble = null
  })
  return {
    ...{ redis, url, trouble: () => (redis.status === 'ready' ? null : trouble) },
    async open(first, longestMs = openTimeoutMs) {
      isOpening = true
      try {
        await withTimeout(longestMs, redis.connect())
        return await withTimeout(longestMs, first())
      } catch (error) {
        const cause = redis.status === 'ready' ? error : (trouble ?? error)
        redis.disconnect()
        if (cause instanceof UsageError) throw cause
        const why = sentence(messageOf(cause))
        throw new Error(`Redis at ${describeRedis(url)} cannot be used: ${why} Check REDIS_URL.`, { cause })
      } finally {
        isOpening = false
      }
    },
  }
}

const commonOptions = ({ kind, user, password, db, family, isTls }: RedisUrl) => ({
  ...{ username: user, password, db, family, keepAlive: keepAliveMs, socketTimeout: silenceMs },
  lazyConnect: true,
  connectTimeout: kind === 'single' ? connectTimeoutMs : oneOfManyTimeoutMs,
  ...(isTls && { tls: {} }),
})

type Ways = {
  readonly common: ReturnType<typeof commonOptions> & {
    readonly connectionName: string
    readonly maxRetriesPerRequest: number | null
    readonly reconnectOnError: (error: Error) => boolean
  }
  /** Until the next attempt to connect, and until all sentinels are asked again; null: never. */
  readonly delay: (attempt: number) => number
  readonly sentinelDelay: (attempt: number) => number | null
}

function connect(url: RedisUrl, { common, delay, sentinelDelay }: Ways): Redis | Cluster {
  const { kind, hosts, isTls } = url
  if (kind === 'cluster')
    return new Cluster([...hosts], {
      lazyConnect: true,
      clusterRetryStrategy: delay,
      // By name: certificates are made out to names.
      dnsLookup: (host, found) => found(null, host),
      redisOptions: common,
    })
  if (kind === 'single') return new Redis({ ...common, ...hosts[0], retryStrategy: delay })
  return new Redis({
    ...common,
    ...{
      sentinels: [...hosts],
      name: url.primary,
      retryStrategy: delay,
      sentinelRetryStrategy: sentinelDelay,
    },
    sentinelUsername: url.sentinelUser,
    sentinelPassword: url.sentinelPassword,
    sentinelCommandTimeout: oneOfManyTimeoutMs,
    // Those that are named are asked, and no others that they know: these may have addresses that only they can reach.
    updateSentinels: false,
    ...(isTls && { sentinelTLS: {}, enableTLSForSentinelMode: true }),
  })
}

/** What ioredis says of a sentinel that does not know the primary helps nobody. */
function plain({ primary }: RedisUrl, error: Error): Error {
  const [, sentinel] =
    /^connected to sentinel (\S+) successfully, but got an invalid reply: null$/.exec(error.message) ?? []
  return sentinel === undefined
    ? error
    : new Error(`the sentinel ${sentinel} knows no primary "${primary}"`, { cause: error })
}
