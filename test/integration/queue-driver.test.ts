// What is said of a queue that cannot be opened, and what keeps the queues of two mirrors apart.

import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { openDriver } from '../../src/jobs/queue-driver.ts'
import { openLog } from '../../src/log.ts'
import { quietLog } from '../support/database.ts'
import { hasBackend, redisUrlOf } from '../support/queues.ts'

describe.skipIf(!hasBackend('redis'))('a Redis that refuses the password', () => {
  it('is told of without the password, which its errors carry (P9)', async () => {
    const url = new URL(redisUrlOf('redis') ?? '')
    Object.assign(url, { username: 'nobody', password: 'sesame' })
    const stream = new PassThrough()
    const log = openLog({ level: 'trace', stream })
    const opening = openDriver({
      redisUrl: url.href,
      database: { connection: {}, address: 'here', cluster: null },
      log,
    })
    const err = await opening.catch((error) => error)
    expect(err.message).toContain('check REDIS_URL')
    log.warn({ err }, 'waiting for Redis')
    const told = String(stream.read())
    expect(told).toContain('WRONGPASS')
    expect(told).not.toContain('sesame')
  })
})

describe.skipIf(!hasBackend('redis'))('a Redis that two mirrors share', () => {
  type Mirror = { address: string; cluster: string | null }
  async function prefixOf(mirror: Mirror): Promise<string | null> {
    const database = { connection: {}, ...mirror }
    const { driver, close } = await openDriver({ redisUrl: redisUrlOf('redis'), database, log: quietLog })
    await close()
    return driver.kind === 'redis' ? driver.prefix : null
  }

  it('keeps them apart, also when each calls its own Postgres by the same name', async () => {
    const mine: Mirror = { address: 'localhost:5432/tidemark', cluster: '7400000000000000001' }
    const theirs: readonly Mirror[] = [
      { ...mine, cluster: '7400000000000000002' },
      { ...mine, address: 'localhost:5432/other' },
      { ...mine, cluster: null },
    ]
    const prefixes = await Promise.all([mine, ...theirs].map(prefixOf))
    expect(new Set(prefixes).size).toBe(4)
    expect(await prefixOf(mine)).toBe(prefixes[0])
  })
})
