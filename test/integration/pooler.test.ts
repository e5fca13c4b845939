// A worker behind a real PgBouncer: its queue works there, and what it cannot work with is told in a sentence.

import { describe, expect, it } from 'vitest'
import { probePostgres } from '../../src/cli/probe-checks.ts'
import { loadConfig } from '../../src/config/load.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openDatabase } from '../../src/store/server/connect.ts'
import { readingConnections } from '../../src/store/server/reading-pool.ts'
import { isPassingFailure } from '../../src/worker/failures.ts'
import { openDriver, sessionsOfQueue } from '../../src/worker/queue/driver.ts'
import { openRunQueue } from '../../src/worker/queue/requests.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { hasAll } from '../support/installed.ts'
import { startPooler } from '../support/pgbouncer.ts'

const hasPooler = hasAll(['pgbouncer'])
const enough = 28
const openAsWorker = (url: string) =>
  openDatabase({ url, log: quietLog, sessionsBeside: sessionsOfQueue(null) + readingConnections })

describe.skipIf(!hasPostgres || !hasPooler)('a PgBouncer in session mode', () => {
  const database = createTestDatabase()

  it('takes the queue of a worker, which sets nothing while it connects', async () => {
    await using pooler = await startPooler(database.url, { mode: 'session', poolSize: enough })
    const behind = await openAsWorker(pooler.url)
    const queue = await openDriver({ redisUrl: null, database: behind, log: quietLog })
    const runs = openRunQueue(queue.driver, () => {})
    await runs.requestRun({ stream: 'assignment', kind: 'incremental', cause: 'tick' })
    expect((await runs.counts()).waiting).toBe(1)
    const limits = `select current_setting('search_path') as path, current_setting('idle_in_transaction_session_timeout') as idle`
    const shown = queue.driver.kind === 'postgres' && (await queue.driver.pool.query(limits)).rows
    expect(shown).toEqual([{ path: 'bullmq, pg_catalog', idle: '30s' }])
    await runs.close()
    await queue.close()
    await behind.close()
  })

  it('that has too few sessions is told of with the number that is needed, and waited for', async () => {
    await using simulator = await startSimulator({})
    await using pooler = await startPooler(database.url, { mode: 'session', poolSize: 5 })
    const config = loadConfig(environmentFor(simulator, { url: pooler.url }))
    // That of the test itself may be counted.
    const sentence =
      /has [56] sessions of Postgres for Tidemark, which needs 28 at once\. .*default_pool_size/
    const refused: unknown = await openAsWorker(pooler.url).catch((error: unknown) => error)
    const checks = await probePostgres(config, quietLog)
    expect(String(refused)).toMatch(sentence)
    expect(isPassingFailure(refused)).toBe(true)
    // With several hosts there is one more, which looks at them.
    const { host } = new URL(pooler.url)
    await expect(openAsWorker(pooler.url.replace(host, `${host},${host}`))).rejects.toThrow(
      'needs 29 at once',
    )
    const named = (name: string) => checks.find((check) => check.name === name)
    expect(named('postgres')).toMatchObject({ isFine: true })
    expect(named('postgres sessions')).toMatchObject({ isFine: false, says: expect.stringMatching(sentence) })
    pooler.resize(enough)
    await expect
      .poll(() => openAsWorker(pooler.url).then(({ close }) => close().then(() => 'opened')))
      .toBe('opened')
    expect((await probePostgres(config, quietLog)).every(({ isFine }) => isFine)).toBe(true)
  }, 60_000)
})

describe.skipIf(!hasPostgres || !hasPooler)('a PgBouncer in transaction mode', () => {
  const database = createTestDatabase({ isMigrated: false })

  it.each(['the last one first', 'in turn'] as const)(
    'is refused by name, also when it gives sessions %s (P2)',
    async (how) => {
      await using pooler = await startPooler(database.url, {
        mode: 'transaction',
        poolSize: enough,
        takesTurns: how === 'in turn',
      })
      for (const open of [openAsWorker, (url: string) => openDatabase({ url, log: quietLog })]) {
        const refused: unknown = await open(pooler.url).catch((error: unknown) => error)
        expect(String(refused)).toMatch(
          /PgBouncer with pool_mode = transaction\?.*or set pool_mode = session/,
        )
        expect(isPassingFailure(refused)).toBe(false)
      }
    },
  )
})
