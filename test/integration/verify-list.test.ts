// What a verification of a list stream names, what it mends, and what it does not accuse.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import type { ListStream } from '../../src/streams/catalog.ts'
import type { Difference } from '../../src/sync/ports/audits.ts'
import { verifyStream } from '../../src/sync/reconcile/verify.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { streamOf } from '../support/streams.ts'
import { callVerb } from '../support/verbs.ts'

const tracker = streamOf('tracker_object')
const object = streamOf('assignment_object')
const subscription = streamOf('webhook_subscription')

type Told = { readonly key: string; readonly kind: string; readonly columns: readonly string[] }

async function verify(context: SyncContext, stream: ListStream, repair = false) {
  const found: Difference[] = []
  const outcome = await verifyStream({
    ...context.contextOf<ListStream>(stream),
    signal,
    repair,
    sample: null,
    onDifference: (difference) => found.push(difference),
  })
  if (outcome.error) throw outcome.error
  const told: Told[] = found.map(({ key, kind, columns }) => ({ key, kind, columns }))
  return { ...outcome, found: told.toSorted((a, b) => Number(a.key) - Number(b.key)) }
}

describe.skipIf(!hasPostgres)('a verification of a list stream', () => {
  describe('after damage by hand', () => {
    const database = createTestDatabase()
    it('names exactly those rows, writes nothing, and mends them when told to', async () => {
      await using simulator = await startSimulator({ assignments: 1, trackers: 60 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '7' })
      const { pool } = database
      await context.read(tracker, 'incremental', { signal })
      expect(await verify(context, tracker)).toMatchObject({ found: [], findings: { isWhole: true } })
      await pool.query(`
        update mirror.tracker_object set latitude = 0 where tracker_object_id = 1;
        update mirror.tracker_object set _deleted_at = now(), _deleted_reason = 'absent' where tracker_object_id = 2;
        delete from mirror.tracker_object where tracker_object_id = 3;
        insert into mirror.tracker_object (tracker_object_id, _first_seen_at, _synced_at, _hash)
          values (1000001, now(), now() - interval '1 minute', '\\x00')`)
      simulator.source.change('tracker_object', 4, { Name: 'changed since the poll' })
      const named = [
        { key: '1', kind: 'content', columns: ['latitude'] },
        { key: '2', kind: 'content', columns: ['_deleted_at'] },
        { key: '3', kind: 'missing', columns: [] },
        { key: '4', kind: 'stale', columns: expect.arrayContaining(['name']) },
        { key: '1000001', kind: 'extra', columns: [] },
      ]
      const rows = async () =>
        (await pool.query('select * from mirror.tracker_object order by tracker_object_id')).rows
      const before = await rows()
      expect((await verify(context, tracker)).found).toEqual(named)
      expect(await rows()).toEqual(before)
      const repaired = await verify(context, tracker, true)
      expect(repaired).toMatchObject({ found: named, findings: { differences: 5, repaired: 5 } })
      expect(await verify(context, tracker)).toMatchObject({ found: [], findings: { isWhole: true } })
      const { rows: history } = await pool.query(
        'select _deleted_at is not null as gone from mirror.tracker_object_history where tracker_object_id = 1000001',
      )
      expect(history).toEqual([{ gone: true }])
    })
  })

  describe('while records change', () => {
    const database = createTestDatabase()
    it('accuses none that changed between its two listings', async () => {
      await using simulator = await startSimulator({ assignments: 1, trackers: 20 })
      await using context = await openTestContext(database, simulator)
      await context.read(tracker, 'incremental', { signal })
      await database.pool.query('update mirror.tracker_object set name = null where tracker_object_id = 9')
      simulator.onRequest(({ path }) => {
        if (path.endsWith('/TrackerObject')) simulator.source.change('tracker_object', 5)
      })
      expect((await verify(context, tracker)).found).toEqual([
        { key: '9', kind: 'content', columns: ['name'] },
      ])
    })
  })

  describe('while vehicles move', () => {
    const database = createTestDatabase()
    it('is no difference what changed or came since the last poll; damage is, and what a repair finds is mended', async () => {
      await using simulator = await startSimulator({ assignments: 1, trackers: 20 })
      await using context = await openTestContext(database, simulator)
      await context.read(tracker, 'incremental', { signal })
      for (const id of [4, 5, 6]) simulator.source.change('tracker_object', id)
      simulator.source.insert('tracker_object')
      const moving = await verify(context, tracker)
      expect(moving).toMatchObject({
        found: [],
        findings: { differences: 0, changedSincePoll: 4, isWhole: true },
      })
      expect(moving.note).toBe('verification: no difference; 4 records changed since the last poll')
      expect(await callVerb(['verify', 'tracker_object'], environmentFor(simulator, database))).toMatchObject(
        {
          code: 0,
        },
      )
      await database.pool.query('update mirror.tracker_object set name = null where tracker_object_id = 9')
      expect((await verify(context, tracker)).found).toContainEqual(
        expect.objectContaining({ key: '9', kind: 'content' }),
      )
      expect(await verify(context, tracker, true)).toMatchObject({
        findings: { differences: 5, repaired: 5 },
      })
      await context.read(tracker, 'incremental', { signal })
      // Without a trace, as where triggers are off.
      await writeAsTidemark(
        database.pool,
        'update mirror.tracker_object set name = null where tracker_object_id = 3',
      )
      simulator.source.change('tracker_object', 7)
      expect((await verify(context, tracker)).found).toEqual([
        { key: '3', kind: 'content', columns: ['name'] },
      ])
    })
  })

  describe('that is empty, shrunken, or was never polled', () => {
    const database = createTestDatabase()
    it('takes nothing for proven, and an empty one that never had anything for equal (P7)', async () => {
      await using simulator = await startSimulator({ assignments: 1, trackers: 10, objects: 5 })
      await using context = await openTestContext(database, simulator)
      expect(await verify(context, subscription)).toMatchObject({ found: [], findings: { isWhole: true } })
      expect(await verify(context, object)).toMatchObject({
        findings: { isWhole: false },
        note: expect.stringContaining('tidemark sync assignment_object'),
      })
      await context.read(tracker, 'incremental', { signal })
      for (const id of simulator.source.ids('tracker_object').slice(1))
        simulator.source.remove('tracker_object', id, 'hard')
      expect(await verify(context, tracker, true)).toMatchObject({
        found: [],
        findings: { isWhole: false },
        note: expect.stringContaining('too many to be believed'),
      })
      const { rowCount } = await database.pool.query('select from bi.tracker_object')
      expect(rowCount).toBe(10)
    })
  })
})
