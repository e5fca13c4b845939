// Reconciles and backfills as the worker does them.

import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readBackfill, requestBackfill } from '../../src/store/book/backfills.ts'
import { scheduledKinds } from '../../src/worker/kinds.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')

describe.skipIf(!hasPostgres)('the worker', () => {
  const database = createTestDatabase()
  it('takes reconciles, and works on backfills that somebody asked for', async () => {
    await using simulator = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, simulator)
    const kinds = scheduledKinds(context, loadConfig(environmentFor(simulator, database)))
    await context.read(assignment, 'incremental', { signal })
    await writeAsTidemark(database.pool, 'delete from mirror.assignment where assignment_id = 5')
    expect(await kinds.reconcile.read(assignment, { signal })).toMatchObject({
      status: 'done',
      note: '1 missed row (5)',
    })
    expect(await kinds.backfill.read(assignment, { signal })).toBeNull()
    const to = await positionOf(database.pool)
    const { id } = await requestBackfill(database.pool, { stream: 'assignment', from: 0n, to, by: 'a test' })
    expect(await kinds.backfill.read(assignment, { signal })).toMatchObject({
      status: 'done',
      isComplete: true,
    })
    expect(await readBackfill(database.pool, id)).toMatchObject({ status: 'done' })
  })
})
