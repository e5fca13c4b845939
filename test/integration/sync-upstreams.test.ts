// The real loop over HTTP against the stand-in's every temper: whatever the upstream is like, the mirror ends equal to it (P6).

import { describe, expect, it } from 'vitest'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { beliefOf, neverAborted, openTestContext, positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')

const tempers: Readonly<Record<string, Partial<Behaviour>>> = {
  'sorts when asked': {},
  'includes the version asked for': { inclusive: true },
  'ignores Sorts, in order of ids': { sorts: 'ignored', order: 'id' },
  'ignores Sorts, newest first': { sorts: 'ignored', order: 'descending' },
  'refuses Sorts': { sorts: 'refused', order: 'id' },
  'switches paging off for a name it does not know': {
    unknownNames: 'whole-list',
    sortableFields: ['Subject'],
  },
  'caps pages and skips by the size asked for': { pageCap: 37 },
  'caps pages, ignores Sorts, skips by the size asked for': { pageCap: 37, sorts: 'ignored', order: 'id' },
  'caps pages and skips by the cap': {
    pageCap: 37,
    pageCapArithmetic: 'clamped',
    sorts: 'ignored',
    order: 'id',
  },
  'ignores paging': { pagingIgnored: true },
  'has pages of its own size': { ownPageSize: 150 },
  'has pages of its own size and ignores Sorts': { ownPageSize: 150, sorts: 'ignored', order: 'id' },
  'serves row versions as strings': { rowVersions: 'string' },
  'wraps its lists': { listWrapper: 'items' },
  'writes camelCase': { casing: 'camel' },
}

describe.skipIf(!hasPostgres)('sync', () => {
  for (const [temper, behaviour] of Object.entries(tempers)) {
    describe(`from an upstream that ${temper}`, () => {
      const database = createTestDatabase()
      it('ends equal to it (P6)', async () => {
        await using simulator = await startSimulator({ assignments: 400, behaviour })
        await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
        const first = await context.read(assignment, 'incremental', { signal: neverAborted })
        expect(first).toMatchObject({ status: 'done', error: null, isComplete: true })
        expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
        simulator.source.change('assignment', 7)
        simulator.source.insert('assignment')
        const second = await context.read(assignment, 'incremental', { signal: neverAborted })
        expect(second).toMatchObject({ status: 'done', isComplete: true, tally: { inserted: 1, updated: 1 } })
        expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
        expect(await positionOf(database.pool)).toBe(simulator.source.highestVersion('assignment'))
      })
    })
  }

  describe('from an upstream where rows become visible late, between two pages', () => {
    const database = createTestDatabase()
    it('goes on relying on the order: only disorder within one answer takes that back, and the rows come (P6)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, {
        PAGE_SIZE: '50',
        LOAD_CONNECTIONS: '1',
      })
      await context.read(assignment, 'incremental', { signal: neverAborted })
      const { source } = simulator
      const late = Array.from({ length: 7 }, (_, index) =>
        source.changeLate('assignment', index + 1, { Subject: 'late' }),
      )
      source.bulkUpdate('assignment', source.ids('assignment').slice(10), { Subject: 'bulk' })
      let pages = 0
      const read = await context.read(assignment, 'incremental', {
        signal: neverAborted,
        // Each takes a place below what was read already, and moves the rest by one.
        onWritten: () => {
          pages++
          late.pop()?.commit()
        },
      })
      expect(pages).toBeGreaterThan(2)
      expect(read).toMatchObject({ status: 'done', isComplete: true })
      expect(await beliefOf(database.pool, 'sorting')).toBe('proven')
      const { rows } = await database.pool.query(
        "select previous_value from tidemark.belief where stream = 'assignment' and name = 'sorting'",
      )
      expect(rows).toEqual([{ previous_value: null }])
      for (const one of late) one.commit()
      await context.read(assignment, 'lookback', { signal: neverAborted })
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    })
  })

  describe('from an upstream in order of ids that looks sorted', () => {
    const database = createTestDatabase()
    it('is not fooled by a bulk update in ascending order (P6)', async () => {
      await using simulator = await startSimulator({
        assignments: 1000,
        behaviour: { sorts: 'ignored', order: 'id' },
      })
      simulator.source.bulkUpdate('assignment')
      for (let id = 400; id < 410; id++) simulator.source.change('assignment', id)
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      await context.read(assignment, 'incremental', { signal: neverAborted })
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
      expect(await beliefOf(database.pool, 'sorting')).toBe('ignored')
    })
  })

  describe('5,000 rows of one version', () => {
    const database = createTestDatabase()
    it('are all read through a cap of 100 (P6)', async () => {
      await using simulator = await startSimulator({ assignments: 5200, behaviour: { pageCap: 100 } })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal: neverAborted })
      const tied = simulator.source.tie(
        'assignment',
        Array.from({ length: 5000 }, (_, index) => index + 1),
      )
      const outcome = await context.read(assignment, 'incremental', { signal: neverAborted })
      expect(outcome).toMatchObject({ status: 'done', isComplete: true })
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
      expect(await positionOf(database.pool)).toBe(tied)
    })
  })

  describe('an upstream that breaks the contract', () => {
    const database = createTestDatabase()
    it('is reported and not asked for ever', async () => {
      await using simulator = await startSimulator({ assignments: 50 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal: neverAborted })
      const position = await positionOf(database.pool)
      simulator.source.appendRaw('assignment', ({ id }) => `{"AssignmentId":${id},"RowVersion":3}`)
      const outcome = await context.read(assignment, 'incremental', { signal: neverAborted })
      expect(outcome.status).toBe('failed')
      expect(outcome.error?.message).toContain('served version 3')
      expect(outcome.tally.requests).toBeLessThan(3)
      expect(await positionOf(database.pool)).toBe(position)
    })
  })
})
