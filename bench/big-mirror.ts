// A mirror as it is after months: a million rows and 100,000 runs, written straight into the tables, for no upstream is needed for what
// is measured on it.

import type { Pool } from 'pg'
import { qualified } from '../src/store/schema/places.ts'
import { readTableSchema } from '../src/store/schema/table-schema.ts'
import { knownStreams } from '../src/streams/catalog.ts'

type Size = { readonly rows: number; readonly runs: number }

/** From one row of assignment that is there. */
export async function fillMirror(pool: Pool, { rows, runs }: Size): Promise<void> {
  await copyRows(pool, rows)
  await pool.query(
    `insert into tidemark.run (stream, kind, status, host, pid, started_at, finished_at, inserted, updated, unchanged, requests, note)
     select case when n % 2 = 0 then 'assignment' else 'assignment_note' end,
       case when n % 20 = 0 then 'lookback' when n % 500 = 1 then 'reconcile' when n % 21 = 0 then 'deletions' else 'incremental' end,
       case when n % 400 = 0 then 'failed' else 'done' end, 'bench', 1,
       now() - ($1 - n) * interval '30 s', now() - ($1 - n) * interval '30 s' + interval '2 s', n % 7, n % 5, n % 11, 1,
       case when n % 50 = 0 then 'a note of the bench' end
     from generate_series(1, $1::int) as n`,
    [runs],
  )
  await pool.query(
    `insert into tidemark.checkpoint (stream, position, reached_at, reason)
     select 'assignment', n, now() - (20000 - n) * interval '5 min', 'a page' from generate_series(1, 20000) as n;
     insert into tidemark.late_arrival (stream, key, version, distance, late_ms, found_at)
     select 'assignment', (n * 37)::text, n, 1, 500 + n, now() - n * interval '10 min' from generate_series(1, 10000) as n;
     analyze`,
  )
}

async function copyRows(pool: Pool, rows: number): Promise<void> {
  const [stream] = knownStreams
  const table = await readTableSchema(pool, stream)
  if (!table) throw new Error('no row of assignment came')
  const own = ['_first_seen_at', '_synced_at', '_deleted_at', '_deleted_reason', '_hash', '_rescued']
  const key = table.key.name
  const columns = [
    ...table.columns.map(({ name }) => name).filter((name) => name !== key && name !== '_rescued'),
    ...own,
  ]
  const values = columns.map((name) =>
    name === '_synced_at' ? `now() - n * interval '1 s'` : name === 'sys_row_version' ? 'n' : `one."${name}"`,
  )
  const client = await pool.connect()
  try {
    // Nobody is to find out that somebody else wrote into the table.
    await client.query(`set session_replication_role = replica`)
    await client.query(
      `insert into ${qualified(stream)} ("${key}", ${columns.map((name) => `"${name}"`).join(', ')})
       select n, ${values.join(', ')}
       from (select * from ${qualified(stream)} order by "${key}" limit 1) as one, generate_series(1000000, $1::int) as n`,
      [1_000_000 + rows],
    )
  } finally {
    client.release(true)
  }
}
