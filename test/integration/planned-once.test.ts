// What runs need again and again is there once for a session of Postgres: the plans of their statements, which take longer to make than to
// use, and their temporary tables, each of which makes other sessions look through their plans.

import { describe, expect, it } from 'vitest'
import { startSimulator } from '../../src/simulator/simulator.ts'
import { statementName, withConnection } from '../../src/store/server/session.ts'
import { reconcileStream } from '../../src/sync/reconcile/reconcile.ts'
import { openTestContext, neverAborted as signal } from '../support/context.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'
import { streamOf } from '../support/streams.ts'

const runs = 16
const names = ['tidemark_end_run', 'tidemark_look_at_run', 'tidemark_table_schema', 'tidemark_field_names']

type Planned = { readonly name: string; readonly once: number; readonly anew: number }

describe.skipIf(!hasPostgres)('statements of each run', () => {
  const database = createTestDatabase()

  it('are planned once for a session', async () => {
    const store = storeOf(database)
    for (let version = 1; version <= runs; version++) {
      const run = await begin(store)
      await run.pages.commit(assignments({ AssignmentId: 1, RowVersion: version }), BigInt(version))
      await run.finish(done)
    }
    const planned = (
      await Promise.all([1, 2, 3].map(() => database.pool.query<Planned>(plannedSql)))
    ).flatMap(({ rows }) => rows)
    for (const name of names) {
      const found = planned.filter((one) => one.name === name)
      // Postgres tries five plans for the values that it is given, then one for any.
      expect(
        found.some(({ once, anew }) => once > 0 && anew <= 5),
        `${name} ${JSON.stringify(found)}`,
      ).toBe(true)
    }
  })

  it('are kept by a session for some streams and planned each time for the others', async () => {
    await withConnection(database.pool, async (client) => {
      const ask = async (stream: number) => {
        const text = `select ${stream} + $1::int as sum`
        const name = statementName(client, 'asked', text)
        const { rows } = await client.query({ name, text, values: [1] })
        return rows
      }
      for (let stream = 1; stream <= 500; stream++) {
        expect(await ask(stream)).toEqual([{ sum: stream + 1 }])
        expect(await ask(1)).toEqual([{ sum: 2 }])
      }
      const { rows } = await client.query<{ kept: number; first: number }>(
        `select count(*)::int as kept, sum(generic_plans + custom_plans) filter (where statement like 'select 1 +%')::int as first
         from pg_prepared_statements where name like 'tidemark_asked%'`,
      )
      // The runs before left some others.
      expect(rows[0]?.kept).toBeLessThanOrEqual(200)
      expect(rows[0]?.first).toBe(501)
    })
  })
})

const plannedSql = `
  select name, generic_plans::int as once, custom_plans::int as anew from pg_prepared_statements, pg_sleep(0.2)
  where name like 'tidemark%'`

describe.skipIf(!hasPostgres)('temporary tables', () => {
  const database = createTestDatabase({ forEach: true })

  it('are made once for a session, however many runs need them', async () => {
    await using upstream = await startSimulator({ assignments: 20, notes: 5 })
    await using context = await openTestContext(database, upstream)
    const [assignment, note] = [streamOf('assignment'), streamOf('assignment_note')]
    const round = async (subject: string) => {
      for (const stream of [assignment, note]) {
        upstream.source.change(stream.name, 3, { Subject: subject })
        upstream.source.remove(stream.name, subject.length, 'hard')
        await context.read(stream, 'incremental', { signal })
        await reconcileStream({ ...context.contextOf(stream), signal, approved: 0 })
      }
    }
    const tables = async () => {
      const { rows } = await database.pool.query<{ made: string }>(
        `select relname || ' ' || oid as made from pg_class
         where relpersistence = 't' and relkind = 'r' and relname like 'tidemark%' order by 1`,
      )
      return rows.map(({ made }) => made)
    }
    for (const stream of [assignment, note]) await context.read(stream, 'incremental', { signal })
    for (const subject of ['a', 'bb']) await round(subject)
    const made = await tables()
    expect(
      made.some((one) => one.startsWith('tidemark_absent')),
      made.join(),
    ).toBe(true)
    expect(made.filter((one) => one.startsWith('tidemark_page')).length).toBeGreaterThanOrEqual(2)
    for (const subject of ['ffff', 'ggggg']) await round(subject)
    // Under load another session may have made its own.
    expect(await tables()).toEqual(expect.arrayContaining([...made]))
    const { rows } = await database.pool.query(
      'select assignment_id::int as id from mirror.assignment where _deleted_at is not null order by 1',
    )
    expect(rows.map(({ id }) => id)).toEqual([1, 2, 4, 5])
  })

  it('are few, however often a table gets a new column', async () => {
    await using upstream = await startSimulator({ assignments: 20 })
    await using context = await openTestContext(database, upstream)
    const assignment = streamOf('assignment')
    for (let nth = 1; nth <= 12; nth++) {
      upstream.source.change('assignment', nth, { [`New${nth}`]: nth })
      await context.read(assignment, 'incremental', { signal })
    }
    const { rows } = await database.pool.query<{ tables: number }>(
      `select count(*)::int as tables from pg_class
       where relpersistence = 't' and relkind = 'r' and relname like 'tidemark_page%' group by relnamespace`,
    )
    for (const { tables } of rows) expect(tables).toBeLessThanOrEqual(4)
    const { rows: grown } = await database.pool.query(
      'select new1, new12 from mirror.assignment where assignment_id in (1, 12) order by assignment_id',
    )
    expect(grown).toEqual([
      { new1: '1', new12: null },
      { new1: null, new12: '12' },
    ])
  })
})
