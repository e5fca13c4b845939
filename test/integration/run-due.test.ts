// Which runs a worker takes of those that its schedules offer.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { isRunDue } from '../../src/worker/scheduled-runs.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'

const [assignment] = streams

describe.skipIf(!hasPostgres)('a look-back', () => {
  const database = createTestDatabase()
  it('waits for the end of a first load, and for no later run', async () => {
    await using simulator = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, simulator)
    const isDue = () => isRunDue(context, 600_000, { stream: assignment.name, kind: 'lookback' })
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
})
