// What is said of a queue that cannot be opened.

import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { openDriver } from '../../src/jobs/queue-driver.ts'
import { openLog } from '../../src/log.ts'
import { hasBackend, redisUrlOf } from '../support/queues.ts'

describe.skipIf(!hasBackend('redis'))('a Redis that refuses the password', () => {
  it('is told of without the password, which its errors carry (P9)', async () => {
    const url = new URL(redisUrlOf('redis') ?? '')
    Object.assign(url, { username: 'nobody', password: 'sesame' })
    const stream = new PassThrough()
    const log = openLog({ level: 'trace', stream })
    const opening = openDriver({ redisUrl: url.href, database: { connection: {}, address: 'here' }, log })
    const err = await opening.catch((error) => error)
    expect(err.message).toContain('check REDIS_URL')
    log.warn({ err }, 'waiting for Redis')
    const told = String(stream.read())
    expect(told).toContain('WRONGPASS')
    expect(told).not.toContain('sesame')
  })
})
