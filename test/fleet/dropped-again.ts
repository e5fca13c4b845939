// Sources are dropped with all that is theirs and come again, under load: nothing of them is left in between, and others keep what they have.

import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import { equalityFinding, type Trial, untilEqual } from './stage.ts'

const longestMs = 120_000
const kept = ['lease', 'action_log', 'problem_history']

export const droppedAgain: Trial = {
  name: 'dropped-again',
  what: 'sources are dropped and come again, one after the other',
  async run(stage) {
    const { fleet, scale, sources, pool, cli, say } = stage
    const endsMs = performance.now() + scale.minutes * 60_000
    const left: string[] = []
    const failed: string[] = []
    let rounds = 0
    while (performance.now() < endsMs) {
      const client = fleet.clients[1 + (rounds++ % (fleet.clients.length - 1))]
      if (!client) break
      const { name } = client
      sources.write({ without: [name] })
      const applied = async () =>
        (
          await pool.query('select from tidemark.source_config where name = $1 and gone_at is not null', [
            name,
          ])
        ).rows.length > 0
      while (!(await applied())) await wait(100)
      const { code, output } = await cli('sources', 'drop', name, '--confirm', name)
      if (code !== 0) failed.push(`${name}: ${output.trim()}`)
      left.push(...(await leftOf(pool, name)))
      sources.write()
      const { different } = await untilEqual(stage, [client], longestMs)
      if (different.length > 0) failed.push(`${name}: ${different.length} differences after it came again`)
    }
    say(`${rounds} sources were dropped`)
    const equality = await untilEqual(stage, fleet.clients, longestMs)
    return [
      {
        what: 'each is dropped, and is equal when it comes again',
        isFine: failed.length === 0,
        told: failed.join('\n            ') || `${rounds} were`,
      },
      {
        what: 'nothing of a dropped source is left',
        isFine: left.length === 0,
        told: left.join('; ') || 'nothing',
      },
      equalityFinding('all others keep what they have', equality),
    ]
  },
}

/**
 * Rows that name one of its streams, wherever a table has streams; and its schemas. What people did is kept, and so are leases: a run that was
 * frozen meanwhile must find that its own is over (P2).
 */
async function leftOf(pool: Pool, source: string): Promise<readonly string[]> {
  const { rows: tables } = await pool.query<{ name: string; column: string }>(
    `select c.table_name as name, c.column_name as column from information_schema.columns as c
     join information_schema.tables as t using (table_schema, table_name)
     where c.table_schema = 'tidemark' and t.table_type = 'BASE TABLE' and c.table_name <> all ($1)
       and (c.column_name = 'stream' or (c.table_name, c.column_name) in (('stream', 'name'), ('source_config', 'name')))`,
    [kept],
  )
  const selects = tables.map(
    ({ name, column }) =>
      `select '${name}' as place, count(*)::int as rows from tidemark.${name} where ${column} = $1::text or ${column} like $1::text || '.%'`,
  )
  const found = await pool.query<{ place: string; rows: number }>(selects.join(' union all '), [source])
  const schemas = await pool.query<{ nspname: string }>(
    `select nspname from pg_namespace where nspname::text in ($1, $1 || '_mirror', $1 || '_past')`,
    [source],
  )
  return [
    ...found.rows
      .filter(({ rows }) => rows > 0)
      .map(({ place, rows }) => `${source}: ${rows} rows in ${place}`),
    ...schemas.rows.map(({ nspname }) => `${source}: schema ${nspname}`),
  ]
}
