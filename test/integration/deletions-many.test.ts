// Records that vanish in numbers: all of them are known before the first is marked, and too many are left to a person (P7).

import pg from 'pg'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { othersFoundGone } from '../../src/operator/deletions.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readDeletionEvidence, rejectDeletions } from '../../src/store/book/deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { whatFollows } from '../../src/worker/kinds.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignment, contextOf, deletionsIn, reconcile, search } from '../support/deletions.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { differences } from '../support/same-as-source.ts'

/** How many rows the longest answer of Postgres had since. */
function spyOnAnswers() {
  let longest = 0
  const { query } = pg.Client.prototype
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...asked) {
    const answer: unknown = Reflect.apply(query, this, asked)
    if (answer instanceof Promise)
      answer.then(
        (result) => {
          longest = Math.max(longest, result?.rows?.length ?? 0)
        },
        () => {},
      )
    return answer
  })
  onTestFinished(() => spy.mockRestore())
  return { longest: () => longest }
}

describe.skipIf(!hasPostgres)('many vanished records', () => {
  const database = createTestDatabase({ forEach: true })
  const { gone, lacking, knownThrough } = deletionsIn(database)

  it('are left to a reconcile when they are many: it knows all of them before it marks the first (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 6_500 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '1000' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    for (let id = 1_000; id < 2_200; id++) upstream.source.remove('assignment', id)
    for (let id = 3_001; id < 6_000; id += 50) upstream.source.remove('assignment', id)
    const searched = await search(context)
    expect(searched).toMatchObject({ note: expect.stringContaining('the list lacks 1,260 rows or more') })
    expect(searched.tally.requests).toBeLessThan(30)
    expect(await gone()).toEqual([])
    expect(await lacking()).toEqual(['assignment'])
    const follows = whatFollows(false)({ stream: 'assignment', kind: 'deletions', cause: 'tick' }, searched)
    expect(follows).toMatchObject([{ kind: 'reconcile' }])
    const answers = spyOnAnswers()
    const { findings, tally } = await reconcile(context, 0)
    expect(findings).toMatchObject({ missing: 1_260, marked: 1_260, alive: 0, unclear: 0 })
    // The list twice, and one look-up for each page of it.
    expect(tally.requests).toBeLessThan(1_260 / 25)
    expect(answers.longest()).toBeLessThanOrEqual(1_000)
    expect(await gone()).toHaveLength(1_260)
    expect(await differences(database.pool, upstream, 'assignment')).toEqual([])
    expect(await lacking()).toEqual([])
    // One that the list hid when the others went is found out by the looks that follow, some in each search.
    await writeAsTidemark(
      database.pool,
      `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent' where assignment_id = 7;
       insert into tidemark.suspect (stream, key, missing_since, evidence)
       select stream, '7', now() - interval '1 day', evidence from tidemark.suspect where key = '1000'`,
    )
    expect((await search(context)).tally.requests).toBeLessThan(70)
    expect(await gone()).toHaveLength(1_260)
    const { rows } = await database.pool.query(
      `select count(*)::int as left from tidemark.suspect where evidence like 'missing from two readings%'`,
    )
    expect(rows[0].left).toBeLessThan(1_260 - 35)
  })

  it('are left to another reconcile when the first was stopped with its worker', async () => {
    await using upstream = await startSimulator({ assignments: 300 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '100' })
    await context.read(assignment, 'incremental', { signal })
    expect(await lacking()).toEqual(['assignment'])
    await reconcile(context, 0)
    for (let id = 20; id < 280; id += 20) upstream.source.remove('assignment', id)
    await search(context)
    expect(await lacking()).toEqual(['assignment'])
    const ending = new AbortController()
    upstream.onRequest(() => ending.abort(new Error('the worker is stopping')))
    const stopped = await reconcileStream({ ...contextOf(context), approved: 0, signal: ending.signal })
    expect(stopped.status).toBe('stopped')
    expect(await lacking()).toEqual(['assignment'])
    expect((await reconcile(context, 0)).findings).toMatchObject({ marked: 13 })
    expect(await lacking()).toEqual([])
  })

  it('are left to a reconcile by the sweep, too, where ranks tell nothing (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 300 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '100' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    await database.pool.query(
      `update tidemark.belief set value = 'not trusted' where name = 'ranks'; update tidemark.stream set swept_key = null`,
    )
    for (let id = 20; id < 280; id += 20) upstream.source.remove('assignment', id)
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('none was marked') })
    expect(await gone()).toHaveLength(0)
    expect(await lacking()).toEqual(['assignment'])
    expect((await reconcile(context, 0)).findings).toMatchObject({ marked: 13 })
  })

  it('are not marked by one part of the list after the other: the sweep goes around before it marks the first (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    // Four searches go around.
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '10' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    await database.pool.query(
      `update tidemark.belief set value = 'not trusted' where name = 'ranks'; update tidemark.stream set swept_key = null`,
    )
    for (const id of [5, 300, 600, 890]) upstream.source.remove('assignment', id)
    const began = new Date()
    for (let time = 0; time < 3; time++) expect(await search(context)).toMatchObject({ note: null })
    expect(await gone()).toEqual([])
    expect(await search(context)).toMatchObject({ note: '4 gone' })
    expect(await gone()).toEqual(['5 absent', '300 absent', '600 absent', '890 absent'])
    expect((await knownThrough())?.getTime()).toBeGreaterThan(began.getTime())
    for (let id = 20; id < 900; id += 50) upstream.source.remove('assignment', id)
    const notes: (string | null)[] = []
    for (let time = 0; time < 3; time++) notes.push((await search(context)).note)
    expect(notes).toContainEqual(expect.stringContaining('none was marked'))
    expect(await gone()).toHaveLength(4)
    expect(await lacking()).toEqual(['assignment'])
    expect((await reconcile(context, 0)).findings).toMatchObject({ marked: 18 })
  })

  it('are looked up one by one, no faster than is allowed, when one of many is there though lists hide it (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, {
      PAGE_SIZE: '300',
      LOOKUPS_PER_MINUTE: '10',
    })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 60
    upstream.source.remove('assignment', 301)
    const waits: number[] = []
    const wait = async (ms: number) => void waits.push(ms)
    const { findings } = await reconcileStream({ ...contextOf(context), approved: 0, wait })
    expect(findings).toMatchObject({ missing: 16, marked: 1, alive: 15 })
    expect(waits.length).toBeGreaterThan(0)
    expect(await gone()).toEqual(['301 absent'])
  })

  it('are not marked when more than a fifth is missing at once (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '300' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    for (let id = 100; id < 290; id++) upstream.source.remove('assignment', id)
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('blocked') })
    expect(await gone()).toEqual([])
  })

  it('are no question any more once the list shows them again, also where ranks tell nothing (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '10' })
    await context.read(assignment, 'incremental', { signal })
    const isBlocked = async () => {
      const { rows } = await database.pool.query(
        `select from tidemark.stream where name = 'assignment' and blocked_deletions is not null`,
      )
      return rows.length > 0
    }
    await search(context)
    await database.pool.query(
      `update tidemark.belief set value = 'not trusted' where name = 'ranks'; update tidemark.stream set swept_key = null`,
    )
    // Four searches go around. All that vanish are behind the first of them, and the next ones miss none.
    await search(context)
    const backup = upstream.source.takeBackup()
    for (let id = 1; id <= 240; id++) upstream.source.remove('assignment', id)
    expect((await reconcile(context, 0)).findings).toMatchObject({ blocked: { missing: 240 } })
    for (let time = 0; time < 4; time++) {
      await search(context)
      expect(await isBlocked()).toBe(true)
    }
    upstream.source.restoreBackup(backup, { keepsCounter: true })
    for (let time = 0; time < 3; time++) await search(context)
    expect(await isBlocked()).toBe(true)
    await search(context)
    expect(await isBlocked()).toBe(false)
    expect(await gone()).toEqual([])
  })

  it('are no question any more although one that was marked as deleted before has vanished (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 300, behaviour: { deletes: 'soft' } })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '100' })
    for (const id of [7, 8]) upstream.source.remove('assignment', id)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.deletes = 'hard'
    const backup = upstream.source.takeBackup()
    for (let id = 100; id < 200; id++) upstream.source.remove('assignment', id)
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('blocked') })
    upstream.source.restoreBackup(backup, { keepsCounter: true })
    upstream.source.remove('assignment', 7)
    expect(await search(context)).toMatchObject({ note: null })
    const { rows } = await database.pool.query(
      `select from tidemark.stream where name = 'assignment' and blocked_deletions is not null`,
    )
    expect(rows).toEqual([])
  })

  it('stay as they are when a person keeps what a search blocked, before a reconcile has named the rows', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '300' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    for (let id = 100; id < 290; id++) upstream.source.remove('assignment', id)
    await search(context)
    const by = { stream: assignment, by: 'ann', reason: null }
    expect(await rejectDeletions(database.pool, { ...by, restores: false })).toBe(0)
    const rejected = async () => {
      const { rows } = await database.pool.query(
        `select blocked_deletions ? 'rejected' as rejected from tidemark.stream where name = 'assignment'`,
      )
      return rows[0]?.rejected
    }
    for (let time = 0; time < 2; time++) {
      await reconcile(context, 0)
      expect(await rejected()).toBe(true)
    }
    upstream.source.remove('assignment', 300)
    await reconcile(context, 0)
    expect(await rejected()).toBe(false)
    expect(await gone()).toEqual([])
  })

  it('do not count any more when a person let them live again', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '300' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    for (let id = 100; id < 110; id++) upstream.source.remove('assignment', id)
    await search(context)
    expect(await gone()).toHaveLength(10)
    for (let id = 200; id < 400; id++) upstream.source.remove('assignment', id)
    await reconcile(context, 0)
    // What the upstream marks itself is no row that was found gone (P18).
    upstream.source.remove('assignment', 500, 'soft')
    await context.read(assignment, 'incremental', { signal })
    expect(await gone()).toHaveLength(11)
    const before = await readDeletionEvidence(database.pool, 'assignment')
    expect(before).toMatchObject({ marked: 10, isSinceDecision: false })
    const by = { stream: assignment, by: 'ann', reason: null }
    expect(await rejectDeletions(database.pool, { ...by, restores: true })).toBe(10)
    const after = await readDeletionEvidence(database.pool, 'assignment')
    expect(after).toMatchObject({ marked: 0, isSinceDecision: true })
    expect(othersFoundGone(after)).toContain('deleted since a person last decided')
  })

  it('are not marked bit by bit either, until they are too many together (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 2_000 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '500' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    const vanish = (from: number, to: number) => {
      for (let id = from; id < to; id++) upstream.source.remove('assignment', id)
    }
    for (const from of [0, 500, 1_000, 1_500]) vanish(from + 100, from + 180)
    await search(context)
    expect((await reconcile(context, 0)).findings).toMatchObject({ marked: 320, blocked: null })
    for (const from of [0, 500, 1_000, 1_500]) vanish(from + 300, from + 360)
    expect(await search(context)).toMatchObject({
      note: expect.stringContaining('blocked: the list lacks at least 240 of 1,680 rows'),
    })
    expect(await gone()).toHaveLength(320)
    const { rows } = await database.pool.query(
      `select blocked_deletions -> 'missing' as missing, blocked_deletions -> 'marked' as marked
       from tidemark.stream where name = 'assignment'`,
    )
    expect(rows).toEqual([{ missing: 240, marked: 320 }])
    // What is marked already says nothing of those that a person is asked about.
    expect(await readDeletionEvidence(database.pool, 'assignment')).toMatchObject({
      ...{ samples: [], looked: { gone: 0, there: 0, unclear: 0 }, marked: 320 },
    })
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('blocked') })
    expect((await reconcile(context, 0)).findings.blocked).toMatchObject({ missing: 240 })
    expect(await gone()).toHaveLength(320)
    await reconcile(context, 240)
    expect(await gone()).toHaveLength(560)
    // What a person has approved does not count with what vanishes later.
    vanish(700, 705)
    expect(await search(context)).toMatchObject({ note: '5 gone' })
  })

  it('are not marked while a person is to decide about deletions (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '300' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    await database.pool.query(
      `update tidemark.stream set blocked_deletions = '{"missing": 400, "living": 900, "seen": 500}'`,
    )
    for (let id = 100; id < 140; id++) upstream.source.remove('assignment', id)
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('blocked') })
    expect(await gone()).toEqual([])
  })
})
