// Records that vanish from the upstream without a word are found by their rank in the list, or by the sweep (P7).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { beliefOf, openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, contextOf, deletionsIn, readAgain, search } from '../support/deletions.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { differences } from '../support/same-as-source.ts'

describe.skipIf(!hasPostgres)('vanished records', () => {
  const database = createTestDatabase({ forEach: true })
  const { gone, knownThrough } = deletionsIn(database)

  it('are marked after few small requests, and nothing else is', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    const before = new Date()
    expect(await search(context)).toMatchObject({ status: 'done', note: null, isComplete: true })
    expect(await gone()).toEqual([])
    await readAgain(context)
    await search(context)
    expect((await knownThrough())?.getTime()).toBeGreaterThanOrEqual(before.getTime() - 1_000)
    upstream.source.remove('assignment', 17)
    upstream.source.remove('assignment', 640)
    const { note, tally } = await search(context)
    expect(note).toBe('2 gone')
    expect(tally.requests).toBeLessThan(35)
    expect(await gone()).toEqual(['17 absent', '640 absent'])
    expect((await search(context)).tally.requests).toBeLessThanOrEqual(2)
  })

  it.each([6, 8, 10, 12])(
    'that go before question %i of a search make ranks no liars: they are counted again, and none of them is marked (P7)',
    async (before) => {
      await using upstream = await startSimulator({ assignments: 900 })
      await using context = await openTestContext(database, upstream)
      await context.read(assignment, 'incremental', { signal })
      await search(context)
      expect(await beliefOf(database.pool, 'ranks')).toBe('trusted')
      upstream.source.remove('assignment', 640)
      let questions = 0
      upstream.onRequest(() => {
        questions += 1
        if (questions === before) for (let id = 1; id <= 300; id++) upstream.source.remove('assignment', id)
      })
      await search(context)
      expect(await beliefOf(database.pool, 'ranks')).toBe('trusted')
      // At the latest the next search knows how many they are.
      expect((await search(context)).note).toMatch(/^blocked: /)
      const { rows } = await database.pool.query<{ blocked: { missing: number } }>(
        `select blocked_deletions as blocked from tidemark.stream where name = 'assignment'`,
      )
      expect(rows[0]?.blocked.missing).toBeGreaterThanOrEqual(300)
      expect((await gone()).filter((row) => row !== '640 absent')).toEqual([])
    },
  )

  it('that are shown again come back with the sweep, however many, and rows that are behind with them', async () => {
    await using upstream = await startSimulator({ assignments: 300 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    // As after a right that hid these records while their versions were read.
    await writeAsTidemark(
      database.pool,
      `delete from mirror.assignment where assignment_id between 100 and 139;
       update mirror.assignment set subject = 'old', row_version = 1, _hash = '\\x00' where assignment_id in (7, 250)`,
    )
    expect(await search(context)).toMatchObject({ note: '42 brought by the list' })
    expect(await differences(database.pool, upstream, 'assignment')).toEqual([])
    expect(await search(context)).toMatchObject({ note: null })
  })

  it('are told from those that lists hide, which a look at the record shows (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 100
    upstream.source.remove('assignment', 640)
    expect(await search(context)).toMatchObject({ status: 'done', note: '1 gone' })
    expect(await gone()).toEqual(['640 absent'])
  })

  it('are not believed while a record that the list shows cannot be read either (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 100
    upstream.source.remove('assignment', 640)
    const vanishedAt = new Date()
    const isBack = upstream.faults.add({ kind: 404, path: /\/Id\/\d+$/ })
    await search(context)
    await database.pool.query(`update tidemark.belief set value = 'not trusted' where name = 'ranks'`)
    await search(context)
    expect(await reconcileStream({ ...contextOf(context), approved: 0 })).toMatchObject({
      note: expect.stringContaining('10 could not be looked at'),
    })
    expect(await gone()).toEqual([])
    expect((await knownThrough())?.getTime() ?? 0).toBeLessThan(vanishedAt.getTime())
    isBack()
    await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(await gone()).toEqual(['640 absent'])
  })

  it('are not believed when single records cannot be read from the middle of a reconcile on (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 200 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 10)
    upstream.behaviour.hideAfterPaging = 10
    let looks = 0
    upstream.faults.add({
      kind: 404,
      path: /\/Id\/\d+$/,
      while() {
        looks += 1
        return looks > 8
      },
    })
    await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(await gone()).toEqual([])
  })

  it('are believed although the last record of the list cannot be read (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 90 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 40)
    upstream.faults.add({ kind: 404, path: /\/Id\/90$/ })
    await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(await gone()).toEqual(['40 absent'])
  })

  it('are left to the reconcile where the list is not sorted by key', async () => {
    await using upstream = await startSimulator({
      assignments: 900,
      behaviour: { sorts: 'ignored', order: 'descending' },
    })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 17)
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('reconcile') })
    expect(await gone()).toEqual([])
    expect(await knownThrough()).toBeNull()
  })

  it('are not marked when the list shows nothing, though each is gone when asked for (P7, P11)', async () => {
    await using upstream = await startSimulator({ assignments: 9 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.faults.add({ kind: 404, path: /\/Id\/\d+$/ })
    upstream.behaviour.lists = 'empty'
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('blocked') })
    expect(await gone()).toEqual([])
  })

  it('are not looked for while polls show nothing that is known (P11)', async () => {
    await using upstream = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    await database.pool.query(`update tidemark.stream set inconclusive_runs = 1 where name = 'assignment'`)
    upstream.source.remove('assignment', 17)
    expect(await search(context)).toMatchObject({ isComplete: false, tally: { requests: 0 } })
    expect(await gone()).toEqual([])
  })

  it('that only a replica lacked are back with the next search', async () => {
    let timeMs = Date.now()
    await using upstream = await startSimulator({ assignments: 200, now: () => timeMs })
    await using context = await openTestContext(database, upstream)
    const { source, behaviour } = upstream
    // From here on the replica is kept.
    behaviour.replicaLagMs = 0
    await context.read(assignment, 'incremental', { signal })
    const late = source.insertLate('assignment')
    source.change('assignment', 5)
    await context.read(assignment, 'incremental', { signal })
    timeMs += 60_000
    late.commit()
    await context.read(assignment, 'lookback', { signal })
    timeMs += 10_000
    // As it was when the record was not there yet, and the last poll showed what is newest.
    behaviour.replicaLagMs = 30_000
    await context.read(assignment, 'incremental', { signal })
    expect(await search(context)).toMatchObject({ note: '1 gone' })
    expect(await gone()).toEqual([`${late.id} absent`])
    behaviour.replicaLagMs = null
    expect(await search(context)).toMatchObject({ status: 'done' })
    expect(await gone()).toEqual([])
  })
})
