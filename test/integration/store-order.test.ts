// Pages that come twice, late, in any order, and are cut off between any two statements, end in the same table.

import fc from 'fast-check'
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { createTestDatabase, hasPostgres, type TestDatabase } from '../support/database.ts'
import { openProxiedPool, proxiedName } from '../support/proxied-pool.ts'
import { assignments, begin, done, failed, storeOf } from '../support/runs.ts'

// One version of a row has one content, as it has upstream.
const record = fc
  .record({ id: fc.integer({ min: 1, max: 6 }), version: fc.integer({ min: 1, max: 40 }) })
  .map(({ id, version }): JsonObject => {
    const seed = id * 1000 + version
    return {
      AssignmentId: id,
      RowVersion: version,
      Text: `v${seed}`,
      ...(seed % 3 === 0 ? { Amount: seed / 4 } : {}),
      ...(seed % 5 === 0 ? { [`Field${seed % 4}`]: seed } : {}),
      ...(seed % 7 === 0 ? { Text: seed } : {}),
      SysDeleted: seed % 11 === 0,
    }
  })
const page = fc.array(record, { minLength: 1, maxLength: 8 })
const pages = fc.array(page, { minLength: 1, maxLength: 6 })

type State = ReadonlyMap<
  string,
  { readonly version: string; readonly text: string; readonly isDeleted: boolean }
>

/** The table as P3 has it: for each key the highest version. */
function oracle(all: readonly (readonly JsonObject[])[]): State {
  const newest = new Map<string, JsonObject>()
  for (const one of all.flat()) {
    const key = String(one.AssignmentId)
    const other = newest.get(key)
    if (!other || Number(one.RowVersion) >= Number(other.RowVersion)) newest.set(key, one)
  }
  return new Map(
    [...newest]
      .sort()
      .map(([key, one]) => [
        key,
        { version: String(one.RowVersion), text: String(one.Text), isDeleted: one.SysDeleted === true },
      ]),
  )
}

async function stateOf(database: TestDatabase): Promise<State> {
  const { rows } = await database.pool.query(
    `select assignment_id, to_jsonb(mine) ->> 'row_version' as row_version, to_jsonb(mine) ->> 'text' as text, _rescued -> 'Text' as rescued, _deleted_at is not null as is_deleted
     from mirror.assignment as mine order by assignment_id`,
  )
  return new Map(
    rows.map((row) => [
      row.assignment_id,
      { version: row.row_version, text: String(row.text ?? row.rescued), isDeleted: row.is_deleted },
    ]),
  )
}

describe.skipIf(!hasPostgres)('pages in any order', () => {
  // A column's type follows from what was written first.
  const database = createTestDatabase({ forEach: true })

  it('end in the same table, written two at a time (P3)', async () => {
    await fc.assert(
      fc.asyncProperty(pages, async (all) => {
        await forget(database)
        const run = await begin(storeOf(database))
        try {
          await Promise.all(all.map((records) => run.pages.commit(assignments(...records), null)))
        } finally {
          await run.finish(done)
        }
        expect(await stateOf(database)).toEqual(oracle(all))
      }),
      { numRuns: 30 },
    )
  })

  it('of one version leave the content that came last (P3)', async () => {
    const run = await begin(storeOf(database))
    const as = (text: string) => assignments({ AssignmentId: 1, RowVersion: 5, Text: text })
    await run.pages.commit(as('first'), null)
    expect(await run.pages.commit(as('other'), null)).toMatchObject({ inserted: 0, updated: 1 })
    expect(await run.pages.commit(as('other'), null)).toMatchObject({ updated: 0, unchanged: 1 })
    await run.finish(done)
    expect((await stateOf(database)).get('1')?.text).toBe('other')
  })

  it('are whole or not there at all when the connection is cut at any statement, and end in the same table (P1, P8)', async () => {
    const cut = fc.record({ after: fc.integer({ min: 0, max: 40 }), isHeard: fc.boolean() })
    let cuts = 0
    await fc.assert(
      fc.asyncProperty(pages, cut, async (all, where) => {
        await forget(database)
        const { proxy, pool } = await openProxiedPool(database, where)
        try {
          await writeUntilCut(pool, all)
          // Ends only when the run has given every connection back.
          await pool.end()
          if (proxy.hasCut()) cuts++
          proxy.heal()
          const committed = await committedPages(database)
          expect(await stateOf(database)).toEqual(oracle(all.slice(0, committed)))
          await finishTheRest(database, all, committed)
          expect(await stateOf(database)).toEqual(oracle(all))
        } finally {
          await proxy.close()
        }
      }),
      { numRuns: 30 },
    )
    expect(cuts).toBeGreaterThan(10)
  })
})

describe.skipIf(!hasPostgres)('a page behind one that has to wait', () => {
  const database = createTestDatabase()

  it('is not committed before it, although its own rows are free (P1, P2)', async () => {
    const rowOf = (id: number, version: number) =>
      assignments({ AssignmentId: id, RowVersion: version, Text: `v${version}` })
    const first = await begin(storeOf(database))
    await first.pages.commit(rowOf(2, 1), null)
    await first.pages.commit(rowOf(1, 1), 1n)
    await first.finish(done)
    const blocker = await database.pool.connect()
    await blocker.query(`begin; select from mirror.assignment where assignment_id = 1 for update`)
    const run = await begin(storeOf(database))
    const writes = Promise.all([run.pages.commit(rowOf(1, 2), 2n), run.pages.commit(rowOf(2, 3), 3n)])
    try {
      const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      await expect.poll(async () => (await database.pool.query(waiting)).rowCount).toBe(1)
      // Time enough for the second page.
      await new Promise((resolve) => setTimeout(resolve, 500))
      const { rows } = await database.pool.query(
        `select position from tidemark.stream where name = 'assignment'`,
      )
      expect(rows).toEqual([{ position: '1' }])
    } finally {
      await blocker.query('rollback')
      blocker.release()
    }
    await writes
    await run.finish(done)
    expect([...(await stateOf(database)).values()].map(({ version }) => version)).toEqual(['2', '3'])
  })
})

/** Page n moves the position to n, so the position tells which pages are in. */
async function writeUntilCut(pool: pg.Pool, all: readonly (readonly JsonObject[])[]): Promise<void> {
  try {
    const run = await begin(storeOf({ pool }))
    const writes = await Promise.allSettled(
      all.map((records, index) => run.pages.commit(assignments(...records), BigInt(index + 1))),
    )
    await run.finish(writes.some((write) => write.status === 'rejected') ? failed : done)
  } catch {
    // Cut off before it began, or while it ended.
  }
}

/** What is in once the sessions that were cut off are over; one may still be at work on what it heard last. */
async function committedPages(database: TestDatabase): Promise<number> {
  await expect
    .poll(async () => {
      const { rows } = await database.pool.query('select from pg_stat_activity where application_name = $1', [
        proxiedName,
      ])
      return rows.length
    })
    .toBe(0)
  const run = await begin(storeOf(database))
  await run.finish(failed)
  return Number(run.state.position)
}

async function finishTheRest(
  database: TestDatabase,
  all: readonly (readonly JsonObject[])[],
  from: number,
): Promise<void> {
  const run = await begin(storeOf(database))
  for (const [index, records] of all.entries())
    if (index >= from) await run.pages.commit(assignments(...records), BigInt(index + 1))
  await run.finish(done)
}

async function forget({ pool }: TestDatabase): Promise<void> {
  await pool.query(`
    truncate mirror.assignment, tidemark.run, tidemark.lease, tidemark.checkpoint;
    update tidemark.stream set position = 0, position_reached_at = null`)
}
