// A belief that falls takes back what rested on it: rows that were passed over while it seemed to hold come in by themselves.

import type { Pool } from 'pg'
import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { readBackfill, requestBackfill } from '../../src/store/book/backfills.ts'
import { runNextBackfill } from '../../src/sync/changes/backfill.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { beliefOf, neverAborted, openTestContext, positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { begin, done, failed } from '../support/runs.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const variables = { PAGE_SIZE: '100' }
const read = (context: SyncContext, kind: 'incremental' | 'lookback' = 'incremental') =>
  context.read(assignment, kind, { signal: neverAborted })

/** Cut before it is sorted, an answer looks perfect and lacks the records with the lowest versions. */
async function loseSome(context: SyncContext, simulator: Simulator): Promise<void> {
  for (let id = 300; id > 200; id--) simulator.source.change('assignment', id)
  simulator.behaviour.cutBeforeSort = 30
  await read(context)
  simulator.behaviour.cutBeforeSort = null
}

async function tellsNotToSort(simulator: Simulator): Promise<void> {
  simulator.behaviour.sorts = 'ignored'
  simulator.behaviour.order = 'id'
  // In the order of ids their versions fall, and then rise.
  for (let id = 30; id > 20; id--) simulator.source.change('assignment', id)
  for (let id = 31; id <= 40; id++) simulator.source.change('assignment', id)
}

const lastRetreat = async (pool: Pool) => {
  const { rows } = await pool.query(
    `select position::int, reason from tidemark.checkpoint where reason is not null order by id desc limit 1`,
  )
  return rows[0]
}

describe.skipIf(!hasPostgres)('that answers are sorted', () => {
  describe('when a page shows that they are not', () => {
    const database = createTestDatabase()
    it('is taken back with all that earlier runs concluded from it, and the run says so (P6)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, variables)
      const { pool } = database
      await read(context)
      await loseSome(context, simulator)
      expect(await differences(pool, simulator, 'assignment')).not.toEqual([])
      await tellsNotToSort(simulator)
      const outcome = await read(context)
      expect(outcome).toMatchObject({ status: 'done', isComplete: true })
      expect(outcome.note).toMatch(
        /held \d+ behind \d+.*: what relied on the order is read again, from version 0/,
      )
      expect(await differences(pool, simulator, 'assignment')).toEqual([])
      expect(await lastRetreat(pool)).toEqual({ position: 0, reason: expect.stringContaining('held') })
      expect(await positionOf(pool)).toBe(simulator.source.highestVersion('assignment'))
      const { rows } = await pool.query(`select rests_from from tidemark.belief where name = 'sorting'`)
      expect(rows).toEqual([{ rests_from: null }])
      expect((await read(context)).tally.requests).toBeLessThan(4)
    })
  })

  describe('when the daily proof fails', () => {
    const database = createTestDatabase()
    it('is taken back as well', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, variables)
      const { pool } = database
      await read(context)
      await loseSome(context, simulator)
      simulator.behaviour.sorts = 'ignored'
      simulator.behaviour.order = 'descending'
      for (let id = 1; id <= 20; id++) simulator.source.change('assignment', id)
      await pool.query(
        `update tidemark.belief set tested_at = now() - interval '25 hours' where name = 'sorting'`,
      )
      expect((await read(context)).note).toContain('read again, from version 0')
      expect(await differences(pool, simulator, 'assignment')).toEqual([])
    })
  })

  describe('when it is half way through a backfill', () => {
    const database = createTestDatabase()
    it('makes the backfill begin anew, also one that is being worked on (P2, P6)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, variables)
      const { pool } = database
      await read(context)
      const to = await positionOf(pool)
      const { id } = await requestBackfill(pool, { stream: 'assignment', from: 10n, to, by: 'a test' })
      const given = { ...context.contextOf(assignment), signal: neverAborted }
      await runNextBackfill({ ...given, shouldYield: () => true })
      expect((await readBackfill(pool, id))?.position).toBeGreaterThan(100n)
      const run = await context.store.openRun('backfill', 'assignment', { id })
      if ('busy' in run) throw new Error(run.busy)
      try {
        await tellsNotToSort(simulator)
        await read(context)
        expect(await beliefOf(pool, 'sorting')).toBe('ignored')
        await expect(run.pages.commit({ rows: [], rejected: [] }, to)).rejects.toThrow('lost its turn')
      } finally {
        await run.finish(failed)
      }
      expect((await readBackfill(pool, id))?.position).toBe(10n)
      expect(await runNextBackfill(given)).toMatchObject({ status: 'done', isComplete: true })
      expect(await readBackfill(pool, id)).toMatchObject({ status: 'done', position: to })
    })
  })

  describe('when a look-back sees it first', () => {
    const database = createTestDatabase()
    it('the next poll takes it back, but not below what the list has confirmed (P13)', async () => {
      await using simulator = await startSimulator({ assignments: 400 })
      await using context = await openTestContext(database, simulator, { ...variables, LOOKBACK: '1h' })
      const { pool } = database
      await read(context)
      await pool.query(`update tidemark.checkpoint set reached_at = reached_at - interval '2 hours'`)
      await reconcileStream({ ...context.contextOf(assignment), signal: neverAborted, approved: 0 })
      const settled = await positionOf(pool)
      await loseSome(context, simulator)
      await tellsNotToSort(simulator)
      await read(context, 'lookback')
      expect(await beliefOf(pool, 'sorting')).toBe('ignored')
      const outcome = await read(context)
      expect(outcome.note).toContain(`read again, from version ${settled}`)
      expect(await lastRetreat(pool)).toMatchObject({ position: Number(settled) })
      expect(await differences(pool, simulator, 'assignment')).toEqual([])
    })
  })
})

describe.skipIf(!hasPostgres)('that the list can be read in slices of the key', () => {
  const database = createTestDatabase()
  it('takes back what is settled and how far deletions are known, when it falls, and is tested again by the next reconcile (P13)', async () => {
    await using simulator = await startSimulator({ assignments: 400 })
    await using context = await openTestContext(database, simulator, { ...variables, LOOKBACK: '1h' })
    const { pool } = database
    const search = () => findDeletions({ ...context.contextOf(assignment), signal: neverAborted })
    const freshness = async () => {
      const { rows } = await pool.query(
        `select settled_through_version, settled_through_time, deletions_known_through as known
         from tidemark.freshness where stream = 'assignment'`,
      )
      return rows[0]
    }
    const began = new Date()
    await read(context)
    await pool.query(`update tidemark.checkpoint set reached_at = reached_at - interval '2 hours'`)
    await reconcileStream({ ...context.contextOf(assignment), signal: neverAborted, approved: 0 })
    const { rows } = await pool.query(`select first_at from tidemark.belief where name = 'key_order'`)
    await new Promise((resolve) => setTimeout(resolve, 20))
    await search()
    // Deletions are known through a search once polls and a look-back have read what came before it.
    await read(context)
    await read(context, 'lookback')
    await search()
    const before = await freshness()
    expect(before.settled_through_version).not.toBeNull()
    expect(before.known.getTime()).toBeGreaterThan(rows[0].first_at.getTime())
    expect(await beliefOf(pool, 'ranks')).toBe('trusted')

    simulator.behaviour.filters = 'ignored'
    simulator.source.remove('assignment', 17)
    await pool.query(`update tidemark.stream set sweep_began_at = null, swept_key = '200'`)
    await search()
    expect(await beliefOf(pool, 'key_order')).toBe('ignored')
    const after = await freshness()
    expect(after).toMatchObject({ settled_through_version: null, settled_through_time: null })
    expect(after.known).toEqual(rows[0].first_at)
    expect(after.known.getTime()).toBeGreaterThanOrEqual(began.getTime() - 1_000)

    simulator.behaviour.filters = 'honoured'
    await reconcileStream({ ...context.contextOf(assignment), signal: neverAborted, approved: 0 })
    expect(await beliefOf(pool, 'key_order')).toBe('honoured')
  })
})

describe.skipIf(!hasPostgres)('an upstream that answers with everything to a name it does not know', () => {
  const database = createTestDatabase()
  it('is noticed while that streams in, and not asked so again (P10)', async () => {
    await using simulator = await startSimulator({
      assignments: 4_000,
      behaviour: { unknownNames: 'whole-list', sortableFields: ['Subject'] },
    })
    await using context = await openTestContext(database, simulator, variables)
    const { pool } = database
    simulator.requests.start()
    const asksForOrder = () =>
      simulator.requests.entries.filter(({ query }) => 'Sorts' in query || 'Filters' in query).length
    const outcome = await read(context)
    expect(outcome).toMatchObject({ status: 'done', isComplete: true })
    // The first page and three questions of the proof, side by side.
    expect(asksForOrder()).toBe(4)
    const { rows } = await pool.query(`select value, evidence from tidemark.belief where name = 'sorting'`)
    expect(rows[0]).toEqual({
      value: 'refused',
      evidence: expect.stringContaining('as if everything there is'),
    })
    await reconcileStream({ ...context.contextOf(assignment), signal: neverAborted, approved: 0 })
    expect(asksForOrder()).toBe(5)
    expect(await beliefOf(pool, 'key_order')).toBe('refused')
    simulator.source.change('assignment', 7)
    await read(context)
    await pool.query(`delete from tidemark.belief where name = 'filters'`)
    await reconcileStream({ ...context.contextOf(assignment), signal: neverAborted, approved: 0 })
    expect(asksForOrder()).toBe(5)
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
  })
})

describe.skipIf(!hasPostgres)('which field the row version is', () => {
  const database = createTestDatabase({ forEach: true })
  it.each([
    ['had no value', 'SysRowVersion', null],
    ['had larger numbers', 'legacy', 900_000],
  ] as const)(
    'can become one that %s in the rows, and all of them are written again (P3, P5)',
    async (_, field, old) => {
      await using simulator = await startSimulator({
        look: 'recorded',
        assignments: 400,
        behaviour: { rowVersionField: field },
      })
      await using context = await openTestContext(database, simulator, variables)
      const { pool } = database
      await read(context)
      if (old !== null)
        await pool.query(`begin; select set_config('tidemark.writer', 'on', true);
        update mirror.assignment set row_version = ${old}; commit`)
      simulator.behaviour.rowVersionField = 'RowVersion'
      for (const id of [2, 4, 7]) simulator.source.change('assignment', id, { AssignmentName: 'new name' })
      // The table was damaged, so that the position is 0 when the other field is noticed.
      if (old !== null) await pool.query('delete from mirror.assignment where assignment_id = 9')
      for (let run = 0; run < 5; run++) await read(context)
      expect(await beliefOf(pool, 'version_field')).toBe('rowVersion')
      expect(await read(context)).toMatchObject({ status: 'done', isComplete: true })
      expect(await differences(pool, simulator, 'assignment')).toEqual([])
    },
  )

  it('is tested again when polls keep showing nothing that is known, and the stream begins anew (P11)', async () => {
    await using simulator = await startSimulator({ assignments: 300 })
    await using context = await openTestContext(database, simulator, variables)
    const { pool } = database
    const counted = (id: number) => simulator.source.change('assignment', id, { Counter: 1_000_000 + id })
    for (const id of simulator.source.ids('assignment')) counted(id)
    await read(context)
    // As if another counter of changes had been taken for it, which is ahead.
    await pool.query(`update tidemark.belief set value = 'Counter' where name = 'version_field'`)
    await pool.query(
      `update tidemark.stream set position = 1000300, settled_through_version = null, settled_through_at = null`,
    )
    for (let poll = 0; poll < 3; poll++) {
      counted(7)
      expect(await read(context)).toMatchObject({ status: 'inconclusive' })
      expect(await beliefOf(pool, 'version_field')).toBe('Counter')
    }
    // Longer ago than the look-back reaches, so that nothing late is expected.
    await pool.query(`update tidemark.checkpoint set reached_at = now() - interval '1 hour'`)
    await reconcileStream({ ...context.contextOf(assignment), signal: neverAborted, approved: 0 })
    const settled = async () => {
      const { rows } = await pool.query(
        `select settled_through_version as version from tidemark.stream where name = 'assignment'`,
      )
      return rows[0].version
    }
    expect(await settled()).toBeNull()
    await read(context)
    expect(await beliefOf(pool, 'version_field')).toBe('RowVersion')
    expect(await read(context)).toMatchObject({ status: 'done', isComplete: true })
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
    expect(await positionOf(pool)).toBe(simulator.source.highestVersion('assignment'))
  })

  it('is read as a number when it has the row versions as bytes, though its column was made for texts (P4, P6)', async () => {
    await using simulator = await startSimulator({
      assignments: 60,
      behaviour: { rowVersions: 'base64', rowVersionField: 'RowVersion' },
    })
    await using context = await openTestContext(database, simulator, variables)
    const { pool } = database
    const typeNow = async () => {
      const { rows } = await pool.query(
        `select data_type from information_schema.columns
         where table_schema = 'mirror' and table_name = 'assignment' and column_name = 'row_version'`,
      )
      return rows[0]?.data_type
    }
    await pool.query(
      'drop view bi.assignment; drop table mirror.assignment; truncate tidemark.field, tidemark.belief',
    )
    for (const id of simulator.source.ids('assignment'))
      simulator.source.change('assignment', id, { Counter: 1_000_000 + id })
    const run = await begin(context.store)
    await run.findings.setVersionField('Counter', 'a test says so')
    await run.finish(done)
    await read(context)
    expect(await typeNow()).toBe('text')
    await pool.query(`update tidemark.belief set value = 'RowVersion' where name = 'version_field'`)
    await pool.query('update tidemark.stream set position = 0')
    expect(await read(context)).toMatchObject({ status: 'done', isComplete: true })
    expect(await typeNow()).toBe('bigint')
    simulator.behaviour.rowVersions = 'number'
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
    expect(await positionOf(pool)).toBe(simulator.source.highestVersion('assignment'))
    expect((await read(context)).tally.requests).toBe(1)
  })
})
