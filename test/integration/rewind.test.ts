// Rewinds of the live position: recorded, fencing, and able to follow an upstream that went back itself.

import { describe, expect, it } from 'vitest'
import { moveBack } from '../../src/operator/rewind.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { neverAborted, openTestContext, positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf, writeAll } from '../support/runs.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const signal = neverAborted
const order = { stream: 'assignment', reason: 'a test', by: 'somebody@here' } as const

describe.skipIf(!hasPostgres)('a rewind', () => {
  describe('of a stream that is read', () => {
    const database = createTestDatabase()
    it('is recorded, and what follows is read once more (P2)', async () => {
      await using simulator = await startSimulator({ assignments: 120 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      const { rowCount: lost } = await database.pool.query(
        'delete from mirror.assignment where row_version > 100',
      )
      const before = await positionOf(database.pool)
      expect(await rewindStream(database.pool, { ...order, position: 50n })).toEqual({
        from: before,
        to: 50n,
      })
      const { rows } = await database.pool.query(
        'select position, reason, moved_by from tidemark.checkpoint order by id desc limit 1',
      )
      expect(rows).toEqual([{ position: '50', reason: 'a test', moved_by: 'somebody@here' }])
      expect(await context.read(assignment, 'incremental', { signal })).toMatchObject({
        status: 'done',
        // Rows above the target that are shown again are guarded again.
        tally: { inserted: lost, updated: 40 },
      })
      expect(await positionOf(database.pool)).toBe(before)
    })
  })

  describe('that was confirmed', () => {
    const database = createTestDatabase()
    it('is not done when somebody else has moved the position back since', async () => {
      await writeAll(storeOf(database), 'assignment', assignments({ AssignmentId: 1, RowVersion: 50 }))
      await rewindStream(database.pool, { ...order, position: 40n })
      await expect(rewindStream(database.pool, { ...order, position: 30n, seen: 50n })).rejects.toThrow(
        'assignment is at 40 by now, below the 50 that it was at when this was asked for',
      )
      expect(await positionOf(database.pool)).toBe(40n)
      expect(await rewindStream(database.pool, { ...order, position: 30n, seen: 40n })).toMatchObject({
        to: 30n,
      })
    })
  })

  describe('that waits for something else to move the position', () => {
    const database = createTestDatabase()
    it('never becomes a move forward, which would skip what nobody has read (P2)', async () => {
      const run = await begin(storeOf(database))
      await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 50 }), 50n)
      await run.finish(done)
      const other = await database.pool.connect()
      await other.query('begin')
      await other.query(`update tidemark.stream set position = 0 where name = 'assignment'`)
      const back = {
        ...order,
        stream: assignment,
        target: { kind: 'version', field: 'to-version', position: 40n },
      } as const
      const moved = moveBack(database.pool, back).then(
        () => 'moved',
        (error: Error) => error.message,
      )
      const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      await expect.poll(async () => (await database.pool.query(waiting)).rowCount).toBe(1)
      await other.query('commit')
      other.release()
      expect(await moved).toMatch(/^Nothing was moved: assignment is at 0 by now, below the 50 /)
      expect(await positionOf(database.pool)).toBe(0n)
      expect(await moveBack(database.pool, { ...back, isForced: true })).toEqual({ from: 0n, to: 40n })
    })
  })

  describe('while a run is under way', () => {
    const database = createTestDatabase()
    it('leaves that run unable to write or to move the position, of any kind (P2)', async () => {
      const store = storeOf(database)
      await writeAll(store, 'assignment', assignments({ AssignmentId: 1, RowVersion: 50 }))
      const head = await begin(store)
      await head.pages.commit(assignments({ AssignmentId: 2, RowVersion: 60 }), 60n)
      const reconcile = await begin(store, 'assignment', 'reconcile')
      await rewindStream(database.pool, { ...order, position: 10n })
      await expect(head.pages.commit(assignments({ AssignmentId: 3, RowVersion: 70 }), 70n)).rejects.toThrow(
        'lost its turn',
      )
      await expect(
        reconcile.pages.commit(assignments({ AssignmentId: 2, RowVersion: 55 }), null),
      ).rejects.toThrow('lost its turn')
      await expect(head.findings.setLookback(1, 'what the rewind has made untrue', null)).rejects.toThrow(
        'lost its turn',
      )
      await head.finish({ ...done, status: 'failed', error: 'fenced' })
      await reconcile.finish({ ...done, status: 'failed', error: 'fenced' })
      expect(await positionOf(database.pool)).toBe(10n)
      const state = await database.pool.query(
        `select lookback_ms from tidemark.stream where name = 'assignment'`,
      )
      expect(state.rows).toEqual([{ lookback_ms: null }])
      const { rows } = await database.pool.query('select row_version from mirror.assignment order by 1')
      expect(rows).toEqual([{ row_version: '50' }, { row_version: '60' }])
    })
  })

  describe('after a restore of the upstream', () => {
    const database = createTestDatabase()
    it('lets older versions replace those above its target once, and guards them again (P3)', async () => {
      const store = storeOf(database)
      const write = async (id: number, version: number) => {
        await writeAll(store, 'assignment', assignments({ AssignmentId: id, RowVersion: version }))
      }
      await write(1, 40)
      await write(2, 60)
      await write(3, 70)
      await rewindStream(database.pool, { ...order, position: 50n })
      await write(1, 39)
      await write(2, 55)
      await write(2, 54)
      const { rows } = await database.pool.query(
        'select row_version::int as version from mirror.assignment order by assignment_id',
      )
      expect(rows).toEqual([{ version: 40 }, { version: 55 }, { version: 70 }])
    })
  })

  describe('after the stand-in was restored', () => {
    const database = createTestDatabase()
    it('makes the changes that follow arrive, though their versions are lower than those mirrored (P3)', async () => {
      await using simulator = await startSimulator({ assignments: 100 })
      await using context = await openTestContext(database, simulator)
      const backup = simulator.source.takeBackup()
      for (let id = 1; id <= 10; id++) simulator.source.change('assignment', id)
      await context.read(assignment, 'incremental', { signal })
      simulator.source.restoreBackup(backup)
      const position = simulator.source.highestVersion('assignment')
      await rewindStream(database.pool, { ...order, position })
      // Lower versions than these ten have in the mirror.
      for (let id = 10; id >= 1; id--)
        simulator.source.change('assignment', id, { Subject: `after the restore ${id}` })
      expect(await context.read(assignment, 'incremental', { signal })).toMatchObject({
        tally: { updated: 10 },
      })
      expect(await context.read(assignment, 'lookback', { signal })).toMatchObject({ status: 'done' })
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    })
  })
})
