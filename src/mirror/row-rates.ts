// How many rows changed in the mirror a minute, from the ledger: the rows of a run are spread over the time it took. All workers
// write there, so this is the same wherever it is asked. A run in progress has told nothing yet.

import type { ClientBase } from 'pg'

export type RowRates = {
  /** Where the first bucket begins. */
  readonly from: Date
  readonly bucketMs: number
  /** Rows a minute in each bucket, by stream. Streams without any are not here. */
  readonly streams: ReadonlyMap<string, readonly number[]>
}

const bucketMs = 30_000
const buckets = 60
/** Ids rise with time, so that this is the recent past whatever the size of the ledger. */
const recentRuns = 5_000

export async function readRowRates(client: Pick<ClientBase, 'query'>): Promise<RowRates> {
  const { rows } = await client.query<{ from: Date; stream: string | null; bucket: number; rate: number }>(
    `with span as (
       select date_bin($1 * interval '1 ms', now(), 'epoch') - ($2 - 1) * $1 * interval '1 ms' as begins
     ), recent as (
       select stream, started_at, greatest(finished_at, started_at + interval '1 ms') as ended_at,
         inserted + updated + marked_deleted as changed
       from (select * from tidemark.run order by id desc limit $3) as run, span
       where finished_at > begins and inserted + updated + marked_deleted > 0
     ), spread as (
       select stream, bucket,
         sum(changed * extract(epoch from least(ended_at, ends) - greatest(started_at, starts))
           / extract(epoch from ended_at - started_at)) * 60000 / $1 as rate
       from span, generate_series(0, $2 - 1) as bucket,
         lateral (select begins + bucket * $1 * interval '1 ms' as starts,
                         begins + (bucket + 1) * $1 * interval '1 ms' as ends) as edges
       join recent on started_at < ends and ended_at > starts
       group by stream, bucket
     )
     select begins as "from", stream, bucket, rate::float8 from span left join spread on true`,
    [bucketMs, buckets, recentRuns],
  )
  const streams = new Map<string, number[]>()
  for (const { stream, bucket, rate } of rows) {
    if (stream === null) continue
    const rates = streams.get(stream) ?? new Array<number>(buckets).fill(0)
    rates[bucket] = rate
    streams.set(stream, rates)
  }
  return { from: rows[0]?.from ?? new Date(0), bucketMs, streams }
}
