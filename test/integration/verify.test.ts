// What a verification names, what it mends, and what it does not accuse.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import type { Difference } from '../../src/sync/ports/audits.ts'
import { verifyStream } from '../../src/sync/reconcile/verify.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'
import { waitedFor } from '../support/waited-for.ts'

const assignment = streamOf('assignment')
const signal = neverAborted

async function verify(context: SyncContext, options: { repair?: boolean; sample?: number } = {}) {
  const found: Difference[] = []
  const outcome = await verifyStream({
    ...context.contextOf(assignment),
    signal,
    repair: options.repair ?? false,
    sample: options.sample ?? null,
    onDifference: (difference) => found.push(difference),
  })
  if (outcome.error) throw outcome.error
  const byKey = found.toSorted((a, b) => Number(a.key) - Number(b.key))
  return { ...outcome, found: byKey.map(({ key, kind, columns }) => ({ key, kind, columns })) }
}

describe.skipIf(!hasPostgres)('a verification', () => {
  describe('after damage by hand', () => {
    const database = createTestDatabase()
    it('names exactly those rows, by key and column, writes nothing, and mends them when told to', async () => {
      await using simulator = await startSimulator({ assignments: 300 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '50' })
      await context.read(assignment, 'incremental', { signal })
      const { pool } = database
      expect((await verify(context)).found).toEqual([])
      await pool.query(`
        update mirror.assignment set subject = 'forged' where assignment_id = 1;
        update mirror.assignment set subject = null, uid = null where assignment_id = 2;
        update mirror.assignment set row_version = row_version + 1000000 where assignment_id = 3;
        update mirror.assignment set row_version = 0 where assignment_id = 4;
        update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = 5;
        update mirror.assignment set _rescued = '{"Odd": 1}' where assignment_id = 6;
        delete from mirror.assignment where assignment_id = 7;
        insert into mirror.assignment (assignment_id, row_version, _first_seen_at, _synced_at, _hash)
          values (1000001, 1, now(), now() - interval '1 minute', '\\x00')`)
      const damaged = [
        { key: '1', kind: 'content', columns: ['subject'] },
        { key: '2', kind: 'content', columns: ['subject', 'uid'] },
        { key: '3', kind: 'content', columns: ['row_version'] },
        { key: '4', kind: 'stale', columns: ['row_version'] },
        { key: '5', kind: 'content', columns: ['_deleted_at'] },
        { key: '6', kind: 'content', columns: ['_rescued.Odd'] },
        { key: '7', kind: 'missing', columns: [] },
        { key: '1000001', kind: 'extra', columns: [] },
      ]
      const before = (await pool.query('select * from mirror.assignment order by assignment_id')).rows
      const first = await verify(context)
      expect(first.found.map(({ columns, ...one }) => ({ ...one, columns: [...columns].sort() }))).toEqual(
        damaged,
      )
      expect((await pool.query('select * from mirror.assignment order by assignment_id')).rows).toEqual(
        before,
      )
      expect(await verify(context, { repair: true })).toMatchObject({
        findings: { differences: 8, repaired: 8 },
      })
      expect((await verify(context)).found).toEqual([])
      expect(await differences(pool, simulator, 'assignment')).toEqual([])
      const { rows } = await pool.query(
        `select count(*)::int as mended from mirror.assignment m
         where not exists (select from unnest($1::bigint[], $2::timestamptz[]) as old (id, at)
                           where old.id = m.assignment_id and old.at = date_trunc('milliseconds', m._synced_at))`,
        [before.map((row) => row.assignment_id), before.map((row) => row._synced_at)],
      )
      expect(rows).toEqual([{ mended: 8 }])
    })
  })

  describe('while rows change', () => {
    const database = createTestDatabase()
    it('accuses no row that changed meanwhile, nor one the incremental run has yet to read', async () => {
      await using simulator = await startSimulator({ assignments: 200 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '20' })
      await context.read(assignment, 'incremental', { signal })
      simulator.source.insert('assignment')
      await writeAsTidemark(
        database.pool,
        `update mirror.assignment set subject = 'forged' where assignment_id = 150`,
      )
      let requests = 0
      simulator.onRequest(async ({ path }) => {
        if (!path.endsWith('/api/Assignment')) return
        simulator.source.change('assignment', 1 + (++requests % 100))
        if (requests % 4 === 0) await context.read(assignment, 'incremental', { signal })
      })
      expect((await verify(context)).found).toEqual([{ key: '150', kind: 'content', columns: ['subject'] }])
    })
  })

  describe('of a sample', () => {
    const database = createTestDatabase()
    it('looks at so many rows by their ids, and lists nothing', async () => {
      await using simulator = await startSimulator({ assignments: 50 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      await database.pool.query(`update mirror.assignment set subject = 'forged'`)
      const paths: string[] = []
      simulator.onRequest(({ path }) => void paths.push(path))
      const { found, findings } = await verify(context, { sample: 9 })
      expect(findings).toMatchObject({ compared: 9, differences: 9 })
      expect(found.every(({ columns }) => columns.join() === 'subject')).toBe(true)
      expect(paths.every((path) => /\/Id\/\d+$/.test(path) || path.includes('Token'))).toBe(true)
    })
  })

  describe('after the upstream was restored from a backup', () => {
    const database = createTestDatabase()
    it('and the stream was rewound, makes the mirror equal to it again', async () => {
      await using simulator = await startSimulator({ assignments: 100 })
      await using context = await openTestContext(database, simulator)
      const backup = simulator.source.takeBackup()
      const position = simulator.source.highestVersion('assignment')
      for (let id = 1; id <= 10; id++) simulator.source.change('assignment', id)
      const { id: lost } = simulator.source.insert('assignment')
      await context.read(assignment, 'incremental', { signal })
      simulator.source.restoreBackup(backup)
      for (let id = 5; id >= 1; id--) simulator.source.change('assignment', id, { Subject: 'new life' })
      await rewindStream(database.pool, { stream: 'assignment', position, reason: 'restored', by: 'a test' })
      await context.read(assignment, 'incremental', { signal })
      const { found } = await verify(context, { repair: true })
      expect(found.map(({ key }) => Number(key))).toEqual([6, 7, 8, 9, 10, lost])
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    })
  })

  describe('of a row that is written between the look and the repair', () => {
    const database = createTestDatabase()
    it('leaves what came (P3)', async () => {
      await using simulator = await startSimulator({ assignments: 40 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      const { pool } = database
      await writeAsTidemark(pool, `update mirror.assignment set subject = 'wrong' where assignment_id = 7`)
      const client = await pool.connect()
      try {
        await client.query(`begin; set local tidemark.writer = 'on';
          update mirror.assignment set row_version = row_version + 1000, subject = 'newer' where assignment_id = 7`)
        const verifying = verify(context, { repair: true })
        await waitedFor(client)
        await client.query('commit')
        await verifying
      } finally {
        client.release()
      }
      const { rows } = await pool.query('select subject from mirror.assignment where assignment_id = 7')
      expect(rows).toEqual([{ subject: 'newer' }])
    })
  })

  describe('while single records cannot be read', () => {
    const database = createTestDatabase()
    it('names no row as that of a vanished record, and marks none (P7)', async () => {
      await using simulator = await startSimulator({ assignments: 200 })
      await using context = await openTestContext(database, simulator)
      await context.read(assignment, 'incremental', { signal })
      simulator.behaviour.cutBeforeSort = 196
      simulator.faults.add({ kind: 404, path: /\/Id\/\d+$/ })
      expect((await verify(context, { repair: true })).findings).toMatchObject({ differences: 0, unclear: 4 })
      const { rows } = await database.pool.query(
        'select count(*)::int as marked from mirror.assignment where _deleted_at is not null',
      )
      expect(rows).toEqual([{ marked: 0 }])
      expect((await verify(context, { sample: 10 })).findings).toMatchObject({ differences: 0, unclear: 10 })
    })
  })

  describe('between a rewind and the next reading', () => {
    const database = createTestDatabase()
    it('leaves the rows it may not name open to the older versions that the reading brings (P3)', async () => {
      await using simulator = await startSimulator({ assignments: 40 })
      await using context = await openTestContext(database, simulator)
      const backup = simulator.source.takeBackup()
      const position = simulator.source.highestVersion('assignment')
      for (let id = 1; id <= 10; id++) simulator.source.change('assignment', id)
      await context.read(assignment, 'incremental', { signal })
      simulator.source.restoreBackup(backup)
      simulator.source.change('assignment', 7, { Subject: 'new life' })
      await rewindStream(database.pool, { stream: 'assignment', position, reason: 'restored', by: 'a test' })
      expect((await verify(context, { repair: true })).findings).toMatchObject({
        differences: 9,
        repaired: 9,
      })
      await context.read(assignment, 'incremental', { signal })
      expect(await differences(database.pool, simulator, 'assignment')).toEqual([])
    })
  })

  describe('after random damage', () => {
    const database = createTestDatabase()
    it('names the damaged rows and no other, and mends them', async () => {
      await using simulator = await startSimulator({ assignments: 120 })
      await using context = await openTestContext(database, simulator, { PAGE_SIZE: '40' })
      await context.read(assignment, 'incremental', { signal })
      const { pool } = database
      const damages = {
        text: `update mirror.assignment set subject = coalesce(subject, '') || '!' where assignment_id = $1`,
        nulled: 'update mirror.assignment set row_version = null, subject = null where assignment_id = $1',
        ahead: 'update mirror.assignment set row_version = row_version + 5000 where assignment_id = $1',
        behind: 'update mirror.assignment set row_version = -1 where assignment_id = $1',
        dead: `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = $1`,
        removed: 'delete from mirror.assignment where assignment_id = $1',
      }
      const damage = fc.record({
        id: fc.integer({ min: 1, max: 120 }),
        kind: fc.constantFrom(...(Object.keys(damages) as (keyof typeof damages)[])),
      })
      const plan = fc.uniqueArray(damage, { maxLength: 12, selector: ({ id }) => id })
      await fc.assert(
        fc.asyncProperty(plan, async (chosen) => {
          for (const { id, kind } of chosen) await pool.query(damages[kind], [id])
          const { found, findings } = await verify(context, { repair: true })
          expect(found.map(({ key }) => Number(key))).toEqual(
            chosen.map(({ id }) => id).sort((a, b) => a - b),
          )
          expect(findings.repaired).toBe(chosen.length)
          expect(await differences(pool, simulator, 'assignment')).toEqual([])
        }),
        { numRuns: 12 },
      )
    })
  })
})
