// Histories go on through what happens beside them: rows that are only read again, a history that is switched on while runs are under way,
// or off and on again. And nothing private, or of a table in the middle of a change, is left behind (P20).

import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { rewindStream } from '../../src/store/book/checkpoints.ts'
import { eraseAll } from '../../src/store/runs/erase.ts'
import { applyRules } from '../../src/store/runs/private-fields.ts'
import { relatedNamed } from '../../src/streams/catalog.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'
import { callVerb } from '../support/verbs.ts'

const assignment = streamOf('assignment')
const isOn = { histories: { assignment: 365 * 86_400_000 } }

describe.skipIf(!hasPostgres)('a history', () => {
  const database = createTestDatabase({ forEach: true })
  const query = async (sql: string) => (await database.pool.query(sql)).rows
  const [on, off] = [() => storeOf(database, isOn), () => storeOf(database)]
  type Store = ReturnType<typeof on>
  async function write(store: Store, ...records: readonly Json[]) {
    const run = await begin(store)
    await run.pages.commit(assignments(...records), 9n)
    await run.finish(done)
  }
  const omitPhone = [{ field: 'phone', rule: 'omit', keyMark: null }] as const
  const now = () => query('select assignment_id, subject from bi.assignment order by 1')
  const asOfNow = () =>
    query('select assignment_id, subject from bi.assignment_at(clock_timestamp()) order by 1')
  const beginsAt = async () =>
    (await query(`select history_from::text as at from tidemark.stream where name = 'assignment'`))[0].at
  const markGone = async (store: Store, key: string) => {
    const run = await begin(store, 'assignment', 'deletions')
    const marked = await run.shown.markGone([{ key, evidence: 'asked' }], await run.shown.clock())
    await run.finish(done)
    return marked
  }

  it('begins no later, and gets no line, when rows are read again as they are', async () => {
    await using upstream = await startSimulator({ assignments: 50 })
    await using context = await openTestContext(database, upstream, { HISTORY: 'assignment' })
    const read = () => context.read(assignment, 'incremental', { signal })
    await read()
    const before = await beginsAt()
    await rewindStream(database.pool, { stream: 'assignment', position: 0n, reason: 'a test', by: 'ann' })
    await read()
    await query(`update mirror.assignment set subject = 'by hand' where assignment_id = 7`)
    for (let time = 0; time < 2; time++) await read()
    upstream.source.change('assignment', 9, { Subject: 'x' })
    for (let time = 0; time < 2; time++) await read()
    expect(await beginsAt()).toBe(before)
    expect(await query('select from mirror.assignment_history')).toHaveLength(51)
  })

  it('ends runs that began without it when it is switched on', async () => {
    await write(off(), { AssignmentId: 1, RowVersion: 1, Subject: 'a' })
    const lookback = await begin(off(), 'assignment', 'lookback')
    await write(on(), { AssignmentId: 3, RowVersion: 3, Subject: 'c' })
    const late = assignments({ AssignmentId: 1, RowVersion: 4, Subject: 'changed' })
    await expect(lookback.pages.commit(late, null)).rejects.toThrow(/lost its/)
    await lookback.finish({ ...done, status: 'failed' }).catch(() => {})
    await write(on(), { AssignmentId: 1, RowVersion: 4, Subject: 'changed' })
    expect(await asOfNow()).toEqual(await now())
  })

  it('sees what changed while it was off, although a deletion comes first', async () => {
    await write(
      on(),
      { AssignmentId: 1, RowVersion: 1, Subject: 'a' },
      { AssignmentId: 2, RowVersion: 2, Subject: 'b' },
    )
    await write(off(), { AssignmentId: 1, RowVersion: 3, Subject: 'changed' })
    expect(await markGone(on(), '2')).toBe(1)
    await write(on(), { AssignmentId: 3, RowVersion: 4, Subject: 'c' })
    expect(await asOfNow()).toEqual(await now())
  })

  it('keeps no row from being marked when it has no month for that', async () => {
    await write(on(), { AssignmentId: 1, RowVersion: 1, Subject: 'a' })
    const months = await query(
      `select inhrelid::regclass::text as name from pg_inherits where inhparent = 'mirror.assignment_history'::regclass`,
    )
    await query(
      `set tidemark.writer = 'on'; ${months.map(({ name }) => `drop table ${name}`).join(';')}; reset tidemark.writer`,
    )
    expect(await markGone(on(), '1')).toBe(1)
  })

  it('holds all rows again when it was dropped while it was off', async () => {
    const rows = [1, 2].map((id) => ({ AssignmentId: id, RowVersion: id, Subject: 'a' }))
    await write(on(), ...rows)
    // Read again as they are, so that they are compared with their lines.
    await query(`update mirror.assignment set subject = 'by hand'`)
    await write(on(), ...rows)
    await write(on(), { AssignmentId: 3, RowVersion: 3, Subject: 'c' })
    await write(off(), { AssignmentId: 4, RowVersion: 4, Subject: 'd' })
    await query('drop table mirror.assignment_history cascade')
    await query(`update tidemark.stream set history_watch = null, history_from = null`)
    await write(on(), { AssignmentId: 5, RowVersion: 5, Subject: 'e' })
    expect(await asOfNow()).toEqual(await now())
  })

  it('loses a private field also where its table was filled anew without it', async () => {
    await write(on(), { AssignmentId: 1, RowVersion: 1, Phone: 'SECRET', Contact: { Phone: 'SECRET' } })
    await query('drop table mirror.assignment cascade')
    await write(on(), { AssignmentId: 2, RowVersion: 2 })
    // In columns of other types as well.
    await write(on(), { AssignmentId: 2, RowVersion: 3, Phone: 5, Contact: 'a text' })
    await applyRules(database.pool, assignment, {
      wantedOf: () => omitPhone,
      names: ['assignment'],
      reason: 'asked',
    })
    expect(JSON.stringify(await query('select * from mirror.assignment_history'))).not.toContain('SECRET')
  })

  it('is not needed for a record in quarantine to be erased after it was found gone', async () => {
    const refused = { AssignmentId: 7, RowVersion: 'none', Subject: 'SECRET' }
    await write(off(), { AssignmentId: 7, RowVersion: 1 }, refused, { ...refused, Odd: 'a\0b' })
    expect(await query('select from tidemark.quarantine')).toHaveLength(2)
    await markGone(off(), '7')
    expect(await eraseAll(database.pool, [{ stream: assignment, keys: ['7'] }])).toMatchObject({
      quarantine: 2,
    })
    expect(await query('select from tidemark.quarantine')).toEqual([])
  })

  it('is not needed for copies in quarantine that jsonb cannot hold to be cleared', async () => {
    const refused = { AssignmentId: 7, RowVersion: 'none', Odd: 'a\0b', Customer: { Phone: 'SECRET' } }
    await write(off(), { AssignmentId: 8, RowVersion: 1 }, refused)
    const customer = relatedNamed('customer')
    if (!customer) throw new Error('there is no stream customer')
    await applyRules(database.pool, customer, {
      ...{ wantedOf: () => omitPhone, names: ['customer', 'customers'], reason: 'asked' },
    })
    expect(await query('select from tidemark.quarantine')).toEqual([])
  })

  it('or not: an export that begins while a column gets another type holds all rows', async () => {
    await write(off(), ...[1, 2, 3].map((id) => ({ AssignmentId: id, RowVersion: id, Big: id })))
    const place = join(mkdtempSync(join(tmpdir(), 'export-')), 'out')
    const other = await database.pool.connect()
    await other.query(`begin; set local tidemark.writer = 'on'; drop view bi.assignment cascade;
      alter table mirror.assignment alter column big type numeric`)
    const going = callVerb(['export', place, 'assignment', '--json'], { DATABASE_URL: database.url })
    const waiting = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    await expect.poll(async () => (await query(waiting)).length, { timeout: 20_000 }).toBe(1)
    await other.query('commit')
    other.release()
    const { stdout } = await going
    expect(JSON.parse(stdout).tables[0].rows).toBe(3)
  })
})
