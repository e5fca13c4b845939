// A database that an earlier version left, with data in it, goes on with this one.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { readOverview } from '../../src/store/queries/overview.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { streams } from '../../src/streams/catalog.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

const fixture = (name: string): Buffer =>
  readFileSync(fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url)))
const recordsOf = (name: string): readonly Json[] => parseJson(fixture(name)) as readonly Json[]

describe.skipIf(!hasPostgres)('a database of an earlier version', () => {
  const database = createTestDatabase({ isMigrated: false, forEach: true })

  beforeEach(async () => {
    // A session of its own: the file sets the search path.
    const client = new pg.Client(database.url)
    await client.connect()
    await client.query(fixture('early-database.sql').toString())
    await client.query(
      'create view public.report as select stream, complete_through_time as as_of from tidemark.freshness',
    )
    await client.end()
    await migrateDatabase({ database, streams, biRole: null, log: quietLog })
  })

  it('keeps its rows, its positions and what it set aside', async () => {
    const { rows } = await database.pool.query(
      `select assignment_id, row_version, title, price, _rescued, _deleted_reason
       from mirror.assignment order by assignment_id`,
    )
    expect(rows).toEqual([
      {
        assignment_id: '1',
        row_version: '9007199254740993',
        title: 'Boiler – "Ærø"',
        price: '12.340',
        _rescued: null,
        _deleted_reason: null,
      },
      {
        assignment_id: '2',
        row_version: '9007199254740999',
        title: 'back\\slash\tand tab',
        price: '100',
        _rescued: null,
        _deleted_reason: 'source',
      },
      {
        assignment_id: '3',
        row_version: '9007199254741003',
        title: null,
        price: null,
        _rescued: { Title: 7 },
        _deleted_reason: null,
      },
    ])
    const overview = await readOverview(database.pool, ['assignment', 'tracker_object'])
    expect(overview).toMatchObject([{ position: '9007199254741003', quarantined: 1 }, { position: '0' }])
    const { rows: living } = await database.pool.query('select count(*)::int as count from bi.tracker_object')
    expect(living).toEqual([{ count: 2 }])
  })

  it('keeps the views that others made of how fresh it is', async () => {
    const { rows } = await database.pool.query(
      `select as_of = read_through_time as is_same from public.report join tidemark.freshness using (stream)
       where stream = 'assignment'`,
    )
    expect(rows).toEqual([{ is_same: true }])
  })

  it('takes the same records for unchanged, and newer ones and new fields as ever (P3)', async () => {
    const run = await begin(storeOf(database))
    const again = await run.pages.commit(assignments(...recordsOf('assignment.json')), null)
    expect(again).toMatchObject({ inserted: 0, updated: 0, unchanged: 3 })
    const newer = { AssignmentId: 1, RowVersion: 9007199254742003n.toString(), Title: 'new', Colour: 'red' }
    expect(await run.pages.commit(assignments(newer), null)).toMatchObject({ updated: 1 })
    await run.finish(done)
    const { rows } = await database.pool.query(
      'select title, colour from bi.assignment where assignment_id = 1',
    )
    expect(rows).toEqual([{ title: 'new', colour: 'red' }])
  })

  it('has tables that take new rows as those of a new database do', async () => {
    const { rows } = await database.pool.query(
      `select distinct column_name as name, column_default as value from information_schema.columns
       where table_schema = 'mirror' and column_name in ('_first_seen_at', '_synced_at') order by 1`,
    )
    expect(rows).toEqual([
      { name: '_first_seen_at', value: 'now()' },
      { name: '_synced_at', value: 'now()' },
    ])
  })

  it('calls its runs by the kinds of today, and begins its leases anew (P2)', async () => {
    const { rows } = await database.pool.query('select stream, kind from tidemark.run order by id')
    expect(rows).toEqual([
      { stream: 'assignment', kind: 'incremental' },
      { stream: 'tracker_object', kind: 'list' },
    ])
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    await run.finish(done)
    expect((await database.pool.query('select stream, lane, epoch from tidemark.lease')).rows).toEqual([
      { stream: 'tracker_object', lane: 'whole', epoch: '1' },
    ])
  })
})
