// Where a tracker was: the past of its rows, as polls of the stand-in find it.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readRowChanges } from '../../src/store/book/changes.ts'
import { storyTable } from '../../src/store/book/row-story.ts'
import { migrateDatabase } from '../../src/store/schema/migrate.ts'
import { knownStreams as streams } from '../../src/streams/catalog.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres, quietLog } from '../support/database.ts'
import { begin, done, failed, storeOf, trackers, writeAll } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'

const tracker = streamOf('tracker_object')

describe.skipIf(!hasPostgres)('the history of trackers', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const count = async () =>
    (await query('select count(*)::int as rows from bi.tracker_object_history'))[0].rows
  const partitions = async () =>
    (
      await query(`select 'tidemark.' || relname as name from pg_inherits join pg_class on pg_class.oid = inhrelid
                   where inhparent = 'mirror.tracker_object_history'::regclass order by 1`)
    ).map(({ name }) => name)

  const pollOne = () =>
    writeAll(storeOf(database), 'tracker_object', trackers({ TrackerObjectId: 1, Name: 'the first' }))

  it('has a row for each change that was seen, and none for what stayed as it was', async () => {
    await using simulator = await startSimulator({ trackers: 250 })
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
    const poll = () => context.read(tracker, 'incremental', { signal })
    expect(await poll()).toMatchObject({ status: 'done', tally: { inserted: 250 } })
    expect(await count()).toBe(250)
    expect(await poll()).toMatchObject({ tally: { inserted: 0, updated: 0 } })
    expect(await count()).toBe(250)
    simulator.source.change('tracker_object', 7, { Latitude: 60.5 })
    simulator.source.change('tracker_object', 9)
    await poll()
    expect(await count()).toBe(252)
    simulator.source.change('tracker_object', 7, { Latitude: 61.5 })
    await poll()
    const [{ observed: noon }] = await query(
      'select _observed_at::text as observed from bi.tracker_object_history where tracker_object_id = 7 and latitude = 60.5',
    )
    const [van] = await query(
      `select latitude from bi.tracker_object_history
       where tracker_object_id = 7 and _observed_at <= $1 order by _observed_at desc limit 1`,
      [noon],
    )
    expect(Number(van.latitude)).toBe(60.5)
  })

  it('shows each local day of a vehicle, also after a column has become wider', async () => {
    const zoned = storeOf(database, { sourceTimezone: 'Europe/Oslo' })
    const at = (LastPositionTime: string, Latitude: number, Odometer: number) =>
      writeAll(
        zoned,
        'tracker_object',
        trackers({ TrackerObjectId: 1, Latitude, Longitude: 10.5, LastPositionTime, Odometer }),
      )
    const days = () =>
      query(`select day::text, distance_km::float8 as km, odometer_distance::float8 as odometer, positions::int,
        to_char(first_moved_at at time zone 'Europe/Oslo', 'HH24:MI') as first, to_char(last_moved_at at time zone 'Europe/Oslo', 'HH24:MI') as last
        from bi.tracker_object_day where tracker_object_id = 1 order by day`)
    await at('2026-10-01T08:00:00Z', 60, 1000)
    await at('2026-10-01T09:00:00Z', 60.1, 1012)
    await at('2026-10-01T09:30:00Z', 60.10001, 1012)
    await at('2026-10-01T21:50:00Z', 60.2, 1024)
    await at('2026-10-01T22:10:00Z', 60.3, 1036)
    const wanted = [
      { day: '2026-10-01', km: 22.2, odometer: 24, positions: 4, first: '11:00', last: '23:50' },
      { day: '2026-10-02', km: 11.1, odometer: 12, positions: 1, first: '00:10', last: '00:10' },
    ]
    expect(await days()).toEqual(wanted)
    await at('2026-10-02T22:10:00Z', 60.3, 1036.5)
    await writeAll(zoned, 'tracker_object', trackers({ TrackerObjectId: 2 }))
    expect(await days()).toEqual([
      ...wanted,
      { day: '2026-10-03', km: null, odometer: 0.5, positions: 1, first: null, last: null },
    ])
  })

  it('tells when one was gone, and when it came back (P7)', async () => {
    await using simulator = await startSimulator({ trackers: 250 })
    await using context = await openTestContext(database, simulator)
    const poll = () => context.read(tracker, 'incremental', { signal })
    await poll()
    simulator.source.remove('tracker_object', 3, 'hard')
    await poll()
    await poll()
    simulator.source.insert('tracker_object', { TrackerObjectId: 3 }, { id: 3 })
    await poll()
    const rows = await query(
      'select _deleted_at is null as lives from bi.tracker_object_history where tracker_object_id = 3 order by _observed_at',
    )
    expect(rows.slice(-2)).toEqual([{ lives: false }, { lives: true }])
    simulator.source.change('tracker_object', 3, { Latitude: 60.1234567890123 })
    await poll()
    const table = await storyTable(database.pool, tracker)
    if (!table) throw new Error('there is no table')
    const changes = await readRowChanges(database.pool, table, '3', 10)
    expect(changes.map(({ isDeleted, isBack }) => [isDeleted, isBack])).toEqual([
      [false, false],
      [false, true],
      [true, false],
    ])
    const [moved] = changes
    expect(moved?.fields.find(({ column }) => column === 'latitude')).toMatchObject({
      after: '60.1234567890123',
    })
    expect(moved?.fieldCount).toBe(moved?.fields.length)
    expect(await readRowChanges(database.pool, table, '3', 1)).toEqual([moved])
    expect(await readRowChanges(database.pool, table, '4', 10)).toEqual([])
  })

  it('is written with the page or not at all (P1)', async () => {
    await pollOne()
    const before = await count()
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    await database.pool.query(`update tidemark.lease set epoch = epoch + 1 where stream = 'tracker_object'`)
    await expect(
      run.pages.commit(trackers({ TrackerObjectId: 1, Name: 'by a stranger' }), null),
    ).rejects.toThrow('lost its turn')
    await run.finish(failed)
    expect(await count()).toBe(before)
  })

  it('gets the columns and the wider types of its table', async () => {
    await pollOne()
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    const wide = JSON.rawJSON('92233720368547758080')
    await run.pages.commit(trackers({ TrackerObjectId: 1, Load: 5, Trailer: 'T1' }), null)
    await run.pages.commit(trackers({ TrackerObjectId: 1, Load: wide, Trailer: 'T2' }), null)
    await run.finish(done)
    const rows = await query(
      `select load::text, trailer from bi.tracker_object_history
       where tracker_object_id = 1 order by _observed_at desc limit 2`,
    )
    expect(rows).toEqual([
      { load: '92233720368547758080', trailer: 'T2' },
      { load: '5', trailer: 'T1' },
    ])
  })

  it('makes its months ahead, drops the old ones, and keeps where things stood (P10)', async () => {
    await pollOne()
    const now = new Date()
    const monthsAgo = (months: number) =>
      new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months, 1)).toISOString()
    const nameOf = (months: number) =>
      `tidemark.tracker_object_history_${monthsAgo(months).slice(0, 7).replace('-', '_')}`
    expect(await partitions()).toEqual([nameOf(0), nameOf(-1)].toSorted())
    await query(`
      create table ${nameOf(5)} partition of mirror.tracker_object_history for values from ('${monthsAgo(5)}') to ('${monthsAgo(4)}');
      create table ${nameOf(1)} partition of mirror.tracker_object_history for values from ('${monthsAgo(1)}') to ('${monthsAgo(0)}');
      insert into mirror.tracker_object_history (tracker_object_id, name, _observed_at)
      values (900, 'before', '${monthsAgo(5)}'), (900, 'parked', timestamptz '${monthsAgo(5)}' + interval '1 day')`)
    const run = await begin(storeOf(database), 'tracker_object', 'list')
    await run.pages.commit(trackers({ TrackerObjectId: 1 }), null)
    await run.finish(done)
    expect(await partitions()).toEqual([nameOf(1), nameOf(0), nameOf(-1)].toSorted())
    expect(
      await query('select name, _observed_at from bi.tracker_object_history where tracker_object_id = 900'),
    ).toEqual([{ name: 'parked', _observed_at: new Date(monthsAgo(1)) }])
  })

  it('can be switched off, and begins again with what changed meanwhile', async () => {
    await using simulator = await startSimulator({ trackers: 20 })
    const switched = async (value: string) => {
      await using context = await openTestContext(database, simulator, { TRACKER_HISTORY: value })
      expect(await context.read(tracker, 'incremental', { signal })).toMatchObject({ status: 'done' })
    }
    await switched('90d')
    simulator.source.change('tracker_object', 2, { Name: 'while it was off' })
    const before = await count()
    await switched('off')
    expect(await count()).toBe(before)
    await switched('90d')
    expect(
      await query('select name from bi.tracker_object_history order by _observed_at desc limit 1'),
    ).toEqual([{ name: 'while it was off' }])
    expect(await count()).toBe(before + 1)
  })

  it('may be read by the BI role, of its partitions nothing', async () => {
    await pollOne()
    const role = `${database.name}_bi`
    await query(`create role ${role}`)
    try {
      await migrateDatabase({ database, streams, biRole: role, log: quietLog })
      const may = async (relation: string) =>
        (await query('select has_table_privilege($1, $2, $3) as may', [role, relation, 'select']))[0].may
      expect(await may('mirror.tracker_object_history')).toBe(true)
      expect(await may('bi.tracker_object_history')).toBe(true)
      const [first] = await partitions()
      expect(await may(first)).toBe(false)
    } finally {
      await query(`drop owned by ${role}; drop role ${role}`)
    }
  })
})
