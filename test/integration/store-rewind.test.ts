// Two writers and a rewind against each other: whoever lost its turn moves nothing.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Run } from '../../src/sync/ports/store.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, done, storeOf } from '../support/runs.ts'

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('write' as const),
      writer: fc.nat(1),
      version: fc.integer({ min: 1, max: 60 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('begin' as const), writer: fc.nat(1) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('rewind' as const), to: fc.integer({ min: 0, max: 30 }) }),
  },
)

describe.skipIf(!hasPostgres)('two writers and a rewind', () => {
  const database = createTestDatabase()

  it('leave a position that rises but by the rewind, and that only the last to begin moves (P2)', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 25 }), async (steps) => {
        await database.pool.query(`
          truncate mirror.assignment, tidemark.run, tidemark.lease, tidemark.checkpoint;
          update tidemark.stream set position = 0`)
        const writers = [await startWriter(), await startWriter()]
        await Promise.all(
          steps.map(async (one) => {
            if (one.kind === 'rewind') await rewind(one.to)
            else await writers[one.writer]?.[one.kind](one.kind === 'write' ? one.version : 0)
          }),
        )
        for (const writer of writers) await writer.end()
        const { rows: history } = await database.pool.query(
          `select c.position::int, c.reason, c.run_id, s.position::int as final
           from tidemark.checkpoint c, tidemark.stream s where s.name = 'assignment' order by c.id`,
        )
        let held = 0
        for (const { position, reason } of history) {
          if (reason === null) expect(position).toBeGreaterThan(held)
          held = position
        }
        expect(history.at(-1)?.final ?? 0).toBe(held)
      }),
      { numRuns: 40 },
    )
  })

  it('cannot be answered by a page whose transaction was open when the rewind came (P2)', async () => {
    const { pool } = database
    await pool.query(
      `truncate mirror.assignment, tidemark.run, tidemark.lease, tidemark.checkpoint; update tidemark.stream set position = 0`,
    )
    const run = await storeOf(database).openRun('incremental', 'assignment')
    if ('busy' in run) throw new Error(run.busy)
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 50 }), 50n)
    const client = await pool.connect()
    await client.query('begin')
    await client.query(
      `update tidemark.lease set epoch = epoch + 1 where stream = 'assignment' and lane = 'incremental'`,
    )
    await client.query(`update tidemark.stream set position = 10 where name = 'assignment'`)
    const write = run.pages.commit(assignments({ AssignmentId: 2, RowVersion: 60 }), 60n)
    const refused = expect(write).rejects.toThrow('lost its turn')
    // The page has merged its row and waits at the fence.
    await expect
      .poll(
        async () =>
          (
            await pool.query(
              `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
            )
          ).rows.length,
      )
      .toBe(1)
    await client.query('commit')
    client.release()
    await refused
    await run.finish(done)
    const { rows } = await pool.query(
      `select position, (select count(*) from mirror.assignment) as rows from tidemark.stream where name = 'assignment'`,
    )
    expect(rows).toEqual([{ position: '10', rows: '1' }])
  })

  /** A writer whose lock may be lost at any time, because the other one takes it by force. */
  async function startWriter() {
    const runs: Run<'incremental'>[] = []
    const begin = async () => {
      await database.pool.query(`select pg_terminate_backend(pid, 5000) from pg_locks
        where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
      const run = await storeOf(database)
        .openRun('incremental', 'assignment')
        .catch(() => null)
      if (run && !('busy' in run)) runs.push(run)
    }
    await begin()
    return {
      begin,
      async write(version: number) {
        await runs
          .at(-1)
          ?.pages.commit(assignments({ AssignmentId: version % 5, RowVersion: version }), BigInt(version))
          .catch(() => {})
      },
      async end() {
        for (const run of runs) await run.finish(done).catch(() => {})
      },
    }
  }

  async function rewind(to: number): Promise<void> {
    const client = await database.pool.connect()
    await client.query('begin')
    await client.query(
      `update tidemark.lease set epoch = epoch + 1 where stream = 'assignment' and lane = 'incremental'`,
    )
    await client.query(
      `with moved as (update tidemark.stream set position = $1 where name = 'assignment' and position > $1 returning position)
       insert into tidemark.checkpoint (stream, position, reason) select 'assignment', position, 'rewind' from moved`,
      [to],
    )
    await client.query('commit')
    client.release()
  }
})
