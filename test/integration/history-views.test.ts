// The views of the past: what they say is compared with copies of the view that were taken while rows changed at random.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'
import { waitedFor } from '../support/waited-for.ts'

const assignment = streamOf('assignment')
const note = streamOf('assignment_note')
const object = streamOf('assignment_object')

describe.skipIf(!hasPostgres)('the past in schema bi', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const clock = async (): Promise<string> => (await query('select clock_timestamp()::text as at'))[0].at
  const columnsOf = async (name: string): Promise<string[]> =>
    (
      await query(
        `select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0 order by attnum`,
        [`bi.${name}`],
      )
    ).map(({ attname }) => attname)

  const snapshot = async (view: string, key: string) =>
    new Map(
      (
        await query(`select ${key}::text as key, to_jsonb(mine) - '_synced_at' as row from ${view} as mine`)
      ).map(({ key: of, row }) => [of as string, row as Record<string, unknown>]),
    )

  const changeSome = async ({ source }: Simulator, round: number) => {
    for (const [kind, field] of [
      ['assignment', 'Subject'],
      ['assignment_object', 'Name'],
    ] as const) {
      const living = (await query(`select ${kind}_id::int as id from bi.${kind} order by random()`)).map(
        ({ id }) => id,
      )
      for (const id of living.slice(0, 4)) source.change(kind, id, { [field]: `${round} of ${id}` })
      source.remove(kind, living[5], kind === 'assignment' && round % 2 === 0 ? 'soft' : 'hard')
      source.insert(kind)
    }
  }

  it('agrees with copies of the view, for a stream with row versions and for a list', async () => {
    await using upstream = await startSimulator({ assignments: 30, objects: 30 })
    await using context = await openTestContext(database, upstream, { HISTORY: 'all' })
    const keys = { assignment: 'assignment_id', assignment_object: 'assignment_object_id' } as const
    const read = async (of: SyncContext) => {
      for (const stream of [assignment, object]) await of.read(stream, 'incremental', { signal })
      await of.read(object, 'incremental', { signal })
      await reconcileStream({ ...of.contextOf(assignment), signal, approved: 0 })
    }
    const copies: { at: string; rows: Record<string, Map<string, Record<string, unknown>>> }[] = []
    for (let round = 0; round < 6; round++) {
      if (round > 0) await changeSome(upstream, round)
      await read(context)
      const rows = Object.fromEntries(
        await Promise.all(
          Object.entries(keys).map(async ([view, key]) => [view, await snapshot(`bi.${view}`, key)] as const),
        ),
      )
      copies.push({ at: await clock(), rows })
    }
    for (const [view, key] of Object.entries(keys)) {
      expect((await columnsOf(view)).join()).toBe(
        (await database.pool.query(`select * from bi.${view}_at(now())`)).fields
          .map(({ name }) => name)
          .join(),
      )
      for (const { at, rows } of copies) {
        expect(await snapshot(`bi.${view}_at('${at}')`, key), `${view} at ${at}`).toEqual(rows[view])
        const versions = await query(
          `select ${key}::text as key, to_jsonb(mine) - '{_synced_at,valid_from,valid_to,is_current,is_deleted}'::text[] as row
           from bi.${view}_versions as mine
           where valid_from <= $1 and (valid_to > $1 or valid_to is null) and not is_deleted`,
          [at],
        )
        expect(new Map(versions.map(({ key: of, row }) => [of, row]))).toEqual(rows[view])
      }
      for (const [index, { at, rows }] of copies.entries()) {
        const before = copies[index - 1]
        if (!before) continue
        const told = await query(
          `select ${key}::text as key, field, before, after from bi.${view}_changes where changed_at > $1 and changed_at <= $2`,
          [before.at, at],
        )
        const changed = [...(rows[view] ?? [])].flatMap(([of, row]) => {
          const was = before.rows[view]?.get(of)
          const text = (value: unknown) =>
            value === null || typeof value === 'string' ? value : JSON.stringify(value)
          return was
            ? Object.keys(row)
                .filter((field) => JSON.stringify(row[field]) !== JSON.stringify(was[field]))
                .filter((field) => !/^(sys_)?(row_version|updated)/.test(field))
                .map((field) => ({ key: of, field, before: text(was[field]), after: text(row[field]) }))
            : []
        })
        const sorted = (lines: readonly object[]) => lines.map((line) => JSON.stringify(line)).toSorted()
        const ofLiving = told.filter(({ key: of, field }) => field !== '_deleted_at' && rows[view]?.has(of))
        expect(sorted(ofLiving)).toEqual(sorted(changed))
        const gone = [...(before.rows[view]?.keys() ?? [])].filter((of) => !rows[view]?.has(of))
        expect(
          told
            .filter(({ field, before: was }) => field === '_deleted_at' && was === null)
            .map((line) => line.key)
            .toSorted(),
        ).toEqual(gone.toSorted())
      }
    }
    const [said] = await query(
      `select modified_by is not null as who, modified_at is not null as at from bi.assignment_changes where field = 'subject' limit 1`,
    )
    expect(said).toEqual({ who: true, at: true })
  })

  const past = (view: string, where: string) =>
    query(
      `select subject, is_current, is_deleted from bi.${view}_versions where ${where} order by valid_from`,
    )

  it('has no line twice that says the same: after a rewind, another zone, a repair and a restored row', async () => {
    await using upstream = await startSimulator({ assignments: 40, notes: 0 })
    const lines = async () =>
      (await query('select count(*)::int as lines from bi.assignment_history'))[0].lines as number
    const readWith = async (variables: Readonly<Record<string, string>> = {}) => {
      await using context = await openTestContext(database, upstream, { HISTORY: 'assignment', ...variables })
      const outcome = await context.read(assignment, 'incremental', { signal })
      expect(outcome).toMatchObject({ status: 'done', isComplete: true })
      return outcome.tally
    }
    await readWith()
    expect(await lines()).toBe(40)
    await rewindStream(database.pool, { stream: 'assignment', position: 0n, reason: 'a test', by: 'it' })
    upstream.source.change('assignment', 7, { Subject: 'changed' })
    expect(await readWith()).toMatchObject({ updated: 40 })
    expect(await lines()).toBe(41)
    await query(`update mirror.assignment set subject = 'forged' where assignment_id in (1, 2)`)
    upstream.source.change('assignment', 2, { Subject: 'forged' })
    await readWith()
    expect(await lines()).toBe(42)
    await query('delete from mirror.assignment where assignment_id <= 20')
    expect((await readWith()).inserted).toBe(20)
    expect(await lines()).toBe(42)
    // Its times are others now: that is no equal line.
    await query(`update tidemark.stream set read_zones = null`)
    await readWith()
    expect(await lines()).toBe(42)
    expect(await past('assignment', 'assignment_id = 2')).toEqual([
      { subject: expect.not.stringMatching('forged'), is_current: false, is_deleted: false },
      { subject: 'forged', is_current: true, is_deleted: false },
    ])
  })

  it('keeps a line of a row that another run wrote while this one waited', async () => {
    const store = storeOf(database, { histories: { assignment: Number.POSITIVE_INFINITY } })
    const page = (version: number, Subject: string) =>
      assignments({ AssignmentId: 1, RowVersion: version, Subject })
    const first = await begin(store)
    await first.pages.commit(page(1, 'as it was'), null)
    await first.finish(done)
    const second = await begin(store)
    // So its record is written once more, although it is as before.
    await writeAsTidemark(database.pool, `update mirror.assignment set _hash = ''`)
    const other = await database.pool.connect()
    try {
      await other.query(`begin; set local tidemark.writer = 'on'`)
      await other.query(`with written as (
          update mirror.assignment as mine set _deleted_at = now() - interval '1 hour', _deleted_reason = 'absent' returning mine.*
        ) insert into mirror.assignment_history (assignment_id, row_version, subject, _observed_at, _deleted_at)
        select assignment_id, row_version, subject, clock_timestamp(), _deleted_at from written`)
      const waiting = second.pages.commit(page(1, 'as it was'), null)
      await waitedFor(other)
      await other.query('commit')
      await waiting
    } finally {
      other.release()
    }
    await second.finish(done)
    expect((await query('select from bi.assignment')).length).toBe(1)
    expect((await query('select from bi.assignment_at(clock_timestamp())')).length).toBe(1)
    expect((await past('assignment', 'assignment_id = 1')).map((line) => line.is_deleted)).toEqual([
      false,
      true,
      false,
    ])
  })

  it('shows columns that come later, wider types, and fields that are called like its own', async () => {
    const store = storeOf(database, { histories: { assignment: Number.POSITIVE_INFINITY } })
    const run = await begin(store)
    const commit = (record: object) =>
      run.pages.commit(assignments({ AssignmentId: 1, ...record } as Parameters<typeof assignments>[0]), null)
    await commit({ RowVersion: 1, Size: 5 })
    await query('revoke execute on function bi.assignment_at from public')
    await commit({ RowVersion: 2, Size: 5, ValidFrom: 'Monday', Field: 'north', ModifiedBy: 'ann' })
    await commit({
      RowVersion: 3,
      Size: JSON.rawJSON('92233720368547758080'),
      ValidFrom: 'Monday',
      ModifiedBy: 'ben',
    })
    await run.finish(done)
    const columns = await columnsOf('assignment_versions')
    expect(columns.slice(-3)).toEqual(['record_valid_from', 'field', 'modified_by'])
    expect(columns).toEqual(
      expect.arrayContaining(['size', '_synced_at', 'valid_from', 'valid_to', 'is_current', 'is_deleted']),
    )
    expect(
      await query('select size, record_valid_from from bi.assignment_versions where is_current'),
    ).toEqual([{ size: '92233720368547758080', record_valid_from: 'Monday' }])
    expect(
      await query(
        `select field, before, after, modified_by from bi.assignment_changes where modified_by = 'ben' order by 1`,
      ),
    ).toEqual([
      { field: 'field', before: 'north', after: null, modified_by: 'ben' },
      { field: 'size', before: '5', after: '92233720368547758080', modified_by: 'ben' },
    ])
    expect(await query('select size, valid_from, field from bi.assignment_at(clock_timestamp())')).toEqual([
      { size: '92233720368547758080', valid_from: 'Monday', field: null },
    ])
    expect(
      await query(
        `select has_function_privilege('public', 'bi.assignment_at(timestamptz)', 'execute') as may`,
      ),
    ).toEqual([{ may: false }])
  })

  it('leaves alone what others built on it, and what they put in its place', async () => {
    const store = storeOf(database, { histories: { assignment: Number.POSITIVE_INFINITY } })
    await query('create view bi.assignment_versions as select 1 as theirs')
    const run = await begin(store)
    const commit = (record: object) =>
      run.pages.commit(assignments({ AssignmentId: 1, ...record } as Parameters<typeof assignments>[0]), null)
    await commit({ RowVersion: 1, Size: 5 })
    await query('create view public.on_monday as select * from bi.assignment_at(now())')
    await commit({ RowVersion: 2, Size: 6, Color: 'red' })
    expect(await query('select theirs from bi.assignment_versions')).toEqual([{ theirs: 1 }])
    expect((await query('select size::int from public.on_monday'))[0]).toEqual({ size: 6 })
    await commit({ RowVersion: 3, Size: JSON.rawJSON('92233720368547758080') })
    expect(await query('select size, _rescued from mirror.assignment')).toEqual([
      { size: null, _rescued: expect.anything() },
    ])
    await run.finish(done)
    expect((await query('select from public.on_monday')).length).toBe(1)
  })

  it('begins for related records too, and tells when it begins', async () => {
    await using upstream = await startSimulator({ assignments: 20, notes: 5 })
    await using context = await openTestContext(database, upstream, { HISTORY: 'all', RELATED: 'true' })
    for (const stream of [assignment, note]) await context.read(stream, 'incremental', { signal })
    await context.readRelated({ signal })
    const begun = await query(
      `select stream, history_from is not null as kept from tidemark.freshness where stream in ('customer', 'assignment', 'attachment') order by 1`,
    )
    expect(begun.every(({ kept }) => kept)).toBe(true)
    const [{ customers, now }] = await query(
      'select (select count(*)::int from bi.customer) as customers, (select count(*)::int from bi.customer_at(clock_timestamp())) as now',
    )
    expect(customers).toBeGreaterThan(0)
    expect(now).toBe(customers)
    const [{ from }] = await query(
      `select history_from::text as from from tidemark.freshness where stream = 'assignment'`,
    )
    await expect(
      query(`select from bi.assignment_at($1::timestamptz - interval '1 microsecond')`, [from]),
    ).rejects.toThrow('The history of assignment begins at')
    await query('select from bi.assignment_at($1::timestamptz)', [from])
  })

  it('is made by a new version where there was a history before', async () => {
    const store = storeOf(database, { histories: { assignment: Number.POSITIVE_INFINITY } })
    const run = await begin(store)
    await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: 1 }), null)
    await run.finish(done)
    await query(`drop view bi.assignment_versions, bi.assignment_changes; drop function bi.assignment_at;
      update tidemark.stream set history_from = null`)
    await migrateDatabase({ database, streams, biRole: null, log: quietLog })
    const [{ lines, at, from }] = await query(
      `select (select count(*)::int from bi.assignment_versions) as lines, (select count(*)::int from bi.assignment_at(now())) as at,
         (select history_from = (select min(_observed_at) from bi.assignment_history) from tidemark.freshness where stream = 'assignment') as from`,
    )
    expect({ lines, at, from }).toEqual({ lines: 1, at: 1, from: true })
  })
})
