// While a person has to decide about deletions, or has decided to keep the rows, no run marks one of them (P7). And what is too much at once
// is too much bit by bit.

import { afterEach, describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { rejectDeletions } from '../../src/store/book/deletions.ts'
import { verifyStream } from '../../src/sync/reconcile/verify.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, deletionsIn, reconcile, search } from '../support/deletions.ts'
import { streamOf } from '../support/streams.ts'

const objects = streamOf('assignment_object')

describe.skipIf(!hasPostgres)('deletions that a person has to decide about', () => {
  const database = createTestDatabase({ forEach: true })
  const { gone } = deletionsIn(database)
  const reject = () =>
    rejectDeletions(database.pool, { stream: assignment, by: 'ann', reason: 'a lost right', restores: false })
  /** As if its assignments had been read a day and two hours ago. */
  const ageRelated = () =>
    database.pool.query(
      `update tidemark.related_fetch set fetched_at = fetched_at - interval '26 hours', retry_at = null`,
    )
  const readRelatedAgain = async (context: SyncContext, times: number) => {
    for (let turn = 0; turn < times; turn++) {
      await ageRelated()
      await context.readRelated({ signal })
    }
  }
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

  it('are not marked by the refresh of related records', async () => {
    const { upstream, context } = await open({ assignments: 200 }, { RELATED: 'true' })
    await context.read(assignment, 'incremental', { signal })
    await context.readRelated({ signal })
    for (let id = 1; id <= 80; id++) upstream.source.remove('assignment', id, 'hard')
    await search(context)
    await reconcile(context, 0)
    await readRelatedAgain(context, 3)
    expect(await gone()).toEqual([])
    await reject()
    await readRelatedAgain(context, 3)
    expect(await gone()).toEqual([])
  })

  it('are not brought about bit by bit by the refresh of related records', async () => {
    const { upstream, context } = await open({ assignments: 100 }, { RELATED: 'true' })
    await context.read(assignment, 'incremental', { signal })
    await context.readRelated({ signal })
    for (let part = 0; part < 4; part++) {
      for (let id = 1 + part * 8; id <= (part + 1) * 8; id++) upstream.source.remove('assignment', id, 'hard')
      await readRelatedAgain(context, 1)
    }
    // A fifth is believed, and more is not.
    const marked = (await gone()).length
    expect(marked).toBeGreaterThanOrEqual(16)
    expect(marked).toBeLessThanOrEqual(20)
    // Nor by a search, which would believe a fifth of those that are left.
    await search(context)
    expect(await gone()).toHaveLength(marked)
  })

  it('are not marked by a search among those that lists hide', async () => {
    const { upstream, context } = await open({ assignments: 200 })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 10
    await reconcile(context, 0)
    for (let turn = 0; turn < 3; turn++) await search(context)
    for (let id = 1; id <= 60; id++) upstream.source.remove('assignment', id, 'hard')
    for (let id = 70; id <= 200; id += 10) upstream.source.remove('assignment', id, 'hard')
    await reconcile(context, 0)
    await reject()
    await search(context)
    expect(await gone()).toEqual([])
  })

  it('of a list are asked about, also when it loses its records bit by bit', async () => {
    const { upstream, context } = await open({ assignments: 1, objects: 100 })
    const deleted = async () =>
      (await database.pool.query('select from mirror.assignment_object where _deleted_at is not null'))
        .rowCount
    const poll = () => context.read(objects, 'incremental', { signal })
    await poll()
    const remove = (from: number, to: number) => {
      for (let id = from; id <= to; id++) upstream.source.remove('assignment_object', id, 'hard')
    }
    remove(1, 15)
    for (let turn = 0; turn < 2; turn++) await poll()
    expect(await deleted()).toBe(15)
    remove(16, 25)
    for (let turn = 0; turn < 3; turn++) expect((await poll()).note).toMatch(/^deletions blocked: 10 rows|^$/)
    expect(await deleted()).toBe(15)
    const { note } = await verifyStream({
      ...context.contextOf(objects),
      ...{ signal, repair: true, sample: null, keyField: null, onDifference() {} },
    } as Parameters<typeof verifyStream>[0])
    expect(note).toMatch(/10 of 85 rows/)
    expect(await deleted()).toBe(15)
  })

  it('an assignment that came and went while related records were read is asked for once', async () => {
    const { upstream, context } = await open({ assignments: 20 }, { RELATED: 'true' })
    await context.read(assignment, 'incremental', { signal })
    let [isDone, asked] = [false, 0]
    upstream.onRequest(async ({ path }) => {
      if (!path.includes('/extended/')) return
      asked += 1
      if (isDone) return
      isDone = true
      const made = upstream.source.insert('assignment', {})
      await context.read(assignment, 'incremental', { signal })
      upstream.source.remove('assignment', Number(made.id), 'hard')
    })
    await context.readRelated({ signal: AbortSignal.timeout(20_000) })
    expect(asked).toBeLessThan(25)
  })
})
