// Opens connections to Redis, for the queue and for the budgets: to one server, to the primary that the sentinels name, or to a cluster.

import { Cluster, Redis, type SentinelConnectionOptions, SentinelConnector } from 'ioredis'
import type { Logger } from '../log.ts'
import { backoff, delayAfter } from '../util/backoff.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { describeRedis, type RedisUrl, readRedisUrl } from '../util/redis-url.ts'
import { sentence } from '../util/text.ts'
import { withTimeout } from '../util/waiting.ts'

export type RedisConnection = {
  readonly redis: Redis | Cluster
  readonly url: RedisUrl
  /** Why there is no connection; null: there is one, or nothing is known. */
  trouble(): Error | null
  /** Rejects with what is wrong with the connection: that an attempt failed says less. */
  run(script: string, keys: readonly string[], ...values: readonly (string | number)[]): Promise<unknown>
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
    connectionName: name,
    maxRetriesPerRequest: retries,
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
  const troubleNow = () => (redis.status === 'ready' ? null : trouble)
  return {
    redis,
    url,
    close,
    trouble: troubleNow,
    run: (script, keys, ...values) =>
      redis.eval(script, keys.length, ...keys, ...values).catch((error) => {
        const cause = troubleNow() ?? error
        throw new Error(redisTrouble(cause), { cause })
      }),
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
function redisTrouble(error: unknown): string {
  const said = messageOf(error)
  if (/maxRetriesPerRequest/.test(said)) return 'it cannot be reached.'
  return /^Unknown RESP type|^Protocol error/.test(said) ? 'what answers there is no Redis.' : sentence(said)
}

const commonOptions = ({ kind, user, password, db, family, isTls }: RedisUrl) => ({
  username: user,
  password,
  db,
  family,
  keepAlive: keepAliveMs,
  socketTimeout: silenceMs,
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
    const following = followSentinels(url, askAgainMs)
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
          lazyConnect: true,
          clusterRetryStrategy: delay,
          redisOptions: common,
          // By name: certificates are made out to names.
          dnsLookup: (host, found) => found(null, host),
        })
  return { redis, close: () => redis.disconnect() }
}

/**
 * Finds the primary by the sentinels, and leaves the old one when they name another: a primary that is frozen or cut off would keep its
 * connections, and nothing would be heard from it until they have been silent for long. Returns options for a connection to the primary, and
 * for its copies; and how that ends.
 */
function followSentinels(url: RedisUrl, askAgainMs: (attempt: number) => number | null) {
  const { hosts, isTls, primary: name, sentinelUser: username, sentinelPassword: password } = url
  const streams = new Set<Stream>()
  const troubles = new Map<string, Error>()
  let listening: readonly Redis[] = []
  const leave = () => {
    for (const stream of streams) stream.destroy()
  }
  class Connector extends SentinelConnector {
    constructor(options: unknown) {
      super(options as SentinelConnectionOptions)
    }

    override async connect(tell: (type: string, error: Error) => void): Promise<Stream> {
      if (listening.length === 0) listening = listenTo(url, troubles, leave)
      // That all were asked says less than what the last one said; that all named a primary that does not answer is no error of theirs.
      let said: Error | null = null
      const note = (type: string, error: Error) => {
        if (type === 'sentinelError') said = inWords(error, name, troubles)
        else if (said) tell(type, said)
      }
      const stream = await super.connect(note).catch((error) => {
        throw said ?? error
      })
      streams.add(stream)
      stream.once('close', () => streams.delete(stream))
      return stream
    }
  }
  return {
    options: {
      Connector,
      sentinels: [...hosts],
      name,
      sentinelUsername: username,
      sentinelPassword: password,
      sentinelCommandTimeout: oneOfManyTimeoutMs,
      sentinelRetryStrategy: askAgainMs,
      // Those that are named are asked, and no others that they know: these may have addresses that only they can reach.
      updateSentinels: false,
      ...(isTls && { sentinelTLS: {}, enableTLSForSentinelMode: true }),
    },
    close() {
      for (const one of listening) one.disconnect()
    },
  }
}

type Stream = Awaited<ReturnType<SentinelConnector['connect']>>

/** `troubles`: what keeps this program from listening to each. */
function listenTo(url: RedisUrl, troubles: Map<string, Error>, onOther: () => void): readonly Redis[] {
  const { hosts, family, isTls, primary, sentinelUser: username, sentinelPassword: password } = url
  let last = ''
  return hosts.map((host) => {
    const redis = new Redis({
      ...host,
      username,
      password,
      family,
      connectionName: 'tidemark-sentinel',
      connectTimeout: oneOfManyTimeoutMs,
      retryStrategy: delay,
      maxRetriesPerRequest: null,
      enableReadyCheck: false,
      ...(isTls && { tls: {} }),
    })
    const place = `${host.host}:${host.port}`
    redis.on('error', (error) => void troubles.set(place, error))
    redis.on('ready', () => void troubles.delete(place))
    redis.subscribe('+switch-master').catch(() => {})
    redis.on('message', (_, text: string) => {
      // All of them say so, one after the other.
      if (text === last || !text.startsWith(`${primary} `)) return
      last = text
      onOther()
    })
    return redis
  })
}

/** Of a connection that failed while it asked, ioredis says only that it is closed. */
function inWords({ message }: Error, name: string, troubles: ReadonlyMap<string, Error>): Error {
  const [, unknowing] =
    /^connected to sentinel (\S+) successfully, but got an invalid reply: null$/.exec(message) ?? []
  if (unknowing !== undefined) return new Error(`the sentinel ${unknowing} knows no primary "${name}"`)
  const [, silent = '', why] = /^failed to connect to sentinel (\S+) because (.*)$/s.exec(message) ?? []
  if (why === undefined) return new Error(message)
  const cause = why === 'Connection is closed.' ? troubles.get(silent) : undefined
  return new Error(`the sentinel ${silent} cannot be asked: ${cause?.message ?? why}`, { cause })
}
