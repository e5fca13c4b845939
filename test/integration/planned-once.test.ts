// Statements of each run are planned by Postgres once for a session: to plan them takes longer than to do them.

import { describe, expect, it } from 'vitest'
import { statementName, withConnection } from '../../src/store/server/session.ts'
import { createTestDatabase, hasPostgres } from '../support/database.ts'
import { assignments, begin, done, storeOf } from '../support/runs.ts'

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
        const name = statementName(client, 'asked', `stream ${stream}`)
        const { rows } = await client.query({ name, text: `select ${stream} + $1::int as sum`, values: [1] })
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
      expect(rows).toEqual([{ kept: 200, first: 501 }])
    })
  })
})

const plannedSql = `
  select name, generic_plans::int as once, custom_plans::int as anew from pg_prepared_statements, pg_sleep(0.2)
  where name like 'tidemark%'`
