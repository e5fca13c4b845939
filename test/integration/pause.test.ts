// A paused stream: the worker leaves it alone, whoever asks by hand is served.

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { requestRunAfterWrite } from '../../src/cli/upstream-call.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { pauseStream, readOverview, resumeStream } from '../../src/store/book/streams.ts'
import { operations } from '../../src/upstream/operations/table.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const variables = {
  STREAMS: 'assignment,assignment_note',
  SCHEDULE_ASSIGNMENT: '1s',
  SCHEDULE_ASSIGNMENT_NOTE: '1s',
  PAGE_SIZE: '10',
}

describe.skipIf(!hasPostgres)('a paused stream', () => {
  const database = createTestDatabase()
  const by = 'somebody@here'

  it('ends its run at the next page, is read by hand only, and goes on when it is resumed', async () => {
    await using simulator = await startSimulator({ assignments: 600, notes: 5 })
    const { pool } = database
    let isSlow = true
    simulator.onRequest(async ({ path }) => {
      if (!path.includes('Assignment/neworchanged') || !isSlow) return
      await wait(100)
    })
    const worker = await startTestWorker(simulator, database, variables)
    try {
      const polls = async (stream: string) =>
        (
          await pool.query<{ polls: number }>(
            `select coalesce(sum(polls), 0)::int as polls from tidemark.run where stream = $1 and kind = 'incremental'`,
            [stream],
          )
        ).rows[0]?.polls ?? 0
      const rows = async () =>
        (await pool.query<{ count: number }>('select count(*)::int as count from mirror.assignment')).rows[0]
          ?.count ?? 0
      await expect.poll(rows).toBeGreaterThan(0)
      expect(await pauseStream(pool, { stream: 'assignment', by, reason: 'a test' })).toBeNull()
      expect(await pauseStream(pool, { stream: 'assignment', by: 'another', reason: null })).toMatchObject({
        by,
        reason: 'a test',
      })
      const lastRun = async () => (await readOverview(pool, ['assignment']))[0]
      await expect
        .poll(async () => (await lastRun())?.lastRun)
        .toMatchObject({ status: 'done', note: 'stopped between two pages' })
      expect(await lastRun()).toMatchObject({ readThroughAt: null, paused: { by, reason: 'a test' } })
      const read = await rows()
      expect(read).toBeLessThan(600)

      // Ticks, webhooks and writes pass it by, while its neighbour is read.
      const [before, neighbour] = [await polls('assignment'), await polls('assignment_note')]
      await worker.post('/hooks/a-webhook-secret-of-the-tests')
      await requestRunAfterWrite({ config: worker.config, log: quietLog }, operations.createAssignment, null)
      await expect.poll(() => polls('assignment_note')).toBeGreaterThan(neighbour + 2)
      expect([await polls('assignment'), await rows()]).toEqual([before, read])
      expect(await worker.metric('tidemark_paused{stream="assignment"}')).toBe(1)

      isSlow = false
      const headers = { authorization: `Bearer ${adminToken}` }
      expect((await worker.post('/streams/assignment/sync', headers)).status).toBe(202)
      await expect.poll(() => differences(pool, simulator, 'assignment')).toEqual([])

      simulator.source.change('assignment', 7)
      expect(await resumeStream(pool, 'assignment')).toMatchObject({ by, reason: 'a test' })
      expect(await resumeStream(pool, 'assignment')).toBeNull()
      await expect.poll(() => differences(pool, simulator, 'assignment')).toEqual([])
      await expect.poll(() => worker.metric('tidemark_paused{stream="assignment"}')).toBe(0)
    } finally {
      await worker.stop()
    }
  })
})
