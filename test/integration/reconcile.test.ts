// What a reconcile finds, believes and leaves alone, against the stand-in while it changes.

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { readDeletionEvidence } from '../../src/store/book/deletions.ts'
import { acknowledgeMissedRows } from '../../src/store/book/streams.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { neverAborted, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const signal = neverAborted

const reconcileOf = (context: SyncContext, options: { approved?: number; signal?: AbortSignal } = {}) =>
  reconcileStream({
    ...context.contextOf(assignment),
    lookupsPerMinute: 1_000,
    signal,
    approved: 0,
    ...options,
  })

describe.skipIf(!hasPostgres)('a reconcile', () => {
  /** A mirror that has read everything, and what the test does to it. */
  const scene = (
    name: string,
    rows: number,
    play: (scene: {
      simulator: Simulator
      context: SyncContext
      pool: SyncContext['database']['pool']
      same: () => Promise<void>
      blockedDeletionsOf: () => Promise<unknown>
      deleted: () => Promise<readonly number[]>
    }) => Promise<void>,
    behaviour: Parameters<typeof startSimulator>[0] = {},
  ) =>
    describe('of one mirror', () => {
      const database = createTestDatabase()
      it(name, async () => {
        await using simulator = await startSimulator({ assignments: rows, ...behaviour })
        await using context = await openTestContext(database, simulator, { PAGE_SIZE: '50' })
        expect(await context.read(assignment, 'incremental', { signal })).toMatchObject({ isComplete: true })
        const { pool } = database
        await play({
          simulator,
          context,
          pool,
          same: async () => expect(await differences(pool, simulator, 'assignment')).toEqual([]),
          blockedDeletionsOf: async () =>
            (await pool.query(`select blocked_deletions from tidemark.stream where name = 'assignment'`))
              .rows[0].blocked_deletions,
          deleted: async () =>
            (
              await pool.query(
                `select assignment_id::int as id from mirror.assignment where _deleted_reason = 'absent' order by 1`,
              )
            ).rows.map(({ id }) => id),
        })
      })
    })

  scene('of a mirror that is right changes nothing', 200, async ({ context, pool }) => {
    const before = await pool.query('select * from mirror.assignment order by assignment_id')
    const outcome = await reconcileOf(context)
    expect(outcome).toMatchObject({
      status: 'done',
      isComplete: true,
      findings: { missedRows: 0, marked: 0, missing: 0 },
    })
    expect((await pool.query('select * from mirror.assignment order by assignment_id')).rows).toEqual(
      before.rows,
    )
    expect((await pool.query('select * from tidemark.missed_rows')).rows).toEqual([])
    const { rows } = await pool.query(
      `select last_reconcile_at is not null as done from tidemark.stream where name = 'assignment'`,
    )
    expect(rows).toEqual([{ done: true }])
  })

  scene(
    'settles nothing that was read a moment ago, though the clock of its machine be ahead (P13)',
    30,
    async ({ context, pool }) => {
      const now = () => new Date(Date.now() + 3_600_000)
      await reconcileStream({ ...context.contextOf(assignment), now, signal, approved: 0 })
      const { rows } = await pool.query(
        `select settled_through_version as version, settled_through_time as at from tidemark.freshness where stream = 'assignment'`,
      )
      expect(rows).toEqual([{ version: null, at: null }])
    },
  )

  scene(
    'settles what was read a look-back ago, and no other kind of run settles anything (P13)',
    300,
    async ({ simulator, context, pool }) => {
      const settled = async () => {
        const { rows } = await pool.query<{ version: string | null; at: Date | null }>(
          `select settled_through_version as version, settled_through_time as at from tidemark.freshness
           where stream = 'assignment'`,
        )
        return rows[0]
      }
      expect(await reconcileOf(context)).toMatchObject({ isComplete: true })
      expect(await settled()).toEqual({ version: null, at: null })

      const { rows } = await pool.query(
        `update tidemark.checkpoint set reached_at = reached_at - interval '1 hour' where stream = 'assignment'
         returning position`,
      )
      const held = rows.map(({ position }) => BigInt(position)).sort((a, b) => (a < b ? 1 : -1))[0]
      simulator.source.change('assignment', 5)
      await context.read(assignment, 'incremental', { signal })
      await context.read(assignment, 'lookback', { signal })
      expect(await settled()).toEqual({ version: null, at: null })

      // Of a list that lacks too many nothing is settled either.
      for (let id = 1; id <= 100; id++) simulator.source.remove('assignment', id, 'hard')
      expect(await reconcileOf(context)).toMatchObject({ isComplete: false })
      expect(await settled()).toEqual({ version: null, at: null })

      const before = Date.now()
      expect(await reconcileOf(context, { approved: 100 })).toMatchObject({ isComplete: true })
      const after = await settled()
      expect(after?.version).toBe(String(held))
      const agoMs = before - (after?.at?.getTime() ?? 0)
      expect(agoMs).toBeGreaterThan(context.contextOf(assignment).lookbackFloorMs - 5_000)
    },
  )

  scene(
    'mends what is missing or was changed, and names missed rows until somebody acknowledges it (P6)',
    200,
    async ({ context, pool, same }) => {
      await writeAsTidemark(pool, 'delete from mirror.assignment where assignment_id in (3, 77)')
      await writeAsTidemark(pool, 'update mirror.assignment set row_version = 1 where assignment_id = 150')
      const { findings } = await reconcileOf(context)
      expect(findings.missedRows).toBe(2)
      expect(findings.samples.map(({ key }) => key).sort()).toEqual(['3', '77'])
      // The row said that it held the record that came.
      expect(findings.differences).toEqual({ late: 2, 'local damage': 1 })
      await same()
      const missedRows = async () =>
        (await pool.query('select rows, acknowledged_by from tidemark.missed_rows')).rows
      expect(await missedRows()).toEqual([{ rows: '2', acknowledged_by: null }])
      expect(await acknowledgeMissedRows(pool, 'assignment', 'somebody')).toBe(2)
      expect(await missedRows()).toEqual([{ rows: '2', acknowledged_by: 'somebody' }])
      expect(await acknowledgeMissedRows(pool, 'assignment', 'somebody')).toBe(0)
    },
  )

  scene(
    'calls a row late, and not missed, when its first look-back is still to come (P16)',
    100,
    async ({ simulator, context, pool, same }) => {
      const late = simulator.source.insertLate('assignment')
      simulator.source.change('assignment', 5)
      await context.read(assignment, 'incremental', { signal })
      late.commit()
      const { findings } = await reconcileOf(context)
      expect(findings).toMatchObject({ late: 1, missedRows: 0 })
      expect((await pool.query('select * from tidemark.missed_rows')).rows).toEqual([])
      await same()
    },
  )

  scene(
    'does not call a rescue what the incremental run has yet to read',
    100,
    async ({ simulator, context, same }) => {
      simulator.source.insert('assignment')
      simulator.source.change('assignment', 5)
      const { findings, tally } = await reconcileOf(context)
      expect(tally).toMatchObject({ inserted: 1, updated: 1 })
      expect(findings.missedRows).toBe(0)
      await same()
    },
  )

  scene(
    'asks once a page how late its rows came, and notes no more of them than can be told (P10)',
    1_300,
    async ({ context, pool }) => {
      await writeAsTidemark(
        pool,
        `update tidemark.checkpoint set reached_at = now() - interval '1 hour';
        insert into tidemark.checkpoint (stream, position, reached_at) values ('assignment', 1, now() - interval '1 day');
        delete from mirror.assignment where assignment_id between 51 and 1250`,
      )
      let questions = 0
      const { history } = context.store
      const reading = { ...context.contextOf(assignment), signal, approved: 0, lookbackFloorMs: 7_200_000 }
      const store = {
        ...context.store,
        history: {
          ...history,
          reachedAt: (...asked: Parameters<typeof history.reachedAt>) => {
            questions += 1
            return history.reachedAt(...asked)
          },
        },
      }
      expect((await reconcileStream({ ...reading, store })).findings.late).toBe(1_200)
      expect(questions).toBeLessThanOrEqual(1_300 / 50)
      const { rows } = await pool.query(
        'select count(*)::int as noted, min(late_ms) > 0 as are_late from tidemark.late_arrival',
      )
      expect(rows).toEqual([{ noted: 1_000, are_late: true }])
    },
  )

  scene(
    'marks what is gone, with its evidence, and lets it come back (P7)',
    100,
    async ({ simulator, context, pool, same, deleted }) => {
      for (const id of [7, 8]) simulator.source.remove('assignment', id, 'hard')
      simulator.source.remove('assignment', 9, 'soft')
      expect((await reconcileOf(context)).findings).toMatchObject({ marked: 2, missing: 2, blocked: null })
      expect(await deleted()).toEqual([7, 8])
      const { rows } = await pool.query('select key, evidence from tidemark.suspect order by key')
      expect(rows.map(({ key }) => key)).toEqual(['7', '8'])
      expect(rows[0].evidence).toContain('no record of this id')
      await same()
      simulator.source.insert('assignment', null, { id: 7 })
      await context.read(assignment, 'incremental', { signal })
      expect(await deleted()).toEqual([8])
      expect((await pool.query('select key from tidemark.suspect')).rows).toEqual([{ key: '8' }])
      await same()
    },
  )

  scene(
    'believes no list: what it lacks is looked at by its id (P7)',
    100,
    async ({ simulator, context, deleted, pool }) => {
      simulator.source.remove('assignment', 20, 'hard')
      simulator.faults.add({ kind: 500, path: '/Id/20' })
      expect((await reconcileOf(context)).findings).toMatchObject({ marked: 0, unclear: 1 })
      simulator.faults.clear()
      await writeAsTidemark(pool, 'delete from mirror.assignment where assignment_id = 30')
      expect(await deleted()).toEqual([])
      expect((await reconcileOf(context)).findings).toMatchObject({ marked: 1, missedRows: 1 })
    },
  )

  scene(
    'blocks the deletions of a list that lost more than a fifth until they are approved (P7)',
    100,
    async ({ simulator, context, pool, same, blockedDeletionsOf, deleted }) => {
      for (let id = 1; id <= 21; id++) simulator.source.remove('assignment', id, 'hard')
      const held = await reconcileOf(context)
      expect(held).toMatchObject({ status: 'done', isComplete: false, findings: { marked: 0 } })
      expect(held.note).toContain('tidemark deletions list assignment')
      expect(await blockedDeletionsOf()).toMatchObject({ missing: 21, living: 100, seen: 79 })
      expect(await deleted()).toEqual([])
      // For whoever decides: some of them were asked for by key, the first and the last among them.
      const { samples, looked, spread } = await readDeletionEvidence(pool, 'assignment')
      expect(looked).toEqual({ gone: 20, there: 0, unclear: 0 })
      expect(samples.map(({ key }) => Number(key))).toEqual(expect.arrayContaining([1, 21]))
      const sum = (place: 1 | 2) => spread?.buckets.reduce((all, bucket) => all + bucket[place], 0)
      expect([sum(1), sum(2)]).toEqual([21, 100])
      expect(await reconcileOf(context, { approved: 20 })).toMatchObject({
        findings: { marked: 0, missing: 21 },
      })
      const approved = await reconcileOf(context, { approved: 21 })
      expect(approved).toMatchObject({ isComplete: true, findings: { marked: 21 } })
      expect(await blockedDeletionsOf()).toBeNull()
      await same()
    },
  )

  scene(
    'keeps what looks at missing rows said when it cannot look again (P7)',
    100,
    async ({ simulator, context, pool }) => {
      for (let id = 1; id <= 24; id++) simulator.source.remove('assignment', id, 'hard')
      await reconcileOf(context)
      const before = await readDeletionEvidence(pool, 'assignment')
      expect(before.looked).toEqual({ gone: 20, there: 0, unclear: 0 })
      simulator.faults.add({ kind: 'reset', path: /\/Id\/\d+$/ })
      // It is not missing any more, so nothing said of it counts.
      simulator.source.insert('assignment', null, { id: 1 })
      expect(await reconcileOf(context)).toMatchObject({ findings: { missing: 23 } })
      const after = await readDeletionEvidence(pool, 'assignment')
      expect(after.looked).toEqual({ gone: 19, there: 0, unclear: 0 })
      expect(after.lookedAt).toEqual(before.lookedAt)
      expect(after.runId).not.toBe(before.runId)
    },
  )

  scene(
    'blocks the deletions of an empty list (P7)',
    30,
    async ({ simulator, context, pool, blockedDeletionsOf, deleted }) => {
      const withdraw = simulator.faults.add({ kind: 'empty-page', path: /\/api\/Assignment$/ })
      expect(await reconcileOf(context)).toMatchObject({ isComplete: false, findings: { marked: 0 } })
      expect(await blockedDeletionsOf()).toMatchObject({ missing: 30, seen: 0 })
      expect((await readDeletionEvidence(pool, 'assignment')).looked).toEqual({
        gone: 0,
        there: 20,
        unclear: 0,
      })
      withdraw()
      expect(await reconcileOf(context)).toMatchObject({ isComplete: true })
      expect(await blockedDeletionsOf()).toBeNull()
      expect(await deleted()).toEqual([])
    },
  )

  scene(
    'that is interrupted marks nothing, keeps what it rescued, and the next one finishes (P7, P8)',
    200,
    async ({ simulator, context, pool, same, deleted }) => {
      for (let id = 101; id <= 130; id++) simulator.source.remove('assignment', id, 'hard')
      await writeAsTidemark(pool, 'delete from mirror.assignment where assignment_id = 2')
      const stop = new AbortController()
      let looks = 0
      const away = simulator.onRequest(({ path }) => {
        if (/\/Id\/\d+$/.test(path) && ++looks === 9) stop.abort(new Error('enough'))
      })
      expect(await reconcileOf(context, { signal: stop.signal })).toMatchObject({ status: 'stopped' })
      away()
      expect(await deleted()).toEqual([])
      expect((await pool.query('select rows from tidemark.missed_rows')).rows).toEqual([{ rows: '1' }])
      expect(await reconcileOf(context)).toMatchObject({
        isComplete: true,
        findings: { marked: 30, missedRows: 0 },
      })
      await same()
    },
  )

  scene('that the upstream fails in marks nothing (P7)', 100, async ({ simulator, context, deleted }) => {
    simulator.source.remove('assignment', 20, 'hard')
    simulator.faults.add({ kind: 403, path: /\/api\/Assignment$/, nth: 5 })
    expect(await reconcileOf(context)).toMatchObject({ status: 'failed', findings: { marked: 0 } })
    expect(await deleted()).toEqual([])
  })

  scene(
    'is right about rows that are deleted, changed and inserted while it lists, in any order of the list (P6, P7)',
    300,
    async ({ simulator, context, same }) => {
      let requests = 0
      simulator.onRequest(({ path }) => {
        if (!path.endsWith('/api/Assignment') || ++requests > 40) return
        const ids = simulator.source.ids('assignment')
        const at = (index: number) => ids[(index * 37 + requests * 11) % ids.length] ?? 1
        simulator.source.remove('assignment', at(1), 'hard')
        simulator.source.insert('assignment')
        simulator.source.change('assignment', at(3) === at(1) ? (ids.at(-1) ?? 1) : at(3))
      })
      for (let round = 0; round < 4; round++) await reconcileOf(context)
      expect(await reconcileOf(context)).toMatchObject({ isComplete: true })
      await context.read(assignment, 'incremental', { signal })
      await same()
    },
    { behaviour: { order: 'id', pageCap: 23 } },
  )
})
