// Indexes for reports: made once after the first load, by whoever's turn it is, and never against the owner (P20).

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { type IndexChoice, makeIndexes, readLoaded } from '../../src/store/book/indexes.ts'
import { withConnection } from '../../src/store/server/session.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog as log } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const mirrored = [streamOf('assignment'), streamOf('assignment_note')]

describe.skipIf(!hasPostgres)('indexes for reports', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const make = (choose: IndexChoice = () => null, forReports = true) =>
    makeIndexes({ pool: database.pool, mirrored, forReports, choose, signal, log })
  const indexes = async () =>
    (
      await query(`select relname as name from pg_index join pg_class on pg_class.oid = indexrelid
        where indrelid in ('mirror.assignment'::regclass, 'mirror.assignment_note'::regclass) and relname like '%\\_idx' and indisvalid
          and not relname ~ '_(synced_at|deleted_at|sys_row_version|row_version)_idx$' order by 1`)
    ).map(({ name }) => name)
  const load = async () => {
    await using simulator = await startSimulator({ assignments: 30, notes: 30 })
    await using context = await openTestContext(database, simulator)
    for (const stream of mirrored) await context.read(stream, 'incremental', { signal })
  }
  const wanted = ['assignment__xid_idx', 'assignment_note__xid_idx', 'assignment_note_assignment_id_idx']

  it('are made on what refers to other tables and on what the owner names, when the first load is over', async () => {
    expect(await make()).toBe(0)
    expect(await readLoaded(database.pool, mirrored)).toBe('')
    await load()
    expect(await readLoaded(database.pool, mirrored)).toMatch(/^assignment \d+, assignment_note \d+$/)
    expect(await make()).toBe(3)
    expect(await indexes()).toEqual(wanted)
    expect(await make()).toBe(0)
    expect(await make((_stream, column) => (column === 'contact_name' ? true : null))).toBe(1)
    expect(await indexes()).toEqual([
      ...['assignment__xid_idx', 'assignment_contact_name_idx', 'assignment_note__xid_idx'],
      'assignment_note_assignment_id_idx',
    ])
    // A text may be too long for an index that is sorted.
    await query(
      `update mirror.assignment set contact_name = (select string_agg(md5(n::text), '') from generate_series(1, 500) as n)`,
    )
  })

  it('are only those of the feed when they are switched off, or where the owner says no', async () => {
    await load()
    expect(await make(() => true, false)).toBe(2)
    expect(await make((_stream, column) => (column === 'assignment_id' ? false : null))).toBe(0)
    expect(await indexes()).toEqual(['assignment__xid_idx', 'assignment_note__xid_idx'])
  })

  it('stay away when somebody drops them, and come again with another table (P20)', async () => {
    await load()
    await make()
    await query('drop index mirror.assignment_note_assignment_id_idx')
    expect(await make()).toBe(0)
    expect(await make()).toBe(0)
    expect(await indexes()).toEqual(['assignment__xid_idx', 'assignment_note__xid_idx'])
    await query(
      'drop index mirror.assignment__xid_idx; create index assignment__xid_idx on mirror.assignment (_xid)',
    )
    expect(await make()).toBe(0)
    await query(`alter table mirror.assignment drop column _xid;
      alter table mirror.assignment add column _xid xid8 default pg_current_xact_id()`)
    expect(await make()).toBe(1)
  })

  it('replace what a build that was ended left behind, and come at a later attempt where a long query is in the way', async () => {
    await load()
    await withConnection(database.pool, async (writer) => {
      await writer.query(
        `begin; set local tidemark.writer = 'on'; delete from mirror.assignment_note where false`,
      )
      await withConnection(database.pool, async (builder) => {
        await builder.query(`set lock_timeout = '1ms'`)
        await expect(
          builder.query(
            'create index concurrently assignment_note_assignment_id_idx on mirror.assignment_note (assignment_id)',
          ),
        ).rejects.toThrow('lock timeout')
        await builder.query('set lock_timeout = 0')
      })
      expect(await indexes()).toEqual([])
      await writer.query('rollback')
    })
    expect(await make()).toBe(3)
    expect(await indexes()).toEqual(wanted)
    expect(await query('select from pg_index where not indisvalid')).toEqual([])
  })

  it('are made by one worker at a time', async () => {
    await load()
    expect((await Promise.all([make(), make(), make()])).toSorted()).toEqual([0, 0, 3])
  })
})
