// The clock of Postgres is put back, as when a server takes over whose clock is behind: what was written before lies in the future.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')

describe.skipIf(!hasPostgres)('a clock of Postgres that is put back by an hour', () => {
  const database = createTestDatabase({ forEach: true })
  const read = (context: SyncContext, kind: 'incremental' | 'lookback' = 'incremental') =>
    context.read(assignment, kind, { signal })
  const reconcile = (context: SyncContext) =>
    reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
  const wrong = (simulator: Simulator) => differences(database.pool, simulator, 'assignment')
  /** Every time that was noted so far comes an hour later; the rows are not damaged by that. */
  const putBack = () =>
    database.pool.query(`do $$ declare found record; begin
      perform set_config('tidemark.writer', 'on', true);
      for found in
        select format('%I.%I', table_schema, table_name) as name,
          string_agg(format('%1$I = %1$I + interval ''1 hour''', column_name), ', ') as shifts
        from information_schema.columns join information_schema.tables using (table_schema, table_name)
        where table_type = 'BASE TABLE' and data_type = 'timestamp with time zone'
          and (table_schema = 'tidemark' or (table_schema = 'mirror' and column_name like '\\_%'))
        group by 1
      loop execute format('update %s set %s', found.name, found.shifts); end loop;
    end $$`)

  it('keeps no deletion from being found, by a search or by a reconcile (P7)', async () => {
    await using simulator = await startSimulator({ assignments: 200 })
    await using context = await openTestContext(database, simulator)
    await read(context)
    await reconcile(context)
    await findDeletions({ ...context.contextOf(assignment), signal })
    await putBack()
    simulator.source.remove('assignment', 17, 'hard')
    await read(context)
    await findDeletions({ ...context.contextOf(assignment), signal })
    expect(await wrong(simulator)).toEqual([])
    simulator.source.remove('assignment', 19, 'hard')
    await read(context)
    expect((await reconcile(context)).findings).toMatchObject({ marked: 1 })
    expect(await wrong(simulator)).toEqual([])
  })

  it('holds up no look-back, and calls nothing settled that is still to come (P6, P13)', async () => {
    await using simulator = await startSimulator({ assignments: 200 })
    await using context = await openTestContext(database, simulator, { LOOKBACK: '10m' })
    await read(context)
    await read(context, 'lookback')
    await reconcile(context)
    await database.pool.query(
      `update tidemark.stream set settled_through_version = 1, settled_through_at = now(), deletions_known_at = now()`,
    )
    await putBack()
    await read(context, 'lookback')
    const { rows } = await database.pool.query(
      `select coalesce(settled_through_at <= now(), true) as settled, coalesce(deletions_known_at <= now(), true) as known,
         last_lookback_at <= now() as "readAllTheWay"
       from tidemark.stream where name = 'assignment'`,
    )
    expect(rows).toEqual([{ settled: true, known: true, readAllTheWay: true }])
  })

  it('holds up no related records', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator, { RELATED: 'true' })
    await read(context)
    await context.readRelated({ signal })
    await putBack()
    simulator.source.change('assignment', 7)
    await read(context)
    expect(await context.isRelatedDue()).toBe(true)
  })

  it('has a rewind replace the rows all the same (P3)', async () => {
    await using simulator = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, simulator)
    await read(context)
    const before = await positionOf(database.pool)
    await database.pool.query(`begin; select set_config('tidemark.writer', 'on', true);
      update mirror.assignment set row_version = 900000, subject = 'from another age' where assignment_id = 5; commit`)
    await putBack()
    await database.pool.query(`
      update tidemark.stream set position = 0, unguarded_above = 0, unguarded_before = clock_timestamp() where name = 'assignment'`)
    await read(context)
    expect(await positionOf(database.pool)).toBe(before)
    expect(await wrong(simulator)).toEqual([])
  })
})
