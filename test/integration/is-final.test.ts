// Whether what happened up to a moment is final: never said while a row is in doubt, and said again when that row was mended, without
// another comparison of everything (P13, P18).

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SyncContext } from '../../src/context.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { streamOf } from '../support/streams.ts'

const assignment = streamOf('assignment')
const object = streamOf('assignment_object')

describe.skipIf(!hasPostgres)('whether a moment is final', () => {
  const database = createTestDatabase({ forEach: true })
  let simulator: Simulator
  let context: SyncContext
  const query = async (sql: string, values: readonly unknown[] = []) =>
    (await database.pool.query(sql, [...values])).rows
  const read = (stream: typeof assignment | typeof object = assignment) =>
    context.read(stream, 'incremental', { signal })
  const reconcile = () => reconcileStream({ ...context.contextOf(assignment), signal, approved: 0 })
  const settled = async (): Promise<string | null> =>
    (
      await query(
        `select settled_through_time::text as at from tidemark.freshness where stream = 'assignment'`,
      )
    )[0].at
  /** Why it is not; true: it is. */
  const final = async (moment: string | null, stream = 'assignment'): Promise<string | true> => {
    const [{ is, because }] = await query(
      'select tidemark.is_final($1, $2) as is, tidemark.not_final_because($1, $2) as because',
      [stream, moment],
    )
    expect(is).toBe(because === null)
    return because ?? true
  }
  const doubts = async () =>
    (await query(`select key from tidemark.in_doubt where stream = 'assignment' order by key`)).map(
      ({ key }) => key,
    )
  /** As if it had been loaded yesterday. */
  const settle = async (): Promise<string> => {
    await read()
    await query(`update tidemark.checkpoint set reached_at = reached_at - interval '1 day'`)
    await reconcile()
    const at = await settled()
    if (at === null) throw new Error('nothing was settled')
    return at
  }

  beforeEach(async () => {
    simulator = await startSimulator({ assignments: 40, objects: 10 })
    context = await openTestContext(database, simulator, { PAGE_SIZE: '15' })
  })
  afterEach(async () => {
    await context[Symbol.asyncDispose]()
    await simulator.close()
  })

  it('is so up to what is settled, with its deletions, and not before', async () => {
    await expect(final('now', 'assignments')).rejects.toThrow('There is no stream assignments.')
    expect(await final('2020-01-01')).toContain('nothing is settled yet')
    await read()
    await reconcile()
    expect(await final('2020-01-01')).toBe('nothing is settled yet')
    const at = await settle()
    expect(await final(at)).toBe(true)
    expect(await final('now')).toMatch(/^changes are settled only through 20/)
    expect(await final(null)).toBe('no moment was given')
    await query(`update tidemark.stream set deletions_known_at = settled_through_at - interval '1 hour'`)
    expect(await final(at)).toMatch(/^deletions are known only through 20/)
    await query(`update tidemark.stream set settled_through_at = now() + interval '1 hour'`)
    expect(await final(at)).toContain('nothing is settled yet')
  })

  it('is so for a list up to when it was last read', async () => {
    expect(await final('2020-01-01', 'assignment_object')).toContain('nothing is settled yet')
    await read(object)
    const [{ at }] = await query(
      `select read_through_time::text as at from tidemark.freshness where stream = 'assignment_object'`,
    )
    expect(await final(at, 'assignment_object')).toBe(true)
    expect(await final('now', 'assignment_object')).toMatch(/settled only through/)
  })

  it.each([
    { what: 'updates', sql: 'update mirror.assignment set price = 0 where assignment_id::text = any ($1)' },
    { what: 'deletes', sql: 'delete from mirror.assignment where assignment_id::text = any ($1)' },
    {
      what: 'inserts',
      sql: `insert into mirror.assignment (assignment_id, _hash) select '4711', 'theirs' where $1::text[] is not null`,
    },
  ])(
    'is not so while somebody $what rows in Postgres, and is again when they were read again',
    async ({ what, sql }) => {
      const at = await settle()
      // A run that is stopped early has read the newest and the oldest.
      const newest = await query(
        'select assignment_id::text as key from mirror.assignment order by row_version desc offset 18 limit 2',
      )
      const chosen = newest.map(({ key }) => key).toSorted()
      const keys = what === 'inserts' ? ['4711'] : chosen
      await query(sql, [chosen])
      expect(await final(at)).toMatch(/^rows are in doubt \(\d in tidemark\.in_doubt\)$/)
      await context.read(assignment, 'incremental', { signal, shouldYield: () => true })
      expect(await doubts()).toEqual(keys)
      expect(await final(at)).toBe(`rows are in doubt (${keys.length} in tidemark.in_doubt)`)
      expect(await settled()).toBe(at)
      await read()
      // No poll tells of a record that was never there: the list does.
      if (what === 'inserts') {
        expect(await doubts()).toEqual(keys)
        await reconcile()
      }
      expect(await doubts()).toEqual([])
      expect(await final(at)).toBe(true)
    },
  )

  it('is not so while a deleted row does not come back, until a whole list says why', async () => {
    const at = await settle()
    await query('delete from mirror.assignment where assignment_id = 5')
    simulator.source.remove('assignment', 5, 'hard')
    await read()
    expect([await doubts(), await final(at)]).toEqual([['5'], 'rows are in doubt (1 in tidemark.in_doubt)'])
    await reconcile()
    expect([await doubts(), await final(at)]).toEqual([[], true])
  })

  it.each([
    'truncate mirror.assignment',
    'drop table mirror.assignment cascade',
    'delete from mirror.assignment',
  ])('is not so after %s until everything was compared again', async (sql) => {
    const at = await settle()
    await query(sql)
    expect(await final(at)).not.toBe(true)
    await read()
    if (sql.startsWith('delete')) return expect(await final(at)).toBe(true)
    expect(await final(at)).toContain('nothing is settled yet')
    await query(`update tidemark.checkpoint set reached_at = reached_at - interval '1 day'`)
    await reconcile()
    expect(await final(at)).toBe(true)
  })

  it('is not so while a record is in quarantine, or one fell back', async () => {
    const at = await settle()
    await query(
      `insert into tidemark.pinned_record (stream, key, version, lost_since) values ('assignment', '7', 1, now())`,
    )
    expect([await doubts(), await final(at)]).toEqual([['7'], 'rows are in doubt (1 in tidemark.in_doubt)'])
    await query(
      `insert into tidemark.quarantine (stream, key, reason, fingerprint) values ('assignment', '8', 'a test', '1'), ('assignment', null, 'a test', '2')`,
    )
    expect(await doubts()).toEqual(['7', '8', null])
    await query(`delete from tidemark.pinned_record; update tidemark.quarantine set dropped_at = now()`)
    expect(await final(at)).toBe(true)
  })
})
