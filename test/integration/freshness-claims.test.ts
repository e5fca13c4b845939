// What is said of how fresh a stream is holds while runs, people and repairs come between each other (P18).

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { retrySelected } from '../../src/operator/quarantine.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { rejectDeletions } from '../../src/store/book/deletions.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, contextOf, deletionsIn, reconcile, search } from '../support/deletions.ts'
import { after, before } from '../support/odd-source.ts'
import { streamOf } from '../support/streams.ts'

describe.skipIf(!hasPostgres)('what is known of deletions', () => {
  const database = createTestDatabase({ forEach: true })
  const { gone, knownThrough } = deletionsIn(database)
  const rowsOf = async (sql: string) => (await database.pool.query(sql)).rows
  const read = (context: SyncContext) => context.read(assignment, 'incremental', { signal })

  it('ends where a record in quarantine last came, when that becomes a row as it was kept', async () => {
    await using upstream = await startSimulator({ assignments: 1, trackers: 20 })
    await using context = await openTestContext(database, upstream)
    const poll = () => context.read(streamOf('tracker_object'), 'incremental', { signal })
    await poll()
    await rowsOf(`alter table mirror.tracker_object add constraint odd check (name <> 'Odd')`)
    const { id } = upstream.source.insert('tracker_object', { Name: 'Odd' })
    expect((await poll()).tally.quarantined).toBe(1)
    upstream.source.remove('tracker_object', id)
    const vanishedAt = new Date()
    await poll()
    await poll()
    await rowsOf('alter table mirror.tracker_object drop constraint odd')
    const known = () =>
      rowsOf(`select deletions_known_at as at from tidemark.stream where name = 'tracker_object'`)
    const [before] = await known()
    expect(before.at.getTime()).toBeGreaterThan(vanishedAt.getTime())
    for await (const { findings } of retrySelected(context, { stream: 'tracker_object', id: null }, signal))
      expect(findings).toMatchObject({ taken: 1 })
    expect(await rowsOf('select from bi.tracker_object')).toHaveLength(21)
    const [after] = await known()
    expect(after.at.getTime()).toBeLessThan(vanishedAt.getTime())
    await poll()
    await poll()
    expect(await rowsOf('select from bi.tracker_object')).toHaveLength(20)
  })

  it('is nothing after a person had rows restored, whatever a reconcile that was under way has seen', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '300' })
    await read(context)
    await search(context)
    for (let id = 100; id < 110; id++) upstream.source.remove('assignment', id)
    await search(context)
    expect(await gone()).toHaveLength(10)
    const backup = upstream.source.takeBackup()
    for (let id = 200; id < 400; id++) upstream.source.remove('assignment', id)
    await reconcile(context, 0)
    upstream.source.restoreBackup(backup)
    const restoring = { stream: assignment, by: 'ann', reason: null, restores: true }
    let restored: number | null | undefined
    const outcome = await reconcileStream({
      ...contextOf(context),
      approved: 0,
      source: before(contextOf(context).source, 'list', async () => {
        if (restored !== undefined) return
        restored = null
        restored = await rejectDeletions(database.pool, restoring)
      }),
    })
    expect(restored).toBe(10)
    expect(outcome.status).not.toBe('done')
    expect(await gone()).toEqual([])
    expect(await knownThrough()).toBeNull()
    const [state] = await rowsOf(
      `select blocked_deletions ? 'rejected' as rejected from tidemark.stream where name = 'assignment'`,
    )
    expect(state).toEqual({ rejected: true })
  })

  it('ends where a poll began whose answer brings back what vanished before the reconcile', async () => {
    await using upstream = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, upstream)
    const given = contextOf(context)
    await read(context)
    await reconcile(context, 0)
    upstream.source.change('assignment', 33)
    let vanishedAt = new Date(0)
    let reconciled: Promise<unknown> | null = null
    // The answer is made, its record vanishes, the whole list is compared, and only then the rest of the answer comes.
    const late = after(given.source, 'changes', async (answer) => {
      if (reconciled !== null || !('records' in answer) || answer.records.length === 0) return
      upstream.source.remove('assignment', 33)
      vanishedAt = new Date()
      await wait(5)
      reconciled = reconcile(context, 0)
      while ((await rowsOf(`select from tidemark.run where kind = 'reconcile'`)).length < 2) await wait(5)
    })
    await readIncremental({ ...given, source: late })
    await reconciled
    const isThere = (await rowsOf('select from bi.assignment where assignment_id = 33')).length === 1
    const known = await knownThrough()
    expect({ isThere, isClaimed: known !== null && known > vanishedAt }).not.toEqual({
      isThere: true,
      isClaimed: true,
    })
    await search(context)
    expect(await gone()).toEqual(['33 absent'])
  })
})

describe.skipIf(!hasPostgres)('what was read through', () => {
  const database = createTestDatabase()

  it('is nothing once a position was moved back, until a poll has read everything again', async () => {
    await using upstream = await startSimulator({ assignments: 40 })
    await using context = await openTestContext(database, upstream, {
      PAGE_SIZE: '10',
      LOAD_CONNECTIONS: '1',
    })
    const fresh = async () =>
      (
        await database.pool.query(
          `select read_through_time is not null as is_said, state from tidemark.freshness where stream = 'assignment'`,
        )
      ).rows[0]
    const rewind = (position: bigint) =>
      rewindStream(database.pool, { stream: 'assignment', position, reason: 'to be sure', by: 'ann' })
    const movedBackAt = async () => (await readSymptoms(database.pool, ['assignment'], 0))[0]?.movedBackAt
    const read = () => context.read(assignment, 'incremental', { signal })
    await read()
    expect(await fresh()).toEqual({ is_said: true, state: 'live' })
    const { rows } = await database.pool.query('select position from tidemark.checkpoint order by id limit 1')
    for (const position of [BigInt(rows[0].position), 0n, 0n]) {
      await rewind(position)
      expect(await fresh()).toEqual({ is_said: false, state: 'loading' })
      expect(await movedBackAt()).toEqual(expect.any(Date))
      await read()
      expect(await fresh()).toEqual({ is_said: true, state: 'live' })
      expect(await movedBackAt()).toBeNull()
    }
  })
})
