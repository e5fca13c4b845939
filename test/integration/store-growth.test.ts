// Tables whose columns are found in the data, and the views that show them.

import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readTableSchema } from '../../src/store/schema/table-schema.ts'
import { readRecords } from '../../src/streams/record.ts'
import { hasPostgres } from '../support/database.ts'
import { createGrowingTable } from '../support/growing-table.ts'
import { assignments, begin, done, storeOf, trackers, writeAll } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'

describe.skipIf(!hasPostgres)('a table', () => {
  const { database, query, write } = createGrowingTable()
  const columns = async (relation: string) =>
    (await query(`select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
       where attrelid = '${relation}'::regclass and attnum > 0 and not attisdropped order by attnum`)) as {
      name: string
      type: string
    }[]
  const typeOf = async (column: string) =>
    (await columns('mirror.assignment')).find(({ name }) => name === column)?.type

  const many = Object.fromEntries(Array.from({ length: 450 }, (_, index) => [`Field${index}`, index]))
  it.each([
    ['its column has the name that another field asks for first', { Row_Version: 'x' }],
    ['there are more fields than columns', many],
    ['no index could hold the name of another', { [randomBytes(5_000).toString('hex')]: 1 }],
  ])('keeps an older version from replacing a newer one when %s (P3)', async (_, fields) => {
    const page = (version: number) =>
      assignments({ AssignmentId: 1, ...fields, RowVersion: version, Name: `v${version}` })
    await writeAll(storeOf(database), 'assignment', page(5), page(3))
    expect(await query("select row_version, _rescued ->> 'Name' as rescued from mirror.assignment")).toEqual([
      { row_version: '5', rescued: fields === many ? 'v5' : null },
    ])
    expect(await query('select from tidemark.quarantine')).toEqual([])
  })

  it('takes no row whose version has no column: nothing would tell it from an older one (P3, P5)', async () => {
    await write({ RowVersion: 5, Name: 'new' })
    await query('alter table mirror.assignment rename column row_version to renamed')
    await query(`update tidemark.field set column_name = null, note = 'no place' where folded = 'rowversion'`)
    expect(await write({ RowVersion: 3, Name: 'old' })).toMatchObject({ updated: 0, quarantined: 1 })
    expect(await query('select name from mirror.assignment')).toEqual([{ name: 'new' }])
    expect(await query('select reason from tidemark.quarantine')).toEqual([
      { reason: 'the table has no column for its row version' },
    ])
  })

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
    expect(await storeOf(database).history.anchors('assignment', 100n, 5)).toEqual([
      { key: '2', version: 30n },
      { key: '1', version: 12n },
    ])
    expect(await storeOf(database).history.anchors('assignment', 29n, 5)).toEqual([
      { key: '1', version: 12n },
    ])
  })

  it('of a list stream takes keys of digits for text where they come as strings', async () => {
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    await run.findings.setKeyField('TrackerObjectId')
    await run.pages.commit(trackers({ trackerObjectId: '1001' }), null)
    const { quarantined } = await run.pages.commit(trackers({ trackerObjectId: 'A77' }), null)
    await run.finish(done)
    expect(quarantined).toBe(0)
    expect(await query('select tracker_object_id from mirror.tracker_object order by 1')).toEqual([
      { tracker_object_id: '1001' },
      { tracker_object_id: 'A77' },
    ])
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

  it('remembers 1,000 names of 20,000 fields, loses no value, and later runs are as quick as before (P5, P10)', async () => {
    const wide = Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`F${index}`, index]))
    const { rescued } = await write(wide)
    const [row] = await query('select f0, _rescued from mirror.assignment')
    expect({ F0: Number(row.f0), ...row._rescued }).toMatchObject({ F0: 0, F399: 399, F19999: 19_999 })
    expect(Object.keys(row._rescued).length).toBe(rescued)
    const names = await query(`select count(*)::int, count(column_name)::int as columns from tidemark.field
       where stream = 'assignment'`)
    expect(names[0].count).toBeLessThanOrEqual(1_000)
    expect(await write({ ...wide, F20000: 1 })).toMatchObject({ updated: 1, rescued: rescued + 1 })
    await write({ Late: null, AssignmentId: 2 })
    expect(
      await query(`select count(*)::int, count(column_name)::int as columns from tidemark.field
       where stream = 'assignment'`),
    ).toEqual(names)
  })

  it('still gives columns to new fields when many others have names that were taken (P5)', async () => {
    const alike = Object.fromEntries(
      Array.from({ length: 700 }, (_, index) => [`A${' '.repeat(index)}b`, index]),
    )
    await write(alike)
    expect(await write({ ...alike, [`A${'-'.repeat(9)}b`]: 1, New: 5 })).toMatchObject({ updated: 1 })
    expect(await query('select a_b, new from mirror.assignment')).toEqual([{ a_b: '1', new: '5' }])
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

  it('leaves comments alone that somebody wrote about the view, also when a type is widened', async () => {
    await write({ Kept: 1 })
    await query(`comment on column bi.assignment.kept is 'our own words'`)
    await query(`comment on view bi.assignment is 'jobs'`)
    await write({ AssignmentId: 2, Kept: 5.25, New: 1 })
    expect(
      await query(`select col_description('bi.assignment'::regclass, attnum) as comment from pg_attribute
      where attrelid = 'bi.assignment'::regclass and attname in ('kept', 'new') order by attname`),
    ).toEqual([{ comment: 'our own words' }, { comment: 'field New' }])
    expect(await query(`select obj_description('bi.assignment'::regclass) as comment`)).toEqual([
      { comment: 'jobs' },
    ])
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
    expect(shown.map(({ name }) => name)).toEqual(['assignment_id', 'row_version', 'name', '_synced_at'])
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

  it('keeps the order of a view that showed only the key when somebody has built on it', async () => {
    await query('create view public.early as select assignment_note_id from bi.assignment_note')
    const notes = readRecords(
      [{ AssignmentNoteId: 1, RowVersion: 1, Text: 'x' }],
      ['AssignmentNoteId'],
      ['RowVersion'],
    )
    await writeAll(storeOf(database), 'assignment_note', notes)
    expect((await columns('bi.assignment_note')).map(({ name }) => name)).toEqual([
      ...['assignment_note_id', '_synced_at', 'row_version', 'text'],
    ])
    expect(await query('select * from public.early')).toEqual([{ assignment_note_id: '1' }])
  })

  it('goes on when somebody has put another view in the place of ours', async () => {
    await write({ Name: 'x' })
    await query('drop view bi.assignment; create view bi.assignment as select 1 as one')
    await write({ Name: 'x', More: 1 })
    expect(await query('select more from mirror.assignment')).toEqual([{ more: '1' }])
  })
})

describe.skipIf(!hasPostgres)('a table', () => {
  const { database, query, write } = createGrowingTable()
  it('whose fields were remembered one by one before is well again after the next run, though Postgres knows of none yet (P10)', async () => {
    await query('delete from tidemark.field')
    await query('analyze tidemark.field')
    await write(Object.fromEntries(Array.from({ length: 450 }, (_, index) => [`F${index}`, index])))
    await query(`insert into tidemark.field (stream, folded, source_name, note)
       select 'assignment', 'g' || n, 'G' || n, 'the table has 400 columns already' from generate_series(1, 40000) as n`)
    const client = await database.pool.connect()
    const tableSchema = await readTableSchema(client, streamOf('assignment')).finally(() => client.release())
    expect(tableSchema?.unplaced.size).toBeLessThanOrEqual(600)
    expect(await write({ G19000: 1, AssignmentId: 2 })).toMatchObject({ inserted: 1, rescued: 1 })
    expect(await query(`select count(*)::int from tidemark.field where stream = 'assignment'`)).toEqual([
      { count: 1_000 },
    ])
  })
})
