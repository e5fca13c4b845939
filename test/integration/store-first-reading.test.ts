// While a run has met only rows that are new, its pages are copied straight into the table; the first page that holds another
// row is refused and merged like all others after it.

import { beforeEach, describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { readRecords } from '../../src/streams/record.ts'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import { scanRecords } from '../../src/wire/scan.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

const at = (id: number, version: number, more: JsonObject = {}): JsonObject => ({
  AssignmentId: id,
  RowVersion: version,
  Text: `v${version}`,
  SysDeleted: false,
  ...more,
})

describe.skipIf(!hasPostgres)('a first reading', () => {
  const database = createTestDatabase()

  beforeEach(async () => {
    await database.pool.query('truncate mirror.assignment')
  })

  it('copies what is new straight into the table, with all that a merge would write', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments(at(1, 1), at(2, 2)), null)
    const statements = await heardStatements()
    const written = await run.pages.commit(
      assignments(at(4, 4, { SysDeleted: true }), at(3, 3, { Text: 5 }), { RowVersion: 9 }),
      4n,
    )
    await run.finish(done)
    expect(written).toMatchObject({ inserted: 2, updated: 0, unchanged: 0, rescued: 1, quarantined: 1 })
    expect(await statements()).toEqual([expect.stringMatching(/^begin.* copy "?mirror"?\."assignment"/)])
    const { rows } = await database.pool.query(
      `select assignment_id as id, text, _rescued as rescued, _deleted_reason as reason,
              _first_seen_at = _synced_at and _synced_at > now() - interval '1 minute' as has_times,
              _deleted_at = _synced_at as is_deleted
       from mirror.assignment where assignment_id > 2 order by 1`,
    )
    const alive = { reason: null, has_times: true, is_deleted: null }
    expect(rows).toEqual([
      { ...alive, id: '3', text: null, rescued: { Text: 5 } },
      { ...alive, id: '4', text: 'v4', rescued: null, reason: 'source', is_deleted: true },
    ])
    expect(await stateOf()).toEqual({ 1: '1', 2: '2', 3: '3', 4: '4' })
  })

  it('takes the row where one page ends and the next begins for the one it has', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments(at(1, 1), at(2, 2)), null)
    const statements = await heardStatements()
    const written = await run.pages.commit(assignments(at(2, 2), at(3, 3), at(4, 3)), null)
    expect(written).toMatchObject({ inserted: 2, unchanged: 1 })
    // The same version with other content is another matter.
    const other = await run.pages.commit(assignments(at(3, 3), at(4, 3, { Text: 'other' }), at(5, 5)), null)
    expect(other).toMatchObject({ inserted: 1, updated: 1, unchanged: 1 })
    await run.finish(done)
    expect(await statements()).toMatchObject([
      expect.stringContaining('copy'),
      expect.stringContaining('merged as'),
    ])
    const { rows } = await database.pool.query('select text from mirror.assignment where assignment_id = 4')
    expect(rows).toEqual([{ text: 'other' }])
  })

  it('merges from the first page on that holds a row which is there already (P3)', async () => {
    const run = await begin(storeOf(database))
    const written = await Promise.all([
      run.pages.commit(assignments(at(1, 1), at(2, 2)), null),
      run.pages.commit(assignments(at(3, 3)), null),
      run.pages.commit(assignments(at(4, 4)), null),
      run.pages.commit(assignments(at(5, 5), at(1, 6), at(4, 2)), null),
      run.pages.commit(assignments(at(6, 7), at(5, 8)), null),
    ])
    await run.finish(done)
    expect(written.slice(3)).toMatchObject([
      { inserted: 1, updated: 1, unchanged: 1, quarantined: 0 },
      { inserted: 1, updated: 1, unchanged: 0, quarantined: 0 },
    ])
    expect(await stateOf()).toEqual({ 1: '6', 2: '2', 3: '3', 4: '4', 5: '8', 6: '7' })
  })

  it('gives way to a higher version that another writer commits meanwhile (P3)', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments(at(1, 1), at(2, 2)), null)
    const other = await database.pool.connect()
    await other.query(`begin;
      insert into mirror.assignment (assignment_id, row_version, text, _hash) values (4, 9, 'v9', 'other')`)
    const writing = run.pages.commit(assignments(at(3, 3), at(4, 4), at(5, 5)), null)
    await expect.poll(writersThatWait).toBe(1)
    await other.query('commit')
    other.release()
    expect(await writing).toMatchObject({ inserted: 2, updated: 0, unchanged: 1, quarantined: 0 })
    expect(await run.pages.commit(assignments(at(5, 6), at(6, 7)), null)).toMatchObject({
      inserted: 1,
      updated: 1,
    })
    await run.finish(done)
    expect(await stateOf()).toEqual({ 1: '1', 2: '2', 3: '3', 4: '9', 5: '6', 6: '7' })
  })

  it('goes on where it and another writer wait for each other', async () => {
    const run = await begin(storeOf(database))
    await run.pages.commit(assignments(at(1, 1)), null)
    const other = await database.pool.connect()
    const insert = (id: number) =>
      other.query(
        `insert into mirror.assignment (assignment_id, row_version, _hash) values ($1, 9, 'other') on conflict do nothing`,
        [id],
      )
    await other.query('begin; set local deadlock_timeout = 60000')
    await insert(4)
    const writing = run.pages.commit(assignments(at(3, 3), at(4, 4)), null)
    await expect.poll(writersThatWait).toBe(1)
    await insert(3)
    await other.query('commit')
    other.release()
    expect(await writing).toMatchObject({ inserted: 0, updated: 0, unchanged: 2, quarantined: 0 })
    await run.finish(done)
    expect(await stateOf()).toEqual({ 1: '1', 3: '9', 4: '9' })
  })

  it('writes what changed among pages that are there already, and counts all fields of them once', async () => {
    const records = [1, 2, 3, 4, 5, 6].map((id) => at(id, id))
    const first = await begin(storeOf(database))
    await first.pages.commit(assignments(...records), 6n)
    await first.finish(done)
    const before = await fieldOf('text')
    const run = await begin(storeOf(database), 'assignment', 'lookback')
    const pages = [
      records.slice(0, 2),
      records.slice(1, 4),
      [at(4, 4, { Text: 'other' }), at(5, 9), at(6, 6), at(7, 7)],
      records.slice(0, 3),
      records.slice(0, 2),
      [at(1, 1), at(6, 6, { Text: 7, New: 'x' })],
    ]
    const written = []
    for (const page of pages) written.push(await run.pages.commit(found(page), null))
    await run.finish(done)
    const unchanged = { inserted: 0, updated: 0, rescued: 0, arrivals: [] }
    expect(written).toMatchObject([
      { ...unchanged, unchanged: 2 },
      { ...unchanged, unchanged: 3 },
      { inserted: 1, updated: 2, unchanged: 1, rescued: 0 },
      { ...unchanged, unchanged: 3 },
      { ...unchanged, unchanged: 2 },
      { inserted: 0, updated: 1, unchanged: 1, rescued: 1 },
    ])
    expect(await stateOf()).toEqual({ 1: '1', 2: '2', 3: '3', 4: '4', 5: '9', 6: '6', 7: '7' })
    const { rows } = await database.pool.query(
      'select text, new, _rescued as rescued from mirror.assignment where assignment_id in (4, 6) order by assignment_id',
    )
    expect(rows).toEqual([
      { text: 'other', new: null, rescued: null },
      { text: null, new: 'x', rescued: { Text: 7 } },
    ])
    const after = await fieldOf('text')
    expect(after).toEqual({
      ...{ seen: before.seen + 16, nulls: before.nulls, rescued: before.rescued + 1 },
    })
  })

  /** As they come from the upstream: found in the bytes of a page. */
  function found(records: readonly JsonObject[]) {
    const page = scanRecords(Buffer.from(JSON.stringify(records)), newFieldOrder())
    if (!page) throw new Error('not scanned')
    return readRecords(page, ['AssignmentId'], ['RowVersion', 'SysRowVersion'])
  }

  async function fieldOf(folded: string) {
    const { rows } = await database.pool.query<{ seen: number; nulls: number; rescued: number }>(
      `select records_seen::int as seen, nulls_seen::int as nulls, rescued::int from tidemark.field
       where stream = 'assignment' and folded = $1`,
      [folded],
    )
    const [field] = rows
    if (!field) throw new Error(`no field ${folded}`)
    return field
  }

  async function stateOf(): Promise<Record<string, string>> {
    const { rows } = await database.pool.query('select assignment_id, row_version from mirror.assignment')
    return Object.fromEntries(rows.map((row) => [row.assignment_id, row.row_version]))
  }

  async function writersThatWait(): Promise<number> {
    const { rows } = await database.pool.query<{ count: string }>(
      "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    )
    return Number(rows[0]?.count)
  }

  /** From now on, the statements that put rows into the table. */
  async function heardStatements(): Promise<() => Promise<readonly string[]>> {
    await database.pool.query(`
      create table if not exists heard (at serial, statement text);
      truncate heard;
      create or replace function hear() returns trigger language plpgsql as
        $$ begin insert into heard (statement) values (current_query()); return null; end $$;
      create or replace trigger hear after insert on mirror.assignment for each statement execute function hear()`)
    return async () => {
      const { rows } = await database.pool.query('select statement from heard order by at')
      return rows.map((row) => row.statement.replace(/\s+/g, ' ').trim())
    }
  }
})
