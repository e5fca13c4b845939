// A Postgres that answers and takes no writes: a primary that became a standby, or one whose full disk its provider has locked.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { startTestWorker } from '../support/worker.ts'

describe.skipIf(!hasPostgres)('a worker whose Postgres is read-only', () => {
  const database = createTestDatabase()
  const lease = async (statement: string) => {
    const client = await database.pool.connect()
    await client.query('set default_transaction_read_only = off')
    await client.query(`alter database ${database.name} ${statement}`)
    // What is connected keeps the setting that it came with.
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
    )
    client.release(true)
  }

  it('says so, is not ready, and goes on when it can', async () => {
    await using simulator = await startSimulator({ assignments: 20 })
    const worker = await startTestWorker(simulator, database, {
      STREAMS: 'assignment',
      SCHEDULE_ASSIGNMENT: '1s',
    })
    const readiness = async () => (await worker.get('/readyz')).status
    const equal = () => differences(database.pool, simulator, 'assignment')
    try {
      await expect.poll(equal).toEqual([])
      await lease('set default_transaction_read_only = on')
      await expect.poll(readiness).toBe(503)
      await expect.poll(() => worker.metric('tidemark_up{part="database"}')).toBe(0)
      expect(worker.logged().join('')).toContain('Postgres is read-only')
      simulator.source.change('assignment', 3)
      await lease('reset default_transaction_read_only')
      await expect.poll(readiness).toBe(200)
      await expect.poll(equal).toEqual([])
    } finally {
      await worker.stop()
    }
  })
})
