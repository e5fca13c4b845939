// The past of any stream whose rows an operator wants it of (HISTORY), and the rows as they were at a moment.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { prepareHistory } from '../../src/store/schema/row-history.ts'
import { readTableSchema } from '../../src/store/schema/table-schema.ts'
import { withConnection } from '../../src/store/server/session.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'
import { waitedFor } from '../support/waited-for.ts'

const assignment = streamOf('assignment')
const note = streamOf('assignment_note')

describe.skipIf(!hasPostgres)('the history of a stream that has row versions', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const clock = async (): Promise<string> => (await query('select clock_timestamp()::text as at'))[0].at
  const subjects = `select assignment_id::int as id, subject from bi.assignment_at($1) where assignment_id in (7, 9) order by 1`

  it('keeps each change that was seen, and shows the rows as they were at any moment since', async () => {
    await using upstream = await startSimulator({ assignments: 300, notes: 20 })
    await using context = await openTestContext(database, upstream, { HISTORY: 'assignment=365d' })
    const read = () => context.read(assignment, 'incremental', { signal })
    upstream.source.change('assignment', 7, { Subject: 'first' })
    upstream.source.change('assignment', 9, { Subject: 'stays' })
    const before = await clock()
    await read()
    await context.read(note, 'incremental', { signal })
    const loaded = await clock()
    upstream.source.change('assignment', 7, { Subject: 'second' })
    await read()
    await read()
    const changed = await clock()
    upstream.source.remove('assignment', 9, 'soft')
    await read()
    const removed = await clock()

    await expect(query(subjects, [before])).rejects.toThrow(
      /The history of assignment begins at .* Nothing is known of /,
    )
    expect(await query(subjects, [loaded])).toEqual([
      { id: 7, subject: 'first' },
      { id: 9, subject: 'stays' },
    ])
    expect(await query(subjects, [changed])).toEqual([
      { id: 7, subject: 'second' },
      { id: 9, subject: 'stays' },
    ])
    expect(await query(subjects, [removed])).toEqual([{ id: 7, subject: 'second' }])
    const [{ rows, now }] = await query(
      'select (select count(*)::int from bi.assignment_history) as rows, (select count(*)::int from bi.assignment_at(now())) as now',
    )
    expect([rows, now]).toEqual([302, 299])
    expect(await query("select to_regclass('mirror.assignment_note_history') as there")).toEqual([
      { there: null },
    ])
  })

  it('goes on in each column of a table that was dropped, and comes again with other types (P15)', async () => {
    await using upstream = await startSimulator({ assignments: 12 })
    await using context = await openTestContext(database, upstream, { HISTORY: 'assignment' })
    const read = () => context.read(assignment, 'incremental', { signal })
    const told = (values: Parameters<typeof upstream.source.change>[2]) => {
      for (let id = 1; id <= 12; id++) upstream.source.change('assignment', id, values)
    }
    told({ Floor: 3, Size: 'large' })
    await read()
    const before = await clock()
    const drop = 'drop table mirror.assignment cascade'
    await query(drop)
    told({ Floor: 'attic', Size: 9 })
    await read()
    await read()
    const lines = (what: string) =>
      query(`select ${what} from mirror.assignment_history
      where assignment_id = 7 group by 1, 2 order by min(_observed_at)`)
    expect(await lines('floor, size::text')).toEqual([
      { floor: '3', size: null },
      { floor: 'attic', size: '9' },
    ])
    const at = `select floor, size::int from bi.assignment_at($1) where assignment_id = 7`
    expect(await query(at, [await clock()])).toEqual([{ floor: 'attic', size: 9 }])
    expect(await query(at, [before])).toEqual([{ floor: '3', size: null }])
    const changed = `select field, before, after from bi.assignment_changes where field in ('floor', 'size') group by 1, 2, 3 order by 1`
    expect(await query(changed)).toEqual([
      { field: 'floor', before: '3', after: 'attic' },
      { field: 'size', before: null, after: '9' },
    ])
    // What is no number stays where it can be read.
    const [{ name }] = await query(`select attname as name from pg_attribute
      where attrelid = 'mirror.assignment_history'::regclass and attname like 'size\\_%'`)
    expect(await query(`select distinct ${name} as size from mirror.assignment_history order by 1`)).toEqual([
      { size: 'large' },
      { size: null },
    ])
    // Somebody's view keeps the mirror from nothing.
    await query(`create view public.reports as select floor from bi.assignment_history; ${drop}`)
    told({ Floor: { of: 'the house' } })
    await read()
    expect(await read()).toMatchObject({ status: 'done' })
    expect(await query(`select floor from mirror.assignment where assignment_id = 7`)).toEqual([
      { floor: { of: 'the house' } },
    ])
  })

  it('begins with the rows as they are when it is switched on, and misses nothing when it is so again', async () => {
    await using upstream = await startSimulator({ assignments: 100 })
    const readWith = async (HISTORY: string, Subject: string) => {
      await using context = await openTestContext(database, upstream, { HISTORY })
      upstream.source.change('assignment', 7, { Subject })
      await context.read(assignment, 'incremental', { signal })
    }
    const past = async () =>
      (
        await query('select subject from bi.assignment_history where assignment_id = 7 order by _observed_at')
      ).map(({ subject }) => subject)
    await readWith('', 'none is kept')
    await readWith('assignment', 'first')
    expect(await past()).toEqual(['none is kept', 'first'])
    await readWith('', 'not seen like this')
    await readWith('', 'but like this')
    await readWith('assignment', 'third')
    expect(await past()).toEqual(['none is kept', 'first', 'but like this', 'third'])
    expect((await query('select count(*)::int as rows from bi.assignment_history'))[0].rows).toBe(103)
  })

  it('begins once, also when several runs find at the same moment that it was switched on', async () => {
    await using upstream = await startSimulator({ assignments: 100 })
    const stream = { ...assignment, historyMs: 365 * 86_400_000 }
    const prepare = () =>
      withConnection(database.pool, async (client) => {
        const table = await readTableSchema(client, stream)
        return table && (await prepareHistory(client, table, { runId: '0', timeZone: 'UTC', log: quietLog }))
      })
    // After the first time there is a table already, which lacks what was written without it.
    for (const wanted of [100, 101, 102]) {
      await using context = await openTestContext(database, upstream, { HISTORY: '' })
      upstream.source.change('assignment', 7, { Subject: `number ${wanted}` })
      await context.read(assignment, 'incremental', { signal })
      await Promise.all([prepare(), prepare(), prepare()])
      expect((await query('select count(*)::int as rows from bi.assignment_history'))[0].rows).toBe(wanted)
    }
  })

  it('has the changes of a row in the order in which they were written, whichever transaction began first', async () => {
    const store = storeOf(database, { histories: { assignment: 365 * 24 * 3_600_000 } })
    const page = (version: number, ...ids: readonly number[]) =>
      assignments(
        ...ids.map((id) => ({ AssignmentId: id, RowVersion: version, Subject: `version ${version}` })),
      )
    const poll = await begin(store)
    await poll.pages.commit(page(1, 1, 2), null)
    const lookback = await begin(store, 'assignment', 'lookback')
    const other = await database.pool.connect()
    try {
      await other.query('begin; select from mirror.assignment where assignment_id = 1 for update')
      // The poll waits at the first row, and has not come to the second one.
      const waiting = poll.pages.commit(page(3, 1, 2), null)
      await waitedFor(other)
      await lookback.pages.commit(page(2, 2), null)
      await other.query('commit')
      await waiting
    } finally {
      other.release()
    }
    await poll.finish(done)
    await lookback.finish(done)
    expect(
      (
        await query('select subject from bi.assignment_history where assignment_id = 2 order by _observed_at')
      ).map(({ subject }) => subject),
    ).toEqual(['version 1', 'version 2', 'version 3'])
    expect(
      await query(
        'select assignment_id::int as id, subject from bi.assignment_at(clock_timestamp()) order by 1',
      ),
    ).toEqual([
      { id: 1, subject: 'version 3' },
      { id: 2, subject: 'version 3' },
    ])
  })

  it('has a change behind the one before it, and shows it now, also when the clock was put back', async () => {
    await using upstream = await startSimulator({ assignments: 20 })
    await using context = await openTestContext(database, upstream, { HISTORY: 'assignment' })
    const change = async (Subject: string) => {
      upstream.source.change('assignment', 7, { Subject })
      await context.read(assignment, 'incremental', { signal })
    }
    await change('first')
    // What was written so far lies in the future.
    await query(`do $$ begin
      perform set_config('tidemark.writer', 'on', true);
      update mirror.assignment_history set _observed_at = _observed_at + interval '1 minute';
    end $$`)
    await change('second')
    await change('third')
    expect(
      await query(`select subject from bi.assignment_history where assignment_id = 7 order by _observed_at`),
    ).toEqual([{ subject: 'first' }, { subject: 'second' }, { subject: 'third' }])
    expect(
      await query(
        `select subject from bi.assignment_at(now() + interval '2 minutes') where assignment_id = 7`,
      ),
    ).toEqual([{ subject: 'third' }])
  })

  it('shows what a first load in ranges brought', async () => {
    await using upstream = await startSimulator({ assignments: 3_000 })
    await using context = await openTestContext(database, upstream, {
      HISTORY: 'assignment',
      PAGE_SIZE: '100',
    })
    await context.read(assignment, 'incremental', { signal })
    expect(
      await query(
        `select count(*)::int as rows, (select count(*)::int from mirror.assignment) as wanted from bi.assignment_at(clock_timestamp())`,
      ),
    ).toEqual([{ rows: 3_000, wanted: 3_000 }])
  })
})
