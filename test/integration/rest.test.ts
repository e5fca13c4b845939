// What polls cost that find nothing (P10): they update what people read of them, and write nothing else.

import { describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'

const polledStreams = ['assignment', 'tracker_object']

describe.skipIf(!hasPostgres)('polls that find nothing', () => {
  const database = createTestDatabase()

  /** By a program of its own: Postgres tells what a session wrote when it has ended. */
  async function poll(simulator: Simulator, times: number): Promise<void> {
    await using context = await openTestContext(database, simulator)
    const streams = context.streams.filter(({ name }) => polledStreams.includes(name))
    for (let time = 0; time < times; time++)
      for (const stream of streams) {
        const { status } = await context.read(stream, 'incremental', { signal: neverAborted })
        expect(status).toBe('done')
      }
  }

  async function written(): Promise<ReadonlyMap<string, readonly number[]>> {
    const sessions = async () => {
      const { rows } = await database.pool.query(
        `select count(*)::int as sessions from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and application_name = 'tidemark'`,
      )
      return rows[0].sessions
    }
    await expect.poll(sessions, { timeout: 20_000, interval: 100 }).toBe(0)
    const { rows } = await database.pool.query(
      `select schemaname || '.' || relname as name, n_tup_ins::int as ins, n_tup_upd::int as upd, n_tup_del::int as del
       from pg_stat_all_tables where schemaname in ('tidemark', 'mirror') or relname in ('pg_class', 'pg_attribute')`,
    )
    return new Map(rows.map(({ name, ins, upd, del }) => [name, [ins, upd, del]]))
  }

  it('update three lines each, and insert and delete none, also none of the catalogue', async () => {
    await using simulator = await startSimulator({ assignments: 60, trackers: 40 })
    await poll(simulator, 2)
    const [few, many] = [2, 7]
    const at = [await written()]
    for (const times of [few, many]) {
      await poll(simulator, times)
      at.push(await written())
    }
    const [first = new Map(), second = new Map(), third = new Map()] = at
    // What a program writes when it starts is the same each time.
    const more = [...third].flatMap(([name, counts]) => {
      const of = (known: ReadonlyMap<string, readonly number[]>, place: number) =>
        known.get(name)?.[place] ?? 0
      const rows = [0, 1, 2].map((place) => of(third, place) - 2 * of(second, place) + of(first, place))
      return counts.length > 0 && rows.some((count) => count !== 0) ? [[name, ...rows]] : []
    })
    const updated = (many - few) * polledStreams.length
    expect(more.toSorted()).toEqual([
      ['tidemark.lease', 0, updated, 0],
      ['tidemark.run', 0, updated, 0],
      ['tidemark.stream', 0, updated, 0],
    ])
    const { rows } = await database.pool.query(
      `select stream, polls, finished_at > now() - interval '1 minute' as is_recent, last_id is not null as is_shared
       from tidemark.run where is_idle order by stream`,
    )
    expect(rows).toEqual(
      polledStreams.map((stream) => ({
        stream,
        polls: expect.any(Number),
        is_recent: true,
        is_shared: true,
      })),
    )
  })
})
