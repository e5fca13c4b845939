// What a reconcile finds has a cause, and each cause its cure: late versions alone teach the look-back, fields that change by
// themselves are left out, and what somebody changed here without a trace is mended (P16).

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { findProblems } from '../../src/problems/find-problems.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { verifyStream } from '../../src/sync/reconcile/verify.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const hourMs = 3_600_000

type Scene = {
  readonly simulator: Simulator
  readonly context: SyncContext
  readonly pool: SyncContext['database']['pool']
  readonly reconcile: () => ReturnType<typeof reconcileStream>
  readonly incremental: () => Promise<unknown>
  readonly lookback: () => ReturnType<SyncContext['read']>
  /** Everything that was read, and every look-back, was so long ago. */
  readonly wait: (ms: number) => Promise<void>
  readonly lines: () => Promise<readonly { key: string; cause: string; cured: boolean }[]>
  readonly lookbackMs: () => Promise<number | null>
  readonly same: () => Promise<void>
}

describe.skipIf(!hasPostgres)('a difference', () => {
  const scene = (
    name: string,
    play: (scene: Scene) => Promise<void>,
    {
      rows = 100,
      variables = {},
      behaviour = {},
    }: {
      rows?: number
      variables?: Record<string, string>
      behaviour?: NonNullable<Parameters<typeof startSimulator>[0]>['behaviour']
    } = {},
  ) =>
    describe('of one mirror', () => {
      const database = createTestDatabase()
      it(name, async () => {
        await using simulator = await startSimulator({ assignments: rows, behaviour: { ...behaviour } })
        await using context = await openTestContext(database, simulator, { PAGE_SIZE: '50', ...variables })
        const { pool } = database
        const incremental = () => context.read(assignment, 'incremental', { signal })
        expect(await incremental()).toMatchObject({ isComplete: true })
        await play({
          ...{ simulator, context, pool, incremental },
          reconcile: () => reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 }),
          lookback: () => context.read(assignment, 'lookback', { signal, reach: 'whole' }),
          async wait(ms) {
            await pool.query(
              `update tidemark.checkpoint set reached_at = reached_at - make_interval(secs => ${ms / 1000});
               update tidemark.stream set last_lookback_at = last_lookback_at - make_interval(secs => ${ms / 1000})`,
            )
          },
          async lines() {
            const { rows: found } = await pool.query<{ key: string; cause: string; cured: boolean }>(
              'select key, cause, cured_at is not null as cured from tidemark.difference order by id',
            )
            return found
          },
          async lookbackMs() {
            const { rows: found } = await pool.query<{ ms: number | null }>(
              `select lookback_ms::float8 as ms from tidemark.stream where name = 'assignment'`,
            )
            return found[0]?.ms ?? null
          },
          same: async () => expect(await differences(pool, simulator, 'assignment')).toEqual([]),
        })
      })
    })

  /** As somebody does it who knows about the triggers: nothing is noted. */
  const changeUnseen = (pool: Scene['pool'], sql: string) =>
    pool.query(
      `begin; alter table mirror.assignment disable trigger all; ${sql};
       alter table mirror.assignment enable always trigger tidemark_local_change;
       alter table mirror.assignment enable always trigger tidemark_local_delete; commit`,
    )

  scene(
    'that somebody made here without a trace is local damage, mended, and teaches nothing (P16)',
    async ({ pool, reconcile, lines, lookbackMs, same, wait }) => {
      await wait(hourMs)
      const version = (
        await pool.query<{ name: string }>(
          `select column_name as name from tidemark.field join tidemark.belief using (stream)
           where name = 'version_field' and folded = lower(value) and stream = 'assignment'`,
        )
      ).rows[0]?.name
      await changeUnseen(
        pool,
        `update mirror.assignment set customer_name = 'forged' where assignment_id = 3;
         update mirror.assignment set ${version} = ${version} + 1000000 where assignment_id = 4;
         update mirror.assignment set ${version} = 1 where assignment_id = 5;
         update mirror.assignment set _deleted_at = now(), _deleted_reason = 'source' where assignment_id = 6;
         update mirror.assignment set _rescued = '{"Forged": 1}' where assignment_id = 7`,
      )
      const outcome = await reconcile()
      expect(outcome.findings.differences).toEqual({ 'local damage': 5 })
      expect(outcome.findings).toMatchObject({ missedRows: 0, late: 0 })
      expect(outcome.note).toContain('5 local damage')
      expect(await lines()).toEqual(
        ['3', '4', '5', '6', '7'].map((key) => ({ key, cause: 'local damage', cured: true })),
      )
      expect(await lookbackMs()).toBeNull()
      await same()
      expect((await reconcile()).findings.differences).toEqual({})
      const { rows } = await pool.query(
        `select differences from tidemark.run where kind = 'reconcile' order by id limit 1`,
      )
      expect(rows).toEqual([{ differences: { 'local damage': 5 } }])
    },
  )

  scene(
    'of content at the same version is silent, no late version, and the record that was read last wins (P16)',
    async ({ simulator, context, pool, reconcile, lookback, lines, lookbackMs, same, wait }) => {
      await wait(hourMs)
      for (const id of [3, 4, 5])
        simulator.source.change('assignment', id, { Title: `other ${id}` }, { keepsVersion: true })
      // As verify tells it, which writes nothing.
      const told: unknown[] = []
      const verified = await verifyStream({
        ...context.contextOf(assignment),
        ...{ signal, repair: false, sample: null },
        onDifference: ({ key }, cause) => told.push([key, cause]),
      })
      expect(verified.findings.byCause).toEqual({ silent: 3 })
      expect(verified.note).toBe('verification: 3 differences (3 silent)')
      expect(told).toEqual([
        ['3', 'silent'],
        ['4', 'silent'],
        ['5', 'silent'],
      ])
      expect(await lines()).toEqual([])
      const outcome = await reconcile()
      expect(outcome.findings).toMatchObject({ differences: { silent: 3 }, missedRows: 0, late: 0 })
      await same()
      // Within the recent past a look-back finds it, and does not call it late either.
      const { id } = simulator.source.insert('assignment')
      await context.read(assignment, 'incremental', { signal })
      simulator.source.change('assignment', id, { Title: 'another' }, { keepsVersion: true })
      expect(await lookback()).toMatchObject({ note: null, tally: { updated: 1 } })
      await same()
      expect((await pool.query('select from tidemark.late_arrival')).rowCount).toBe(0)
      expect((await pool.query('select from tidemark.missed_rows')).rowCount).toBe(0)
      expect((await lookbackMs()) ?? 0).toBeLessThanOrEqual(600_000)
    },
  )

  scene(
    'in a field that is another one at each look is volatile: told once, and no change from then on (P16)',
    async ({ simulator, context, pool, incremental, reconcile, lookback, lookbackMs }) => {
      const writes = async () =>
        (await pool.query<{ at: Date }>('select max(_synced_at) as at from mirror.assignment')).rows[0]?.at
      const first = await lookback()
      expect(first.note).toMatch(/^volatile from now on, so not compared: DownloadUrl$/i)
      // The rows that have the hash of before are written once more.
      await reconcile()
      const before = await writes()
      for (let round = 0; round < 3; round++) {
        expect(await incremental()).toMatchObject({ tally: { inserted: 0, updated: 0 } })
        expect(await lookback()).toMatchObject({ note: null, tally: { inserted: 0, updated: 0 } })
        const { findings, tally } = await reconcile()
        expect(findings).toMatchObject({ differences: {}, missedRows: 0, late: 0 })
        expect(tally).toMatchObject({ inserted: 0, updated: 0 })
      }
      expect(await writes()).toEqual(before)
      const verified = await verifyStream({
        ...context.contextOf(assignment),
        ...{ signal, repair: false, sample: null, onDifference: () => {} },
      })
      expect(verified.findings).toMatchObject({ differences: 0, compared: 100 })
      expect((await pool.query('select from tidemark.late_arrival')).rowCount).toBe(0)
      expect((await lookbackMs()) ?? 0).toBeLessThanOrEqual(600_000)

      // Its value comes with the next real change.
      const urlOf = async () =>
        (await pool.query(`select download_url as url from mirror.assignment where assignment_id = 9`))
          .rows[0]?.url
      const old = await urlOf()
      simulator.source.change('assignment', 9, { Title: 'really changed' })
      expect(await incremental()).toMatchObject({ tally: { updated: 1 } })
      expect(await urlOf()).not.toBe(old)

      const problems = findProblems({
        symptoms: await readSymptoms(pool, ['assignment'], 24 * hourMs),
        view: { parts: [] },
        rules: { serviceOf: () => 'assignment', isStale: () => false, frozenAfterMs: () => 1e9 },
        now: new Date(),
      })
      expect(problems.filter(({ kind }) => kind === 'volatile_field')).toMatchObject([
        { stream: 'assignment', what: expect.stringMatching(/DownloadUrl keeps changing by itself/i) },
      ])
      // Somebody's change of another field is found as ever.
      await changeUnseen(pool, `update mirror.assignment set title = 'forged' where assignment_id = 3`)
      expect((await reconcile()).findings.differences).toEqual({ 'local damage': 1 })
    },
    { behaviour: { volatileField: true } },
  )

  scene(
    'in such a field is found by a reconcile on its first page, and by nobody where it is compared all the same (P16)',
    async ({ reconcile }) => {
      const { findings, note } = await reconcile()
      expect(Object.keys(findings.differences)).toEqual(['volatile'])
      // Pages in flight when it was found out.
      expect(findings.differences.volatile).toBeLessThanOrEqual(150)
      expect(note).toMatch(/DownloadUrl/i)
      expect((await reconcile()).findings.differences).toEqual({})
    },
    { rows: 400, behaviour: { volatileField: true } },
  )

  scene(
    'in a field that a person wants compared is no volatile one (P16)',
    async ({ pool, lookback, reconcile }) => {
      expect((await lookback()).note).toBeNull()
      expect((await reconcile()).findings.differences).toEqual({ silent: 100 })
      const { rows } = await pool.query('select from tidemark.field where volatile_since is not null')
      expect(rows).toEqual([])
    },
    { variables: { VOLATILE_ASSIGNMENT: 'none' }, behaviour: { volatileField: true } },
  )

  scene(
    'in a field that a person calls volatile is none (P16)',
    async ({ simulator, reconcile, pool }) => {
      simulator.source.change('assignment', 3, { Title: 'other' }, { keepsVersion: true })
      expect((await reconcile()).findings.differences).toEqual({})
      simulator.source.change('assignment', 3, { Description: 'other' }, { keepsVersion: true })
      expect((await reconcile()).findings.differences).toEqual({ silent: 1 })
      const { rows } = await pool.query('select title from mirror.assignment where assignment_id = 3')
      expect(rows).toEqual([{ title: 'other' }])
    },
    { variables: { VOLATILE_ASSIGNMENT: 'Title, SysUpdatedDateUTC' } },
  )

  scene(
    'that most rows show in one field, reconcile after reconcile, makes that field volatile (P16)',
    async ({ simulator, reconcile }) => {
      const signAnew = (day: number) => {
        for (const id of simulator.source.ids('assignment'))
          simulator.source.change('assignment', id, { SignedUrl: `day ${day}` }, { keepsVersion: true })
      }
      for (const day of [1, 2]) {
        signAnew(day)
        expect((await reconcile()).findings.differences).toEqual({ silent: 100 })
      }
      signAnew(3)
      expect((await reconcile()).note).toMatch(/volatile from now on, so not compared: SignedUrl/i)
      await reconcile()
      signAnew(4)
      expect((await reconcile()).findings.differences).toEqual({})
    },
  )

  scene(
    'in a volatile field that changes by itself no more is found again after three reconciles, days apart (P16)',
    async ({ simulator, pool, lookback, reconcile, same }) => {
      const isVolatile = async () =>
        (await pool.query('select from tidemark.field where volatile_since is not null')).rowCount === 1
      const dayLater = () =>
        pool.query(
          `update tidemark.field set steady_sample = jsonb_set(steady_sample, '{at}', to_jsonb(now() - interval '1 day'))
           where steady_sample is not null`,
        )
      const night = async () => {
        await dayLater()
        return await reconcile()
      }
      await lookback()
      for (let round = 0; round < 5; round++) await night()
      expect(await isVolatile()).toBe(true)
      simulator.behaviour.volatileField = false
      simulator.source.change('assignment', 1, { DownloadUrl: 'https://files.example/1' })
      // The field is gone first, which is another value, and then stays so. More reconciles in a day prove no more.
      for (let round = 0; round < 3; round++) await night()
      await reconcile()
      await reconcile()
      expect(await isVolatile()).toBe(true)
      expect(await night()).toMatchObject({
        note: expect.stringMatching(/volatile no more, so compared again: DownloadUrl/i),
      })
      expect(await isVolatile()).toBe(false)
      await reconcile()
      expect((await reconcile()).findings.differences).toEqual({})
      await same()
      simulator.source.change(
        'assignment',
        3,
        { DownloadUrl: 'https://files.example/3' },
        { keepsVersion: true },
      )
      expect((await reconcile()).findings.differences).toEqual({ silent: 1 })
      await same()
    },
    { behaviour: { volatileField: true } },
  )

  scene(
    'of a transaction that outlived the look-back teaches it the first night (P16)',
    async ({ simulator, context, incremental, lookback, reconcile, lookbackMs, wait, same }) => {
      await lookback()
      await wait(2 * hourMs)
      const night = async () => {
        const late = simulator.source.insertLate('assignment')
        simulator.source.insert('assignment')
        await incremental()
        // While it is open the look-backs go on, and it ends after 45 minutes.
        await wait(20 * 60_000)
        await lookback()
        await wait(25 * 60_000)
        late.commit()
      }
      await night()
      expect((await lookback()).note).toBeNull()
      expect((await reconcile()).findings).toMatchObject({ differences: { late: 1 }, missedRows: 1, late: 0 })
      expect(await lookbackMs()).toBeGreaterThanOrEqual(90 * 60_000)
      await same()
      await wait(3 * hourMs)
      await night()
      expect((await lookback()).note).toBe('1 late')
      expect((await reconcile()).findings.differences).toEqual({})
      expect(await positionOf(context.database.pool)).toBeGreaterThan(0n)
      await same()
    },
  )

  scene(
    'of a record that fell back is told, and mended by the look-backs when it is still so minutes later (P14, P16)',
    async ({ simulator, pool, incremental, lookback, reconcile, lines, lookbackMs, same }) => {
      // Not one of the records that are pinned in any case.
      await lookback()
      const { rows } = await pool.query<{ id: number }>(
        `select assignment_id::int as id from mirror.assignment
         where row_version > 20 and assignment_id::text not in (select key from tidemark.pinned_record) limit 1`,
      )
      const id = rows[0]?.id ?? 0
      const version = simulator.source.versionOf('assignment', id) ?? 0n
      simulator.source.change('assignment', id, { Title: 'older' }, { version: version - 1n })
      expect((await reconcile()).findings).toMatchObject({ differences: { 'fell back': 1 }, missedRows: 0 })
      expect(await lines()).toEqual([{ key: String(id), cause: 'fell back', cured: false }])
      await lookback()
      await pool.query(
        `update tidemark.pinned_record
         set looked_at = looked_at - interval '7 minutes', lost_since = lost_since - interval '7 minutes'
         where key = '${id}'`,
      )
      await lookback()
      await incremental()
      await same()
      expect((await reconcile()).findings.differences).toEqual({})
      expect(await lines()).toEqual([{ key: String(id), cause: 'fell back', cured: true }])
      expect((await lookbackMs()) ?? 0).toBeLessThanOrEqual(600_000)
      expect((await pool.query('select from tidemark.late_arrival')).rowCount).toBe(0)
    },
  )

  scene(
    'after a rewind is restored where a lower version replaces a row (P16)',
    async ({ simulator, pool, incremental, reconcile, same }) => {
      const backup = simulator.source.takeBackup()
      const top = await positionOf(pool)
      for (const id of [3, 4]) simulator.source.change('assignment', id)
      await incremental()
      simulator.source.restoreBackup(backup)
      await rewindStream(pool, { stream: 'assignment', position: top, reason: 'restored', by: 'a test' })
      expect((await reconcile()).findings.differences).toEqual({ restored: 2 })
      await same()
    },
  )

  scene(
    'of a row whose record is gone is deleted, and undeleted when it is back as it was (P16)',
    async ({ simulator, reconcile, lines, same }) => {
      const backup = simulator.source.takeBackup()
      simulator.source.remove('assignment', 3, 'hard')
      expect((await reconcile()).findings.differences).toEqual({ deleted: 1 })
      simulator.source.restoreBackup(backup)
      expect((await reconcile()).findings).toMatchObject({ differences: { undeleted: 1 }, missedRows: 0 })
      expect(await lines()).toEqual([
        { key: '3', cause: 'deleted', cured: true },
        { key: '3', cause: 'undeleted', cured: true },
      ])
      await same()
    },
  )

  scene(
    'between two records of one key is a twin, which is no late version and kept whole (P5, P16)',
    async ({ simulator, pool, incremental, reconcile, lookbackMs }) => {
      simulator.source.insertTwin('assignment', 3)
      await incremental()
      for (let night = 0; night < 3; night++) {
        const { findings } = await reconcile()
        expect(findings).toMatchObject({ differences: { twin: 1 }, missedRows: 0, late: 0 })
      }
      const { rows } = await pool.query(
        `select reason, record->>'AssignmentId' as id from tidemark.quarantine`,
      )
      expect(rows).toEqual([{ id: '3', reason: expect.stringContaining('has its key; ') }])
      expect(await lookbackMs()).toBeNull()
    },
  )

  scene(
    'is one of many: a thousand lines of a cause are kept, the others are counted (P10, P16)',
    async ({ simulator, pool, reconcile, lines }) => {
      for (const id of simulator.source.ids('assignment').slice(0, 1_200))
        simulator.source.change('assignment', id, { Title: 'bulk' }, { keepsVersion: true })
      expect((await reconcile()).findings.differences).toEqual({ silent: 1_200 })
      expect(await lines()).toHaveLength(1_000)
      const { rows } = await pool.query(
        `select differences from tidemark.run where kind = 'reconcile' order by id desc limit 1`,
      )
      expect(rows).toEqual([{ differences: { silent: 1_200 } }])
    },
    { rows: 1_300 },
  )
})
