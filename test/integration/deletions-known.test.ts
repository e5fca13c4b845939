// Up to when deletions are known: only where nothing can have hidden one that was searched for (P18).

import { describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import { beliefOf, openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import {
  assignment,
  contextOf,
  deletionsIn,
  hidingFromLooks,
  readAgain,
  reconcile,
  search,
} from '../support/deletions.ts'
import { writeAsTidemark } from '../support/own-writes.ts'

/** Of 899 places, compares the first besides the last: none between two that cancel each other. */
const searchBesideTheFirst = (context: SyncContext) =>
  findDeletions({ ...contextOf(context), now: () => new Date(Math.floor(Date.now() / 899_000) * 899_000) })

describe.skipIf(!hasPostgres)('vanished records', () => {
  const database = createTestDatabase({ forEach: true })
  const { gone, lacking, knownThrough } = deletionsIn(database)

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
    expect(await searchBesideTheFirst(context)).toMatchObject({ note: null })
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
      expect(await searchBesideTheFirst(context)).toMatchObject({ note: null })
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
    expect((await search(context)).tally.requests).toBeLessThanOrEqual(3)
    upstream.source.remove('assignment', broken.id)
    await search(context)
    expect((await search(context)).tally.requests).toBeLessThanOrEqual(3)
    const { rows } = await database.pool.query(
      `select drop_reason from tidemark.quarantine where stream = 'assignment' and dropped_at is not null`,
    )
    expect(rows).toEqual([{ drop_reason: 'the upstream no longer has the record' }])
  })

  it('are not known while records may stand below the position, as after a restored backup (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 900 })
    await using context = await openTestContext(database, upstream, { PAGE_SIZE: '50', LOOKBACK: '10s' })
    await context.read(assignment, 'incremental', { signal })
    const backup = upstream.source.takeBackup()
    const lost = Array.from({ length: 18 }, () => upstream.source.insert('assignment').id)
    for (let reading = 0; reading < 2; reading++) {
      await readAgain(context)
      await search(context)
    }
    upstream.source.restoreBackup(backup)
    const vanishedAt = new Date()
    /** Its look-back reaches only what was written since the backup was restored. */
    const poll = async () => {
      await context.read(assignment, 'incremental', { signal })
      await database.pool.query('update tidemark.stream set last_lookback_at = now()')
    }
    await poll()
    // The counter passes the position again, and polls are shown what they know. Nothing reads what stands below it.
    for (let more = 0; more < 60; more++) {
      if (more < 28 || more > 55) upstream.source.insert('assignment')
      else upstream.source.change('assignment', 1 + more)
    }
    for (let reading = 0; reading < 4; reading++) {
      await poll()
      await searchBesideTheFirst(context)
      const living = lost.filter((id) => upstream.source.versionOf('assignment', id) === null)
      const known = await knownThrough()
      const marked = (await gone()).length
      if (marked < living.length) expect(known === null || known < vanishedAt).toBe(true)
    }
  })

  it('are not known by their count while a restored backup is suspected (P18)', async () => {
    await using upstream = await startSimulator({ assignments: 60 })
    await using context = await openTestContext(database, upstream, { LOOKBACK: '2m' })
    await readAgain(context)
    await search(context)
    await database.pool.query(
      `insert into tidemark.pinned_record (stream, key, version, looked_at, lost_since) values ('assignment', '7', 1, now(), now())`,
    )
    const searched = async () => {
      for (let reading = 0; reading < 2; reading++) {
        await context.read(assignment, 'incremental', { signal })
        await database.pool.query('update tidemark.stream set last_lookback_at = now()')
        await search(context)
      }
      return await knownThrough()
    }
    expect(await searched()).toBeNull()
    await database.pool.query('update tidemark.pinned_record set lost_since = null')
    expect(await searched()).not.toBeNull()
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
    const hiding = hidingFromLooks(context)
    const searchTwice = async () => {
      for (let time = 0; time < 2; time++) await hiding.search()
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
    hiding.show()
    for (let time = 0; time < 3; time++) await searchTwice()
    expect(await gone()).toEqual(['17 absent'])
    expect((await knownThrough())?.getTime()).toBeGreaterThan(vanishedAt.getTime())
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
})
