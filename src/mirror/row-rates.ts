// How many rows changed in the mirror a minute, from the ledger: the rows of a run are spread over the time it took. All workers
// write there, so this is the same wherever it is asked. A run in progress has told nothing yet;
// related records are no rows of their stream.

import type { ClientBase } from 'pg'

export type RowRates = {
  /** Where the first bucket begins. */
  readonly from: Date
  readonly bucketMs: number
  readonly buckets: number
  /** Rows a minute in each bucket, the last of which is over, by stream. Streams without any are not here. */
  readonly streams: ReadonlyMap<string, readonly number[]>
}

const bucketMs = 15_000
const buckets = 120
/** Ids rise with time, so that this is the recent past whatever the size of the ledger. */
const recentRuns = 5_000

export async function readRowRates(client: Pick<ClientBase, 'query'>): Promise<RowRates> {
  const { rows } = await client.query<{ from: Date; stream: string | null; bucket: number; rate: number }>(
    `with span as (
       select date_bin($1::int * interval '1 ms', now(), 'epoch') - $2::int * $1::int * interval '1 ms' as begins
     ), recent as (
       select stream, inserted + updated + marked_deleted as changed,
         extract(epoch from started_at - begins)::float8 * 1000 as from_ms,
         extract(epoch from greatest(finished_at, started_at + interval '1 ms') - begins)::float8 * 1000 as to_ms
       from (select * from tidemark.run order by id desc limit $3) as run, span
       where finished_at > begins and lane <> 'related' and inserted + updated + marked_deleted > 0
     ), spread as (
       select stream, bucket,
         sum(changed * (least(to_ms, (bucket + 1) * $1) - greatest(from_ms, bucket * $1)) / (to_ms - from_ms)) as changed
       from recent, generate_series(greatest(0, floor(from_ms / $1)::int), least($2 - 1, floor(to_ms / $1)::int)) as bucket
       group by stream, bucket
     )
     select begins as "from", stream, bucket, changed::float8 * 60000 / $1 as rate from span left join spread on true`,
    [bucketMs, buckets, recentRuns],
  )
  const streams = new Map<string, number[]>()
  for (const { stream, bucket, rate } of rows) {
    if (stream === null) continue
    const rates = streams.get(stream) ?? new Array<number>(buckets).fill(0)
    rates[bucket] = rate
    streams.set(stream, rates)
  }
  return { from: rows[0]?.from ?? new Date(0), bucketMs, buckets, streams }
}
