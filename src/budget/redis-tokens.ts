// The tokens of a deployment in Redis, each encrypted under the key of the API that it was got with: whoever lacks that key cannot read it, and
// with another key there is none. Never in Postgres, whose backups would keep them (P9).

import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from 'node:crypto'
import type { Logger } from '../log.ts'
import { openRedis } from '../redis/connection.ts'
import type { Identity, TokenPlace } from '../upstream/auth/shared-tokens.ts'

/** KEYS: the token. Returns it, and for how many milliseconds it stays. */
const getScript = `return { redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]) }`
/** ARGV: what it has to be to be taken away. */
const dropScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end`

/** A token is kept for so much less than it is good for. */
const lastMs = 60_000
/** So long one is kept of which nobody knows when it ends. */
const unknownEndMs = 600_000

const cipher = 'aes-256-gcm'
const [ivBytes, tagBytes] = [12, 16]

export function openRedisTokens(given: {
  readonly redisUrl: string
  readonly deployment: string
  readonly log: Logger
}): TokenPlace & { close(): void } {
  const { redisUrl, deployment, log } = given
  const { redis, run, close } = openRedis({ redisUrl, name: 'tidemark-tokens', retries: 0, log })
  const keysOf = (identity: Identity) => {
    const digest = createHash('sha256').update(deployment).update(derived(identity, 'id')).digest('hex')
    const key = `{tidemark-token-${digest.slice(0, 32)}}`
    return { key, claim: `${key}:claim` }
  }
  return {
    place: 'Redis',
    async get(identity) {
      const { key } = keysOf(identity)
      const [held, leftMs] = (await run(getScript, [key])) as [string, number]
      const found = held === '' ? null : opened(identity, key, held)
      if (found === null) return null
      const endsAtMs = found.hasEnd ? Date.now() + leftMs + lastMs : null
      return { token: found.token, endsAtMs, drop: async () => void (await run(dropScript, [key], held)) }
    },
    async put(identity, { token, endsAtMs }) {
      const { key } = keysOf(identity)
      const keptMs = endsAtMs === null ? unknownEndMs : Math.floor(endsAtMs - Date.now() - lastMs)
      if (keptMs <= 0) return
      await redis.set(key, closed(identity, key, { token, hasEnd: endsAtMs !== null }), 'PX', keptMs)
    },
    async claim(identity, longestMs) {
      const { claim } = keysOf(identity)
      const mine = randomUUID()
      const isMine = await redis.set(claim, mine, 'PX', longestMs, 'NX')
      return isMine === null ? null : async () => void (await run(dropScript, [claim], mine))
    },
    close,
  }
}

type Kept = { readonly token: string; readonly hasEnd: boolean }

const derived = ({ service, authUrl, subjectId, apiKey }: Identity, use: 'key' | 'id'): Buffer =>
  Buffer.from(hkdfSync('sha256', apiKey, `${authUrl} ${subjectId}`, `tidemark token ${service} ${use}`, 32))

function closed(identity: Identity, place: string, kept: Kept): string {
  const iv = randomBytes(ivBytes)
  const sealing = createCipheriv(cipher, derived(identity, 'key'), iv).setAAD(Buffer.from(place))
  const sealed = Buffer.concat([sealing.update(JSON.stringify(kept)), sealing.final()])
  return Buffer.concat([iv, sealing.getAuthTag(), sealed]).toString('base64')
}

/** Null: it was not written with this key. */
function opened(identity: Identity, place: string, held: string): Kept | null {
  try {
    const bytes = Buffer.from(held, 'base64')
    const opening = createDecipheriv(cipher, derived(identity, 'key'), bytes.subarray(0, ivBytes))
      .setAAD(Buffer.from(place))
      .setAuthTag(bytes.subarray(ivBytes, ivBytes + tagBytes))
    const text = Buffer.concat([opening.update(bytes.subarray(ivBytes + tagBytes)), opening.final()])
    return JSON.parse(text.toString('utf8'))
  } catch {
    return null
  }
}
