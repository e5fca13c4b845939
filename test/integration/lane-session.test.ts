// A lane and the session that holds it: kept while its program speaks, lost when it is frozen (P2, P8).

import { describe, expect, it } from 'vitest'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, mirrorOf } from '../support/runs.ts'

const silenceMs = 600

/** Stops everything in this process, as a SIGSTOP does. */
function freeze(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

describe.skipIf(!hasPostgres)('a lane', () => {
  const database = createTestDatabase()

  it('stays with a run that waits for its upstream', async () => {
    const mirror = mirrorOf(database, { silenceMs })
    const run = await begin(mirror)
    const heldMs = async () => {
      const { rows } = await database.pool.query<{ held_ms: number }>(
        `select extract(epoch from now() - backend_start)::float8 * 1000 as held_ms
         from pg_stat_activity join pg_locks using (pid) where locktype = 'advisory' and datname = current_database()`,
      )
      return rows[0]?.held_ms ?? 0
    }
    await expect.poll(heldMs, { timeout: 10_000 }).toBeGreaterThan(4 * silenceMs)
    expect(await mirror.startRun('assignment', 'head')).toEqual({ busy: expect.any(String) })
    await run.write(assignments({ AssignmentId: 1, RowVersion: 5 }), 5n)
    await run.finish(done)
  })

  it('goes to another when its program is frozen, which cannot write when it is woken', async () => {
    const mirror = mirrorOf(database, { silenceMs })
    const frozen = await begin(mirror)
    await frozen.write(assignments({ AssignmentId: 1, RowVersion: 6 }), 6n)
    freeze(2 * silenceMs)
    const next = await begin(mirror)
    expect(next.state.position).toBe(6n)
    await expect(frozen.write(assignments({ AssignmentId: 1, RowVersion: 7 }), 7n)).rejects.toThrow(
      'lost its turn',
    )
    await frozen.finish({ ...done, status: 'failed', error: 'lost its turn' })
    await next.write(assignments({ AssignmentId: 1, RowVersion: 8 }), 8n)
    await next.finish(done)
    const { rows } = await database.pool.query(
      `select status, position_to as position, lag(finished_at) over (order by id) <= started_at as is_apart
       from tidemark.run order by id desc limit 2`,
    )
    expect(rows).toEqual([
      { status: 'done', position: '8', is_apart: true },
      { status: 'failed', position: '6', is_apart: true },
    ])
  })
})
