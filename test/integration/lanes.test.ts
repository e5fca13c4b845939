// What each lane does against the stand-in: late versions, a restored upstream, lists that lose rows, and what idling costs.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { neverAborted, openTestContext, positionOf } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const tracker = streamOf('tracker_object')
const webhookDefinition = streamOf('webhook_definition')
const signal = neverAborted

describe.skipIf(!hasPostgres)('the look-back run', () => {
  describe('after a version came late', () => {
    const database = createTestDatabase()
    it('finds it, measures how late it was, and looks back twice as far from then on (P6)', async () => {
      await using simulator = await startSimulator({ assignments: 100 })
      await using context = await openTestContext(database, simulator, { LOOKBACK: '60s' })
      await context.read(assignment, 'incremental', { signal })
      const late = simulator.source.changeLate('assignment', 5, { Subject: 'late' })
      simulator.source.change('assignment', 6)
      await context.read(assignment, 'incremental', { signal })
      await database.pool.query(`update tidemark.checkpoint set reached_at = reached_at - interval '1 hour'`)
      await database.pool.query(
        `update tidemark.checkpoint set reached_at = now() - interval '54 s' where position >= $1 - 1`,
        [late.version.toString()],
      )
      late.commit()
      expect(await context.read(assignment, 'incremental', { signal })).toMatchObject({
        tally: { updated: 0 },
      })
      const position = await positionOf(database.pool)
      const lookback = await context.read(assignment, 'lookback', { signal })
      expect(lookback).toMatchObject({ status: 'done', tally: { updated: 1 }, note: '1 late' })
      expect(await positionOf(database.pool)).toBe(position)
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
      const { rows } = await database.pool.query(
        'select key, version::text, distance::text, late_ms::int from tidemark.late_arrival',
      )
      expect(rows).toMatchObject([{ key: '5', version: late.version.toString(), distance: '1' }])
      const lateMs: number = rows[0].late_ms
      expect(lateMs).toBeGreaterThanOrEqual(54_000)
      const stream = await database.pool.query(
        `select lookback_ms::int from tidemark.stream where name = 'assignment'`,
      )
      expect(stream.rows[0].lookback_ms).toBe(2 * lateMs)
    })
  })

  describe('when the newest record was deleted', () => {
    const database = createTestDatabase()
    it('takes it for a delete, not for a restored upstream', async () => {
      await using simulator = await startSimulator({ assignments: 20 })
      await using context = await openTestContext(database, simulator)
      const { id } = simulator.source.insert('assignment')
      await context.read(assignment, 'incremental', { signal })
      simulator.source.remove('assignment', id)
      expect(await context.read(assignment, 'lookback', { signal })).toMatchObject({ status: 'done' })
      expect(await context.read(assignment, 'incremental', { signal })).toMatchObject({ status: 'done' })
    })
  })
})

describe.skipIf(!hasPostgres)('a list stream', () => {
  describe('that loses rows', () => {
    const database = createTestDatabase({ forEach: true })
    const deleted = async () =>
      (
        await database.pool.query<{ key: string }>(
          'select tracker_object_id::text as key from mirror.tracker_object where _deleted_at is not null order by 1',
        )
      ).rows.map(({ key }) => key)

    it('marks what two complete listings in a row lacked, and takes it back when it returns (P7)', async () => {
      await using simulator = await startSimulator({ trackers: 250 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      const poll = () => context.read(tracker, 'incremental', { signal })
      expect(await poll()).toMatchObject({ status: 'done', tally: { inserted: 250 } })
      const [first = 0, second = 0] = simulator.source.ids('tracker_object')
      simulator.source.remove('tracker_object', first, 'hard')
      simulator.source.remove('tracker_object', second, 'hard')
      await poll()
      expect(await deleted()).toEqual([])
      simulator.source.insert('tracker_object', { TrackerObjectId: second })
      await poll()
      expect(await deleted()).toEqual([String(first)])
      simulator.source.insert('tracker_object', { TrackerObjectId: first })
      await poll()
      expect(await deleted()).toEqual([])
    })

    it('blocks the deletions of an empty listing and of one that lost more than a fifth (P7)', async () => {
      await using simulator = await startSimulator({ trackers: 250 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '100' })
      const poll = () => context.read(tracker, 'incremental', { signal })
      await poll()
      for (const id of simulator.source.ids('tracker_object').slice(0, 60))
        simulator.source.remove('tracker_object', id, 'hard')
      for (let round = 0; round < 3; round++)
        expect(await poll()).toMatchObject({ note: expect.stringContaining('blocked'), isComplete: false })
      expect(await deleted()).toEqual([])
      for (const id of simulator.source.ids('tracker_object'))
        simulator.source.remove('tracker_object', id, 'hard')
      for (let round = 0; round < 3; round++) expect((await poll()).note).toContain('blocked')
      expect(await deleted()).toEqual([])
    })
  })

  describe('whose key an operator changes', () => {
    const database = createTestDatabase()
    it('gives its table the other one, and keeps the rows', async () => {
      await using simulator = await startSimulator({ trackers: 20 })
      const poll = async (key: string) => {
        await using context = await openTestContext(database, simulator, { KEY_TRACKER_OBJECT: key })
        return await context.read(tracker, 'incremental', { signal })
      }
      expect(await poll('trackerobjectid')).toMatchObject({ status: 'done', tally: { inserted: 20 } })
      expect(await poll('TrackerObjectId')).toMatchObject({ status: 'done', tally: { unchanged: 20 } })
      await database.pool.query(`update mirror.tracker_object set _first_seen_at = '2020-01-01Z'`)
      expect(await poll('UID')).toMatchObject({ status: 'done', tally: { inserted: 0 } })
      const { rows } = await database.pool.query(
        `select count(*)::int as rows from mirror.tracker_object
         where _first_seen_at = '2020-01-01Z' and _deleted_at is null`,
      )
      expect(rows).toEqual([{ rows: 20 }])
      expect(await poll('UID')).toMatchObject({ status: 'done', tally: { unchanged: 20 } })
      const { status, error } = await poll('Name,Nothing')
      expect(status).toBe('failed')
      expect(error?.message).toContain('KEY_TRACKER_OBJECT is Name,Nothing, but not every record')
      expect(await poll('TrackerObjectId,UID')).toMatchObject({ status: 'done', tally: { inserted: 0 } })
      expect(await poll('TrackerObjectId')).toMatchObject({ status: 'done', tally: { inserted: 0 } })
    })
  })

  describe('without paging', () => {
    const database = createTestDatabase()
    it('is asked for once', async () => {
      await using simulator = await startSimulator()
      await using context = await openTestContext(database, simulator)
      const outcome = await context.read(webhookDefinition, 'incremental', { signal })
      expect(outcome.tally).toMatchObject({
        requests: 1,
        inserted: simulator.source.count('webhook_definition'),
      })
    })
  })
})

describe.skipIf(!hasPostgres)('an idle poll', () => {
  const database = createTestDatabase({ forEach: true })
  it('costs one request and at most six statements, and fills nothing (P10)', async () => {
    await using simulator = await startSimulator({ assignments: 300 })
    await using context = await openTestContext(database, simulator)
    await context.read(assignment, 'incremental', { signal })
    await context.read(assignment, 'incremental', { signal })
    const statements = await listStatements(context.database, () =>
      context.read(assignment, 'incremental', { signal }),
    )
    expect(statements.result.tally.requests).toBe(1)
    // One of them, at most once in a while, asks whether the upstream told any worker to wait.
    expect(statements.texts.length, statements.texts.join('\n')).toBeLessThanOrEqual(6)
    const size = async () =>
      Number((await database.pool.query('select pg_database_size(current_database()) as size')).rows[0].size)
    await database.pool.query('vacuum')
    const before = await size()
    for (let poll = 0; poll < 100; poll++) await context.read(assignment, 'incremental', { signal })
    expect((await size()) - before).toBeLessThan(1024 * 1024)
    const { rows } = await database.pool.query(
      `select count(*)::int as lines, sum(polls)::int as polls from tidemark.run`,
    )
    expect(rows[0].polls).toBeGreaterThan(100)
    expect(rows[0].lines).toBeLessThan(10)
  })

  it('costs one request where `since` includes its own version too', async () => {
    await using simulator = await startSimulator({ assignments: 301, behaviour: { inclusive: true } })
    await using context = await openTestContext(database, simulator)
    await context.read(assignment, 'incremental', { signal })
    await context.read(assignment, 'incremental', { signal })
    expect((await context.read(assignment, 'incremental', { signal })).tally.requests).toBe(1)
  })
})

async function listStatements<Result>(
  { pool }: { readonly pool: import('pg').Pool },
  work: () => Promise<Result>,
): Promise<{ texts: string[]; result: Result }> {
  const texts: string[] = []
  const counted = new Set<import('pg').PoolClient>()
  const watch = (client: import('pg').PoolClient) => {
    if (counted.has(client)) return
    counted.add(client)
    const query = client.query.bind(client) as (...parameters: unknown[]) => unknown
    client.query = ((...parameters: unknown[]) => {
      const [first] = parameters
      texts.push(typeof first === 'string' ? first : ((first as { text?: string }).text ?? 'copy'))
      return query(...parameters)
    }) as typeof client.query
  }
  pool.on('acquire', watch)
  try {
    return { result: await work(), texts }
  } finally {
    pool.off('acquire', watch)
  }
}
