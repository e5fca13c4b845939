// What others do between the steps of a run leaves nothing false behind: a rewind at its end, a failover between two of its pages, a delete
// that was under way, rights that are lost (P2, P6, P18).

import { setTimeout as wait } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { noteLoadCount } from '../../src/store/runs/progress.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import type { Store } from '../../src/sync/ports/store.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, contextOf } from '../support/deletions.ts'
import { after, before, hiding } from '../support/odd-source.ts'

const inSmallPages = { PAGE_SIZE: '50', LOAD_CONNECTIONS: '1' }

/** Does something when the run has done everything but to end. */
const beforeEnd = (store: Store, work: () => Promise<unknown>): Store => ({
  ...store,
  openRun: async (...wanted) => {
    const run = await store.openRun(...wanted)
    if (!('finish' in run)) return run
    return {
      ...run,
      finish: async (end) => {
        await work()
        return await run.finish(end)
      },
    }
  },
})

describe.skipIf(!hasPostgres)('what a stream says of itself', () => {
  const database = createTestDatabase({ forEach: true })
  const rowsOf = async (sql: string) => (await database.pool.query(sql)).rows
  const read = (context: SyncContext) => context.read(assignment, 'incremental', { signal })
  const fresh = async (stream = 'assignment') =>
    (await rowsOf(`select * from tidemark.freshness where stream = '${stream}'`))[0]
  const rewind = (position: bigint) =>
    rewindStream(database.pool, { stream: 'assignment', position, reason: 'to be sure', by: 'ann' })
  const half = async () => BigInt((await fresh()).read_through_version) / 2n
  const count = async (table: string) => Number((await rowsOf(`select count(*) from ${table}`))[0].count)
  /** As if all was read long ago, so that a reconcile settles it. */
  const age = () => rowsOf(`update tidemark.checkpoint set reached_at = reached_at - interval '1 day'`)

  it('is nothing of a poll or a reconcile that ends while a rewind is committed', async () => {
    await using upstream = await startSimulator({ assignments: 40 })
    await using context = await openTestContext(database, upstream)
    await read(context)
    await age()
    const given = contextOf(context)
    const kinds = {
      poll: (store: Store) => readIncremental({ ...given, store }),
      reconcile: (store: Store) => reconcileStream({ ...given, store, approved: 0 }),
    }
    for (const end of Object.values(kinds)) {
      await read(context)
      const to = await half()
      const blocker = await database.pool.connect()
      let rewound: Promise<unknown> | null = null
      // The rewind has taken the leases, and is kept from its last statement for a moment.
      const rewindSlowly = async () => {
        await blocker.query('begin; lock table tidemark.checkpoint in share mode')
        rewound = rewind(to)
        await wait(200)
        setTimeout(() => void blocker.query('commit'), 800)
      }
      const outcome = await end(beforeEnd(given.store, rewindSlowly))
      await rewound
      blocker.release()
      expect(outcome.status).not.toBe('inconclusive')
      expect(await fresh()).toMatchObject({
        read_through_version: String(to),
        read_through_time: null,
        settled_through_version: null,
      })
    }
  })

  it('has no hole after a failover that lost pages of a run which went on', async () => {
    await using upstream = await startSimulator({ assignments: 400 })
    await using context = await openTestContext(database, upstream, inSmallPages)
    const given = contextOf(context)
    let answers = 0
    let wasLost = false
    const losing = after(given.source, 'changes', async (answer) => {
      if (wasLost || !('records' in answer) || answer.records.length < 50 || ++answers < 7) return
      // Until all that was read so far is committed, and its connection rests.
      await wait(500)
      const points = await rowsOf('select position from tidemark.checkpoint order by id desc limit 3')
      if (points.length < 3) return
      wasLost = true
      await loseAbove(points[2].position)
      await wait(300)
    })
    const outcome = await readIncremental({ ...given, source: losing }).catch((error) => error)
    expect(wasLost).toBe(true)
    expect(outcome.status).not.toBe('done')
    await read(context)
    expect(await count('mirror.assignment')).toBe(400)
  })

  /** Ends all sessions, and takes back what was committed last, and what the triggers noted of that. */
  async function loseAbove(position: string): Promise<void> {
    const client = await database.pool.connect()
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where pid <> pg_backend_pid() and application_name = 'tidemark' and datname = current_database()`,
    )
    const [field] = (
      await client.query(
        `select column_name as name from tidemark.field join tidemark.belief on belief.stream = field.stream and source_name = value
       where field.stream = 'assignment' and belief.name = 'version_field'`,
      )
    ).rows
    await client.query(
      `begin;
       delete from mirror.assignment where ${field.name} > ${position};
       delete from tidemark.local_change;
       delete from tidemark.doubt;
       delete from tidemark.checkpoint where position > ${position};
       update tidemark.stream set position = ${position} where name = 'assignment'; commit`,
    )
    client.release()
  }

  it('names a row that somebody deletes while a reconcile compares it', async () => {
    await using upstream = await startSimulator({ assignments: 40 })
    await using context = await openTestContext(database, upstream)
    await read(context)
    await age()
    const other = await database.pool.connect()
    await other.query('begin; select 1')
    await wait(20)
    const given = contextOf(context)
    const store = beforeEnd(given.store, () =>
      other.query('delete from mirror.assignment where assignment_id = 7; commit'),
    )
    await reconcileStream({ ...given, store, approved: 0 })
    other.release()
    const failing = before(given.source, 'changes', async () => {
      throw new Error('the upstream is down')
    })
    await readIncremental({ ...given, source: failing })
    expect(await rowsOf(`select key from tidemark.in_doubt where stream = 'assignment'`)).toEqual([
      { key: '7' },
    ])
  })

  it('is not that everything was read when rights are lost in a first load', async () => {
    await using upstream = await startSimulator({ assignments: 400 })
    await using context = await openTestContext(database, upstream, inSmallPages)
    let pages = 0
    await context.read(assignment, 'incremental', { signal, shouldYield: () => ++pages > 3 })
    const given = contextOf(context)
    await readLookback({ ...given, source: hiding(given.source), reach: 'whole' })
    expect(await fresh()).toMatchObject({ read_through_time: null, state: 'loading' })
  })

  it('settles nothing that a backup took back', async () => {
    await using upstream = await startSimulator({ assignments: 200 })
    await using context = await openTestContext(database, upstream)
    await read(context)
    const backup = upstream.source.takeBackup()
    for (let id = 1; id <= 150; id++) upstream.source.change('assignment', id)
    await read(context)
    await age()
    upstream.source.restoreBackup(backup, { keepsCounter: true })
    upstream.source.change('assignment', 150)
    await read(context)
    const { note } = await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(note).toContain('fell back')
    expect(await fresh()).toMatchObject({ settled_through_version: null, settled_through_time: null })
  })

  it('settles nothing above where somebody has moved the position back to', async () => {
    await using upstream = await startSimulator({ assignments: 40 })
    await using context = await openTestContext(database, upstream)
    await read(context)
    const backup = upstream.source.takeBackup()
    const { read_through_version: at } = await fresh()
    for (let id = 1; id <= 30; id++) upstream.source.change('assignment', id)
    await read(context)
    await wait(1_500)
    upstream.source.restoreBackup(backup)
    await rewind(BigInt(at) - 5n)
    await read(context)
    await reconcileStream({ ...contextOf(context), approved: 0, lookbackFloorMs: 1_000 })
    const said = await fresh()
    expect(Number(said.settled_through_version)).toBeLessThanOrEqual(Number(said.read_through_version))
  })

  it('is a share of the rows that are there, after a table was emptied in its first load', async () => {
    await using upstream = await startSimulator({ assignments: 400 })
    await using context = await openTestContext(database, upstream, inSmallPages)
    let pages = 0
    await context.read(assignment, 'incremental', { signal, shouldYield: () => ++pages > 5 })
    await rowsOf('truncate mirror.assignment')
    await context.read(assignment, 'incremental', { signal, shouldYield: () => true })
    await noteLoadCount(database.pool, 'assignment', { records: 400, requests: 1 })
    const { loaded_share: share } = await fresh()
    expect(share).toBeCloseTo((await count('mirror.assignment')) / 400, 1)
  })

  it('is nothing of related records whose table was emptied, until all of them came again', async () => {
    await using upstream = await startSimulator({ assignments: 400 })
    await using context = await openTestContext(database, upstream, { RELATED: 'true' })
    await read(context)
    await context.readRelated({ signal })
    const before = await count('mirror.attachment')
    expect((await fresh('attachment')).read_through_time).not.toBeNull()
    await rowsOf('truncate mirror.attachment')
    await context.readRelated({ signal, shouldYield: () => true })
    expect(await count('mirror.attachment')).toBeLessThan(before)
    expect((await fresh('attachment')).read_through_time).toBeNull()
    while ((await count('mirror.attachment')) < before) await context.readRelated({ signal })
    await context.readRelated({ signal })
    expect((await fresh('attachment')).read_through_time).not.toBeNull()
  })
})
