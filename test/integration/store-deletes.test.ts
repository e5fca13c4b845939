// How rows are marked deleted, and come back.

import { setTimeout } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Json, JsonObject } from '../../src/json/json.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { assignments, begin, done, storeOf, trackers } from '../support/runs.ts'

describe.skipIf(!hasPostgres)('a row', () => {
  const database = createTestDatabase()

  beforeEach(async () => {
    await database.pool.query(`
      truncate mirror.assignment, tidemark.suspect;
      drop table if exists mirror.tracker_object cascade;
      delete from tidemark.field where stream = 'tracker_object';
      -- What they marked counts for a day.
      update tidemark.run set marked_deleted = 0;
      update tidemark.stream set blocked_deletions = null, key_field = null`)
  })

  const rowOf = async (key: number) =>
    (
      await database.pool.query(
        'select *, _deleted_at is not null as is_deleted from mirror.assignment where assignment_id = $1',
        [key],
      )
    ).rows[0]

  async function write(...records: JsonObject[]) {
    const run = await begin(storeOf(database))
    const written = await run.pages.commit(assignments(...records), null)
    await run.finish(done)
    return written
  }

  const flags: [Json, boolean][] = [
    [true, true],
    [false, false],
    ['True', true],
    ['false', false],
    [1, true],
    [0, false],
    ['1', true],
    [null, false],
  ]
  it.each(flags)('that the source flags with SysDeleted %j is deleted: %j', async (flag, isDeleted) => {
    await write({ AssignmentId: 1, RowVersion: 1, SYSDELETED: flag })
    expect(await rowOf(1)).toMatchObject({
      is_deleted: isDeleted,
      _deleted_reason: isDeleted ? 'source' : null,
    })
  })

  it('keeps its values when it is deleted, and leaves the view (P7)', async () => {
    await write({ AssignmentId: 1, RowVersion: 1, Name: 'old', SysDeleted: false })
    await write({ AssignmentId: 1, RowVersion: 2, Name: 'new', SysDeleted: true })
    expect(await rowOf(1)).toMatchObject({ name: 'new', is_deleted: true })
    expect((await database.pool.query('select * from bi.assignment')).rows).toEqual([])
    await write({ AssignmentId: 1, RowVersion: 3, Name: 'new', SysDeleted: false })
    expect(await rowOf(1)).toMatchObject({ is_deleted: false, _deleted_reason: null })
  })

  it('that was marked deleted and is served again as it was lives again, and counts as updated (P7)', async () => {
    const record = { AssignmentId: 1, RowVersion: 5, Name: 'x' }
    await write(record)
    await writeAsTidemark(
      database.pool,
      `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent'`,
    )
    expect(await write(record)).toMatchObject({ updated: 1, unchanged: 0 })
    expect(await rowOf(1)).toMatchObject({ is_deleted: false, _deleted_reason: null })
  })

  it('that was proven gone and is shown again lives again, also in a version that is older (P7, P14)', async () => {
    await write({ AssignmentId: 1, RowVersion: 5, Name: 'x' })
    await writeAsTidemark(
      database.pool,
      `update mirror.assignment set _deleted_at = now(), _deleted_reason = 'absent'`,
    )
    // Somebody brought it back from a backup.
    expect(await write({ AssignmentId: 1, RowVersion: 4, Name: 'w' })).toMatchObject({ updated: 1 })
    expect(await rowOf(1)).toMatchObject({ is_deleted: false, row_version: '4', name: 'w' })
    // The source's own mark has a version, and an older one says nothing about it (P3).
    await write({ AssignmentId: 1, RowVersion: 6, Name: 'w', SysDeleted: true })
    expect(await write({ AssignmentId: 1, RowVersion: 5, Name: 'x' })).toMatchObject({ updated: 0 })
    expect(await rowOf(1)).toMatchObject({ is_deleted: true, row_version: '6' })
  })

  it('that was proven gone stays so when a page comes late that was read before, and lives again by one read since (P7)', async () => {
    const record = { AssignmentId: 1, RowVersion: 5, Name: 'x' }
    const changed = { ...record, RowVersion: 6 }
    await write(record)
    const readBefore = [assignments(record), assignments(changed)]
    // How long ago a page was read is known but for the time that it takes to Postgres.
    await setTimeout(1_000)
    const reconcile = await storeOf(database).openRun('reconcile', 'assignment')
    if ('busy' in reconcile) throw new Error(reconcile.busy)
    await reconcile.absent.gather()
    expect(await reconcile.absent.keys(null, 10)).toEqual(['1'])
    await reconcile.absent.noteGone([{ key: '1', evidence: 'a test says so' }])
    expect(await reconcile.absent.markGone()).toBe(1)
    await reconcile.finish(done)
    const head = await begin(storeOf(database))
    for (const page of readBefore) await head.pages.commit(page, null)
    expect(await rowOf(1)).toMatchObject({ row_version: '6', is_deleted: true, _deleted_reason: 'absent' })
    expect(await head.pages.commit(assignments(changed), null)).toMatchObject({ updated: 1 })
    expect(await rowOf(1)).toMatchObject({ is_deleted: false, _deleted_reason: null })
    await head.finish(done)
  })

  it('that is gone is locked in the order of keys, as pages lock theirs, so that neither waits for the other (P8)', async () => {
    for (const key of [3, 2, 1]) await write({ AssignmentId: key, RowVersion: 1 })
    const reconcile = await storeOf(database).openRun('reconcile', 'assignment')
    if ('busy' in reconcile) throw new Error(reconcile.busy)
    await reconcile.absent.gather()
    await reconcile.absent.noteGone(['1', '2', '3'].map((key) => ({ key, evidence: 'a test says so' })))
    const other = await database.pool.connect()
    await other.query('begin; select from mirror.assignment where assignment_id = 2 for update')
    const marking = reconcile.absent.markGone()
    const waiting = `select from pg_locks join pg_stat_activity using (pid)
      where not granted and datname = current_database()`
    await expect.poll(async () => (await database.pool.query(waiting)).rowCount).toBe(1)
    const free = await other.query(
      'select assignment_id::int as id from mirror.assignment order by 1 for update skip locked',
    )
    expect(free.rows).toEqual([{ id: 2 }, { id: 3 }])
    await other.query('commit')
    other.release()
    expect(await marking).toBe(3)
    await reconcile.finish(done)
  })

  describe('of a list', () => {
    const ids = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

    /** One complete listing. */
    async function list(keys: readonly number[], release?: number) {
      const run = await begin(storeOf(database), 'tracker_object', 'list')
      await run.findings.setKeyField('TrackerObjectId')
      await run.pages.commit(
        trackers(...keys.map((key) => ({ TrackerObjectId: key, Name: `v${key}` }))),
        null,
      )
      await run.seen.add(1, keys.map(String))
      const absent = await run.absences.count(1)
      const absences = await run.absences.settle(1, release)
      await run.finish(done)
      return { ...absences, absent }
    }
    const deleted = async () =>
      (
        await database.pool.query(
          'select tracker_object_id::int as id from mirror.tracker_object where _deleted_at is not null order by 1',
        )
      ).rows.map((row) => row.id)

    it('is marked deleted when two complete listings in a row lacked it, and not before (P7)', async () => {
      await list(ids(10))
      expect(await list(ids(9))).toEqual({ marked: 0, waiting: 1, blocked: 0, absent: 1 })
      expect(await deleted()).toEqual([])
      expect(await list(ids(9))).toEqual({ marked: 1, waiting: 0, blocked: 0, absent: 1 })
      expect(await deleted()).toEqual([10])
      expect(await list(ids(10))).toEqual({ marked: 0, waiting: 0, blocked: 0, absent: 0 })
      expect(await deleted()).toEqual([])
    })

    it('that is back in between waits anew (P7)', async () => {
      await list(ids(10))
      await list(ids(9))
      await list(ids(10))
      expect(await list(ids(9))).toMatchObject({ marked: 0, waiting: 1 })
    })

    it('is not marked by a listing that is empty or lost more than a fifth; that one is blocked (P7)', async () => {
      const held = async () =>
        (
          await database.pool.query(
            `select blocked_deletions from tidemark.stream where name = 'tracker_object'`,
          )
        ).rows[0].blocked_deletions
      await list(ids(10))
      expect(await list([])).toMatchObject({ marked: 0, waiting: 0, blocked: 10 })
      expect(await list(ids(7))).toMatchObject({ marked: 0, waiting: 0, blocked: 3 })
      expect(await held()).toMatchObject({ missing: 3, living: 10, seen: 7 })
      expect(await list(ids(8))).toMatchObject({ marked: 0, waiting: 2, blocked: 0 })
      expect(await held()).toBeNull()
      expect(await list(ids(8))).toMatchObject({ marked: 2 })
    })

    it('is marked when an operator believes so many gone, and blocked when more are (P7)', async () => {
      await list(ids(10))
      expect(await list(ids(7))).toMatchObject({ blocked: 3 })
      expect(await list([], 3)).toMatchObject({ marked: 0, waiting: 0, blocked: 10 })
      expect(await list(ids(7), 3)).toMatchObject({ marked: 0, waiting: 3, blocked: 0 })
      expect(await list([], 3)).toMatchObject({ marked: 0, blocked: 10 })
      expect(await deleted()).toEqual([])
      expect(await list(ids(7), 3)).toMatchObject({ marked: 3, blocked: 0 })
    })

    it('that a blocked listing showed is not absent any more (P7)', async () => {
      await list(ids(10))
      await list(ids(9))
      expect(await list([8, 9, 10])).toMatchObject({ blocked: 7 })
      expect(await list(ids(9))).toMatchObject({ marked: 0, waiting: 1 })
    })

    it('is looked for among the pages of the last listing only', async () => {
      const run = await begin(storeOf(database), 'tracker_object', 'list')
      await run.findings.setKeyField('TrackerObjectId')
      await run.pages.commit(trackers({ TrackerObjectId: 1 }, { TrackerObjectId: 2 }), null)
      await run.seen.add(1, ['1', '2'])
      await run.seen.add(2, ['2'])
      expect(await run.seen.countAround(1)).toBe(1)
      expect(await run.absences.count(1)).toBe(0)
      expect(await run.absences.count(2)).toBe(1)
      await run.seen.add(1, ['1'])
      expect(await run.absences.count(1)).toBe(1)
      await run.finish(done)
    })
  })
})
