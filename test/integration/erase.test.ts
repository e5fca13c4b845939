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
import { findDeletions } from '../../src/sync/deletions/find-deletions.ts'
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
})
