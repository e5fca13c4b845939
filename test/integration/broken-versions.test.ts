// One record whose row version cannot be one does not stop the stream of all others (P5).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

describe.skipIf(!hasPostgres)('a record', () => {
  const database = createTestDatabase({ forEach: true })

  it.each(['-4', '1e30', '1000000000000000000000000000000', '"abc"', '1.5', '{}'])(
    'with the row version %s is in quarantine, and all others are rows',
    async (version) => {
      await using simulator = await startSimulator({ look: 'recorded', assignments: 60 })
      simulator.source.appendRaw(
        'assignment',
        ({ id }) => `{"assignmentId":${id},"sysRowVersion":${version}}`,
      )
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      const read = () => context.read(streamOf('assignment'), 'incremental', { signal })
      expect(await read()).toMatchObject({ status: 'done', tally: { inserted: 60 } })
      simulator.source.change('assignment', 3)
      expect(await read()).toMatchObject({ status: 'done', tally: { updated: 1 } })
      const { rows } = await database.pool.query('select count(*)::int from tidemark.quarantine')
      expect(rows[0].count).toBeGreaterThan(0)
    },
  )
})
