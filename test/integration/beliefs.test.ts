// What is believed of the upstream is recorded with its evidence, by the probe and by the runs that see it in passing; and each test can
// fail: an upstream that breaks the belief is told from one that keeps it.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import type { Json } from '../../src/json/json.ts'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { type BeliefName, beliefs } from '../../src/streams/beliefs.ts'
import { isFlaggedDeleted, isObject } from '../../src/streams/record.ts'
import { probeStream } from '../../src/sync/beliefs/test-beliefs.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { parsedRecords } from '../../src/wire/record-page.ts'
import { beliefOf, neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const read = (context: SyncContext, kind: 'incremental' | 'lookback' = 'incremental') =>
  context.read(assignment, kind, { signal: neverAborted, reach: 'whole' })
const given = (context: SyncContext) => ({ ...context.contextOf(assignment), signal: neverAborted })
const probe = (context: SyncContext) => probeStream(given(context))

describe.skipIf(!hasPostgres)('beliefs', () => {
  describe('of an upstream that keeps them', () => {
    const database = createTestDatabase()
    it('hold, each with evidence and a date, and idle polls write nothing and ask one request with one record', async () => {
      await using simulator = await startSimulator({ assignments: 300, behaviour: { deletes: 'soft' } })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      simulator.source.remove('assignment', 7)
      await read(context)
      expect(await probe(context)).toMatchObject({ status: 'done', note: null })
      await read(context, 'lookback')
      await reconcileStream({ ...given(context), approved: 0 })
      await findDeletions(given(context))
      const { rows } = await database.pool.query(
        `select name, value from tidemark.belief where stream = 'assignment' and evidence <> '' order by name`,
      )
      expect(rows).toEqual(
        Object.entries({
          filters: 'honoured',
          first_top: expect.any(String),
          inclusive: 'no',
          key_order: 'honoured',
          keys_unique: 'yes',
          largest_answer: '100',
          lateness: 'holds',
          list_shows_changes: 'yes',
          list_shows_deleted: 'yes',
          page_end: 'an empty list',
          paging: 'heeded',
          ranks: 'trusted',
          same_upstream: 'yes',
          single_look: 'same',
          sorting: 'proven',
          tables_untouched: 'yes',
          version_field: 'RowVersion',
          versions_rise: 'yes',
        }).map(([name, value]) => ({ name, value })),
      )
      // One needs a page with more behind it, one a description.
      const seen = Object.keys(beliefs).filter((name) => !['sorted_before_cut', 'contract'].includes(name))
      expect(rows.map(({ name }) => name).sort()).toEqual(seen.sort())
      const before = await database.pool.query('select xmin from tidemark.belief order by name')
      const { tally } = await read(context)
      expect(tally).toMatchObject({ requests: 1, unchanged: 0 })
      expect((await database.pool.query('select xmin from tidemark.belief order by name')).rows).toEqual(
        before.rows,
      )
    })
  })

  const broken: readonly (readonly [BeliefName, string, Partial<Behaviour>])[] = [
    ['inclusive', 'yes', { inclusive: true }],
    ['sorting', 'ignored', { sorts: 'ignored', order: 'id' }],
    ['sorting', 'refused', { sorts: 'refused' }],
    ['filters', 'ignored', { filters: 'ignored' }],
    ['key_order', 'ignored', { sortableFields: ['RowVersion'] }],
    ['paging', 'ignored', { pagingIgnored: true }],
    ['list_shows_changes', 'no', { changesOmit: 2 }],
    ['single_look', 'other', { volatileField: true }],
    ['keys_unique', 'no', { twins: 5 }],
  ]
  describe('of a list that leaves out what is marked as deleted', () => {
    const database = createTestDatabase()
    it('say so, before and after', async () => {
      await using simulator = await startSimulator({ assignments: 300, behaviour: { deletes: 'soft' } })
      await using context = await openTestContext(database, simulator)
      simulator.source.remove('assignment', 7)
      await read(context)
      await probe(context)
      expect(await beliefOf(database.pool, 'list_shows_deleted')).toBe('yes')
      simulator.behaviour.hideDeleted = true
      await database.pool.query(`delete from tidemark.belief where name = 'list_shows_deleted'`)
      await findDeletions(given(context))
      // A look does not show the record either, so nothing is told about the list.
      expect(await beliefOf(database.pool, 'list_shows_deleted')).toBeUndefined()
    })
  })

  describe('of a list of which rights hide a part', () => {
    const database = createTestDatabase()
    it('say nothing of what is marked as deleted (P18)', async () => {
      await using simulator = await startSimulator({ assignments: 300, behaviour: { deletes: 'soft' } })
      await using context = await openTestContext(database, simulator)
      await read(context)
      simulator.source.remove('assignment', 7)
      await read(context)
      simulator.behaviour.hideAfterPaging = 7
      expect(await reconcileStream({ ...given(context), approved: 0 })).toMatchObject({
        findings: { alive: 41 },
      })
      expect(await beliefOf(database.pool, 'list_shows_deleted')).toBeUndefined()
    })
  })

  describe('of a list that cannot be asked by key', () => {
    const database = createTestDatabase({ forEach: true })
    const open = async () => {
      const simulator = await startSimulator({
        assignments: 50,
        behaviour: { deletes: 'soft', sortableFields: ['RowVersion'] },
      })
      const context = await openTestContext(database, simulator)
      await read(context)
      simulator.source.remove('assignment', 7)
      await read(context)
      return { simulator, context }
    }
    it('are told by a reconcile: whether it shows what is marked as deleted', async () => {
      const { simulator, context } = await open()
      await using _simulator = simulator
      await using _context = context
      await reconcileStream({ ...given(context), approved: 0 })
      expect(await beliefOf(database.pool, 'list_shows_deleted')).toBe('yes')
    })

    it('are told by a reconcile: that it leaves out what is marked, where a look shows that', async () => {
      const { simulator, context } = await open()
      await using _simulator = simulator
      await using _context = context
      const { source, ...others } = given(context)
      const list: typeof source.list = async ({ page, pageSize }, signal) => {
        const answer = await source.list({ page: 1, pageSize: 1_000 }, signal)
        const isLeftOut = (record: Json) => isObject(record) && isFlaggedDeleted(record)
        const shown = parsedRecords(answer.records).filter((record) => !isLeftOut(record))
        return { ...answer, records: shown.slice((page - 1) * pageSize, page * pageSize) }
      }
      await reconcileStream({ ...others, source: { ...source, list }, approved: 0 })
      expect(await beliefOf(database.pool, 'list_shows_deleted')).toBe('no')
      // What a look does not show either is gone, whatever the list does.
      await database.pool.query(`delete from tidemark.belief where name = 'list_shows_deleted'`)
      simulator.behaviour.hideDeleted = true
      await reconcileStream({ ...given(context), approved: 0 })
      expect(await beliefOf(database.pool, 'list_shows_deleted')).toBeUndefined()
    })
  })

  describe('of an upstream that finds no record by its id', () => {
    const database = createTestDatabase()
    it('say so: what the list goes on showing is not gone', async () => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      await read(context)
      const { source, ...others } = given(context)
      const finding = { ...source, lookup: async () => 'gone' as const }
      expect((await probeStream({ ...others, source: finding })).error).toBeNull()
      expect(await beliefOf(database.pool, 'single_look')).toBe('other')
    })
  })

  describe('of an upstream whose only record fell', () => {
    const database = createTestDatabase()
    it('do not take that for the same upstream', async () => {
      await using simulator = await startSimulator({ assignments: 1 })
      await using context = await openTestContext(database, simulator)
      await read(context)
      const { source, ...others } = given(context)
      const lookup = async () => ({ found: { AssignmentId: 1, RowVersion: 0 } })
      expect((await probeStream({ ...others, source: { ...source, lookup } })).error).toBeNull()
      expect(await beliefOf(database.pool, 'versions_rise')).toBe('no')
      expect(await beliefOf(database.pool, 'same_upstream')).toBeUndefined()
    })
  })

  describe('of an upstream that has no look at one record', () => {
    const database = createTestDatabase({ forEach: true })
    const probed = async (behaviour: Partial<Behaviour>) => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      await read(context)
      Object.assign(simulator.behaviour, behaviour)
      const { source, ...others } = given(context)
      const blind = (one: typeof source): typeof source => ({
        ...one,
        lookup: null,
        sortedBy: (field) => blind(one.sortedBy(field)),
      })
      expect((await probeStream({ ...others, source: blind(source) })).error).toBeNull()
      return await beliefOf(database.pool, 'list_shows_changes')
    }
    it('are not told where a difference cannot be looked at', async () => {
      expect(await probed({ changesOmit: 2 })).toBeUndefined()
    })

    it('are told where there is no difference', async () => {
      expect(await probed({})).toBe('yes')
    })
  })

  describe('of a list that shows nothing, or lacks a record which cannot be looked at', () => {
    const database = createTestDatabase({ forEach: true })
    it('are not told by a reconcile of nothing', async () => {
      await using simulator = await startSimulator({ assignments: 0 })
      await using context = await openTestContext(database, simulator)
      await read(context)
      await reconcileStream({ ...given(context), approved: 0 })
      expect(await beliefOf(database.pool, 'keys_unique')).toBeUndefined()
      expect(await beliefOf(database.pool, 'list_shows_changes')).toBeUndefined()
    })

    it('are not told by a reconcile: nobody knows whether that record is there', async () => {
      await using simulator = await startSimulator({ assignments: 50 })
      await using context = await openTestContext(database, simulator)
      await read(context)
      const { source, ...others } = given(context)
      const isSeven = (record: Json) => isObject(record) && record.AssignmentId === 7
      const partial: typeof source = {
        ...source,
        lookup: async () => 'unclear',
        list: async (request, signal) => {
          const answer = await source.list(request, signal)
          return { ...answer, records: parsedRecords(answer.records).filter((record) => !isSeven(record)) }
        },
      }
      await reconcileStream({ ...others, source: partial, approved: 0 })
      expect(await beliefOf(database.pool, 'keys_unique')).toBe('yes')
      expect(await beliefOf(database.pool, 'list_shows_changes')).toBeUndefined()
    })
  })

  describe('of an upstream that breaks them', () => {
    const database = createTestDatabase({ forEach: true })
    it.each(broken)('%s is %s', async (name, value, behaviour) => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      await read(context)
      Object.assign(simulator.behaviour, behaviour)
      expect((await probe(context)).error).toBeNull()
      expect(await beliefOf(database.pool, name)).toBe(value)
    })
  })
})
