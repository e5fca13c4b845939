// Keys of several fields: twins are told with the setting that tells them apart, and following it keeps every row (P5).

import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type ChangesAsked, readChanges, type StreamChange } from '../../src/store/book/changes.ts'
import { readSchemaMap } from '../../src/store/book/dictionary.ts'
import { readKeyEvents, readRow, storyTable } from '../../src/store/book/row-story.ts'
import { readRowPage, rowTable } from '../../src/store/book/rows.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { openBrowsing } from '../support/browsing.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { streamOf } from '../support/streams.ts'
import { callVerb } from '../support/verbs.ts'
import { adminToken, startTestWorker } from '../support/worker.ts'

const tracker = streamOf('tracker_object')

describe.skipIf(!hasPostgres)('a list whose records have one key', () => {
  const database = createTestDatabase()
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  let simulator: Simulator
  beforeAll(async () => {
    simulator = await startSimulator({ trackers: 60 })
  })
  afterAll(() => simulator.close())

  const withContext = async <Result>(
    work: (context: SyncContext) => Promise<Result>,
    variables: Readonly<Record<string, string>> = {},
  ) => {
    await using context = await openTestContext(database, simulator, { PAGE_SIZE: '10', ...variables })
    return await work(context)
  }
  const poll = (variables: Readonly<Record<string, string>> = {}) =>
    withContext((context) => context.read(tracker, 'incremental', { signal }), variables)
  const advice = async () => (await readSymptoms(database.pool, ['tracker_object'], 60_000))[0]?.keyAdvice
  const chosen = { KEY_TRACKER_OBJECT: 'trackerObjectId, uid' }

  it('keeps each in a row or in the quarantine, also those of two pages, and names the setting (P5)', async () => {
    await poll({ KEY_TRACKER_OBJECT: 'TrackerObjectId' })
    await query(`update mirror.tracker_object set _first_seen_at = '2020-01-01Z'`)
    simulator.behaviour.twins = 10
    await poll()
    const [aside] = await query(
      `select count(*)::int as records, min(reason) as reason from tidemark.quarantine where dropped_at is null`,
    )
    expect(aside).toEqual({
      records: 6,
      reason:
        'another record of the same answer has its key; KEY_TRACKER_OBJECT=TrackerObjectId,UID tells them apart',
    })
    expect(await advice()).toBe('KEY_TRACKER_OBJECT=TrackerObjectId,UID')
  })

  it('keeps all rows and their past when the setting is followed, and has a row for each record then', async () => {
    await query(
      `update mirror.tracker_object set _deleted_at = now(), _deleted_reason = 'absent' where tracker_object_id = 3`,
    )
    simulator.source.remove('tracker_object', 3, 'hard')
    const before = await query('select count(*)::int as rows from bi.tracker_object_history')
    expect(await poll(chosen)).toMatchObject({ status: 'done', error: null, tally: { inserted: 6 } })
    expect(
      await query(
        `select count(*) filter (where _deleted_at is null)::int as living, count(*)::int as rows,
           count(*) filter (where _first_seen_at = '2020-01-01Z')::int as old from mirror.tracker_object`,
      ),
    ).toEqual([{ living: 65, rows: 66, old: 60 }])
    expect(
      await query('select count(*)::int as rows from tidemark.quarantine where dropped_at is null'),
    ).toEqual([{ rows: 0 }])
    expect(await advice()).toBeNull()
    expect(
      await query('select count(*)::int as keyless from bi.tracker_object_history where _key is null'),
    ).toEqual([{ keyless: 0 }])
    expect(
      (await query('select count(*)::int as rows from bi.tracker_object_history'))[0].rows,
    ).toBeGreaterThan(before[0].rows)
    expect(await poll(chosen)).toMatchObject({
      status: 'done',
      tally: { inserted: 0, updated: 0 },
    })
    expect(await poll()).toMatchObject({ status: 'done', tally: { inserted: 0, updated: 0 } })
  })

  it('notices that one of both is gone, after two whole lists (P7)', async () => {
    simulator.behaviour.twins = null
    const living = async () => (await query('select count(*)::int as rows from bi.tracker_object'))[0].rows
    await poll(chosen)
    expect(await living()).toBe(65)
    await poll(chosen)
    expect(await living()).toBe(59)
    simulator.behaviour.twins = 10
    expect(await poll(chosen)).toMatchObject({ tally: { updated: 6 } })
    expect(await living()).toBe(65)
  })

  it('is verified, compared, shown and described by that key', async () => {
    await withContext(async (context) => {
      const { rows } = await database.pool.query<{ key: string }>(
        'select _key as key from bi.tracker_object where tracker_object_id = 10 order by 1',
      )
      expect(rows).toHaveLength(2)
      const key = rows[0]?.key ?? ''
      expect(JSON.parse(key)).toEqual([10, expect.stringMatching(/^[0-9a-f-]{36}$/)])
      const table = await storyTable(database.pool, tracker)
      expect(table && (await readRow(database.pool, table, key))).toMatchObject({ deletedAt: null })
      expect(table && (await readKeyEvents(database.pool, table, key)).quarantine).toMatchObject([
        { droppedAt: expect.anything() },
      ])
      const found = await rowTable(database.pool, tracker)
      const page =
        found &&
        (await readRowPage(database.pool, found, {
          columns: found.columns,
          search: { text: key, deleted: 'shown' },
          after: null,
          limit: 5,
          mostCharacters: 80,
        }))
      expect(page?.rows.map((row) => row.key)).toEqual([key])
      const asked = { stream: null, column: '', limit: 5 }
      const changed: StreamChange[] = []
      for (let after: ChangesAsked['after'] = null; ; ) {
        const { changes, next } = await readChanges(database.pool, [tracker], { ...asked, after })
        changed.push(...changes)
        after = next
        if (next === null) break
      }
      const back = changed.filter(({ isBack }) => isBack).map((one) => one.key)
      expect([back.length, new Set(back).size]).toEqual([6, 6])
      expect(back).toEqual(back.toSorted().toReversed())
      expect(back.some((one) => JSON.parse(one)[0] === 10)).toBe(true)
      const [view] = await readSchemaMap(database.pool, [tracker])
      expect(view?.columns.filter(({ isKey }) => isKey).map(({ name }) => name)).toEqual(['_key'])
      expect(context.streams.length).toBeGreaterThan(0)
    }, chosen)
  })

  it('is what the verbs go by', async () => {
    const environment = environmentFor(simulator, database, { PAGE_SIZE: '10', ...chosen })
    const call = async (...words: string[]) => {
      const { code, error, stdout } = await callVerb(words, environment)
      expect({ words, code, error }).toEqual({ words, code: 0, error: null })
      return stdout
    }
    const [{ uid }] = await query('select uid::text from bi.tracker_object where tracker_object_id = 10')
    const typed = `10,${String(uid).toUpperCase()}`
    expect(JSON.parse(await call('explain', 'tracker_object', typed, '--json'))).toMatchObject({
      key: `[10,"${uid}"]`,
      mirror: { deleted_at: null },
      upstream: { says: 'cannot be asked for one record' },
    })
    expect(await callVerb(['explain', 'tracker_object', '10'], environment)).toMatchObject({
      error: expect.objectContaining({ message: expect.stringContaining('give it as TrackerObjectId,UID') }),
    })
    expect(await call('schema', 'tracker_object')).toContain('_key | text | key |')
    await call('verify', 'tracker_object')
    await call('status')
    await call('quarantine', 'list', 'tracker_object')
  })
})

describe.skipIf(!hasPostgres)('a list whose records share the key that an operator named', () => {
  const database = createTestDatabase()
  it('is not read at first, and the error names the setting that would do', async () => {
    await using simulator = await startSimulator({ trackers: 20, behaviour: { twins: 5 } })
    const poll = async (key: string) => {
      await using context = await openTestContext(database, simulator, { KEY_TRACKER_OBJECT: key })
      return await context.read(tracker, 'incremental', { signal })
    }
    const { status, error } = await poll('TrackerObjectId')
    expect(status).toBe('failed')
    const [, advice = ''] = /KEY_TRACKER_OBJECT=(\S+) tells them apart\./.exec(error?.message ?? '') ?? []
    expect(await poll(advice)).toMatchObject({ status: 'done', tally: { inserted: 24, quarantined: 0 } })
  })
})

describe.skipIf(!hasPostgres)('on the pages, a row whose key is made of several fields', () => {
  const database = createTestDatabase()
  it('is found, shown with its story, and named as one word of a command', async () => {
    await using simulator = await startSimulator({ trackers: 20, behaviour: { twins: 5 } })
    const worker = await startTestWorker(simulator, database, {
      STREAMS: 'tracker_object',
      KEY_TRACKER_OBJECT: 'TrackerObjectId,UID',
    })
    try {
      await worker.live
      const browsing = openBrowsing(worker.url)
      await browsing.signIn(adminToken)
      const page = async (path: string) => await (await browsing.get(path)).text()
      await vi.waitFor(async () => {
        expect((await database.pool.query('select from bi.tracker_object')).rowCount).toBe(24)
      }, 60_000)
      const { rows } = await database.pool.query<{ key: string }>(
        'select _key as key from bi.tracker_object where tracker_object_id = 5',
      )
      const key = rows[0]?.key ?? ''
      expect(await page('/streams/tracker_object/rows')).toContain(
        `/records/tracker_object/${encodeURIComponent(key)}`,
      )
      const record = await page(`/records/tracker_object/${encodeURIComponent(key)}`)
      expect(record).toContain('The same in the terminal')
      expect(record).toMatch(/tidemark explain tracker_object (?:'|&#39;)\[5,/)
      for (const path of ['/streams/tracker_object', '/dictionary', '/quarantine', '/problems', '/find?q=5'])
        expect((await browsing.get(path)).status, path).toBeLessThan(404)
    } finally {
      await worker.stop()
    }
  })
})

describe.skipIf(!hasPostgres)('a group of related records whose records have one key', () => {
  const database = createTestDatabase()
  it('keeps them, names the setting, and has a row for each when it is followed (P5)', async () => {
    await using simulator = await startSimulator({ assignments: 12 })
    const read = async (variables: Readonly<Record<string, string>> = {}) => {
      await using context = await openTestContext(database, simulator, { RELATED: 'true', ...variables })
      await context.read(streamOf('assignment'), 'incremental', { signal })
      return await context.readRelated({ signal })
    }
    const rowsOf = async (table: string) =>
      (await database.pool.query(`select count(*)::int as rows from ${table}`)).rows[0].rows
    await read()
    const before = await rowsOf('bi.assignment_product')
    const links = await rowsOf('tidemark.related_link')
    const product = simulator.source.insert('assignment_product', { AssignmentId: 3 })
    simulator.source.insertTwin('assignment_product', product.id, { AssignmentId: 3 })
    simulator.source.change('assignment', 3)
    expect(await read()).toMatchObject({ status: 'done' })
    expect(await rowsOf('bi.assignment_product')).toBe(before + 1)
    const symptoms = async () => (await readSymptoms(database.pool, ['assignment_product'], 60_000))[0]
    const [setting = '', key = ''] = (await symptoms())?.keyAdvice?.split('=') ?? []
    expect([setting, key]).toEqual([
      'KEY_ASSIGNMENT_PRODUCT',
      expect.stringContaining('AssignmentProductId,'),
    ])
    await database.pool.query(`update mirror.assignment_product set _first_seen_at = '2020-01-01Z'`)
    const chosen = { [setting]: key, KEY_CUSTOMER: 'CustomerId,UID' }
    expect(await read(chosen)).toMatchObject({ status: 'done', isComplete: true })
    expect(await rowsOf('bi.assignment_product')).toBe(before + 2)
    expect(await rowsOf(`mirror.assignment_product where _first_seen_at = '2020-01-01Z'`)).toBe(before + 1)
    expect((await symptoms())?.keyAdvice).toBeNull()
    expect(await rowsOf('tidemark.related_link')).toBe(links + 2)
    expect(
      await rowsOf('bi.assignment_customer join bi.customer using (_key) where customer_id is not null'),
    ).toBeGreaterThan(0)
    // Another key of several fields.
    const joined = 'bi.assignment_customer join bi.customer using (_key)'
    const customers = await rowsOf(joined)
    await read({ ...chosen, KEY_CUSTOMER: 'UID,CustomerId' })
    expect(await rowsOf(`${joined} where _key like '["%'`)).toBe(customers)
    expect(await rowsOf('tidemark.related_link')).toBe(links + 2)
    await read(chosen)
    expect(await rowsOf(`${joined} where _key not like '["%'`)).toBe(customers)
    await using context = await openTestContext(database, simulator, { RELATED: 'true', ...chosen })
    expect(await context.isRelatedDue()).toBe(false)
    const { rows } = await database.pool.query<{ key: string }>(
      'select key from tidemark.related_link where stream = $1 order by assignment_id limit 1',
      ['customer'],
    )
    const environment = environmentFor(simulator, database, { RELATED: 'true', ...chosen })
    const explained = await callVerb(['explain', 'customer', rows[0]?.key ?? '', '--json'], environment)
    expect(JSON.parse(explained.stdout)).toMatchObject({ upstream: { says: 'shown' } })
  })
})
