// Tables that grow while people read them and other programs write them.

import { describe, expect, it } from 'vitest'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { hasPostgres } from '../support/database.ts'
import { createGrowingTable } from '../support/growing-table.ts'
import { assignments, begin, done, failed, storeOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('a table that grows', () => {
  const { database, query, nextVersion, write } = createGrowingTable()

  it('grows while a long query reads it, without a queue behind the change', async () => {
    await write({ Name: 'x' })
    const reader = await database.pool.connect()
    await reader.query('begin; select * from bi.assignment')
    const growing = write({ Name: 'y', More: 1 })
    // Wait until the change has met the reader once; others must still get through at all times.
    await expect
      .poll(
        async () =>
          (await query(`select from pg_locks where mode = 'AccessExclusiveLock' and not granted`)).length,
      )
      .toBe(1)
    const slowest = await slowestOf(20, () => query('select count(*) from bi.assignment'))
    await reader.query('commit')
    reader.release()
    expect(await growing).toMatchObject({ updated: 1 })
    expect(slowest).toBeLessThan(2_000)
  })

  it('gives up a change that a query holds up for too long, with a reason; nothing of the page is kept (P1)', async () => {
    await write({ Name: 'x' })
    await query('create table mirror.other ()')
    // Longer at it, and in nobody's way.
    const bystander = await database.pool.connect()
    await bystander.query('begin; select from mirror.other')
    const reader = await database.pool.connect()
    await reader.query('begin; select * from bi.assignment')
    const [{ pid }] = (await reader.query('select pg_backend_pid() as pid')).rows
    const run = await begin(storeOf(database))
    await expect(
      run.pages.commit(assignments({ AssignmentId: 9, RowVersion: 1, More: 1 }), 77n),
    ).rejects.toThrow(
      new RegExp(
        `held the table for 8 s. It is that of \\w+ \\(process ${pid}, idle in transaction since .*pg_terminate_backend\\(${pid}\\)`,
      ),
    )
    await run.finish(failed)
    for (const session of [reader, bystander]) {
      await session.query('commit')
      session.release()
    }
    await query('drop table mirror.other')
    expect(await query('select assignment_id from mirror.assignment')).toEqual([{ assignment_id: '1' }])
  })

  it('is written by what it is now when another program changed it meanwhile (P3)', async () => {
    await write({ Name: 'x' })
    const [mine, other] = [
      await begin(storeOf(database), 'assignment', 'incremental'),
      await begin(storeOf(database), 'assignment', 'lookback'),
    ]
    await mine.pages.commit(
      assignments({ AssignmentId: 5, RowVersion: nextVersion(), Name: 'old list of columns' }),
      null,
    )
    await other.pages.commit(
      assignments({ AssignmentId: 5, RowVersion: nextVersion(), Name: 'y', New: 1 }),
      null,
    )
    // This program has not seen `New` yet, and must clear it all the same.
    await mine.pages.commit(assignments({ AssignmentId: 5, RowVersion: nextVersion(), Name: 'z' }), null)
    await Promise.all([mine.finish(done), other.finish(done)])
    expect(await query('select name, new from mirror.assignment where assignment_id = 5')).toEqual([
      { name: 'z', new: null },
    ])
  })

  it('takes a page apart by what it is now when another program changed it meanwhile (P5, P8)', async () => {
    await write({ Amount: 1 })
    await query('alter table mirror.assignment add constraint small check (amount < 100)')
    const mine = await begin(storeOf(database), 'assignment', 'lookback')
    await mine.pages.commit(assignments({ AssignmentId: 1, RowVersion: nextVersion(), Amount: 2 }), null)
    // This program has not seen `New` yet when Postgres refuses one of its rows.
    await write({ AssignmentId: 5, New: 1 })
    const page = assignments(
      { AssignmentId: 1, RowVersion: nextVersion(), Amount: 500 },
      { AssignmentId: 5, RowVersion: nextVersion(), Amount: 3 },
    )
    expect(await mine.pages.commit(page, null)).toMatchObject({ updated: 1, quarantined: 1 })
    await mine.finish(done)
    expect(await query('select amount, new from mirror.assignment where assignment_id = 5')).toEqual([
      { amount: '3', new: null },
    ])
  })

  it('is made and grown by any number of programs at once', async () => {
    const kinds = ['incremental', 'lookback', 'reconcile', 'quarantine-retry'] as const
    const runs = await Promise.all(kinds.map((kind) => begin(storeOf(database), 'assignment', kind)))
    await Promise.all(
      runs.flatMap((run, index) =>
        [0, 1, 2].map((page) =>
          run.pages.commit(
            assignments({
              AssignmentId: index * 10 + page,
              RowVersion: nextVersion(),
              [`F${page}`]: 1,
              [`G${index}`]: 2,
            }),
            null,
          ),
        ),
      ),
    )
    await Promise.all(runs.map((run) => run.finish(done)))
    expect(
      await query('select count(*)::int, sum(f0)::int as f0, sum(g3)::int as g3 from mirror.assignment'),
    ).toEqual([{ count: 12, f0: 4, g3: 6 }])
  })

  it('lets a rewind through that comes in the middle of it (P2)', async () => {
    const junk = { AssignmentId: 'A-17', RowVersion: 1 }
    await write({ Name: 'x' }, junk)
    const run = await begin(storeOf(database))
    // Holds the page up after its columns were added, and before its end.
    const holder = await database.pool.connect()
    await holder.query('begin; select from tidemark.quarantine for update')
    const writing = run.pages
      .commit(assignments({ AssignmentId: 2, RowVersion: nextVersion(), More: 1 }, junk), null)
      .then(
        () => 'written',
        (error: Error) => error.message,
      )
    await untilWaiting(1)
    const rewinding = rewindStream(database.pool, {
      stream: 'assignment',
      position: 0n,
      reason: 'a test',
      by: 'a test',
    })
    await untilWaiting(2)
    await holder.query('commit')
    holder.release()
    expect(await rewinding).toMatchObject({ to: 0n })
    expect(await writing).toBe('written')
    await run.finish(failed)
  })

  /** So many sessions wait for another one. */
  async function untilWaiting(sessions: number): Promise<void> {
    const waiting = () =>
      query(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
    await expect.poll(async () => (await waiting()).length).toBe(sessions)
  }

  async function slowestOf(times: number, work: () => Promise<unknown>): Promise<number> {
    let slowest = 0
    for (let time = 0; time < times; time++) {
      const start = performance.now()
      await work()
      slowest = Math.max(slowest, performance.now() - start)
    }
    return slowest
  }
})
