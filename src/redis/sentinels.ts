// Finds the primary by the sentinels, and leaves the old one when they name another: a primary that is frozen or cut off would keep its
// connections, and nothing would be heard from it until they have been silent for long.

import { Redis, type SentinelConnectionOptions, SentinelConnector } from 'ioredis'
import type { RedisHost, RedisUrl } from '../util/redis-url.ts'

type Options = {
  readonly url: RedisUrl
  /** Until a sentinel answers, or another one is asked. */
  readonly timeoutMs: number
  /** Until all are asked again; null: never. */
  readonly askAgainMs: (attempt: number) => number | null
  /** Until a connection that only listens is tried again. */
  readonly listenAgainMs: (attempt: number) => number
}
/** Options for a connection to the primary, and for its copies; and how that ends. */
export function followSentinels({ url, timeoutMs, askAgainMs, listenAgainMs }: Options) {
  const { hosts, isTls, primary: name } = url
  const streams = new Set<Stream>()
  const [username, password] = [url.sentinelUser, url.sentinelPassword]
  const troubles = new Map<string, Error>()
  let last = ''
  const listen = (host: RedisHost): Redis => {
    const redis = new Redis({
      ...{ ...host, username, password, family: url.family, connectionName: 'tidemark-sentinel' },
      ...{ connectTimeout: timeoutMs, retryStrategy: listenAgainMs, maxRetriesPerRequest: null },
      enableReadyCheck: false,
      ...(isTls && { tls: {} }),
    })
    const place = `${host.host}:${host.port}`
    redis.on('error', (error) => void troubles.set(place, error))
    redis.on('ready', () => void troubles.delete(place))
    redis.subscribe('+switch-master').catch(() => {})
    redis.on('message', (_, text: string) => {
      // All of them say so, one after the other.
      if (text === last || !text.startsWith(`${name} `)) return
      last = text
      for (const stream of streams) stream.destroy()
    })
    return redis
  }
  let listening: readonly Redis[] = []
  const connecting: Connecting = {
    begin() {
      if (listening.length === 0) listening = hosts.map(listen)
    },
    inWords: (error) => inWords(error, name, troubles),
    done(stream) {
      streams.add(stream)
      stream.once('close', () => streams.delete(stream))
    },
  }
  return {
    options: {
      ...{ Connector: connectorBy(connecting), sentinels: [...hosts], name },
      ...{ sentinelUsername: username, sentinelPassword: password },
      ...{ sentinelCommandTimeout: timeoutMs, sentinelRetryStrategy: askAgainMs },
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

type Connecting = {
  begin(): void
  inWords(error: Error): Error
  done(stream: Stream): void
}

const connectorBy = ({ begin, inWords, done }: Connecting) =>
  class extends SentinelConnector {
    constructor(options: unknown) {
      super(options as SentinelConnectionOptions)
    }

    override async connect(tell: (type: string, error: Error) => void): Promise<Stream> {
      begin()
      // That all were asked says less than what the last one said; that all named a primary that does not answer is no error of theirs.
      let said: Error | null = null
      const note = (type: string, error: Error) => {
        if (type === 'sentinelError') said = inWords(error)
        else if (said) tell(type, said)
      }
      const stream = await super.connect(note).catch((error) => {
        throw said ?? error
      })
      done(stream)
      return stream
    }
  }

/** `troubles`: what kept this program from listening to each. Of a connection that failed while it asked, ioredis says only that it is closed. */
function inWords({ message }: Error, name: string, troubles: ReadonlyMap<string, Error>): Error {
  const [, unknowing] =
    /^connected to sentinel (\S+) successfully, but got an invalid reply: null$/.exec(message) ?? []
  if (unknowing !== undefined) return new Error(`the sentinel ${unknowing} knows no primary "${name}"`)
  const [, silent = '', why] = /^failed to connect to sentinel (\S+) because (.*)$/s.exec(message) ?? []
  if (why === undefined) return new Error(message)
  const cause = why === 'Connection is closed.' ? troubles.get(silent) : undefined
  return new Error(`the sentinel ${silent} cannot be asked: ${cause?.message ?? why}`, { cause })
}
