// An upstream that goes back to an older state: by a restored backup, in one record, or only as seen through a replica (P14).

import type { Pool } from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { findProblems } from '../../src/problems/find-problems.ts'
import { verdictInWords } from '../../src/problems/stream-state.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { requestBackfill } from '../../src/store/book/backfills.ts'
import { readFirstLoads } from '../../src/store/book/progress.ts'
import { readOverview } from '../../src/store/book/streams.ts'
import { readSymptoms } from '../../src/store/book/symptoms.ts'
import { readIncremental } from '../../src/sync/changes/incremental.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, positionOf, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { differences } from '../support/same-as-source.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const note = streamOf('assignment_note')
const minuteMs = 60_000

async function epochsOf(pool: Pool) {
  const { rows } = await pool.query('select position::text, looked, lost, evidence from tidemark.epoch')
  return rows
}

describe.skipIf(!hasPostgres)('an upstream that goes back', () => {
  const database = createTestDatabase({ forEach: true })
  let simulator: Simulator
  let context: SyncContext
  /** How far the clock of the worker, and that of replicas, is ahead. */
  let aheadMs = 0
  const now = () => new Date(Date.now() + aheadMs)
  const pass = (ms: number) => {
    aheadMs += ms
  }
  const config = () => ({ ...context.contextOf(assignment), lookupsPerMinute: 1_000, now, signal })
  const read = () => readIncremental(config())
  const look = () => readLookback(config())
  const reconcile = () => reconcileStream({ ...config(), approved: 0 })
  const wrong = () => differences(database.pool, simulator, 'assignment')
  const looksAsked = () => simulator.requests.entries.filter(({ path }) => path.includes('/Id/')).length
  const problems = async () =>
    findProblems({
      symptoms: await readSymptoms(database.pool, ['assignment'], 60 * minuteMs),
      view: { parts: [] },
      rules: { serviceOf: () => 'assignment', isStale: () => false, frozenAfterMs: () => 1e9 },
      now: new Date(),
    })

  beforeEach(async () => {
    aheadMs = 0
    simulator = await startSimulator({ assignments: 200, notes: 100, now: () => now().getTime() })
    context = await openTestContext(database, simulator, { PAGE_SIZE: '60' })
    await read()
    await look()
  })
  afterEach(async () => {
    await context[Symbol.asyncDispose]()
    await simulator.close()
  })

  /** Changed, inserted and deleted after the backup that is restored. */
  function loseChanges({ inserts = 5 } = {}) {
    const { source } = simulator
    const backup = source.takeBackup()
    for (let id = 1; id <= 30; id++) source.change('assignment', id, { Subject: `lost ${id}` })
    for (let count = 0; count < inserts; count++) source.insert('assignment', { Subject: 'lost' })
    source.remove('assignment', 40, 'hard')
    source.remove('assignment', 41, 'soft')
    return backup
  }
  const firstLookSees = async () => {
    expect(await look()).toMatchObject({ status: 'done', note: expect.stringContaining('believed when') })
    expect(await epochsOf(database.pool)).toEqual([])
  }
  const nextLookBelieves = async () => {
    pass(6 * minuteMs)
    expect(await look()).toMatchObject({ status: 'done', note: expect.stringContaining('new epoch') })
    expect(await epochsOf(database.pool)).toHaveLength(1)
    expect(await positionOf(database.pool)).toBe(0n)
  }

  it.each([{ keepsCounter: false }, { keepsCounter: true }])(
    'to a backup ($keepsCounter: the counter goes on) is noticed at once, and followed in every value (P14)',
    async ({ keepsCounter }) => {
      const { pool } = database
      const backup = loseChanges()
      await read()
      await findDeletions(config())
      await look()
      expect(await wrong()).toEqual([])
      const position = await positionOf(pool)
      await requestBackfill(pool, { stream: 'assignment', from: 0n, to: 20n, by: 'test' })
      await pool.query(`update tidemark.checkpoint set reached_at = reached_at - interval '3 days'`)
      simulator.source.restoreBackup(backup, { keepsCounter })
      expect(await read()).toMatchObject({ status: 'inconclusive' })
      await firstLookSees()
      await nextLookBelieves()
      expect(await pool.query(`select status from tidemark.backfill`)).toMatchObject({
        rows: [{ status: 'cancelled' }],
      })
      simulator.source.change('assignment', 7, { Subject: 'after the restore' })
      // It is no first load, and counts what is read (P17, P18).
      const [stands] = await readOverview(pool, ['assignment'])
      expect(verdictInWords([], stands ? [stands] : [])).toContain('is not read through again')
      expect(await read()).toMatchObject({ status: 'done', isComplete: true })
      const [load] = await readFirstLoads(pool, ['assignment'])
      expect([load?.isAgain, (load?.rows ?? 0) >= 198]).toEqual([true, true])
      // What the restored upstream does not show is a suspect; a look at each says that it is gone.
      expect((await wrong()).every((one) => one.includes('no longer there'))).toBe(true)
      expect(await reconcile()).toMatchObject({ isComplete: true, findings: { marked: 5, missedRows: 0 } })
      expect(await wrong()).toEqual([])
      const [told, ...others] = await problems()
      expect(others).toEqual([])
      expect(told).toMatchObject({ kind: 'upstream_restored' })
      expect(told?.what).toContain(`Position ${position} was given up`)
      expect(told?.what).toContain('Everything has been read again since')
      simulator.source.change('assignment', 9)
      simulator.source.insert('assignment')
      expect(await read()).toMatchObject({ tally: { inserted: 1, updated: 1 } })
      pass(minuteMs)
      expect(await look()).toMatchObject({ status: 'done', note: null })
      expect(await wrong()).toEqual([])
      const { rowCount } = await pool.query('select from tidemark.late_arrival')
      expect(rowCount).toBe(0)
      expect(await epochsOf(pool)).toHaveLength(1)
      // How late a version is does not count from when another epoch passed it.
      const late = simulator.source.changeLate('assignment', 10)
      simulator.source.change('assignment', 11)
      await read()
      late.commit()
      expect(await look()).toMatchObject({ note: '1 late' })
      const { rows } = await pool.query('select late_ms::int as late from tidemark.late_arrival')
      expect(rows[0].late).toBeLessThan(60 * minuteMs)
    },
  )

  it('as one stream shows, has the others read again too, whose looks prove nothing (P14)', async () => {
    const { pool } = database
    const { source } = simulator
    const notes = () => ({ ...context.contextOf(note), now, signal })
    const wrongNotes = () => differences(pool, simulator, 'assignment_note')
    await readIncremental(notes())
    const backup = loseChanges()
    for (let id = 1; id <= 9; id++) source.change('assignment_note', id, { noteText: 'lost' })
    await read()
    await readIncremental(notes())
    await look()
    await readLookback(notes())
    expect(await wrongNotes()).toEqual([])
    // The counter has passed the old position again, and nothing that is pinned fell.
    await pool.query(`delete from tidemark.pinned_record where stream = 'assignment_note' and key::int <= 9`)
    source.restoreBackup(backup)
    for (let id = 100; id >= 9; id--) source.change('assignment_note', id)
    expect(await readIncremental(notes())).toMatchObject({ status: 'done' })
    await firstLookSees()
    await nextLookBelieves()
    expect(await wrongNotes()).not.toEqual([])
    expect(await readLookback(notes())).toMatchObject({ note: expect.stringContaining('new epoch') })
    await readIncremental(notes())
    await reconcileStream({ ...notes(), approved: 0 })
    expect(await wrongNotes()).toEqual([])
    await read()
    await reconcile()
    expect(await wrong()).toEqual([])
    // One restored backup begins one epoch in each stream.
    for (let round = 0; round < 3; round++) {
      pass(4 * minuteMs)
      await look()
      await readLookback(notes())
    }
    const { rows } = await pool.query('select stream, lost > 0 as is_own from tidemark.epoch order by id')
    expect(rows).toEqual([
      { stream: 'assignment', is_own: true },
      { stream: 'assignment_note', is_own: false },
    ])
  })

  it('to a young backup is noticed although the record that showed it was written again before anybody looked (P14)', async () => {
    const { source } = simulator
    const backup = source.takeBackup()
    for (let id = 1; id <= 30; id++) source.change('assignment', id, { Subject: `lost ${id}` })
    await read()
    expect(await wrong()).toEqual([])
    // Nothing that is pinned before the backup is restored is one of the records that fell.
    source.restoreBackup(backup, { keepsCounter: true })
    expect(await read()).toMatchObject({ status: 'inconclusive' })
    for (let id = 28; id <= 30; id++) source.change('assignment', id)
    expect(await read()).toMatchObject({ status: 'done' })
    expect((await wrong()).length).toBeGreaterThan(20)
    pass(minuteMs)
    await firstLookSees()
    await nextLookBelieves()
    await read()
    expect(await wrong()).toEqual([])
  })

  it('to a young backup is noticed where much changes all the time, and few rows are pinned (P10, P14)', async () => {
    const { source } = simulator
    let mostPins = 0
    for (let round = 0; round < 8; round++) {
      for (let insert = 0; insert < 60; insert++) source.insert('assignment')
      await read()
      pass(45_000)
      await look()
      const { rowCount } = await database.pool.query('select from tidemark.pinned_record')
      mostPins = Math.max(mostPins, rowCount ?? 0)
    }
    expect(mostPins).toBeLessThan(70)
    const backup = source.takeBackup()
    for (let id = 1; id <= 30; id++) source.change('assignment', id, { Subject: `lost ${id}` })
    await read()
    source.restoreBackup(backup, { keepsCounter: true })
    expect(await read()).toMatchObject({ status: 'inconclusive' })
    for (let id = 28; id <= 30; id++) source.change('assignment', id)
    await read()
    await firstLookSees()
    await nextLookBelieves()
    await read()
    expect(await wrong()).toEqual([])
  })

  it('is noticed days later, when its counter has passed the old position again (P14)', async () => {
    const { source } = simulator
    const backup = loseChanges()
    await read()
    await findDeletions(config())
    await look()
    // Of all that were lost one is pinned still.
    await database.pool.query(`delete from tidemark.pinned_record where key <> '25'`)
    // No worker runs. The newest record that is known here is changed again, so nothing shows at the ends.
    source.restoreBackup(backup)
    for (let id = 100; id <= 200; id++) source.change('assignment', id)
    source.insert('assignment')
    const newest = await database.pool.query(
      'select assignment_id::int as id from mirror.assignment order by row_version desc limit 35',
    )
    for (const { id } of newest.rows.slice(0, 8).reverse())
      if (source.versionOf('assignment', id) !== null) source.change('assignment', id)
      else source.insert('assignment', {}, { id })
    pass(3 * 24 * 60 * minuteMs)
    expect(await read()).toMatchObject({ status: 'done', isComplete: true })
    expect((await wrong()).length).toBeGreaterThan(0)
    for (let round = 0; round < 15 && (await epochsOf(database.pool)).length === 0; round++) {
      await look()
      pass(minuteMs)
    }
    expect(await epochsOf(database.pool)).toHaveLength(1)
    await read()
    await reconcile()
    expect(await wrong()).toEqual([])
  })

  it('and lost only what was new is noticed, and one that lost too many rows has their deletion blocked (P7, P14)', async () => {
    const { source } = simulator
    const backup = source.takeBackup()
    for (let count = 0; count < 80; count++) source.insert('assignment')
    await read()
    await look()
    source.restoreBackup(backup)
    expect(await read()).toMatchObject({ status: 'inconclusive' })
    await look()
    await nextLookBelieves()
    expect(await read()).toMatchObject({ status: 'done', isComplete: true })
    expect(await reconcile()).toMatchObject({
      isComplete: false,
      findings: { marked: 0, blocked: { missing: 80, living: 280 } },
    })
    // Nobody decides, and the reading goes on: what the epoch showed is known, also where it is as before.
    expect(await read()).toMatchObject({ status: 'done', isComplete: true, tally: { requests: 1 } })
    for (let round = 0; round < 3; round++) {
      source.change('assignment', 50 + round)
      expect(await read()).toMatchObject({ status: 'done', isComplete: true, tally: { updated: 1 } })
      expect(await read()).toMatchObject({ status: 'done', isComplete: true, tally: { requests: 1 } })
      pass(7 * minuteMs)
      await look()
    }
    expect(await epochsOf(database.pool)).toHaveLength(1)
    expect((await problems()).map(({ kind }) => kind)).toEqual(['deletions_blocked', 'upstream_restored'])
    await reconcileStream({ ...config(), approved: 80 })
    expect(await wrong()).toEqual([])
  })

  it('in one record, such as an import that was rolled back, has that row mended, and no epoch begins (P14)', async () => {
    const { source } = simulator
    const before = source.versionOf('assignment', 12) ?? 0n
    source.change('assignment', 12, { Subject: 'rolled back' })
    await read()
    await look()
    const position = await positionOf(database.pool)
    source.change('assignment', 12, { Subject: 'as it was' }, { version: before })
    await look()
    for (let minute = 0; minute < 8; minute++) {
      pass(minuteMs)
      await look()
    }
    expect(await wrong()).toEqual([])
    expect(await epochsOf(database.pool)).toEqual([])
    expect(await positionOf(database.pool)).toBe(position)
    source.change('assignment', 12)
    expect(await read()).toMatchObject({ status: 'done', isComplete: true, tally: { updated: 1 } })
    expect(await problems()).toEqual([])
  })

  it('in nothing but one or two marks of deletion, has those rows living again (P14)', async () => {
    const { source } = simulator
    for (const ids of [[12], [13, 14]]) {
      const backup = source.takeBackup()
      for (const id of ids) source.remove('assignment', id, 'soft')
      await read()
      await look()
      expect(await wrong()).toEqual([])
      source.restoreBackup(backup)
      expect(await read()).toMatchObject({ status: 'inconclusive' })
      await look()
      pass(6 * minuteMs)
      expect(await look()).toMatchObject({ note: expect.stringContaining('mended') })
      expect(await wrong()).toEqual([])
      // Its counter gives the position's version for a second time.
      for (const id of ids) source.change('assignment', id)
      expect(await read()).toMatchObject({ status: 'done', isComplete: true, tally: { requests: 1 } })
      await look()
      expect(await wrong()).toEqual([])
    }
    expect(await epochsOf(database.pool)).toEqual([])
  })

  it('and gives the version of the position again, has that record read by the next poll (P11, P14)', async () => {
    const { source } = simulator
    const backup = source.takeBackup()
    source.remove('assignment', 12, 'soft')
    await read()
    source.restoreBackup(backup)
    await look()
    pass(6 * minuteMs)
    await look()
    source.change('assignment', 13)
    expect(await read()).toMatchObject({ isComplete: true, tally: { requests: 1, updated: 1 } })
    expect(await wrong()).toEqual([])
  })

  it.each([
    { lagMs: 5_000, share: 1 },
    { lagMs: 5_000, share: 0.5 },
    { lagMs: minuteMs, share: 1 },
    { lagMs: minuteMs, share: 0.5 },
    { lagMs: 5 * minuteMs, share: 1 },
    { lagMs: 5 * minuteMs, share: 0.5 },
  ])(
    'as a replica shows it that lags by $lagMs ms in $share of the reads, does not (P14)',
    async ({ lagMs, share }) => {
      const { source, behaviour } = simulator
      let seen = 0
      for (let minute = 0; minute < 14; minute++) {
        for (let id = 1; id <= 10; id++) source.change('assignment', minute * 3 + id)
        source.insert('assignment')
        // Changes come from the primary, looks go to the replica.
        Object.assign(behaviour, { replicaLagMs: null })
        expect(await read()).toMatchObject({ status: 'done' })
        Object.assign(behaviour, { replicaLagMs: lagMs, replicaShare: share })
        const { status, note } = await look()
        expect(status).toBe('done')
        if (note?.includes('believed when')) seen += 1
        pass(minuteMs / 2)
        await read()
        pass(minuteMs / 2)
      }
      expect(seen).toBeGreaterThan(share === 1 ? 3 : 0)
      Object.assign(behaviour, { replicaLagMs: null })
      expect(await read()).toMatchObject({ status: 'done', isComplete: true })
      await look()
      expect(await wrong()).toEqual([])
      expect(await epochsOf(database.pool)).toEqual([])
    },
  )

  it('as a lagging replica shows it to polls, has few rows pinned, and no epoch begins, however clocks differ (P10, P14)', async () => {
    const { source, behaviour } = simulator
    // The worker's clock is ahead of that of Postgres.
    pass(7 * minuteMs)
    let fell = 0
    let mostPins = 0
    let mostLooks = 0
    for (let minute = 0; minute < 4; minute++) {
      for (let poll = 0; poll < 12; poll++) {
        pass(5_000)
        for (let id = 1; id <= 5; id++) source.change('assignment', minute * 12 + poll * 6 + id)
        expect(await read()).toMatchObject({ status: 'done' })
        Object.assign(behaviour, { replicaLagMs: 5_000 })
        if ((await read()).status === 'inconclusive') fell += 1
        Object.assign(behaviour, { replicaLagMs: null })
      }
      const { rowCount } = await database.pool.query('select from tidemark.pinned_record')
      mostPins = Math.max(mostPins, rowCount ?? 0)
      simulator.requests.start()
      Object.assign(behaviour, { replicaLagMs: minute % 2 === 0 ? 5_000 : null })
      await look()
      Object.assign(behaviour, { replicaLagMs: null })
      mostLooks = Math.max(mostLooks, looksAsked())
    }
    expect(fell).toBeGreaterThan(20)
    expect(mostPins).toBeLessThan(40)
    expect(mostLooks).toBeLessThan(40)
    expect(await epochsOf(database.pool)).toEqual([])
    await look()
    expect(await wrong()).toEqual([])
  })

  it('is not looked for by each of the brief look-backs that come while versions are late (P10, P14)', async () => {
    const { source } = simulator
    pass(minuteMs)
    await look()
    const backup = source.takeBackup()
    for (let id = 1; id <= 5; id++) source.change('assignment', id)
    await read()
    const looksAt = async (reach: 'brief' | 'short') => {
      pass(10_000)
      simulator.requests.start()
      await readLookback({ ...config(), reach })
      return looksAsked()
    }
    expect(await looksAt('brief')).toBe(0)
    source.restoreBackup(backup)
    expect(await looksAt('brief')).toBe(0)
    expect(await looksAt('short')).toBeGreaterThan(0)
    // What they have shown is being decided.
    expect(await looksAt('brief')).toBeGreaterThan(0)
  })

  it('is looked for with a few small requests a minute (P10, P14)', async () => {
    for (let minute = 0; minute < 10; minute++) {
      pass(minuteMs)
      await look()
    }
    simulator.requests.start()
    pass(minuteMs)
    await look()
    expect(looksAsked()).toBeGreaterThan(0)
    expect(looksAsked()).toBeLessThanOrEqual(4)
    const { rows } = await database.pool.query('select count(*)::int as pins from tidemark.pinned_record')
    expect(rows[0].pins).toBeGreaterThan(5)
  })
})
