// What becomes of records in quarantine when they are tried again, or dropped.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { parseJson } from '../../src/json/parse.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import {
  doubtDeletions,
  dropFromQuarantine,
  readQuarantine,
  settleQuarantined,
} from '../../src/store/book/quarantine.ts'
import type { Stream } from '../../src/streams/catalog.ts'
import { sharedKeyReason } from '../../src/streams/twins.ts'
import { type Quarantined, retryQuarantine } from '../../src/sync/reconcile/quarantine-retry.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'
import { startTestWorker } from '../support/worker.ts'

const assignment = streamOf('assignment')
const tracker = streamOf('tracker_object')
const signal = neverAborted

async function retry({ contextOf, database: { pool } }: SyncContext, stream: Stream = assignment) {
  const all = await readQuarantine(pool, { stream: stream.name, id: null }, { after: '0', limit: 100 })
  async function* entries(): AsyncGenerator<Quarantined> {
    for (const { id, text } of all) yield { id, record: parseJson(Buffer.from(text)) }
  }
  return await retryQuarantine({
    ...contextOf<Stream>(stream),
    signal,
    entries: entries(),
    doubt: (id) => doubtDeletions(pool, id),
    settle: (id, why) => settleQuarantined(pool, id, why),
  })
}

describe.skipIf(!hasPostgres)('a record in quarantine', () => {
  describe('without a key, in the first answer of a list', () => {
    const database = createTestDatabase()
    it('goes there as one does that comes later, and the others are rows (P5)', async () => {
      await using simulator = await startSimulator({ trackers: 4 })
      await using context = await openTestContext(database, simulator)
      simulator.source.insertMalformed('an-empty-object', 'tracker_object')
      const list = await context.read(tracker, 'incremental', { signal })
      expect(list).toMatchObject({ status: 'done', tally: { inserted: 4, quarantined: 1 } })
    })
  })

  describe('of a changes stream', () => {
    const database = createTestDatabase()
    it('leaves it when it can be a row now, or is gone; otherwise it stays, whole (P5)', async () => {
      await using simulator = await startSimulator({ assignments: 10 })
      await using context = await openTestContext(database, simulator)
      const { pool } = database
      const raw = (text: (id: number) => string) =>
        simulator.source.appendRaw('assignment', ({ id }) => text(id)).id
      const mended = raw((id) => `{"AssignmentId":${id},"RowVersion":"none"}`)
      const gone = raw((id) => `{"AssignmentId":${id},"RowVersion":"none","Subject":"gone"}`)
      raw(() => `{"Subject":"no key","RowVersion":70000}`)
      await context.read(assignment, 'incremental', { signal })
      const reasons = async () =>
        (
          await pool.query(
            'select reason, dropped_at is not null as dropped, drop_reason from tidemark.quarantine order by drop_reason',
          )
        ).rows
      expect(await reasons()).toHaveLength(3)
      expect((await retry(context)).findings).toEqual({ tried: 3, taken: 0, replaced: 0, gone: 0 })
      simulator.source.remove('assignment', gone, 'hard')
      simulator.source.remove('assignment', mended, 'hard')
      simulator.source.insert('assignment', { Subject: 'mended' }, { id: mended })
      expect(await retry(context)).toMatchObject({
        status: 'done',
        findings: { tried: 3, taken: 1, gone: 1 },
      })
      const { rows } = await pool.query('select subject from mirror.assignment where assignment_id = $1', [
        mended,
      ])
      expect(rows).toEqual([{ subject: 'mended' }])
      expect(await reasons()).toMatchObject([
        { dropped: true, drop_reason: expect.stringContaining('became a row') },
        { dropped: true, drop_reason: expect.stringContaining('no longer') },
        { dropped: false },
      ])
      expect(await dropFromQuarantine(pool, { stream: 'assignment', id: null }, 'ours')).toBe(1)
      expect((await retry(context)).findings.tried).toBe(0)
    })
  })

  describe('that comes again', () => {
    const database = createTestDatabase()
    it('is shown again when it was settled, and not when it was dropped (P5)', async () => {
      await using simulator = await startSimulator({ assignments: 3 })
      await using context = await openTestContext(database, simulator)
      const { pool } = database
      const inQuarantine = async () =>
        (await readQuarantine(pool, { stream: 'assignment', id: null }, { after: '0', limit: 10 })).map(
          ({ id }) => id,
        )
      const rejected = () =>
        simulator.source.appendRaw('assignment', '{"AssignmentId":900,"RowVersion":"none"}', { id: 900 })
      rejected()
      await context.read(assignment, 'incremental', { signal })
      const [first] = await inQuarantine()
      simulator.source.remove('assignment', 900, 'hard')
      expect((await retry(context)).findings).toMatchObject({ tried: 1, gone: 1 })
      expect(await inQuarantine()).toEqual([])
      rejected()
      await context.read(assignment, 'incremental', { signal })
      const again = await inQuarantine()
      expect(again).toHaveLength(1)
      expect(again).not.toEqual([first])
      await dropFromQuarantine(pool, { stream: null, id: BigInt(again[0] ?? 0) }, 'a test record of ours')
      simulator.source.change('assignment', 1)
      await context.read(assignment, 'incremental', { signal })
      expect(await inQuarantine()).toEqual([])
    })
  })

  describe('that was corrected upstream', () => {
    const database = createTestDatabase()
    it('leaves it by itself once the record came again as a row, unless what came is older or shares its key (P5, P18)', async () => {
      await using simulator = await startSimulator({ assignments: 10, trackers: 0 })
      const { pool } = database
      const { source } = simulator
      await using context = await openTestContext(database, simulator)
      const poll = () => context.read(assignment, 'incremental', { signal })
      source.appendRaw('assignment', '{"AssignmentId":900,"RowVersion":"none"}', { id: 900 })
      source.change('assignment', 1, { Subject: 'first' })
      source.appendRaw('assignment', '{"AssignmentId":901,"RowVersion":"none"}', { id: 901 })
      await poll()
      await pool.query(`alter table mirror.assignment add constraint odd check (subject <> 'Odd')`)
      source.change('assignment', 2, { Subject: 'Odd' })
      await poll()
      await pool.query(
        `insert into tidemark.quarantine (stream, reason, record, key, fingerprint)
         values ('assignment', $1, '{"AssignmentId": 3}', '3', 'twin')`,
        [`${sharedKeyReason}; UID tells them apart`],
      )
      source.remove('assignment', 900, 'hard')
      source.insert('assignment', { Subject: 'corrected' }, { id: 900 })
      source.change('assignment', 3)
      await poll()
      // An earlier state of the refused record comes late, after the refusal.
      await pool.query(
        `with late as (update mirror.assignment set _synced_at = now() where assignment_id = 2 returning _synced_at)
         insert into tidemark.page ("table", written_at, run_id) select 'assignment', _synced_at, 1 from late`,
      )
      const open = async () => {
        const { rows } = await pool.query<{ key: string }>(
          'select key from tidemark.quarantine where dropped_at is null order by key',
        )
        return rows.map(({ key }) => key)
      }
      expect(await open()).toEqual(['2', '3', '900', '901'])
      const worker = await startTestWorker(simulator, database, { STREAMS: 'assignment' })
      try {
        await expect.poll(open).toEqual(['2', '3', '901'])
        expect(worker.logged().join('')).toContain('1 record in quarantine came again, and is a row now')
      } finally {
        await worker.stop()
      }
    })
  })

  describe('of a list stream', () => {
    const database = createTestDatabase()
    it('does not replace the row of a later record of its key (P3)', async () => {
      await using simulator = await startSimulator({ assignments: 1, trackers: 3 })
      await using context = await openTestContext(database, simulator)
      const { pool } = database
      const poll = () => context.read(tracker, 'incremental', { signal })
      await poll()
      await pool.query(`alter table mirror.tracker_object add constraint odd check (name <> 'Odd')`)
      simulator.source.change('tracker_object', 2, { Name: 'Odd' })
      expect((await poll()).tally.quarantined).toBe(1)
      await pool.query('alter table mirror.tracker_object drop constraint odd')
      simulator.source.change('tracker_object', 2, { Name: 'Even' })
      await poll()
      expect((await retry(context, tracker)).findings).toMatchObject({ tried: 1, taken: 0, replaced: 1 })
      const { rows } = await pool.query('select name from bi.tracker_object where tracker_object_id = 2')
      expect(rows).toEqual([{ name: 'Even' }])
    })
  })
})
