// What is said of a queue that cannot be opened, and what keeps the queues of two mirrors apart.

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { Redis } from 'ioredis'
import { describe, expect, inject, it } from 'vitest'
import { openLog } from '../../src/log.ts'
import { openDriver, placed, Queue, Worker } from '../../src/worker/queue/driver.ts'
import { startRedis } from '../soak/worlds.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { startForwarder } from '../support/forwarder.ts'
import { hasAll } from '../support/installed.ts'
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
    expect(err.message).toContain('Check REDIS_URL')
    log.warn({ err }, 'waiting for Redis')
    const told = String(stream.read())
    expect(told).toContain('WRONGPASS')
    expect(told).not.toContain('sesame')
  })
})

describe.skipIf(!hasBackend('redis'))('a Redis that answers and takes nothing', () => {
  it('does not pass for one that can be used: it is full, or a replica by now', async () => {
    const url = new URL(redisUrlOf('redis') ?? '')
    const admin = new Redis(url.href)
    const name = `tidemark_test_${randomUUID()}`
    const allow = (...rules: string[]) => admin.call('ACL', 'SETUSER', name, ...rules)
    await allow('on', '>sesame', '~*', '&*', '+@all')
    Object.assign(url, { username: name, password: 'sesame' })
    const database = { connection: {}, address: 'here', cluster: null }
    const queue = await openDriver({ redisUrl: url.href, database, log: quietLog })
    try {
      await queue.ping()
      // Not to be had of a Redis that other tests use: running full.
      await allow('-@write')
      await expect(queue.ping()).rejects.toThrow('NOPERM')
      await allow('+@write')
      await queue.ping()
    } finally {
      await queue.close()
      await admin.call('ACL', 'DELUSER', name)
      admin.disconnect()
    }
  })
})

describe.skipIf(!hasAll(['redis-server']))('a Redis that becomes a replica and keeps its connections', () => {
  it('is left, and the queue goes on where the address leads then', async () => {
    await using ended = new AsyncDisposableStack()
    const open = async (name: string) => {
      const redis = await startRedis(join(inject('scratch'), `redis-${name}-${randomUUID()}`))
      ended.defer(redis.stop)
      return { ...redis, port: new URL(redis.url).port }
    }
    const [before, after] = [await open('before'), await open('after')]
    const forwarder = ended.use(await startForwarder(Number(before.port)))
    const redisUrl = `redis://127.0.0.1:${forwarder.port}`
    const database = { connection: {}, address: 'here', cluster: null }
    const queue = await openDriver({ redisUrl, database, log: quietLog })
    const taken: string[] = []
    const worker = new Worker<{ what: string }>(
      'moved',
      async ({ data }) => void taken.push(data.what),
      placed(queue.driver),
    )
    worker.on('error', () => {})
    const jobs = new Queue<{ what: string }>('moved', placed(queue.driver))
    jobs.on('error', () => {})
    await jobs.add('job', { what: 'before' })
    await expect.poll(() => taken, { timeout: 10_000 }).toEqual(['before'])

    await before.tell('REPLICAOF', '127.0.0.1', after.port)
    await expect
      .poll(() => queue.ping().then(() => 'taken', String))
      .toMatch(/no connection to Redis: READONLY/)
    forwarder.lead(Number(after.port))
    await expect.poll(() => queue.ping().then(() => 'taken', String), { timeout: 10_000 }).toBe('taken')
    await jobs.add('job', { what: 'after' })
    await expect.poll(() => taken, { timeout: 15_000 }).toEqual(['before', 'after'])
    await worker.close()
    await jobs.close()
    await queue.close()
  }, 45_000)
})

describe.skipIf(!hasBackend('redis'))('a Redis that two mirrors share', () => {
  type Store = { address: string; cluster: string | null }
  async function prefixOf(store: Store): Promise<string | null> {
    const database = { connection: {}, ...store }
    const { driver, close } = await openDriver({ redisUrl: redisUrlOf('redis'), database, log: quietLog })
    await close()
    return driver.kind === 'redis' ? driver.prefix : null
  }

  it('keeps them apart, also when each calls its own Postgres by the same name', async () => {
    const mine: Store = { address: 'localhost:5432/tidemark', cluster: '7400000000000000001' }
    const theirs: readonly Store[] = [
      { ...mine, cluster: '7400000000000000002' },
      { ...mine, address: 'localhost:5432/other' },
      { ...mine, cluster: null },
    ]
    const prefixes = await Promise.all([mine, ...theirs].map(prefixOf))
    expect(new Set(prefixes).size).toBe(4)
    expect(await prefixOf(mine)).toBe(prefixes[0])
  })
})

describe.skipIf(!hasPostgres)('a Postgres that limits how long the statements of people take', () => {
  const database = createTestDatabase({ isMigrated: false })

  it('does not end those of the queue', async () => {
    await database.pool.query(
      `alter database ${database.name} set statement_timeout = '1s'; alter database ${database.name} set lock_timeout = '1s'`,
    )
    const { driver, close } = await openDriver({ redisUrl: null, database, log: quietLog })
    const limits = `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock`
    const shown = driver.kind === 'postgres' && (await driver.pool.query(limits)).rows
    await close()
    expect(shown).toEqual([{ statement: '0', lock: '0' }])
  })
})

describe.skipIf(!hasPostgres)(
  'a Postgres whose transactions are serializable unless they say otherwise',
  () => {
    const database = createTestDatabase({ isMigrated: false })

    it('does not make those of the queue fail', async () => {
      await database.pool.query(
        `alter database ${database.name} set default_transaction_isolation = 'serializable'`,
      )
      const { driver, close } = await openDriver({ redisUrl: null, database, log: quietLog })
      const shown = driver.kind === 'postgres' && (await driver.pool.query('show transaction_isolation')).rows
      await close()
      expect(shown).toEqual([{ transaction_isolation: 'read committed' }])
    })
  },
)
