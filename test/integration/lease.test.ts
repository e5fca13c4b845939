// A lane and the session that holds it: kept while its program speaks, lost when it is frozen (P2, P8).

import { describe, expect, it } from 'vitest'
import { fenceRuns } from '../../src/store/runs/lease.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

const silenceMs = 600

/** Stops everything in this process, as a SIGSTOP does. */
function freeze(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

describe.skipIf(!hasPostgres)('a lane', () => {
  const database = createTestDatabase({ forEach: true })

  it('stays with a run that waits for its upstream', async () => {
    const store = storeOf(database, { silenceMs })
    const run = await begin(store)
    const heldMs = async () => {
      const { rows } = await database.pool.query<{ held_ms: number }>(
        `select extract(epoch from now() - backend_start)::float8 * 1000 as held_ms
         from pg_stat_activity join pg_locks using (pid) where locktype = 'advisory' and datname = current_database()`,
      )
      return rows[0]?.held_ms ?? 0
    }
    await expect.poll(heldMs).toBeGreaterThan(4 * silenceMs)
    expect(await store.openRun('incremental', 'assignment')).toEqual({ busy: expect.any(String) })
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await run.finish(done)
  })

  it('leaves nothing of itself to the session, whose next user may be silent for longer (P8)', async () => {
    const store = storeOf(database, { silenceMs, writeConnections: 1 })
    const kinds = await Promise.all(['assignment', 'assignment_note'].map((stream) => begin(store, stream)))
    expect(await store.openRun('incremental', 'assignment')).toEqual({ busy: expect.any(String) })
    for (const kind of kinds) await kind.finish(done)
    const limited = await Promise.all(
      Array.from({ length: 3 }, () =>
        database.pool.query(
          `select name, setting, pg_sleep(0.05) from pg_settings where name like 'idle%session_timeout' and setting <> reset_val`,
        ),
      ),
    )
    expect(limited.flatMap(({ rows }) => rows)).toEqual([])
  })

  it('goes on when the session that its pages travel on was ended while its upstream kept it waiting (P8)', async () => {
    const run = await begin(storeOf(database, { writeConnections: 1 }))
    await run.pages.commit(assignments({ AssignmentId: 2, RowVersion: 15 }), null)
    const idle = `pid <> pg_backend_pid() and datname = current_database() and application_name = 'tidemark'
      and not exists (select from pg_locks where pg_locks.pid = pg_stat_activity.pid and locktype = 'advisory')`
    await database.pool.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${idle}`)
    const left = async () =>
      (await database.pool.query(`select from pg_stat_activity where ${idle}`)).rows.length
    await expect.poll(left).toBe(0)
    await database.pool.query('select')
    expect(await run.pages.commit(assignments({ AssignmentId: 3, RowVersion: 16 }), null)).toMatchObject({
      inserted: 1,
    })
    await run.finish(done)
  })

  it('goes to another when its program is frozen, which cannot write when it is woken', async () => {
    const store = storeOf(database, { silenceMs })
    const frozen = await begin(store)
    await frozen.pages.commit(assignments({ AssignmentId: 1, RowVersion: 6 }), 6n)
    freeze(2 * silenceMs)
    const next = await begin(store)
    expect(next.state.position).toBe(6n)
    await expect(frozen.pages.commit(assignments({ AssignmentId: 1, RowVersion: 7 }), 7n)).rejects.toThrow(
      'lost its turn',
    )
    await frozen.finish({ ...done, status: 'failed', error: 'lost its turn' })
    await next.pages.commit(assignments({ AssignmentId: 1, RowVersion: 8 }), 8n)
    await next.finish(done)
    const { rows } = await database.pool.query(
      `select status, position_to as position, lag(finished_at) over (order by id) <= started_at as is_apart
       from tidemark.run order by id`,
    )
    expect(rows).toEqual([
      { status: 'failed', position: '6', is_apart: null },
      { status: 'done', position: '8', is_apart: true },
    ])
  })

  it('that was taken away says no more that deletions are known (P2, P18)', async () => {
    const { pool } = database
    const search = await begin(storeOf(database), 'assignment', 'deletions')
    await fenceRuns(pool, ['assignment'])
    await expect(search.shown.ranksAgree()).rejects.toThrow('lost its turn')
    const { rows } = await pool.query(`select ranks_agreed_at from tidemark.stream where name = 'assignment'`)
    expect(rows).toEqual([{ ranks_agreed_at: null }])
    await search.finish({ ...done, status: 'failed', error: 'lost its turn' })
  })

  it('is shared by the kinds of runs that would disturb each other, and by no others', async () => {
    const store = storeOf(database)
    const whole = await begin(store, 'tracker_object', 'verify')
    expect(await store.openRun('list', 'tracker_object')).toEqual({
      busy: expect.stringContaining(`process ${process.pid}`),
    })
    await whole.finish(done)
    const verify = await begin(store, 'assignment', 'verify')
    const others = ['incremental', 'lookback', 'quarantine-retry', 'related'] as const
    const beside = await Promise.all(others.map((kind) => begin(store, 'assignment', kind)))
    for (const kind of ['reconcile', 'verify', 'incremental', 'lookback'] as const)
      expect(await store.openRun(kind, 'assignment')).toEqual({ busy: expect.any(String) })
    for (const run of [verify, ...beside]) await run.finish(done)
    await (await begin(store, 'assignment', 'reconcile')).finish(done)
  })

  it('that a killed run left is taken by a run of another kind, which says so in the ledger (P8)', async () => {
    const store = storeOf(database)
    const killed = await begin(store, 'assignment', 'verify')
    await database.pool.query(
      `select pg_terminate_backend(pid, 5000) from pg_locks
       where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
    )
    const reconcile = await begin(store, 'assignment', 'reconcile')
    const { rows } = await database.pool.query('select kind, status from tidemark.run order by id')
    expect(rows).toEqual([
      { kind: 'verify', status: 'failed' },
      { kind: 'reconcile', status: 'running' },
    ])
    await reconcile.finish(done)
    await killed.finish({ ...done, status: 'failed', error: 'it was killed', isComplete: false })
    const { rows: state } = await database.pool.query(
      `select last_reconcile_at is not null as is_reconciled from tidemark.stream where name = 'assignment'`,
    )
    expect(state).toEqual([{ is_reconciled: true }])
  })
})
