// A difference between the list and the rows that no look explains is told, as long as deletions are not known through a later time.

import { describe, expect, it } from 'vitest'
import { stateOfStream } from '../../src/problems/stream-state.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readOverview } from '../../src/store/book/streams.ts'
import { readStandings } from '../../src/store/book/watch.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, hidingFromLooks } from '../support/deletions.ts'

describe.skipIf(!hasPostgres)('a difference that no look explains', () => {
  const database = createTestDatabase()

  it('P18: is told with its time, until a look explains it', async () => {
    await using upstream = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    const hiding = hidingFromLooks(context)
    const told = async () => {
      await hiding.search()
      const [overview] = await readOverview(database.pool, ['assignment'])
      const [standing] = await readStandings(database.pool, ['assignment'])
      return {
        unexplained: overview?.unexplained,
        ...(standing && stateOfStream(standing, 'assignment', new Map())),
      }
    }
    expect(await told()).toMatchObject({ unexplained: null, reason: null })
    upstream.source.remove('assignment', 17)
    const first = await told()
    expect(first).toMatchObject({
      ...{ state: 'live', unexplained: { differences: 1 } },
      reason: expect.stringMatching(
        /^One difference between the list of the upstream and the rows here is being looked for since 20\S+Z\. Until it is explained, deletions are known only/,
      ),
    })
    // Since when it was first seen.
    expect((await told()).unexplained).toEqual(first.unexplained)
    hiding.show()
    expect(await told()).toMatchObject({ unexplained: null, reason: null })
  })
})
