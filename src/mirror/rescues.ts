// Rows that only a census found: noted once for each run, shown until somebody acknowledges them.

import type { ClientBase } from 'pg'
import type { Arrival } from '../sync/ports.ts'
import type { Turn } from './fence.ts'

type Queryable = Pick<ClientBase, 'query'>

export async function noteRescues(
  client: Queryable,
  { stream, runId }: Turn,
  rows: number,
  samples: readonly Arrival[],
): Promise<void> {
  const told = samples.map(({ key, version, isNew }) => ({
    key,
    version: version?.toString() ?? null,
    isNew,
  }))
  await client.query(
    `insert into tidemark.rescue (stream, run_id, rows, samples) values ($1, $2, $3, $4)
     on conflict (stream, run_id) do update set rows = excluded.rows, samples = excluded.samples`,
    [stream, runId, rows, JSON.stringify(told)],
  )
}

/** Returns how many rows they were. */
export async function acknowledgeRescues(client: Queryable, stream: string, by: string): Promise<number> {
  const { rows } = await client.query<{ rows: number }>(
    `with seen as (
       update tidemark.rescue set acknowledged_at = now(), acknowledged_by = $2
       where stream = $1 and acknowledged_at is null returning rows
     )
     select coalesce(sum(rows), 0)::float8 as rows from seen`,
    [stream, by],
  )
  return rows[0]?.rows ?? 0
}
