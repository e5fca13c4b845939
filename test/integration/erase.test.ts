// What was erased is gone, and nothing takes its absence for a fault of the mirror (P20).

import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { erase } from '../../src/cli/erase.ts'
import { privacy } from '../../src/cli/privacy.ts'
import { reconcile } from '../../src/cli/reconcile.ts'
import { sync } from '../../src/cli/sync.ts'
import { verify } from '../../src/cli/verify.ts'
import { forgetDeleted } from '../../src/operator/erase.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import type { ChangesStream } from '../../src/streams/catalog.ts'
import { readLookback } from '../../src/sync/changes/lookback.ts'
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
import type { Source } from '../../src/sync/ports/source.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { environmentFor } from '../support/environment.ts'
import { writeAsTidemark } from '../support/own-writes.ts'
import { everythingIn } from '../support/private-fields.ts'
import { streamOf } from '../support/streams.ts'
import { callCommand } from '../support/verbs.ts'

const assignment = streamOf('assignment')
const name = 'CANARY of the erased'

describe.skipIf(!hasPostgres)('erasing', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const known = () =>
    query(
      "select settled_through_at, settled_through_version, deletions_known_at, position from tidemark.stream where name = 'assignment'",
    )

  it('removes all traces of a record that is gone, and nobody misses it', { timeout: 300_000 }, async () => {
    await using upstream = await startSimulator({ assignments: 20, notes: 20 })
    const environment = environmentFor(upstream, database, {
      HISTORY: 'assignment',
      RELATED: 'true',
      LOG_LEVEL: 'trace',
    })
    const call = (...[command, ...words]: [Parameters<typeof callCommand>[0], ...string[]]) =>
      callCommand(command, words, environment)
    upstream.source.change('assignment', 7, { Subject: name })
    upstream.source.change('assignment_note', 3, { AssignmentId: 7, Text: name })
    await call(sync)
    await call(sync, 'assignment', '--kind', 'related')
    upstream.source.change('assignment', 7, { Subject: `${name} again` })
    await call(sync)
    await expect(call(erase, 'assignment', '7', '--reason', 'asked')).rejects.toThrow('still has this record')
    await expect(call(erase, 'assignment', 'seven', '--reason', 'asked')).rejects.toThrow(
      '"seven" cannot be a key of assignment: its key AssignmentId is a whole number.',
    )
    upstream.source.remove('assignment', 7, 'hard')
    upstream.source.remove('assignment_note', 3, 'hard')
    await expect(call(erase, 'assignment', '7', '--reason', 'asked')).rejects.toThrow(
      'not marked as deleted yet',
    )
    await call(reconcile, 'assignment')
    await call(reconcile, 'assignment_note')
    await call(sync, 'assignment', '--kind', 'related')
    await query(
      "update tidemark.stream set settled_through_at = now(), settled_through_version = position where name = 'assignment'",
    )
    const before = await known()
    const dry = await call(erase, 'assignment', '7', '--with-related', '--dry-run')
    expect(dry.stdout).toContain('would erase')
    expect(await query('select from mirror.assignment where assignment_id = 7')).toHaveLength(1)

    const done = await call(erase, 'assignment', '7', '--with-related', '--reason', 'asked')
    expect(done.stdout.replaceAll(/\s+/g, ' ')).toContain('1 of assignment_note')
    expect(await known()).toEqual(before)
    const stored = await everythingIn(database.pool)
    expect(stored).not.toContain(name)
    for (const table of ['assignment', 'assignment_product', 'attachment'])
      expect(await query(`select * from mirror.${table} where assignment_id = 7`), table).toEqual([])
    expect(await query('select from mirror.assignment_history where assignment_id = 7')).toEqual([])
    const notes = 'select assignment_note_id::int as id from mirror.assignment_note where assignment_id = 7'
    expect(await query(notes)).toEqual([{ id: 10 }, { id: 14 }])
    expect(done.stdout.replaceAll(/\s+/g, ' ')).toContain(
      'These stay, because they exist upstream: 2 of assignment_note',
    )
    const [action] = await query(
      "select target, result, told from tidemark.action where action = 'erase' order by id desc",
    )
    expect(action).toMatchObject({ target: 'assignment', result: 'done' })
    expect(action.told).toMatch(/fingerprint [0-9a-f]{32}/)

    await call(sync)
    await using context = await openTestContext(database, upstream, {
      HISTORY: 'assignment',
      RELATED: 'true',
    })
    expect(await findDeletions({ ...context.contextOf(assignment), signal })).toMatchObject({
      status: 'done',
    })
    await call(reconcile, 'assignment')
    expect((await call(verify, 'assignment')).code).toBe(0)
    expect(await query('select from mirror.assignment where assignment_id = 7')).toEqual([])
    for (const table of ['missed_rows', 'local_change', 'suspect', 'quarantine'])
      expect(await query(`select from tidemark.${table}`)).toEqual([])
    const [after] = await known()
    expect(after.settled_through_at).not.toBeNull()
    expect(after.position).toBe(before[0].position)
    expect((await call(erase, 'assignment', '7', '--dry-run')).stdout).toContain(
      'nothing of this record is here',
    )
  })

  it('does not come again by an answer that was under way', async () => {
    await using upstream = await startSimulator({ assignments: 100 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    const given = { ...context.contextOf(assignment as ChangesStream), signal }
    let isErased = false
    const slow = (source: Source): Source => ({
      ...source,
      sortedBy: (field) => slow(source.sortedBy(field)),
      async changes(request, until) {
        const answer = await source.changes(request, until)
        if (isErased || !('records' in answer) || answer.records.length < 50) return answer
        isErased = true
        upstream.source.remove('assignment', 50, 'hard')
        await findDeletions(given)
        await context.privacy.erase([{ stream: assignment, keys: ['50'] }])
        return answer
      },
    })
    const { error } = await readLookback({ ...given, source: slow(given.source), reach: 'whole' })
    expect([isErased, String(error)]).toEqual([true, expect.stringContaining('RunFenced')])
    expect(await query('select from mirror.assignment where assignment_id = 50')).toEqual([])
    expect(await readLookback({ ...given, reach: 'whole' })).toMatchObject({ status: 'done', error: null })
  })

  it('marks what only the erased assignment had, where nobody looked at that yet', async () => {
    await using upstream = await startSimulator({ assignments: 8 })
    const environment = environmentFor(upstream, database, { RELATED: 'true' })
    const call = (...[command, ...words]: [Parameters<typeof callCommand>[0], ...string[]]) =>
      callCommand(command, words, environment)
    const { id } = upstream.source.insert('assignment_service', { AssignmentId: 7 })
    await call(sync)
    await call(sync, 'assignment', '--kind', 'related')
    const services = () => query(`select from bi.assignment_service where assignment_service_id = ${id}`)
    expect(await services()).toHaveLength(1)
    upstream.source.remove('assignment', 7, 'hard')
    await call(reconcile, 'assignment')
    expect((await call(erase, 'assignment', '7', '--reason', 'asked')).stdout).toContain('erased 1 row')
    await call(sync, 'assignment', '--kind', 'related')
    expect(await services()).toEqual([])
    expect(await query('select from tidemark.related_link where assignment_id = 7')).toEqual([])
    expect(await query('select from tidemark.related_fetch where assignment_id = 7')).toEqual([])
  })

  it('removes the bytes of a file with what is known of it', async () => {
    await using upstream = await startSimulator({ assignments: 4 })
    const environment = environmentFor(upstream, database, { RELATED: 'true', ATTACHMENT_DATA: 'true' })
    const call = (...[command, ...words]: [Parameters<typeof callCommand>[0], ...string[]]) =>
      callCommand(command, words, environment)
    const { id } = upstream.source.insert('attachment', { OwnerId: 2, FileData: 'Q0FOQVJZ' })
    await call(sync)
    await call(sync, 'assignment', '--kind', 'related')
    const data = () => query(`select from mirror.attachment_data where attachment_id = ${id}`)
    expect(await data()).toHaveLength(1)
    upstream.source.remove('attachment', id, 'hard')
    upstream.source.change('assignment', 2)
    await call(sync)
    await call(sync, 'assignment', '--kind', 'related')
    const done = await call(erase, 'attachment', String(id), '--reason', 'asked')
    expect(done.stdout.replaceAll(/\s+/g, ' ')).toContain('Related rows among them: 1 of attachment_data')
    expect(await data()).toEqual([])
  })

  it('erases nothing of a record that exists and cannot be a row', async () => {
    await using upstream = await startSimulator({ assignments: 4 })
    const environment = environmentFor(upstream, database)
    const { id } = upstream.source.insertMalformed('bad-row-version')
    await callCommand(sync, ['assignment'], environment)
    expect(await query('select key from tidemark.quarantine')).toHaveLength(1)
    await expect(
      callCommand(erase, ['assignment', String(id), '--reason', 'asked'], environment),
    ).rejects.toThrow('still has this record')
    expect(await query('select key from tidemark.quarantine')).toHaveLength(1)
  })

  it('takes a key of several fields as a person writes it', async () => {
    await using upstream = await startSimulator({ trackers: 20 })
    const environment = environmentFor(upstream, database, { KEY_TRACKER_OBJECT: 'TrackerObjectId,UID' })
    const call = (...[command, ...words]: [Parameters<typeof callCommand>[0], ...string[]]) =>
      callCommand(command, words, environment)
    await call(sync, 'tracker_object')
    const [{ uid }] = await query('select uid from mirror.tracker_object where tracker_object_id = 2')
    upstream.source.remove('tracker_object', 2, 'hard')
    for (let time = 0; time < 3; time++) await call(sync, 'tracker_object')
    await call(erase, 'tracker_object', `2, ${uid.toUpperCase()}`, '--reason', 'asked')
    expect(await query('select from mirror.tracker_object where tracker_object_id = 2')).toEqual([])
  })

  it('says that the table is missing while only its history is there, and removes that once it was read again', async () => {
    await using upstream = await startSimulator({ assignments: 8, trackers: 4 })
    const environment = environmentFor(upstream, database, {
      ...{ HISTORY: 'assignment,tracker_object', KEY_TRACKER_OBJECT: 'TrackerObjectId,UID' },
    })
    const call = (...[command, ...words]: [Parameters<typeof callCommand>[0], ...string[]]) =>
      callCommand(command, words, environment)
    upstream.source.change('assignment', 7, { Subject: name })
    upstream.source.change('tracker_object', 2, { RegistrationNumber: name })
    await call(sync)
    const [{ uid }] = await query('select uid from mirror.tracker_object where tracker_object_id = 2')
    upstream.source.remove('assignment', 7, 'hard')
    upstream.source.remove('tracker_object', 2, 'hard')
    await query('drop table mirror.assignment, mirror.tracker_object cascade')
    const records = [
      ['assignment', '7'],
      ['tracker_object', `2, ${uid.toUpperCase()}`],
    ] as const
    for (const [stream, key] of records)
      await expect(call(erase, stream, key, '--dry-run')).rejects.toThrow(
        `somebody dropped the table of ${stream}, and only its history is left, in which the record cannot be found. Have the table read again: \`tidemark sync ${stream}\`.`,
      )
    await expect(call(erase, 'assignment_note', '1', '--with-related', '--dry-run')).rejects.toThrow(
      'somebody dropped the table of assignment,',
    )
    await call(sync)
    for (const [stream, key] of records)
      expect((await call(erase, stream, key, '--reason', 'asked')).stdout).toContain('1 line of history')
    expect(await everythingIn(database.pool)).not.toContain(name)
  })

  it('keeps the row of a record that exists, without its past, where fields of it are left out', {
    timeout: 300_000,
  }, async () => {
    await using upstream = await startSimulator({ assignments: 8 })
    const file = join(mkdtempSync(join(tmpdir(), 'erase-')), 'dictionary.yml')
    writeFileSync(file, 'assignment:\n  fields:\n    ContactPhone: { omit: true }\n')
    const environment = environmentFor(upstream, database, { HISTORY: 'assignment', DICTIONARY: file })
    const call = (...[command, ...words]: [Parameters<typeof callCommand>[0], ...string[]]) =>
      callCommand(command, words, environment)
    upstream.source.change('assignment', 7, { Subject: name })
    await call(sync, 'assignment')
    upstream.source.change('assignment', 7, { Subject: 'nothing of anybody' })
    await call(sync, 'assignment')
    expect((await call(erase, 'assignment', '7', '--reason', 'asked')).stdout).toContain('its row stays')
    expect(await query('select subject from mirror.assignment where assignment_id = 7')).toEqual([
      { subject: 'nothing of anybody' },
    ])
    expect(await query('select subject from mirror.assignment_history where assignment_id = 7')).toEqual([
      { subject: 'nothing of anybody' },
    ])
    expect(await everythingIn(database.pool)).not.toContain(name)
    expect((await call(privacy, 'assignment')).stdout).toContain('assignment.contactphone: omit')
  })

  it('happens by itself to rows that were marked as deleted long ago, but for those that the upstream still shows', async () => {
    await using upstream = await startSimulator({ assignments: 20 })
    await using context = await openTestContext(database, upstream)
    await context.read(assignment, 'incremental', { signal })
    upstream.source.remove('assignment', 3, 'soft')
    upstream.source.remove('assignment', 4, 'hard')
    upstream.source.remove('assignment', 5, 'hard')
    await context.read(assignment, 'incremental', { signal })
    await findDeletions({ ...context.contextOf(assignment), signal })
    const marked = () =>
      query('select assignment_id::int as id from mirror.assignment where _deleted_at is not null order by 1')
    expect(await marked()).toEqual([{ id: 3 }, { id: 4 }, { id: 5 }])
    const forget = () => forgetDeleted(context, { ageOf: () => 86_400_000, signal })
    expect(await forget()).toEqual([])
    await writeAsTidemark(
      database.pool,
      "update mirror.assignment set _deleted_at = now() - interval '2 days' where assignment_id in (3, 4)",
    )
    expect(await forget()).toEqual([{ stream: 'assignment', rows: 1, ageMs: 86_400_000 }])
    expect(await marked()).toEqual([{ id: 3 }, { id: 5 }])
    expect(await findDeletions({ ...context.contextOf(assignment), signal })).toMatchObject({
      status: 'done',
    })
    expect(await query('select from tidemark.local_change')).toEqual([])
  })

  it('happens to related records that the upstream marked as deleted, once no assignment has them any more', async () => {
    await using upstream = await startSimulator({ assignments: 5 })
    await using context = await openTestContext(database, upstream, { RELATED: 'true' })
    const ids = [1, 2].map((id) => upstream.source.insert('assignment_service', { AssignmentId: id }).id)
    for (const id of ids) upstream.source.remove('assignment_service', id, 'soft')
    const read = async () => {
      await context.read(assignment, 'incremental', { signal })
      await context.readRelated({ signal })
    }
    await read()
    upstream.source.remove('assignment_service', ids[0] ?? 0, 'hard')
    upstream.source.change('assignment', 1)
    await read()
    const left = () =>
      query(
        `select assignment_service_id::int as id from mirror.assignment_service where _deleted_reason = 'source' and assignment_service_id in (${ids.join(', ')}) order by 1`,
      )
    expect(await left()).toEqual(ids.map((id) => ({ id })))
    await writeAsTidemark(
      database.pool,
      `update mirror.assignment_service set _deleted_at = now() - interval '2 days' where assignment_service_id in (${ids.join(', ')})`,
    )
    expect(await forgetDeleted(context, { ageOf: () => 86_400_000, signal })).toEqual([
      { stream: 'assignment_service', rows: 1, ageMs: 86_400_000 },
    ])
    expect(await left()).toEqual([{ id: ids[1] }])
  })
})
