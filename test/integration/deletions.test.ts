// Records that vanish from the upstream without a word are found by their rank in the list, or by the sweep (P7).

import pg from 'pg'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { readDeletionEvidence, rejectDeletions } from '../../src/store/book/deletions.ts'
import { streamsLackingReconcile } from '../../src/store/book/due.ts'
import { pickStream, knownStreams as streams } from '../../src/streams/catalog.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { whatFollows } from '../../src/worker/kinds.ts'
import { beliefOf, openTestContext } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { differences } from '../support/same-as-source.ts'

const assignment = pickStream('assignment', streams)
const { signal } = new AbortController()

function contextOf(context: SyncContext) {
  if (assignment.kind !== 'changes') throw new Error('assignments are read by row version')
  return { ...context.contextOf(assignment), signal }
}
const search = (context: SyncContext) => findDeletions(contextOf(context))
/** What changed, and the recent past. Returns what the look-back brought. */
async function readAgain(context: SyncContext) {
  await context.read(assignment, 'incremental', { signal })
  return await context.read(assignment, 'lookback', { signal })
}
const reconcile = (context: SyncContext, approved: number) =>
  reconcileStream({ ...contextOf(context), approved })

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

describe.skipIf(!hasPostgres)('vanished records', () => {
  const database = createTestDatabase({ forEach: true })
  const gone = async () => {
    const { rows } = await database.pool.query<{ id: string; reason: string }>(
      `select assignment_id as id, _deleted_reason as reason from mirror.assignment
       where _deleted_at is not null order by assignment_id`,
    )
    return rows.map(({ id, reason }) => `${id} ${reason}`)
  }
  /** Streams whose reconcile the worker would begin now. */
  const lacking = () =>
    streamsLackingReconcile(database.pool, ['assignment'], {
      ...{ slot: new Date(0), restMs: 0, lookbackMs: 600_000, replicaLagMs: 360_000 },
    })
  const knownThrough = async () => {
    const { rows } = await database.pool.query<{ at: Date | null }>(
      `select deletions_known_through as at from tidemark.freshness where stream = 'assignment'`,
    )
    return rows[0]?.at ?? null
  }

  it('are marked after few small requests, and nothing else is', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    const before = new Date()
    expect(await search(context)).toMatchObject({ status: 'done', note: null, isComplete: true })
    expect(await gone()).toEqual([])
    await readAgain(context)
    await search(context)
    expect((await knownThrough())?.getTime()).toBeGreaterThanOrEqual(before.getTime() - 1_000)
    upstream.source.remove('assignment', 17)
    upstream.source.remove('assignment', 640)
    const { note, tally } = await search(context)
    expect(note).toBe('2 gone')
    expect(tally.requests).toBeLessThan(35)
    expect(await gone()).toEqual(['17 absent', '640 absent'])
    expect((await search(context)).tally.requests).toBe(3)
  })

  it.each([6, 8, 10, 12])(
    'that go before question %i of a search make ranks no liars: they are counted again, and none of them is marked (P7)',
    async (before) => {
      await using upstream = await startSimulator({ assignments: 900 })
      await using context = await openTestContext(database, upstream)
      await context.read(assignment, 'incremental', { signal })
      await search(context)
      expect(await beliefOf(database.pool, 'ranks')).toBe('trusted')
      upstream.source.remove('assignment', 640)
      let questions = 0
      upstream.onRequest(() => {
        questions += 1
        if (questions === before) for (let id = 1; id <= 300; id++) upstream.source.remove('assignment', id)
      })
      await search(context)
      expect(await beliefOf(database.pool, 'ranks')).toBe('trusted')
      // At the latest the next search knows how many they are.
      expect((await search(context)).note).toMatch(/^blocked: /)
      const { rows } = await database.pool.query<{ blocked: { missing: number } }>(
        `select blocked_deletions as blocked from tidemark.stream where name = 'assignment'`,
      )
      expect(rows[0]?.blocked.missing).toBeGreaterThanOrEqual(300)
      expect((await gone()).filter((row) => row !== '640 absent')).toEqual([])
    },
  )

  it('are known only when no record that became visible late can have hidden one in the count', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    // A sweep of one page comes nowhere near the records of this test, and each look-back reaches all the way.
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '50', LOOKBACK: '2m' })
    await context.read(assignment, 'incremental', { signal })
    const lookBack = () => readAgain(context)
    await search(context)
    await lookBack()
    await search(context)
    const known = await knownThrough()
    expect(known).not.toBeNull()
    // As a record that is there and was not visible yet when its version was read.
    await writeAsTidemark(database.pool, 'delete from mirror.assignment where assignment_id = 500')
    const vanishedAt = new Date()
    upstream.source.remove('assignment', 640)
    // Compares the first place besides the last, not one between the two.
    const now = () => new Date(Math.floor(Date.now() / 899_000) * 899_000)
    expect(await findDeletions({ ...contextOf(context), now })).toMatchObject({ note: null })
    expect(await knownThrough()).toEqual(known)
    expect(await lookBack()).toMatchObject({ tally: { inserted: 1 } })
    expect(await search(context)).toMatchObject({ note: '1 gone' })
    expect((await knownThrough())?.getTime()).toBeLessThan(vanishedAt.getTime())
    await lookBack()
    await search(context)
    expect((await knownThrough())?.getTime()).toBeGreaterThan(vanishedAt.getTime())
  })

  it('are known only when no two records in turn can have hidden one in the count (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '50', LOOKBACK: '2m' })
    await context.read(assignment, 'incremental', { signal })
    const isLate = (id: number) =>
      writeAsTidemark(database.pool, `delete from mirror.assignment where assignment_id = ${id}`)
    await search(context)
    await readAgain(context)
    const vanishedAt = new Date()
    upstream.source.remove('assignment', 640)
    for (const id of [500, 510, 520]) {
      await isLate(id)
      expect(await search(context)).toMatchObject({ note: null })
      expect(((await knownThrough()) ?? vanishedAt).getTime()).toBeLessThanOrEqual(vanishedAt.getTime())
      expect(await readAgain(context)).toMatchObject({ tally: { inserted: 1 } })
    }
    expect(await search(context)).toMatchObject({ note: '1 gone' })
    for (let reading = 0; reading < 2; reading++) {
      await readAgain(context)
      await search(context)
    }
    expect((await knownThrough())?.getTime()).toBeGreaterThan(vanishedAt.getTime())
  })

  it('are known by their count only while polls read everything (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '50', LOOKBACK: '2m' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    for (let reading = 0; reading < 2; reading++) {
      await context.read(assignment, 'lookback', { signal })
      await search(context)
    }
    expect(await knownThrough()).toBeNull()
    await readAgain(context)
    await search(context)
    expect(await knownThrough()).not.toBeNull()
  })

  it('are not known by a count where two records have one key: they have two places (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await database.pool.query(
      `insert into tidemark.belief (stream, name, value, evidence, first_at, tested_at, rule)
       values ('assignment', 'keys_unique', 'no', 'one answer held two records with key 9', now(), now(), 1)`,
    )
    await search(context)
    expect(await beliefOf(database.pool, 'ranks')).toBeUndefined()
  })

  it('are not hidden by a record that cannot be a row, and one of these may vanish as well', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    // A sweep of one page comes nowhere near the records of this test.
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '50', LOOKBACK: '2m' })
    await context.read(assignment, 'incremental', { signal })
    const lookBack = () => readAgain(context)
    await search(context)
    await lookBack()
    await search(context)
    const broken = upstream.source.insertMalformed('no-row-version', 'assignment')
    upstream.source.insert('assignment')
    upstream.source.remove('assignment', 640)
    const vanishedAt = new Date()
    for (let time = 0; time < 3 && (await gone()).length === 0; time++) {
      await context.read(assignment, 'incremental', { signal })
      await search(context)
      const known = await knownThrough()
      if ((await gone()).length === 0) expect(known === null || known < vanishedAt).toBe(true)
      await lookBack()
    }
    expect(await gone()).toEqual(['640 absent'])
    await search(context)
    await lookBack()
    await search(context)
    expect((await knownThrough())?.getTime()).toBeGreaterThan(vanishedAt.getTime())
    expect((await search(context)).tally.requests).toBe(3)
    upstream.source.remove('assignment', broken.id)
    await search(context)
    expect((await search(context)).tally.requests).toBe(3)
    const { rows } = await database.pool.query(
      `select drop_reason from tidemark.quarantine where stream = 'assignment' and dropped_at is not null`,
    )
    expect(rows).toEqual([{ drop_reason: 'the upstream no longer has the record' }])
  })

  it('are not known by a look-back that is too short to bring a late one', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '50', LOOKBACK: '10m' })
    await context.read(assignment, 'incremental', { signal })
    const lookBack = () => readAgain(context)
    await lookBack()
    const began = new Date()
    await search(context)
    await lookBack()
    await search(context)
    const known = await knownThrough()
    expect(known === null || known < began).toBe(true)
    await database.pool.query(`update tidemark.stream set last_lookback_at = now() - interval '6 minutes'`)
    await lookBack()
    await search(context)
    expect((await knownThrough())?.getTime()).toBeGreaterThanOrEqual(began.getTime())
  })

  it('are not known by a sweep that could not look at one of them, in whichever search that was', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    // A sweep takes two searches.
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '20' })
    await context.read(assignment, 'incremental', { signal })
    if (assignment.kind !== 'changes') throw new Error('assignments are read by row version')
    const given = context.contextOf(assignment)
    let isHidden = true
    const source: typeof given.source = {
      ...given.source,
      lookup: async (key, until) =>
        isHidden && key === '17' ? 'unclear' : ((await given.source.lookup?.(key, until)) ?? 'unclear'),
    }
    const searchTwice = async () => {
      for (let time = 0; time < 2; time++) await findDeletions({ ...given, source, signal })
    }
    await search(context)
    // Ranks would look at it in each search.
    await database.pool.query(`update tidemark.belief set value = 'not trusted' where name = 'ranks'`)
    await searchTwice()
    upstream.source.remove('assignment', 17)
    const vanishedAt = new Date()
    for (let time = 0; time < 3; time++) await searchTwice()
    expect(await gone()).toEqual([])
    expect((await knownThrough())?.getTime()).toBeLessThan(vanishedAt.getTime())
    isHidden = false
    for (let time = 0; time < 3; time++) await searchTwice()
    expect(await gone()).toEqual(['17 absent'])
    expect((await knownThrough())?.getTime()).toBeGreaterThan(vanishedAt.getTime())
  })

  it('that are shown again come back with the sweep, however many, and rows that are behind with them', async () => {
    await using upstream = await startSimulator({ assignments: 300 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    // As after a right that hid these records while their versions were read.
    await writeAsTidemark(
      database.pool,
      `delete from mirror.assignment where assignment_id between 100 and 139;
       update mirror.assignment set subject = 'old', row_version = 1, _hash = '\\x00' where assignment_id in (7, 250)`,
    )
    expect(await search(context)).toMatchObject({ note: '42 brought by the list' })
    expect(await differences(database.pool, upstream, 'assignment')).toEqual([])
    expect(await search(context)).toMatchObject({ note: null })
  })

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
    const before = await readDeletionEvidence(database.pool, 'assignment')
    expect(before.markedWithinDay).toBe(10)
    const by = { stream: assignment, by: 'ann', reason: null }
    expect(await rejectDeletions(database.pool, { ...by, restores: true })).toBe(10)
    const after = await readDeletionEvidence(database.pool, 'assignment')
    expect(after.markedWithinDay).toBe(0)
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
      note: expect.stringContaining('blocked: the list lacks 240 of 1,680 rows'),
    })
    expect(await gone()).toHaveLength(320)
    const { rows } = await database.pool.query(
      `select blocked_deletions -> 'missing' as missing from tidemark.stream where name = 'assignment'`,
    )
    expect(rows).toEqual([{ missing: 240 }])
    // What is marked already says nothing of those that a person is asked about.
    expect(await readDeletionEvidence(database.pool, 'assignment')).toMatchObject({
      ...{ samples: [], looked: { gone: 0, there: 0, unclear: 0 }, markedWithinDay: 320 },
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

  it('are told from those that lists hide, which a look at the record shows (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 100
    upstream.source.remove('assignment', 640)
    expect(await search(context)).toMatchObject({ status: 'done', note: '1 gone' })
    expect(await gone()).toEqual(['640 absent'])
  })

  it('are looked for without asking again and again for those that lists hide, and known up to the last look at these', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '1000' })
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 20
    // More than are looked at singly: the reconcile does it.
    await search(context)
    expect(await lacking()).toEqual(['assignment'])
    expect(await reconcile(context, 0)).toMatchObject({ findings: { alive: 45, marked: 0 } })
    expect(await lacking()).toEqual([])
    const looked = new Date()
    upstream.source.remove('assignment', 17)
    upstream.source.remove('assignment', 40)
    const vanishedAt = new Date()
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('gone') })
    expect(await lacking()).toEqual([])
    for (let time = 0; time < 4; time++) await search(context)
    expect(await gone()).toEqual(['17 absent', '40 absent'])
    expect(looked <= vanishedAt).toBe(true)
    upstream.behaviour.hideAfterPaging = null
    await search(context)
    const { rows } = await database.pool.query(
      'select count(*)::int as hidden from tidemark.suspect where there_at is not null',
    )
    expect(rows).toEqual([{ hidden: 0 }])
  })

  it('are not believed while a record that the list shows cannot be read either (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.behaviour.hideAfterPaging = 100
    upstream.source.remove('assignment', 640)
    const vanishedAt = new Date()
    const isBack = upstream.faults.add({ kind: 404, path: /\/Id\/\d+$/ })
    await search(context)
    await database.pool.query(`update tidemark.belief set value = 'not trusted' where name = 'ranks'`)
    await search(context)
    expect(await reconcileStream({ ...contextOf(context), approved: 0 })).toMatchObject({
      note: expect.stringContaining('10 could not be looked at'),
    })
    expect(await gone()).toEqual([])
    expect((await knownThrough())?.getTime() ?? 0).toBeLessThan(vanishedAt.getTime())
    isBack()
    await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(await gone()).toEqual(['640 absent'])
  })

  it('are not believed when single records cannot be read from the middle of a reconcile on (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 200 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 10)
    upstream.behaviour.hideAfterPaging = 10
    let looks = 0
    upstream.faults.add({
      kind: 404,
      path: /\/Id\/\d+$/,
      while() {
        looks += 1
        return looks > 8
      },
    })
    await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(await gone()).toEqual([])
  })

  it('are believed although the last record of the list cannot be read (P7)', async () => {
    await using upstream = await startSimulator({ assignments: 90 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 40)
    upstream.faults.add({ kind: 404, path: /\/Id\/90$/ })
    await reconcileStream({ ...contextOf(context), approved: 0 })
    expect(await gone()).toEqual(['40 absent'])
  })

  it('are left to the reconcile where the list is not sorted by key', async () => {
    await using upstream = await startSimulator({
      assignments: 900,
      behaviour: { sorts: 'ignored', order: 'descending' },
    })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 17)
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('reconcile') })
    expect(await gone()).toEqual([])
    expect(await knownThrough()).toBeNull()
  })

  it('are not marked when the list shows nothing, though each is gone when asked for (P7, P11)', async () => {
    await using upstream = await startSimulator({ assignments: 9 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    upstream.faults.add({ kind: 404, path: /\/Id\/\d+$/ })
    upstream.behaviour.lists = 'empty'
    expect(await search(context)).toMatchObject({ note: expect.stringContaining('blocked') })
    expect(await gone()).toEqual([])
  })

  it('are not looked for while polls show nothing that is known (P11)', async () => {
    await using upstream = await startSimulator({ assignments: 30 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    await search(context)
    await database.pool.query(`update tidemark.stream set inconclusive_runs = 1 where name = 'assignment'`)
    upstream.source.remove('assignment', 17)
    expect(await search(context)).toMatchObject({ isComplete: false, tally: { requests: 0 } })
    expect(await gone()).toEqual([])
  })

  it('that only a replica lacked are back with the next search', async () => {
    let timeMs = Date.now()
    await using upstream = await startSimulator({ assignments: 200, now: () => timeMs })
    await using context = await openTestContext(database, upstream)
    const { source, behaviour } = upstream
    // From here on the replica is kept.
    behaviour.replicaLagMs = 0
    await context.read(assignment, 'incremental', { signal })
    const late = source.insertLate('assignment')
    source.change('assignment', 5)
    await context.read(assignment, 'incremental', { signal })
    timeMs += 60_000
    late.commit()
    await context.read(assignment, 'lookback', { signal })
    timeMs += 10_000
    // As it was when the record was not there yet, and the last poll showed what is newest.
    behaviour.replicaLagMs = 30_000
    await context.read(assignment, 'incremental', { signal })
    expect(await search(context)).toMatchObject({ note: '1 gone' })
    expect(await gone()).toEqual([`${late.id} absent`])
    behaviour.replicaLagMs = null
    expect(await search(context)).toMatchObject({ status: 'done' })
    expect(await gone()).toEqual([])
  })
})
