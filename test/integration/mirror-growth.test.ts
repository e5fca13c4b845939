// Tables whose columns are found in the data, while people read them and other programs write them.

import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, failed, mirrorOf } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('a table', () => {
  const database = createTestDatabase()
  let version = 1

  beforeEach(async () => {
    await database.pool.query(`
      drop view if exists bi.assignment cascade;
      drop table if exists mirror.assignment cascade;
      delete from tidemark.field where stream = 'assignment';
      truncate tidemark.quarantine`)
  })

  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const columns = async (relation: string) =>
    (await query(`select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
       where attrelid = '${relation}'::regclass and attnum > 0 and not attisdropped order by attnum`)) as {
      name: string
      type: string
    }[]
  const typeOf = async (column: string) =>
    (await columns('mirror.assignment')).find(({ name }) => name === column)?.type

  async function write(...records: JsonObject[]) {
    const run = await begin(mirrorOf(database))
    try {
      return await run.write(
        assignments(...records.map((record) => ({ AssignmentId: 1, RowVersion: version++, ...record }))),
        null,
      )
    } finally {
      await run.finish(done)
    }
  }

  it('takes its types from the values of the first page that has them', async () => {
    await write(
      {
        Whole: 1,
        Fraction: 1,
        Text: '3F2504E0-4F89-41D3-9A0C-0305E82C3301',
        Id: '3F2504E0-4F89-41D3-9A0C-0305E82C3301',
        Mixed: 1,
        Never: null,
      },
      {
        AssignmentId: 2,
        Fraction: 1.5,
        Text: 'abc',
        At: '2024-01-01T00:00:00',
        Flag: false,
        Tags: [1],
        Big: JSON.rawJSON('9223372036854775808'),
        Mixed: 'x',
      },
    )
    const types = Object.fromEntries(
      (await columns('mirror.assignment')).map(({ name, type }) => [name, type]),
    )
    expect(types).toMatchObject({
      assignment_id: 'bigint',
      row_version: 'bigint',
      whole: 'bigint',
      fraction: 'numeric',
      text: 'text',
      id: 'uuid',
      at: 'timestamp with time zone',
      flag: 'boolean',
      tags: 'jsonb',
      big: 'numeric',
      mixed: 'bigint',
    })
    expect(types).not.toHaveProperty('never')
    expect(await query('select _rescued from mirror.assignment where assignment_id = 2')).toEqual([
      { _rescued: { Mixed: 'x' } },
    ])
  })

  it('reads row versions served as strings as numbers', async () => {
    await write({ RowVersion: '12', SysRowVersion: '7' })
    expect(await query('select row_version, sys_row_version from mirror.assignment')).toEqual([
      { row_version: '12', sys_row_version: '7' },
    ])
    await write({ AssignmentId: 2, RowVersion: null, SysRowVersion: 30 })
    expect(await mirrorOf(database).highestRows('assignment', 100n, 5)).toEqual([
      { key: '2', version: 30n },
      { key: '1', version: 12n },
    ])
    expect(await mirrorOf(database).highestRows('assignment', 29n, 5)).toEqual([{ key: '1', version: 12n }])
  })

  it('widens bigint to numeric, also under our own view and its grants', async () => {
    await write({ Amount: 5 })
    await query('grant select on bi.assignment to public')
    expect(await write({ Amount: 5.25 })).toMatchObject({ updated: 1, rescued: 0 })
    expect(await typeOf('amount')).toBe('numeric')
    expect(await query('select amount from bi.assignment')).toEqual([{ amount: '5.25' }])
    expect(
      await query(`select has_table_privilege('public', 'bi.assignment', 'select') as may_read`),
    ).toEqual([{ may_read: true }])
  })

  it('does not widen what something depends on; the value is rescued', async () => {
    await write({ Amount: 5 })
    await query('create view public.totals as select sum(amount) as total from bi.assignment')
    expect(await write({ Amount: 5.25 })).toMatchObject({ rescued: 1 })
    expect(await typeOf('amount')).toBe('bigint')
    expect(await query('select amount, _rescued from mirror.assignment')).toEqual([
      { amount: null, _rescued: { Amount: 5.25 } },
    ])
    expect(await query(`select note from tidemark.field where column_name = 'amount'`)).toMatchObject([
      { note: expect.stringContaining('depends') },
    ])
    await query('drop view public.totals')
  })

  it('never lets two fields share a column; the second is rescued and reported (P5)', async () => {
    await write({ 'Line 1': 'a', Line_1: 'b', line1: 'c', LINE1: 'd' })
    expect(await query('select line_1, line1, _rescued from mirror.assignment')).toEqual([
      { line_1: 'a', line1: 'c', _rescued: { Line_1: 'b', LINE1: 'd' } },
    ])
    expect(await query(`select folded, note from tidemark.field where column_name is null`)).toEqual([
      { folded: 'line_1', note: 'its column would be line_1, which is that of field Line 1' },
    ])
  })

  it('leaves a column alone that somebody added, and holds no old values in one that somebody gave another type', async () => {
    await write({ Code: 7 })
    await query('drop view bi.assignment; alter table mirror.assignment add column remark text')
    await query('alter table mirror.assignment alter column code type varchar(3)')
    await query(`update mirror.assignment set remark = 'theirs'`)
    expect(await write({ Code: 12345, Remark: 'mine' })).toMatchObject({ updated: 1, rescued: 2 })
    expect(await query('select code, remark, _rescued from mirror.assignment')).toEqual([
      { code: null, remark: 'theirs', _rescued: { Code: 12345, Remark: 'mine' } },
    ])
  })

  it('stops growing at 400 columns; the rest is rescued (P10)', async () => {
    const wide = Object.fromEntries(
      Array.from({ length: 450 }, (_, index) => [
        `F${index}`,
        index % 2 ? index : `text ${index} ${'x'.repeat(200)}`,
      ]),
    )
    const { rescued } = await write(wide)
    expect((await columns('mirror.assignment')).length).toBe(400)
    const [row] = await query('select *, _rescued from mirror.assignment')
    expect(Object.keys(row._rescued).length).toBe(rescued)
    expect({ ...row._rescued, f0: row.f0 }).toMatchObject({ F449: 449, f0: wide.F0 })
  })

  it('describes its fields, and says in comments where columns come from', async () => {
    await write({ AssignmentIdExt: 'x', Empty: 1 }, { AssignmentId: 2, AssignmentIdExt: 'y', Empty: null })
    expect(
      await query(
        `select source_name, column_name, column_type, null_share::float from tidemark.field where stream = 'assignment' and column_name in ('assignment_id_ext', 'empty')`,
      ),
    ).toEqual([
      {
        source_name: 'AssignmentIdExt',
        column_name: 'assignment_id_ext',
        column_type: 'text',
        null_share: 0,
      },
      { source_name: 'Empty', column_name: 'empty', column_type: 'bigint', null_share: 0.5 },
    ])
    expect(
      await query(`select col_description('mirror.assignment'::regclass, attnum) as comment from pg_attribute
      where attrelid = 'mirror.assignment'::regclass and attname in ('assignment_id', 'assignment_id_ext') order by attnum`),
    ).toEqual([{ comment: 'field AssignmentId' }, { comment: 'field AssignmentIdExt' }])
  })

  it('keeps a view on top working through 20 random additions', async () => {
    const name = fc.string({ unit: 'binary', maxLength: 20 })
    const value = fc.oneof(
      fc.integer(),
      fc.string(),
      fc.boolean(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.uuid(),
    )
    const additions = fc.sample(fc.tuple(name, value), 20)
    await write({ Name: 'first' })
    await query('create view public.report as select assignment_id, name from bi.assignment')
    const shown = await columns('bi.assignment')
    for (const [field, content] of additions) await write({ Name: 'first', [field]: content })
    const grown = await columns('bi.assignment')
    expect(grown.slice(0, shown.length)).toEqual(shown)
    const stored = await columns('mirror.assignment')
    expect(new Set(grown.map((column) => column.name))).toEqual(
      new Set(
        stored
          .map((column) => column.name)
          .filter((column) => !column.startsWith('_') || column === '_synced_at'),
      ),
    )
    expect(await query('select * from public.report')).toEqual([{ assignment_id: '1', name: 'first' }])
    await query('drop view public.report')
  })

  it('goes on when somebody has put another view in the place of ours', async () => {
    await write({ Name: 'x' })
    await query('drop view bi.assignment; create view bi.assignment as select 1 as one')
    await write({ Name: 'x', More: 1 })
    expect(await query('select more from mirror.assignment')).toEqual([{ more: '1' }])
  })

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
    const reader = await database.pool.connect()
    await reader.query('begin; select * from bi.assignment')
    const run = await begin(mirrorOf(database))
    await expect(run.write(assignments({ AssignmentId: 9, RowVersion: 1, More: 1 }), 77n)).rejects.toThrow(
      'wait too long',
    )
    await run.finish(failed)
    await reader.query('commit')
    reader.release()
    expect(await query('select assignment_id from mirror.assignment')).toEqual([{ assignment_id: '1' }])
  })

  it('is written by what it is now when another program changed it meanwhile (P3)', async () => {
    await write({ Name: 'x' })
    const [mine, other] = [
      await begin(mirrorOf(database), 'assignment', 'head'),
      await begin(mirrorOf(database), 'assignment', 'trailing'),
    ]
    await mine.write(
      assignments({ AssignmentId: 5, RowVersion: version++, Name: 'old list of columns' }),
      null,
    )
    await other.write(assignments({ AssignmentId: 5, RowVersion: version++, Name: 'y', New: 1 }), null)
    // This program has not seen `New` yet, and must clear it all the same.
    await mine.write(assignments({ AssignmentId: 5, RowVersion: version++, Name: 'z' }), null)
    await Promise.all([mine.finish(done), other.finish(done)])
    expect(await query('select name, new from mirror.assignment where assignment_id = 5')).toEqual([
      { name: 'z', new: null },
    ])
  })

  it('is made and grown by any number of programs at once', async () => {
    const lanes = ['head', 'trailing', 'census', 'backfill'] as const
    const runs = await Promise.all(lanes.map((lane) => begin(mirrorOf(database), 'assignment', lane)))
    await Promise.all(
      runs.flatMap((run, index) =>
        [0, 1, 2].map((page) =>
          run.write(
            assignments({
              AssignmentId: index * 10 + page,
              RowVersion: version++,
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

  it('sends a record to quarantine that Postgres refuses, and keeps the rest of its page (P5)', async () => {
    await write({ Amount: 1 })
    await query('alter table mirror.assignment add constraint small check (amount < 100)')
    const many = Array.from({ length: 20 }, (_, index) => ({
      AssignmentId: index,
      Amount: index === 13 ? 500 : index,
    }))
    expect(await write(...many)).toMatchObject({ inserted: 18, updated: 1, quarantined: 1 })
    expect(await query('select reason, record from tidemark.quarantine')).toEqual([
      {
        reason: expect.stringContaining('violates check constraint "small"'),
        record: expect.objectContaining({ AssignmentId: 13, Amount: 500 }),
      },
    ])
  })

  it('counts a record once that it quarantines again and again, and keeps it whole (P5, P10)', async () => {
    const junk = { AssignmentId: 'A-17', Text: 'nul \0 and \ud800', Big: JSON.rawJSON('1e400') }
    for (let time = 0; time < 3; time++)
      expect(await write({ ...junk, RowVersion: 1 })).toMatchObject({ quarantined: 1 })
    const [kept, ...others] = await query(
      'select reason, record, record_text, times_seen from tidemark.quarantine',
    )
    expect(others).toEqual([])
    expect(kept).toMatchObject({
      reason: 'the key does not fit column assignment_id (bigint)',
      record: null,
      times_seen: '3',
    })
    expect(JSON.parse(kept.record_text)).toMatchObject({ AssignmentId: 'A-17', Text: 'nul \0 and \ud800' })
    expect(kept.record_text).toContain('1e400')
  })

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
