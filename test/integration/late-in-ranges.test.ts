// What hides in the time that a reading takes: a record that moved behind a page that was read already, and rows that became visible behind
// a reading in ranges (P6).

import { afterEach, describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { streamsLackingReconcile } from '../../src/store/book/due.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, reconcile } from '../support/deletions.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const objects = streamOf('assignment_object')

describe.skipIf(!hasPostgres)('what comes while a reading takes its time', () => {
  const database = createTestDatabase({ forEach: true })
  let opened: readonly AsyncDisposable[] = []
  const open = async (simulated: Parameters<typeof startSimulator>[0], variables = {}) => {
    const upstream = await startSimulator(simulated)
    const context = await openTestContext(database, upstream, variables)
    opened = [context, upstream]
    return { upstream, context }
  }
  afterEach(async () => {
    for (const one of opened) await one[Symbol.asyncDispose]()
  })

  it('a list is not called read before a record was shown that a deletion moved to a page read already', async () => {
    const { upstream, context } = await open({ assignments: 1, objects: 25 }, { PAGE_SIZE: '10' })
    let asked = 0
    upstream.onRequest(async ({ path }) => {
      if (path.includes('AssignmentObject') && ++asked === 2)
        upstream.source.remove('assignment_object', 3, 'hard')
    })
    const first = await context.read(objects, 'incremental', { signal })
    expect(first).toMatchObject({ status: 'done', isComplete: true, tally: { inserted: 25 } })
    expect((await context.read(objects, 'incremental', { signal })).tally.inserted).toBe(0)
  })

  it('a list that grows all the time is read all the same', async () => {
    const { upstream, context } = await open({ assignments: 1, objects: 25 }, { PAGE_SIZE: '10' })
    upstream.onRequest(({ path }) => {
      if (path.includes('AssignmentObject')) upstream.source.insert('assignment_object', {})
    })
    for (let turn = 0; turn < 2; turn++)
      expect(await context.read(objects, 'incremental', { signal })).toMatchObject({
        status: 'done',
        isComplete: true,
      })
  })

  it('asks for a reconcile after a reading in ranges that took longer than the look-back, and after no other', async () => {
    const { upstream, context } = await open(
      { assignments: 600 },
      { PAGE_SIZE: '10', LOAD_CONNECTIONS: '4', LOOKBACK: '10m' },
    )
    const lacking = () =>
      streamsLackingReconcile(database.pool, ['assignment'], {
        ...{ slot: new Date(0), restMs: 0, lookbackMs: () => 600_000, replicaLagMs: 360_000 },
      })
    const read = () => context.read(assignment, 'incremental', { signal })
    const shift = async (minutes: number) => {
      for (const [table, columns] of Object.entries({
        checkpoint: ['reached_at'],
        belief: ['tested_at', 'first_at', 'changed_at', 'rests_since'],
        stream: [
          'position_reached_at',
          'last_lookback_at',
          'read_through_at',
          'first_read_through_at',
          'last_reconcile_at',
        ],
        run: ['started_at', 'finished_at'],
      }))
        await database.pool.query(
          `update tidemark.${table} set ${columns.map((column) => `${column} = ${column} - interval '${minutes} minutes'`).join(', ')}`,
        )
    }
    await read()
    await reconcile(context, 0)
    await shift(60)
    await reconcile(context, 0)
    await context.read(assignment, 'lookback', { signal, reach: 'whole' })
    upstream.source.bulkUpdate('assignment')
    expect(await read()).toMatchObject({ isComplete: true, wantsReconcile: false })
    expect(await lacking()).toEqual([])

    upstream.source.bulkUpdate('assignment')
    let pages = 0
    upstream.onRequest(({ path }) => {
      if (path.includes('neworchanged')) pages += 1
    })
    const cut = await context.read(assignment, 'incremental', { signal, shouldYield: () => pages > 20 })
    expect(cut.yielded).toBe(true)
    // It waited for so long before it went on.
    await database.pool.query(
      `update tidemark.belief set tested_at = tested_at - interval '20 minutes' where name = 'first_top'`,
    )
    expect(await lacking()).toEqual([])
    expect(await read()).toMatchObject({ isComplete: true, wantsReconcile: true })
    expect(await lacking()).toEqual(['assignment'])
    expect(await differences(database.pool, upstream, 'assignment')).toEqual([])
    await reconcile(context, 0)
    expect(await read()).toMatchObject({ isComplete: true, wantsReconcile: false })
    expect(await lacking()).toEqual([])
  })
})
