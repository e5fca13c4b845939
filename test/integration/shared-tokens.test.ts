// One sign-in for all programs that sign in as the same, through Redis (P9).

import { PassThrough } from 'node:stream'
import { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { openRedisTokens } from '../../src/budget/redis-tokens.ts'
import { openLog } from '../../src/log.ts'
import { openSharedTokens } from '../../src/upstream/auth/shared-tokens.ts'
import { type ClientChanges, noSignal, openServerClient, startServer } from '../support/client.ts'
import { startForwarder } from '../support/forwarder.ts'
import { hasBackend, redisUrlOf } from '../support/queues.ts'

describe.skipIf(!hasBackend('redis'))('programs that share their tokens', () => {
  it('sign in once, and again when the token is rejected or the key is another one, or Redis is away', async () => {
    const redisUrl = new URL(redisUrlOf('redis') ?? '')
    await using opened = new AsyncDisposableStack()
    let good = ''
    let signIns = 0
    await using server = await startServer(
      ({ headers }, response) =>
        response
          .writeHead(headers.authorization === `Bearer ${good}` ? 200 : 401, {
            'content-type': 'application/json',
          })
          .end('[]'),
      (_, response) => {
        good = `a-token-of-this-test-${++signIns}`
        // Long enough for the others to come meanwhile.
        setTimeout(() => response.end(JSON.stringify({ token: good, expiresIn: 3_600 })), 100)
      },
    )
    const lines: string[] = []
    const stream = new PassThrough()
    stream.on('data', (line) => lines.push(String(line)))
    const log = openLog({ level: 'info', stream })
    const open = (port: number, changes: ClientChanges = {}) => {
      const url = new URL(redisUrl)
      url.hostname = '127.0.0.1'
      url.port = String(port)
      const place = openRedisTokens({ redisUrl: url.href, deployment: server.url, log })
      opened.defer(place.close)
      const client = openServerClient(server, { tokens: openSharedTokens(place, log), ...changes })
      opened.defer(client.close)
      return async () => (await client.call('listAssignments', { query: { Page: 1 } }, noSignal)).status
    }
    const port = Number(redisUrl.port || 6379)
    const [one, other, third] = [open(port), open(port), open(port)]
    expect(await Promise.all([one(), other()])).toEqual([200, 200])
    expect([await third(), signIns]).toEqual([200, 1])

    const redis = new Redis(redisUrl.href)
    opened.defer(() => redis.disconnect())
    const keys = await redis.keys('{tidemark-token-*')
    const held = await Promise.all(keys.map((key) => redis.get(key)))
    expect(held.length).toBeGreaterThan(0)
    for (const text of held)
      for (const seen of [text ?? '', Buffer.from(text ?? '', 'base64').toString('latin1')])
        expect(seen).not.toContain('a-token-of-this-test')

    good = 'another one'
    expect(await Promise.all([one(), other(), third()])).toEqual([200, 200, 200])
    expect(signIns).toBe(2)

    // Who has another key reads nothing of it.
    const rotated = open(port, { apiKey: () => 'a key that is another one' })
    expect([await rotated(), signIns]).toEqual([200, 3])

    const forwarder = await startForwarder(port)
    const late = open(forwarder.port)
    await forwarder[Symbol.asyncDispose]()
    expect([await late(), signIns]).toEqual([200, 4])
    expect(lines).toEqual([expect.stringContaining('Tokens cannot be shared through Redis')])
    expect(lines.join('')).not.toContain('a-token-of-this-test')
  })
})
