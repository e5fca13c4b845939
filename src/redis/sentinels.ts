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
  let last = ''
  const listen = (host: RedisHost): Redis => {
    const redis = new Redis({
      ...{ ...host, username, password, family: url.family, connectionName: 'tidemark-sentinel' },
      ...{ connectTimeout: timeoutMs, retryStrategy: listenAgainMs, maxRetriesPerRequest: null },
      enableReadyCheck: false,
      ...(isTls && { tls: {} }),
    })
    // Whoever connects to the primary asks the sentinels, too, and tells what they answer.
    redis.on('error', () => {})
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
  const onConnect = (stream: Stream) => {
    streams.add(stream)
    stream.once('close', () => streams.delete(stream))
    if (listening.length === 0) listening = hosts.map(listen)
  }
  return {
    options: {
      ...{ Connector: connectorIn(name, onConnect), sentinels: [...hosts], name },
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

function connectorIn(name: string, onConnect: (stream: Stream) => void) {
  return class extends SentinelConnector {
    constructor(options: unknown) {
      super(options as SentinelConnectionOptions)
    }

    override async connect(tell: (type: string, error: Error) => void): Promise<Stream> {
      // That all were asked says less than what the last one said; that all named a primary that does not answer is no error of theirs.
      let said: Error | null = null
      const note = (type: string, error: Error) => {
        if (type === 'sentinelError') said = inWords(error, name)
        else if (said) tell(type, said)
      }
      const stream = await super.connect(note).catch((error) => {
        throw said ?? error
      })
      onConnect(stream)
      return stream
    }
  }
}

function inWords({ message }: Error, name: string): Error {
  const [, unknowing] =
    /^connected to sentinel (\S+) successfully, but got an invalid reply: null$/.exec(message) ?? []
  if (unknowing !== undefined) return new Error(`the sentinel ${unknowing} knows no primary "${name}"`)
  const [, silent, why] = /^failed to connect to sentinel (\S+) because (.*)$/s.exec(message) ?? []
  return new Error(silent === undefined ? message : `the sentinel ${silent} cannot be asked: ${why}`)
}
