// What others do to a table of the mirror: noticed by the next run, told, and mended from the upstream. What Tidemark does itself is
// never taken for it (P15).

import type { Pool } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { planAlerts } from '../../src/problems/alerts.ts'
import { findProblems } from '../../src/problems/find-problems.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { runNextBackfill } from '../../src/sync/changes/backfill.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { verifyStream } from '../../src/sync/reconcile/verify.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { childDifferences } from '../support/related-children.ts'
import { done } from '../support/runs.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const object = streamOf('assignment_object')
const dayMs = 86_400_000

/** All rows, by what the upstream says of them; the hash goes by the order of columns as well. */
async function contentOf(pool: Pool, table: string): Promise<readonly unknown[]> {
  const { rows } = await pool.query(
    `select to_jsonb(mine) - '{_synced_at,_first_seen_at,_hash,_xid,renamed}'::text[] as row from mirror.${table} as mine order by 1`,
  )
  return rows
}

async function problemsOf(pool: Pool, stream: string) {
  const symptoms = await readSymptoms(pool, [stream], dayMs)
  return findProblems({
    symptoms,
    view: { parts: [] },
    rules: { serviceOf: () => 'assignment', isStale: () => false, frozenAfterMs: () => 1e9 },
    now: new Date(),
  }).filter(({ kind }) => kind === 'local_damage')
}

async function noted(pool: Pool): Promise<readonly string[]> {
  const { rows } = await pool.query<{ told: string }>(
    `select stream || ' ' || operation as told from tidemark.local_change order by id`,
  )
  return rows.map(({ told }) => told)
}

type Damage = {
  readonly what: string
  /** For a table; `key` is its key column. */
  readonly sql: (table: string, key: string) => string
  readonly told: RegExp
}

const damages: readonly Damage[] = [
  { what: 'truncate', sql: (table) => `truncate mirror.${table}`, told: /emptied by truncate by role/ },
  {
    what: 'deleting some rows',
    sql: (table, key) =>
      `delete from mirror.${table} where ${key} in (select ${key} from mirror.${table} order by 1 limit 7)`,
    told: /rows deleted \(7 rows\) by role/,
  },
  {
    what: 'updating some rows, their version left alone',
    sql: (table, key) =>
      `update mirror.${table} set _rescued = '{"Forged": 1}' where ${key} in (select ${key} from mirror.${table} order by 1 limit 3)`,
    told: /rows updated \(3 rows\) by role/,
  },
  {
    what: 'updating rows within subtransactions',
    sql: (table, key) => `do $$
      declare one record;
      begin
        for one in select ${key} as key from mirror.${table} order by 1 limit 3 loop
          begin
            update mirror.${table} set _rescued = '{"Forged": 1}' where ${key} = one.key;
          exception when division_by_zero then null;
          end;
        end loop;
      end $$`,
    told: /rows updated \(3 rows\) by role/,
  },
  {
    what: 'dropping the table',
    sql: (table) => `drop table mirror.${table} cascade`,
    told: /dropped at/,
  },
  {
    what: 'replacing the table by a copy without its keys',
    sql: (table) => `create table public.copy as select * from mirror.${table} limit 9;
      update public.copy set _rescued = '{"Forged": 1}';
      drop table mirror.${table} cascade; alter table public.copy set schema mirror;
      alter table mirror.copy rename to ${table}`,
    told: /replaced by another table/,
  },
  {
    what: 'replacing the table by one that is quite another',
    sql: (table) =>
      `drop table mirror.${table} cascade; create table mirror.${table} (name text); insert into mirror.${table} values ('x')`,
    told: /replaced by another table/,
  },
  {
    what: 'replacing the rows by a copy, with triggers disabled',
    sql: (table, key) => `create table public.copy as select * from mirror.${table} order by ${key} limit 9;
      alter table mirror.${table} disable trigger all; delete from mirror.${table};
      insert into mirror.${table} select * from public.copy; update mirror.${table} set _rescued = '{"Forged": 1}';
      alter table mirror.${table} enable trigger all; drop table public.copy`,
    told: /triggers removed or disabled/,
  },
  {
    what: 'truncating the table and copying rows into it as a replica does',
    sql: (table) => `create table public.copy as select * from mirror.${table} limit 9;
      update public.copy set _rescued = '{"Forged": 1}';
      set session_replication_role = replica; truncate mirror.${table};
      insert into mirror.${table} select * from public.copy; set session_replication_role = origin`,
    told: /emptied by truncate.*rows inserted \(9 rows\)/,
  },
  {
    what: 'dropping a column',
    sql: (table) => `alter table mirror.${table} drop column sys_updated_date_utc cascade`,
    told: /columns or its key dropped, renamed or given other types/,
  },
  {
    what: 'renaming a column',
    sql: (table) => `alter table mirror.${table} rename column sys_updated_date_utc to renamed`,
    told: /columns or its key dropped, renamed or given other types/,
  },
  {
    what: 'dropping a column of Tidemark’s own',
    sql: (table) => `alter table mirror.${table} drop column _hash cascade`,
    told: /columns or its key dropped, renamed or given other types/,
  },
  {
    what: 'dropping the key',
    sql: (table) => `alter table mirror.${table} drop constraint ${table}_pkey`,
    told: /columns or its key dropped, renamed or given other types/,
  },
]

describe.skipIf(!hasPostgres).each([
  { stream: assignment, key: 'assignment_id' },
  { stream: object, key: 'assignment_object_id' },
])('what others do to the table of $stream.name', ({ stream, key }) => {
  // What was mended can be damaged again.
  const database = createTestDatabase()
  let simulator: Simulator
  let context: SyncContext
  const read = () => context.read(stream, 'incremental', { signal })

  beforeAll(async () => {
    simulator = await startSimulator({ assignments: 40, objects: 30 })
    context = await openTestContext(database, simulator, { PAGE_SIZE: '15' })
    await read()
    await read()
  })
  afterEach(() => database.pool.query('drop table if exists public.copy; delete from tidemark.local_change'))
  afterAll(async () => {
    await context?.[Symbol.asyncDispose]()
    await simulator?.close()
  })

  it.each(damages)('$what: is noticed, told and mended once', async ({ sql, told }) => {
    const { pool } = database
    const table = stream.name
    const before = await contentOf(pool, table)
    const columns = await pool.query(`select * from bi.${table} limit 1`)
    expect(before.length).toBeGreaterThan(20)
    expect(await problemsOf(pool, table)).toEqual([])
    await pool.query(sql(table, key))
    const run = await read()
    expect(run).toMatchObject({ status: 'done', isComplete: true })
    expect(await contentOf(pool, table)).toEqual(before)
    const [problem, other] = await problemsOf(pool, table)
    expect(problem?.what).toMatch(told)
    expect(problem?.what).toContain(`Run ${run.runId} began`)
    expect(other).toBeUndefined()
    expect(await contentOf(pool, table)).toHaveLength(
      (await pool.query(`select from bi.${table}`)).rowCount ?? 0,
    )
    const shown = await pool.query(`select * from bi.${table} limit 1`)
    expect(shown.fields.map(({ name }) => name).toSorted()).toEqual(
      columns.fields.map(({ name }) => name).toSorted(),
    )
    const next = await read()
    expect(next.tally).toMatchObject({ inserted: 0, updated: 0 })
    expect(await pool.query('select from tidemark.local_change where run_id is null')).toMatchObject({
      rowCount: 0,
    })
  })
})

describe.skipIf(!hasPostgres)('what others do to a table', () => {
  const database = createTestDatabase({ forEach: true })
  let simulator: Simulator
  let context: SyncContext
  const read = (stream: typeof assignment | typeof object) => context.read(stream, 'incremental', { signal })

  beforeEach(async () => {
    simulator = await startSimulator({ assignments: 40, objects: 30 })
    context = await openTestContext(database, simulator, { PAGE_SIZE: '15' })
  })
  afterEach(async () => {
    await context[Symbol.asyncDispose]()
    await simulator.close()
  })

  const both = ['assignment', 'assignment_object']
  const loaded = async () => {
    for (const stream of [assignment, object]) await read(stream)
  }

  it('another table that can neither be used nor set aside: what is wrong with it is told', async () => {
    const { pool } = database
    await loaded()
    await pool.query(
      `drop table mirror.assignment cascade; create table mirror.assignment (name text);
       create view bi.assignment as select * from mirror.assignment;
       create view public.report as select * from bi.assignment`,
    )
    await expect(read(assignment)).rejects.toMatchObject({
      message: expect.stringContaining('drop view bi.assignment because other objects depend on it'),
      cause: { message: expect.stringContaining('"assignment_id"') },
    })
    await pool.query('drop view public.report')
    expect(await read(assignment)).toMatchObject({ status: 'done', isComplete: true })
  })

  it('a column of another type that cuts its values: none of them stays (P4)', async () => {
    const { pool } = database
    await loaded()
    const subjects = async () =>
      (
        await pool.query(
          `select assignment_id, coalesce(_rescued->>'Subject', subject) as subject from mirror.assignment order by 1`,
        )
      ).rows
    const before = await subjects()
    await pool.query(
      'drop view bi.assignment; alter table mirror.assignment alter column subject type varchar(3) using left(subject, 3)',
    )
    expect(await read(assignment)).toMatchObject({ status: 'done', isComplete: true })
    expect(await subjects()).toEqual(before)
    expect((await problemsOf(pool, 'assignment'))[0]?.what).toMatch(/given other types/)
    expect((await read(assignment)).tally).toMatchObject({ inserted: 0, updated: 0 })
  })

  it.each([
    ['a column', 'alter table mirror.assignment drop column subject cascade'],
    ['a table', 'drop table mirror.assignment cascade'],
  ])('%s of which a field told something: its columns are made again', async (_, sql) => {
    const { pool } = database
    await loaded()
    await pool.query(
      `update tidemark.field set note = 'its values are text, although the upstream says otherwise'
       where stream = 'assignment' and column_name = 'subject'`,
    )
    const subjects = async () =>
      (
        await pool.query(
          `select to_jsonb(mine)->'subject' as subject from mirror.assignment as mine order by assignment_id`,
        )
      ).rows
    const before = await subjects()
    await pool.query(sql)
    expect(await read(assignment)).toMatchObject({ status: 'done', isComplete: true })
    expect(await subjects()).toEqual(before)
  })

  it('yesterday’s copy of a table: the changes since then come again (P3)', async () => {
    const { pool } = database
    await loaded()
    await pool.query('create table public.yesterday as select * from mirror.assignment')
    for (let id = 1; id <= 5; id++) simulator.source.change('assignment', id)
    const { id } = simulator.source.insert('assignment')
    await read(assignment)
    await pool.query(
      'begin; truncate mirror.assignment; insert into mirror.assignment select * from public.yesterday; commit',
    )
    expect(await differences(pool, simulator, 'assignment')).toContain(`${id}: missing`)
    expect(await read(assignment)).toMatchObject({ isComplete: true })
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
    const { rows } = await pool.query(
      `select position, reason from tidemark.checkpoint where stream = 'assignment' and reason is not null`,
    )
    expect(rows).toEqual([{ position: '0', reason: expect.stringContaining('(truncate, insert)') }])
  })

  it('is no late arrival and no missed row, and counts as read through only when it was read again (P16)', async () => {
    const { pool } = database
    await loaded()
    await pool.query('delete from mirror.assignment where assignment_id > 20')
    const config = context.contextOf(assignment)
    expect(await context.read(assignment, 'lookback', { signal })).toMatchObject({
      note: expect.stringContaining('waits'),
    })
    expect((await reconcileStream({ ...config, signal, approved: 0 })).findings).toMatchObject({
      missedRows: 0,
      late: 0,
    })
    const freshness = async () =>
      (
        await pool.query(
          `select read_through_version as version, read_through_time is null as is_unknown from tidemark.freshness
           where stream = 'assignment'`,
        )
      ).rows[0]
    const position = await positionOf(pool)
    await context.read(assignment, 'incremental', { signal, shouldYield: () => true })
    expect(await freshness()).toMatchObject({ is_unknown: true })
    await read(assignment)
    expect(await freshness()).toEqual({ version: position.toString(), is_unknown: false })
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
    expect(
      (await pool.query('select from tidemark.late_arrival union all select from tidemark.missed_rows'))
        .rowCount,
    ).toBe(0)
  })

  it('leaves nothing settled or known by a reconcile that began before it', async () => {
    const { pool } = database
    await loaded()
    await pool.query(`update tidemark.checkpoint set reached_at = reached_at - interval '1 day'`)
    const config = context.contextOf(assignment)
    let pages = 0
    const source: Source = {
      ...config.source,
      async list(request, ...others) {
        const answer = await config.source.list(request, ...others)
        if (request.pageSize === 15 && ++pages === 3) {
          await pool.query('truncate mirror.assignment')
          await context.read(assignment, 'incremental', { signal, shouldYield: () => true })
        }
        return answer
      },
    }
    const reconciled = await reconcileStream({ ...config, source, signal, approved: 0 })
    expect(reconciled).toMatchObject({ status: 'failed', findings: { missedRows: 0 } })
    const { rows } = await pool.query(
      `select settled_through_version as settled, deletions_known_through as known, last_reconcile_at as reconciled,
         loaded_share < 1 is not false as "isLoading", (select count(*)::int from mirror.assignment) as rows
       from tidemark.freshness where stream = 'assignment'`,
    )
    expect(rows).toEqual([
      { settled: null, known: null, reconciled: null, isLoading: true, rows: expect.any(Number) },
    ])
    expect(rows[0].rows).toBeLessThan(40)
    await read(assignment)
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
  })

  it('makes read again what was read in ranges above a position that had not moved yet', async () => {
    const { pool } = database
    const { store } = context
    const run = await store.openRun('incremental', 'assignment')
    if ('busy' in run) throw new Error(run.busy)
    const unread = { upTo: 1_000_000n, ranges: [{ above: 0n, upTo: 10n }] }
    await run.pages.commit({ rows: [], rejected: [] }, null, { unread })
    await run.finish({ ...done, isComplete: false })
    await pool.query('truncate mirror.assignment')
    await read(assignment)
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
  })

  it('while no worker ran is noticed after a start', async () => {
    const { pool } = database
    await loaded()
    const before = await contentOf(pool, 'assignment_object')
    await pool.query('drop table mirror.assignment cascade; drop table mirror.assignment_object cascade')
    await migrateDatabase({ database, streams, biRole: null, log: quietLog })
    expect(await noted(pool)).toEqual(['assignment drop', 'assignment_object drop'])
    await loaded()
    expect(await differences(pool, simulator, 'assignment')).toEqual([])
    expect(await contentOf(pool, 'assignment_object')).toEqual(before)
    for (const stream of both) expect(await problemsOf(pool, stream)).toHaveLength(1)
  })

  it('while no worker ran is told, and alerted of, for a day from when it was found', async () => {
    const { pool } = database
    await loaded()
    await pool.query('truncate mirror.assignment')
    await pool.query(`update tidemark.local_change set noted_at = now() - interval '3 days'`)
    const alerted = async () => planAlerts([], await problemsOf(pool, 'assignment'), new Date()).known
    expect(await alerted()).toMatchObject([{ kind: 'local_damage', toldAt: null }])
    await read(assignment)
    expect(await alerted()).toMatchObject([{ kind: 'local_damage', toldAt: null }])
    await pool.query(`update tidemark.run set started_at = started_at - interval '25 hours'`)
    expect(await alerted()).toEqual([])
  })

  it('a statement that met no row, and a database that was restored whole, are no damage', async () => {
    const { pool } = database
    await loaded()
    const position = await positionOf(pool)
    await pool.query(
      `delete from mirror.assignment where false; update mirror.assignment set subject = 'x' where false`,
    )
    // All tables have other OIDs then, and those that were noted are nobody's.
    await pool.query('update tidemark.stream set table_oid = table_oid + 1, state_oid = state_oid + 1')
    expect((await read(assignment)).tally).toMatchObject({ inserted: 0, updated: 0 })
    await read(object)
    expect(await positionOf(pool)).toBe(position)
    for (const stream of both) expect(await problemsOf(pool, stream)).toEqual([])
    await pool.query('truncate mirror.assignment')
    expect((await read(assignment)).tally).toMatchObject({ inserted: 40 })
  })
})

describe.skipIf(!hasPostgres)('what Tidemark does itself', () => {
  const database = createTestDatabase()
  it('is never taken for damage: not a load, a merge, deletions, a reconcile, a repair, a backfill or related records', async () => {
    const { pool } = database
    await using simulator = await startSimulator({ assignments: 40, objects: 30, trackers: 10 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '15', RELATED: 'true' })
    const { source } = simulator
    const config = context.contextOf(assignment)
    const readAll = async () => {
      for (const stream of context.streams) await context.read(stream, 'incremental', { signal })
      await context.readRelated({ signal })
    }
    await readAll()
    for (let id = 1; id <= 10; id++) source.change('assignment', id, { SomethingNew: id })
    source.remove('assignment', 11, 'hard')
    source.remove('assignment', 12)
    for (const id of source.ids('assignment_object').slice(0, 2))
      source.remove('assignment_object', id, 'hard')
    await readAll()
    await readAll()
    await context.read(assignment, 'lookback', { signal, reach: 'whole' })
    expect(await findDeletions({ ...config, signal })).toMatchObject({ status: 'done' })
    source.remove('assignment', 13, 'hard')
    expect((await reconcileStream({ ...config, signal, approved: 0 })).findings.marked).toBe(1)
    expect(await noted(pool)).toEqual([])
    // As a defect of Tidemark would leave it.
    await pool.query(
      `begin; set local tidemark.writer = 'on'; update mirror.assignment set subject = 'x' where assignment_id < 4; commit`,
    )
    const verified = await verifyStream({
      ...config,
      signal,
      repair: true,
      sample: null,
      onDifference: () => {},
    })
    expect(verified.findings.repaired).toBe(3)
    await requestBackfill(pool, { stream: 'assignment', from: 0n, to: 20n, by: 'test' })
    expect(await runNextBackfill({ ...config, signal })).toMatchObject({ status: 'done' })
    await readAll()
    expect(await noted(pool)).toEqual([])
    const { rows } = await pool.query('select from tidemark.stream where table_oid is not null')
    expect(rows.length).toBeGreaterThan(8)
  })
})

describe.skipIf(!hasPostgres)('what others do to related records', () => {
  const database = createTestDatabase({ forEach: true })
  it.each([
    ['customer', 'truncate mirror.customer'],
    ['customer', 'drop table mirror.customer cascade'],
    ['customer', `update mirror.customer set row_version = 1`],
  ])('to %s by %s: is noticed and mended', async (_, sql) => {
    const { pool } = database
    await using simulator = await startSimulator({ assignments: 12 })
    await using context = await openTestContext(database, simulator, { RELATED: 'true' })
    await context.read(assignment, 'incremental', { signal })
    await context.readRelated({ signal })
    expect(await childDifferences(pool, simulator)).toEqual([])
    await pool.query(sql)
    expect(await context.isRelatedDue()).toBe(true)
    await context.readRelated({ signal })
    expect(await childDifferences(pool, simulator)).toEqual([])
    expect(await context.isRelatedDue()).toBe(false)
  })

  it('to their assignments: makes none of them a deleted one (P7)', async () => {
    const { pool } = database
    await using simulator = await startSimulator({ assignments: 12 })
    await using context = await openTestContext(database, simulator, { RELATED: 'true', PAGE_SIZE: '5' })
    await context.read(assignment, 'incremental', { signal })
    await context.readRelated({ signal })
    const deleted = async () =>
      (await pool.query('select from mirror.assignment_product where _deleted_at is not null')).rowCount
    const before = await deleted()
    await pool.query('truncate mirror.assignment')
    await context.readRelated({ signal })
    expect(await deleted()).toBe(before)
    await context.read(assignment, 'incremental', { signal, shouldYield: () => true })
    await context.readRelated({ signal })
    expect(await deleted()).toBe(before)
    simulator.source.remove('assignment', 3, 'hard')
    await context.read(assignment, 'incremental', { signal })
    await context.readRelated({ signal })
    expect(await childDifferences(pool, simulator)).toEqual([])
  })
})
