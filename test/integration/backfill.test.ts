// Backfills: a position of their own, beside the live one, that survives kills and cancellation.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { cancelBackfill, readBackfill, requestBackfill } from '../../src/store/book/backfills.ts'
import { runNextBackfill } from '../../src/sync/changes/backfill.ts'
import { BackfillCancelled } from '../../src/sync/ports/store.ts'
import { neverAborted, openTestContext, positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const signal = neverAborted
const span = { stream: 'assignment', from: 100n, to: 300n, by: 'somebody@here' } as const

describe.skipIf(!hasPostgres)('a backfill', () => {
  describe('of a part', () => {
    const database = createTestDatabase()
    it('mends that part, overwrites nothing newer, and leaves the live position alone (P2, P3)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const { pool } = database
      await context.read(assignment, 'incremental', { signal })
      const position = await positionOf(pool)
      await pool.query('delete from mirror.assignment where row_version between 150 and 159')
      await pool.query('delete from mirror.assignment where row_version = 350')
      const checkpoints = await pool.query('select * from tidemark.checkpoint')
      const { id } = await requestBackfill(pool, span)
      const outcome = await runNextBackfill({ ...context.contextOf(assignment), signal })
      expect(outcome).toMatchObject({ status: 'done', kind: 'backfill', tally: { inserted: 10, updated: 0 } })
      expect(await readBackfill(pool, id)).toMatchObject({
        status: 'done',
        position: 300n,
        inserted: 10,
        attempts: 1,
      })
      expect(await positionOf(pool)).toBe(position)
      expect((await pool.query('select * from tidemark.checkpoint')).rows).toEqual(checkpoints.rows)
      expect(await differences(pool, simulator, 'assignment')).toEqual(['350: missing'])
      expect(await runNextBackfill({ ...context.contextOf(assignment), signal })).toBeNull()
    })
  })

  describe('that is asked for twice', () => {
    const database = createTestDatabase()
    it('is one while it is unfinished', async () => {
      const first = await requestBackfill(database.pool, span)
      expect((await requestBackfill(database.pool, span)).id).toBe(first.id)
      await cancelBackfill(database.pool, first.id, 'somebody')
      expect((await requestBackfill(database.pool, span)).id).not.toBe(first.id)
    })
  })

  describe('that is stopped between two pages', () => {
    const database = createTestDatabase()
    it('goes on where it was (P8)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const { pool } = database
      await context.read(assignment, 'incremental', { signal })
      const { id } = await requestBackfill(pool, span)
      const stop = new AbortController()
      let pages = 0
      const reading = context.contextOf(assignment)
      const onWritten = () => {
        if (++pages === 3) stop.abort(new Error('enough'))
      }
      expect(await runNextBackfill({ ...reading, signal: stop.signal, onWritten })).toMatchObject({
        status: 'stopped',
      })
      const half = await readBackfill(pool, id)
      expect(half?.position).toBeGreaterThan(130n)
      expect(half?.position).toBeLessThan(300n)
      const seen: bigint[] = []
      simulator.onRequest(({ path }) => {
        const [, since] = /neworchanged\/(\d+)$/.exec(path) ?? []
        if (since) seen.push(BigInt(since))
      })
      expect(await runNextBackfill({ ...reading, signal })).toMatchObject({ status: 'done' })
      expect(seen[0]).toBe(half?.position)
      expect(await readBackfill(pool, id)).toMatchObject({ status: 'done', attempts: 2 })
    })
  })

  describe('that is cancelled while it runs', () => {
    const database = createTestDatabase()
    it('ends at its next page and stays cancelled', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const { pool } = database
      await context.read(assignment, 'incremental', { signal })
      const { id } = await requestBackfill(pool, span)
      let requests = 0
      simulator.onRequest(async () => {
        if (++requests === 3) await cancelBackfill(pool, id, 'somebody')
      })
      expect(await runNextBackfill({ ...context.contextOf(assignment), signal })).toMatchObject({
        status: 'done',
        note: 'cancelled',
        isComplete: false,
      })
      expect(await readBackfill(pool, id)).toMatchObject({
        status: 'cancelled',
        note: 'cancelled by somebody',
      })
      expect(requests).toBeLessThan(9)
    })
  })

  describe('that is cancelled just before it is taken', () => {
    const database = createTestDatabase()
    it('leaves no run behind that seems to go on, and the next one is taken', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const { pool } = database
      await context.read(assignment, 'incremental', { signal })
      const { id } = await requestBackfill(pool, span)
      await cancelBackfill(pool, id, 'somebody')
      await expect(context.store.openRun('backfill', 'assignment', { id })).rejects.toThrow(BackfillCancelled)
      const { rows } = await pool.query(`select status from tidemark.run where kind = 'backfill'`)
      expect(rows.filter(({ status }) => status === 'running')).toEqual([])
      await requestBackfill(pool, span)
      expect(await runNextBackfill({ ...context.contextOf(assignment), signal })).toMatchObject({
        status: 'done',
      })
    })
  })

  describe('that could not be read completely', () => {
    const database = createTestDatabase()
    it('is not done: it says why, and is tried again later, or at once when somebody asks for it', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const { pool } = database
      await context.read(assignment, 'incremental', { signal })
      await pool.query('delete from tidemark.belief where name <> $1', ['version_field'])
      Object.assign(simulator.behaviour, { order: 'unstable', sorts: 'ignored' })
      const { id } = await requestBackfill(pool, span)
      const reading = { ...context.contextOf(assignment), signal }
      expect(await runNextBackfill(reading)).toMatchObject({ status: 'done', isComplete: false })
      const left = await readBackfill(pool, id)
      expect(left).toMatchObject({ status: 'waiting', finishedAt: null, error: expect.stringMatching(/\w/) })
      expect(left?.position).toBeLessThan(300n)
      expect(await runNextBackfill(reading)).toBeNull()
      Object.assign(simulator.behaviour, { order: 'row-version', sorts: 'honoured' })
      expect((await requestBackfill(pool, span)).id).toBe(id)
      expect(await runNextBackfill(reading)).toMatchObject({ status: 'done', isComplete: true })
      expect(await readBackfill(pool, id)).toMatchObject({ status: 'done', position: 300n, error: null })
    })
  })

  describe('that was asked for before anything was read', () => {
    const database = createTestDatabase()
    it('is not cancelled by the first load, which finds the field of the row version', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '50' })
      const { pool } = database
      const { id } = await requestBackfill(pool, span)
      const reading = { ...context.contextOf(assignment), signal }
      expect(await runNextBackfill(reading)).toMatchObject({
        status: 'inconclusive',
        note: expect.stringContaining('the next incremental run'),
      })
      // It is not read again and again meanwhile.
      expect(await runNextBackfill(reading)).toBeNull()
      await context.read(assignment, 'incremental', { signal })
      expect((await requestBackfill(pool, span)).id).toBe(id)
      expect(await runNextBackfill(reading)).toMatchObject({ status: 'done', isComplete: true })
    })
  })

  describe('while another one of the stream runs', () => {
    const database = createTestDatabase()
    it('waits for its turn', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      await context.read(assignment, 'incremental', { signal })
      await requestBackfill(database.pool, span)
      const reading = context.contextOf(assignment)
      let second: unknown = null
      simulator.onRequest(async () => {
        second ??= await runNextBackfill({ ...reading, signal })
      })
      expect(await runNextBackfill({ ...reading, signal })).toMatchObject({ status: 'done' })
      expect(second).toMatchObject({ status: 'skipped' })
    })
  })

  describe('from an upstream that cannot be reached', () => {
    const database = createTestDatabase()
    it('says why and waits for the next attempt', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      await context.read(assignment, 'incremental', { signal })
      const { id } = await requestBackfill(database.pool, span)
      simulator.faults.add({ kind: 403, path: 'neworchanged' })
      const reading = context.contextOf(assignment)
      expect(await runNextBackfill({ ...reading, signal })).toMatchObject({ status: 'failed' })
      expect(await readBackfill(database.pool, id)).toMatchObject({ status: 'waiting', position: 100n })
      expect((await readBackfill(database.pool, id))?.error).toContain('403')
      simulator.faults.clear()
      expect(await runNextBackfill({ ...reading, signal })).toMatchObject({ status: 'done' })
    })

    it('does not keep one that was asked for later from its turn', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const { id: failing } = await requestBackfill(database.pool, { ...span, from: 101n })
      const { id: later } = await requestBackfill(database.pool, { ...span, from: 201n })
      const reading = { ...context.contextOf(assignment), signal }
      simulator.faults.add({ kind: 403, path: 'neworchanged' })
      expect(await runNextBackfill(reading)).toMatchObject({ status: 'failed' })
      simulator.faults.clear()
      expect(await runNextBackfill(reading)).toMatchObject({ status: 'done' })
      expect(await readBackfill(database.pool, later)).toMatchObject({ status: 'done' })
      expect(await readBackfill(database.pool, failing)).toMatchObject({ status: 'waiting' })
    })
  })
})
