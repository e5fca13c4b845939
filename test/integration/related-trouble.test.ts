// Related records when one assignment breaks what reads it, and when something is written while they are read.

import { describe, expect, it } from 'vitest'
import { nothingTried, selectionOf } from '../../src/operator/quarantine.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { dropFromQuarantine } from '../../src/store/book/quarantine.ts'
import { readRelatedAgain, readRelatedProgress } from '../../src/store/book/related.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')

describe.skipIf(!hasPostgres)('the backlog of related records', () => {
  describe('with an assignment whose answer cannot be used', () => {
    const database = createTestDatabase()
    it('fails once at it, keeps what was read, and goes on without it', async () => {
      await using simulator = await startSimulator({ assignments: 40 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await context.read(assignment, 'incremental', { signal })
      simulator.faults.add({ kind: 'content-type', while: ({ path }) => path.endsWith('/extended/Id/20') })
      simulator.requests.start()
      expect(await context.readRelated({ signal })).toMatchObject({
        status: 'failed',
        error: { code: 'UPSTREAM_CONTENT_TYPE' },
      })
      const known = await readRelatedProgress(database.pool)
      expect(known).toMatchObject({ setAside: 1 })
      expect(known?.read).toBeGreaterThan(0)
      expect(await context.readRelated({ signal })).toMatchObject({ status: 'done', isComplete: true })
      expect(await readRelatedProgress(database.pool)).toEqual({
        read: 39,
        waiting: 1,
        setAside: 1,
        quarantined: 0,
      })
      const reads = simulator.requests.entries.filter(({ path }) => path.includes('/extended/'))
      expect(reads).toHaveLength(40)
    })
  })

  describe('when something is written while they are read', () => {
    const database = createTestDatabase()
    it('has that assignment again (P8)', async () => {
      await using simulator = await startSimulator({ assignments: 3 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await context.read(assignment, 'incremental', { signal })
      await context.readRelated({ signal })
      await readRelatedAgain(database.pool, '', { id: '2' })
      let isWritten = false
      simulator.onRequest(async ({ path }) => {
        if (isWritten || !path.endsWith('/extended/Id/2')) return
        isWritten = true
        await readRelatedAgain(database.pool, '', { id: '2' })
      })
      expect((await context.readRelated({ signal })).tally.requests).toBe(2)
      expect(isWritten).toBe(true)
      expect(await context.isRelatedDue()).toBe(false)
    })
  })

  describe('when it stops in the middle, and an assignment goes before it is read again', () => {
    const database = createTestDatabase()
    it('marks what was written of that assignment (P8)', async () => {
      await using simulator = await startSimulator({ assignments: 5 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await context.read(assignment, 'incremental', { signal })
      // Nothing more can be noted, as if the worker were killed here.
      await database.pool.query(
        'alter table tidemark.related_fetch add constraint stopped check (assignment_id < 0 or fetched_at is null) not valid',
      )
      await context.readRelated({ signal }).catch(() => {})
      await database.pool.query('alter table tidemark.related_fetch drop constraint stopped')
      const living = async () =>
        (await database.pool.query('select from bi.assignment_service where assignment_id = 2')).rowCount
      expect(await living()).toBeGreaterThan(0)
      simulator.source.remove('assignment', 2, 'soft')
      await context.read(assignment, 'incremental', { signal })
      expect(await context.readRelated({ signal })).toMatchObject({ status: 'done' })
      expect(await living()).toBe(0)
    })
  })

  describe('when a replica that lags answers', () => {
    const database = createTestDatabase()
    it('believes no answer that is older than the row of its assignment, and asks again (P11)', async () => {
      await using simulator = await startSimulator({ assignments: 5 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      const isThere = async () =>
        (
          await database.pool.query(
            'select from mirror.assignment_service where assignment_service_id = $1',
            [id],
          )
        ).rowCount === 1
      await context.read(assignment, 'incremental', { signal })
      await context.readRelated({ signal })
      const { id } = simulator.source.insert('assignment_service', { AssignmentId: 2 })
      simulator.source.change('assignment', 2)
      await context.read(assignment, 'incremental', { signal })
      simulator.behaviour.replicaLagMs = 60_000
      expect(await context.readRelated({ signal })).toMatchObject({
        note: '1 assignment could not be read and will be tried again later',
      })
      expect(await isThere()).toBe(false)
      simulator.behaviour.replicaLagMs = null
      await database.pool.query(
        'update tidemark.related_fetch set retry_at = now() where problem is not null',
      )
      expect(await context.readRelated({ signal })).toMatchObject({ note: null, isComplete: true })
      expect(await isThere()).toBe(true)
    })
  })

  describe('with a record that cannot be a row', () => {
    const database = createTestDatabase()
    it('keeps it in a quarantine that an operator finds (P5)', async () => {
      await using simulator = await startSimulator({ assignments: 3 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await context.read(assignment, 'incremental', { signal })
      simulator.source.insert('assignment_service', { AssignmentId: 1, Remark: 'usual' })
      await context.readRelated({ signal })
      await database.pool.query(
        `alter table mirror.assignment_service add constraint odd check (remark <> 'Odd')`,
      )
      simulator.source.insert('assignment_service', { AssignmentId: 2, Remark: 'Odd' })
      simulator.source.change('assignment', 2)
      await context.read(assignment, 'incremental', { signal })
      expect((await context.readRelated({ signal })).tally.quarantined).toBe(1)
      expect(await readRelatedProgress(database.pool)).toMatchObject({ read: 3, quarantined: 1 })
      const selection = selectionOf('assignment_service', [])
      expect(await nothingTried(database.pool, selection, knownStreams)).toContain(
        'when their assignment or their list is read',
      )
      expect(await dropFromQuarantine(database.pool, selection, 'ours')).toBe(1)
      expect(await nothingTried(database.pool, selection, knownStreams)).toMatch(
        /^No record of .+ is in quarantine\.$/,
      )
    })
  })

  describe('with a record whose key does not fit the others', () => {
    const database = createTestDatabase()
    it('keeps the view of who takes part in which, and reads on when that record is gone (P5, P7)', async () => {
      await using simulator = await startSimulator({ assignments: 3 })
      await using context = await openTestContext(database, simulator, { RELATED: 'true' })
      await context.read(assignment, 'incremental', { signal })
      await context.readRelated({ signal })
      // As an earlier version made it.
      await database.pool.query(
        `create or replace view bi.assignment_employee as
         select assignment_id, key::bigint as employee_id from tidemark.related_link where stream = 'employee'`,
      )
      const { id } = simulator.source.insert('employee')
      simulator.source.change('employee', id, { EmployeeId: 'E-77' })
      const takePart = async (ids: readonly number[]) => {
        simulator.source.setParticipants(1, ids)
        simulator.source.change('assignment', 1)
        await context.read(assignment, 'incremental', { signal })
        return await context.readRelated({ signal })
      }
      expect((await takePart([2, id])).tally.quarantined).toBe(1)
      const { rows } = await database.pool.query(
        'select employee_id::int as id from bi.assignment_employee where assignment_id = 1',
      )
      expect(rows).toEqual([{ id: 2 }])
      expect(await takePart([2])).toMatchObject({ status: 'done', isComplete: true })
      const links = await database.pool.query(
        `select from tidemark.related_link where assignment_id = 1 and key = 'E-77'`,
      )
      expect(links.rowCount).toBe(0)
    })
  })
})
