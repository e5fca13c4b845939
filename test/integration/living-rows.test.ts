// How many rows of a stream live, and how many are marked as deleted: what pages and `tidemark status` count.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { livingRows, readOverview } from '../../src/store/book/streams.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { startTestWorker } from '../support/worker.ts'

const soon = { timeout: 60_000, interval: 200 }

describe.skipIf(!hasPostgres)('living rows', () => {
  const database = createTestDatabase({ forEach: true })
  const shown = async () => {
    const [one] = await readOverview(database.pool, ['assignment'])
    return one && [one.rows, one.deletedRows, livingRows(one)]
  }
  const counted = async () => {
    // What a connection wrote is counted after it was idle for ten seconds, or now.
    await database.pool.query('analyze mirror.assignment').catch(() => {})
    return await shown()
  }

  it('P18: are counted without those that are marked deleted, which stand beside them', async () => {
    await using simulator = await startSimulator({ assignments: 40 })
    const first = await startTestWorker(simulator, database, { STREAMS: 'assignment' })
    try {
      await expect.poll(counted, soon).toEqual([40, 0, 40])
    } finally {
      await first.stop()
    }
    // A run would bring them back, also one that has begun.
    await database.pool.query(`update tidemark.stream set paused_at = now(), paused_by = 'a test'`)
    await database.pool.query('update mirror.assignment set _deleted_at = now() where assignment_id <= 3')
    const worker = await startTestWorker(simulator, database, { STREAMS: 'assignment' })
    try {
      await expect.poll(counted, soon).toEqual([40, 3, 37])
      const page = async () => await (await worker.get('/streams/assignment')).text()
      await expect.poll(page, soon).toMatch(/<dd>37 <small>and 3 deleted<\/small>/)
    } finally {
      await worker.stop()
    }
  })

  it('are not told apart while somebody holds the table, and nobody waits for that', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const worker = await startTestWorker(simulator, database, { STREAMS: 'assignment' })
    const client = await database.pool.connect()
    try {
      await expect.poll(counted, soon).toEqual([5, 0, 5])
      await client.query('begin; lock table mirror.assignment')
      expect(await shown()).toEqual([5, null, null])
    } finally {
      await client.query('rollback')
      client.release()
      await worker.stop()
    }
  })

  it('are not told apart where somebody dropped the index of deleted rows', async () => {
    await using simulator = await startSimulator({ assignments: 5 })
    const worker = await startTestWorker(simulator, database, { STREAMS: 'assignment' })
    try {
      await expect.poll(counted, soon).toEqual([5, 0, 5])
      await database.pool.query('drop index mirror.assignment__deleted_at_idx')
      expect(await counted()).toEqual([5, null, null])
      await database.pool.query('drop table mirror.assignment cascade')
      expect(await counted()).toEqual([0, 0, 0])
    } finally {
      await worker.stop()
    }
  })
})
