// A backfill that is killed again and again beside a live reader of a source that changes.

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readBackfill, requestBackfill } from '../../src/store/book/backfills.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { runTidemark, startTidemark } from '../support/program.ts'
import { seededRandom } from '../support/random.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'
import { runHere } from '../support/verbs.ts'

const assignment = streamOf('assignment')
const rowCount = Number(process.env.BACKFILL_ROWS ?? 2400)

describe.skipIf(!hasPostgres)('a backfill', () => {
  const database = createTestDatabase()
  it('that is killed ten times beside a live reader loses nothing and moves no live position (P2, P3, P8)', {
    timeout: 600_000,
  }, async () => {
    await using simulator = await startSimulator({ assignments: rowCount })
    await using context = await openTestContext(database, simulator)
    const { pool } = database
    await context.read(assignment, 'incremental', { signal })
    const to = await positionOf(pool)
    await writeAsTidemark(pool, 'delete from mirror.assignment where assignment_id % 3 = 0')
    const { id } = await requestBackfill(pool, { stream: 'assignment', from: 0n, to, by: 'a test' })
    const environment = environmentFor(simulator, database, { PAGE_SIZE: String(Math.ceil(rowCount / 120)) })

    const random = seededRandom(11)
    let isOver = false
    let lowest = to
    const live = (async () => {
      while (!isOver) {
        for (let change = 0; change < 5; change++)
          simulator.source.change('assignment', 1 + random.integer(rowCount))
        const outcome = await context.read(assignment, 'incremental', { signal })
        if (outcome.error) throw outcome.error
        const position = await positionOf(pool)
        if (position < lowest) throw new Error(`the live position went back from ${lowest} to ${position}`)
        lowest = position
        await wait(50)
      }
    })()

    const positions: bigint[] = []
    for (let kill = 0; kill < 10; kill++) {
      const before = await readBackfill(pool, id)
      if (!before) throw new Error('the backfill is gone')
      const program = startTidemark(['backfill', 'assignment'], environment)
      const hasWorked = async () => {
        const backfill = await readBackfill(pool, id)
        // What the one before had sent may be written after its end, and is not this one's work.
        return backfill && backfill.attempts > before.attempts && backfill.position > before.position
      }
      await expect.poll(hasWorked, { timeout: 60_000, interval: 10 }).toBe(true)
      program.child.kill('SIGKILL')
      await program.ended
      positions.push((await readBackfill(pool, id))?.position ?? 0n)
    }
    expect((await readBackfill(pool, id))?.status).toBe('running')
    const ended = await runTidemark(['backfill', 'assignment', '--json'], environment)
    isOver = true
    await live
    expect(ended).toMatchObject({ code: 0 })
    expect(JSON.parse(ended.stdout)).toMatchObject({ id, status: 'done', position: `${to}`, attempts: 11 })
    expect(positions).toEqual(positions.toSorted((a, b) => Number(a - b)))
    await context.read(assignment, 'incremental', { signal })
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
    const checkpoints = await pool.query('select position::text, reason from tidemark.checkpoint order by id')
    expect(checkpoints.rows.every(({ reason }) => reason === null)).toBe(true)
  })

  describe('that the upstream keeps disturbing', () => {
    const disturbed = createTestDatabase()
    it('ends as inconclusive, says how far it came, and goes on when it is asked again (P6)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      const environment = environmentFor(simulator, disturbed, { PAGE_SIZE: '20', STREAMS: 'assignment' })
      await runHere(['sync', 'assignment'], environment)
      await disturbed.pool.query('delete from tidemark.belief where name <> $1', ['version_field'])
      Object.assign(simulator.behaviour, { order: 'unstable', sorts: 'ignored' })
      const wanted = ['backfill', 'assignment', '--from-version', '100', '--to-version', '300', '--json']
      const given = await runHere(wanted, environment)
      expect(given.code).toBe(3)
      expect(JSON.parse(given.stdout)).toMatchObject({ status: 'waiting', error: expect.any(String) })
      Object.assign(simulator.behaviour, { order: 'row-version', sorts: 'honoured' })
      const again = await runHere(wanted, environment)
      expect(again.code).toBe(0)
      expect(JSON.parse(again.stdout)).toMatchObject({
        id: JSON.parse(given.stdout).id,
        status: 'done',
        position: '300',
      })
    })
  })
})
