// What others do to the table that keeps the past of a stream: noticed by the next run, and told with what is lost and from when. It
// cannot be mended from the upstream (P15).

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { findProblems } from '../../src/problems/find-problems.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const tracker = streamOf('tracker_object')
const monthOf = (time: Date): string => time.toISOString().slice(0, 7).replace('-', '_')
const thisMonth = `tidemark.tracker_object_history_${monthOf(new Date())}`

type Damage = { readonly what: string; readonly sql: string; readonly told: RegExp }
const seen = 'seen from 2026-01-01T00:00:00\\.000Z to \\S+,'
const damages: readonly Damage[] = [
  {
    what: 'deleting rows',
    sql: 'delete from mirror.tracker_object_history where tracker_object_id <= 7',
    told: new RegExp(`rows deleted \\(8 rows\\), ${seen} by role .* these lines are lost`),
  },
  {
    what: 'deleting rows in two statements of one transaction, by the name of the month',
    sql: `begin; delete from ${thisMonth} where tracker_object_id = 1; delete from ${thisMonth} where tracker_object_id = 2; commit`,
    told: /rows deleted \(2 rows\), seen from .* by role/,
  },
  {
    what: 'updating rows',
    sql: 'update mirror.tracker_object_history set name = null where tracker_object_id <= 3',
    told: new RegExp(`rows updated \\(4 rows\\), ${seen} by role`),
  },
  {
    what: 'inserting rows',
    sql: `insert into mirror.tracker_object_history (tracker_object_id, _observed_at) values (9, now())`,
    told: /rows inserted by role .* may be wrong/,
  },
  {
    what: 'truncate',
    sql: 'truncate mirror.tracker_object_history',
    told: new RegExp(`emptied by truncate \\(21 rows\\), ${seen} by role`),
  },
  {
    what: 'dropping it',
    sql: 'drop table mirror.tracker_object_history cascade',
    told: new RegExp(`dropped, ${seen.replace(',', '')}`),
  },
  {
    what: 'dropping a month',
    sql: 'drop table tidemark.tracker_object_history_2026_01',
    told: /months of it dropped, seen from 2026-01-01T00:00:00\.000Z to 2026-02-01T00:00:00\.000Z/,
  },
  {
    what: 'putting a table in its place that is none',
    sql: 'drop table mirror.tracker_object_history cascade; create table mirror.tracker_object_history (name text)',
    told: /replaced by another table/,
  },
  {
    what: 'changing it with its triggers disabled',
    sql: `alter table ${thisMonth} disable trigger all; delete from ${thisMonth}`,
    told: /triggers removed or disabled/,
  },
]

describe.skipIf(!hasPostgres)('the history of a stream, after', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const problems = async () =>
    findProblems({
      symptoms: await readSymptoms(database.pool, ['tracker_object'], 86_400_000),
      view: { parts: [] },
      rules: { serviceOf: () => 'tracking', isStale: () => false, frozenAfterMs: () => 1e9 },
      now: new Date(),
    }).filter(({ kind }) => kind === 'local_damage')
  const open = async () => {
    const simulator = await startSimulator({ trackers: 20 })
    const context = await openTestContext(database, simulator, { TRACKER_HISTORY: '4000d' })
    return {
      simulator,
      poll: () => context.read(tracker, 'incremental', { signal }),
      async [Symbol.asyncDispose]() {
        await context[Symbol.asyncDispose]()
        await simulator.close()
      },
    }
  }
  const poll = async (read: Awaited<ReturnType<typeof open>>) =>
    expect(await read.poll()).toMatchObject({ status: 'done', error: null })
  /** With a month of before, as one that Tidemark made. */
  const addPast = () =>
    query(`begin; set local tidemark.writer = 'on';
      create table tidemark.tracker_object_history_2026_01 partition of mirror.tracker_object_history
        for values from ('2026-01-01Z') to ('2026-02-01Z');
      insert into mirror.tracker_object_history (tracker_object_id, _observed_at) values (1, '2026-01-01Z'); commit`)

  it.each(damages)('$what, is told what it lost, and goes on (P15)', async ({ sql, told }) => {
    await using read = await open()
    await poll(read)
    await addPast()
    await poll(read)
    expect(await problems()).toEqual([])
    await query(sql)
    await poll(read)
    const [problem, ...more] = await problems()
    expect(more).toEqual([])
    expect(problem?.what).toMatch(told)
    expect(problem?.what).toMatch(/^tracker_object: somebody changed its history/)
    expect(problem?.whatToDo).toContain('from a backup')
    // As they are now, all rows are there.
    expect(await query('select distinct tracker_object_id from bi.tracker_object_history')).toHaveLength(20)
    read.simulator.source.change('tracker_object', 9)
    await poll(read)
    expect(await problems()).toHaveLength(1)
    expect(await query(`select from tidemark.local_change where run_id is null`)).toEqual([])
    expect(await query(`select from tidemark.local_change where stream = 'tracker_object'`)).toEqual([])
    await query('delete from mirror.tracker_object_history where tracker_object_id = 11')
    await poll(read)
    expect((await problems())[1]?.what).toContain('rows deleted (1 row)')
  })

  it('what Tidemark does itself, and a restore of the whole database, is told of nothing', async () => {
    await using read = await open()
    await poll(read)
    await addPast()
    await poll(read)
    // In a database that was restored all tables have other numbers, that of the state too.
    await query(
      `update tidemark.stream set history_watch = history_watch || '{"table": "1", "state": "2"}' where name = 'tracker_object'`,
    )
    await poll(read)
    await using context: SyncContext = await openTestContext(database, read.simulator, {
      TRACKER_HISTORY: '1d',
    })
    expect(await context.read(tracker, 'incremental', { signal })).toMatchObject({ status: 'done' })
    expect(await query(`select to_regclass('tidemark.tracker_object_history_2026_01') as month`)).toEqual([
      { month: null },
    ])
    await poll(read)
    await query('delete from mirror.tracker_object_history where false')
    await poll(read)
    expect(await problems()).toEqual([])
  })
})
