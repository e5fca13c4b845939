// A database that an earlier version left, with data in it, goes on with this one.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { beforeEach, describe, expect, it } from 'vitest'
import { probe } from '../../src/cli/probe.ts'
import type { Json } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readBeliefs } from '../../src/store/book/dictionary.ts'
import { readOverview } from '../../src/store/book/streams.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { beliefOf, neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'
import { callCommand } from '../support/verbs.ts'

const fixture = (name: string): Buffer =>
  readFileSync(fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url)))
const recordsOf = (name: string): readonly Json[] => parseJson(fixture(name)) as readonly Json[]

describe.skipIf(!hasPostgres)('what an earlier version believed of the upstream', () => {
  const database = createTestDatabase({ forEach: true })
  const assignment = streamOf('assignment')

  /** As after a load by version 0.1, which sorted by `rowVersion` where the upstream counts in `sysRowVersion`. */
  const believe = async (ground: string, isFieldKnown = true) => {
    await database.pool.query(
      `update tidemark.belief set value = 'ignored', evidence = 'sorted ascending it began 5, 3', ${ground},
         tested_at = now(), expires_at = null, rests_since = null, rests_from = null
       where stream = 'assignment' and name = 'sorting'`,
    )
    if (!isFieldKnown) await database.pool.query(`delete from tidemark.belief where name = 'version_field'`)
  }
  const start = async () => {
    const simulator = await startSimulator({
      look: 'recorded',
      assignments: 2_000,
      behaviour: { deletes: 'hard' },
    })
    const context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    const read = () => context.read(assignment, 'incremental', { signal: neverAborted })
    await read()
    const close = async () => {
      await context[Symbol.asyncDispose]()
      await simulator.close()
    }
    return { simulator, context, read, [Symbol.asyncDispose]: close }
  }

  it.each([
    ['of a version that noted no field', 'rule = 0, version_field = null', false],
    ['of another field', `version_field = 'rowVersion'`, true],
    ['by an older test', 'rule = 0', true],
  ])('is tested again by the next run where it was seen %s', async (_, ground, isFieldKnown) => {
    await using upstream = await start()
    const { simulator, context, read } = upstream
    await believe(ground, isFieldKnown)
    for (let id = 200; id < 500; id++) simulator.source.change('assignment', id)
    for (let id = 101; id <= 110; id++) simulator.source.remove('assignment', id, 'hard')
    const outcome = await read()
    expect(outcome).toMatchObject({ status: 'done', isComplete: true, tally: { updated: 300 } })
    expect(outcome.tally.requests).toBeLessThan(30)
    expect(await beliefOf(database.pool, 'sorting')).toBe('proven')
    await findDeletions({ ...context.contextOf(assignment), signal: neverAborted })
    expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    const found = await readBeliefs(database.pool)
    expect(found.find(({ name }) => name === 'sorting')?.expiresAt).toBeNull()
    simulator.source.change('assignment', 7)
    expect((await read()).tally.requests).toBeLessThan(4)
  })

  it('is corrected by the probe as well', async () => {
    await using upstream = await start()
    await believe('rule = 1')
    const environment = environmentFor(upstream.simulator, database)
    const { stdout } = await callCommand(probe, [], environment)
    expect(stdout).toMatch(
      /assignment sorting\s+holds:.* Runs saw ignored .*The next ones rely on what was seen now/,
    )
    expect(await beliefOf(database.pool, 'sorting')).toBe('proven')
    expect((await callCommand(probe, [], environment)).stdout).toMatch(
      /assignment sorting.*Runs saw the same/,
    )
  })
})

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
       where table_schema = 'mirror' and column_name in ('_first_seen_at', '_synced_at', '_xid') order by 1`,
    )
    expect(rows).toEqual([
      { name: '_first_seen_at', value: 'now()' },
      { name: '_synced_at', value: 'now()' },
      { name: '_xid', value: 'pg_current_xact_id()' },
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
