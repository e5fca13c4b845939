// A stream that comes no further three times in a row is a problem, whatever the reason; and that the source changed is said only of one
// that did.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { stuck } from '../../src/problems/stream-problems.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const read = (context: SyncContext) => context.read(assignment, 'incremental', { signal: neverAborted })

describe.skipIf(!hasPostgres)('runs that come no further', () => {
  const database = createTestDatabase()
  const problems = async () => (await readSymptoms(database.pool, ['assignment'], 86_400_000)).flatMap(stuck)

  it('are a problem after the third, and none after one that did', async () => {
    const shuffled = { sorts: 'ignored', order: 'unstable', pageCap: 20 } as const
    await using simulator = await startSimulator({ assignments: 400, behaviour: shuffled })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
    for (const known of [0, 0, 1]) {
      const { status, isComplete, note } = await read(context)
      expect({ status, isComplete }).toEqual({ status: 'done', isComplete: false })
      expect(note).toMatch(/^(the pages did not add up|newer versions came up|pages were not full)/)
      expect(await problems()).toHaveLength(known)
    }
    const [problem] = await problems()
    expect(problem?.what).toMatch(
      /^assignment: 3 runs in a row could not read everything, and the position did not move\. The last one said: /,
    )
    simulator.behaviour.sorts = 'honoured'
    await database.pool.query(`delete from tidemark.belief where name = 'sorting'`)
    expect(await read(context)).toMatchObject({ isComplete: true })
    expect(await problems()).toEqual([])
    // A list that never holds still is no failure of a run either.
    const reconcile = () =>
      reconcileStream({
        ...context.contextOf(assignment),
        signal: neverAborted,
        now: () => new Date(),
        approved: 0,
      })
    expect(await reconcile()).toMatchObject({ isComplete: true })
    Object.assign(simulator.behaviour, shuffled)
    await database.pool.query(`delete from tidemark.belief where name in ('sorting', 'list order')`)
    for (const known of [0, 0, 1]) {
      expect(await reconcile()).toMatchObject({ status: 'done', isComplete: false })
      expect(await problems()).toHaveLength(known)
    }
    // Changes go on coming: this key says nothing of how current the stream is.
    expect(await problems()).toMatchObject([
      {
        key: 'stuck:reconcile:assignment',
        what: expect.stringMatching(
          /^assignment: the last 3 reconciles could not list everything, .* The last one said: /,
        ),
      },
    ])
  })
})
