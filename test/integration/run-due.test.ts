// Which runs a worker takes of those that its schedules offer.

import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { isRunDue, scheduledKinds } from '../../src/worker/kinds.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { begin, done } from '../support/runs.ts'

const [assignment] = streams

const isDueIn = (context: SyncContext, simulator: Simulator, kind: 'probe' | 'lookback') => () => {
  const config = { ...loadConfig(environmentFor(simulator, null)), lookbackMs: 600_000 }
  const tick = { stream: assignment.name, kind }
  return isRunDue(scheduledKinds(context, config), context.database.pool, tick)
}

describe.skipIf(!hasPostgres)('a probe', () => {
  const database = createTestDatabase()
  it('comes once a day, also after one whose program was killed (P8)', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const isDue = isDueIn(context, simulator, 'probe')
    await context.read(assignment, 'incremental', { signal })
    expect(await isDue()).toBe(true)
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to)
       values ($1, 'probe', 'running', 'there', 1, 0, 0)`,
      [assignment.name],
    )
    expect(await isDue()).toBe(true)
    const run = await begin(context.store, assignment.name, 'probe')
    expect(await isDue()).toBe(false)
    await run.finish(done)
    expect(await isDue()).toBe(false)
    await database.pool.query(`update tidemark.run set finished_at = now() - interval '21 hours'`)
    expect(await isDue()).toBe(true)
  })
})

describe.skipIf(!hasPostgres)('a look-back', () => {
  const database = createTestDatabase()
  it('waits for the end of a first load, and for no later run', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const isDue = isDueIn(context, simulator, 'lookback')
    expect(await isDue()).toBe(false)
    await context.read(assignment, 'incremental', { signal })
    expect(await isDue()).toBe(true)
    await database.pool.query(
      `insert into tidemark.run (stream, kind, status, host, pid, position_from, position_to)
       values ($1, 'incremental', 'running', 'there', 1, 0, 0)`,
      [assignment.name],
    )
    expect(await isDue()).toBe(true)
    await database.pool.query('update tidemark.stream set first_read_through_at = null')
    expect(await isDue()).toBe(false)
  })

  it('comes sooner after the one before while versions come late (P10)', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const { pool } = database
    const isDueAfter = async (seconds: number) => {
      await pool.query(
        `update tidemark.run set finished_at = now() - make_interval(secs => $1) where kind = 'lookback'`,
        [seconds],
      )
      return await isDueIn(context, simulator, 'lookback')()
    }
    await context.read(assignment, 'incremental', { signal })
    await context.read(assignment, 'lookback', { signal })
    expect([await isDueAfter(20), await isDueAfter(50)]).toEqual([false, true])
    await pool.query(
      `insert into tidemark.late_arrival (stream, run_id, key, version, distance, late_ms)
       select $1, max(id), '1', 2, 3, 4000 from tidemark.run`,
      [assignment.name],
    )
    expect([await isDueAfter(5), await isDueAfter(20)]).toEqual([false, true])
    await pool.query(`update tidemark.late_arrival set found_at = now() - interval '1 hour'`)
    expect(await isDueAfter(20)).toBe(false)
  })
})
