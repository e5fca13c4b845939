// The run ledger as people read it: the newest first, by what they look for. Read-only.

import pg, { type ClientBase } from 'pg'
import { kinds } from '../../streams/catalog.ts'

const allKinds = `array[${kinds.map((kind) => pg.escapeLiteral(kind)).join(', ')}]`

/**
 * In SQL, to be joined laterally: the last run of each kind of a stream, each found by index, however long the ledger is. All
 * arguments are SQL: the stream, an array of kinds, and a condition on the columns of a run.
 */
export function latestRunsSql(
  stream: string,
  {
    ofKinds = allKinds,
    where = 'true',
    limit = 1,
  }: { readonly ofKinds?: string; readonly where?: string; readonly limit?: number } = {},
): string {
  return `(
    select latest.* from unnest(${ofKinds}) as wanted_kind (name)
    cross join lateral (
      select * from tidemark.run
      -- The kind is a span of one, so that only the index by stream and kind gives the order: where there is no run of a kind, the
      -- planner would rather read the whole ledger backwards, expecting one to come soon.
      where run.stream = ${stream} and (run.kind, run.id) >= (wanted_kind.name, 0)
        and (run.kind, run.id) <= (wanted_kind.name, 9223372036854775807) and ${where}
      order by run.kind desc, run.id desc limit ${limit}
    ) as latest
  )`
}

/** What a list of runs can be narrowed to: those that changed the mirror, or that ended in a way. */
export const runOutcomes = ['changed', 'done', 'running', 'inconclusive', 'failed'] as const

/** Null: all of them. */
export type RunFilter = {
  readonly stream: string | null
  readonly kind: string | null
  /** A status, or `changed`: whatever changed the mirror. */
  readonly outcome: string | null
}
export type RunLine = {
  readonly id: string
  readonly stream: string
  readonly kind: string
  readonly status: string
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly positionFrom: string | null
  readonly positionTo: string | null
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly markedDeleted: number
  readonly rescued: number
  readonly quarantined: number
  readonly requests: number
  readonly error: string | null
  readonly note: string | null
  /** How many runs in a row this line stands for. */
  readonly polls: number
}

/** Those with a lower id than `before`; null: from the newest. */
export async function readRuns(
  client: Pick<ClientBase, 'query'>,
  { stream, kind, outcome }: RunFilter,
  page: { readonly before: string | null; readonly limit: number },
): Promise<readonly RunLine[]> {
  const { rows } = await client.query<RunLine>(
    `select id::text, stream, kind, status, started_at as "startedAt", finished_at as "finishedAt",
       position_from::text as "positionFrom", position_to::text as "positionTo",
       inserted::float8 as inserted, updated::float8 as updated, unchanged::float8 as unchanged,
       marked_deleted::float8 as "markedDeleted", rescued::float8 as rescued, quarantined::float8 as quarantined,
       requests::float8 as requests, error, note, polls
     from tidemark.run as known
     where ($1::text is null or stream = $1) and ($2::text is null or kind = $2)
       and case when $3::text is null then true
                when $3 = 'changed' then known.inserted + known.updated + known.marked_deleted > 0
                else status = $3 end
       and ($4::bigint is null or known.id < $4)
     order by known.id desc limit $5`,
    [stream, kind, outcome, page.before, page.limit],
  )
  return rows
}

// The last run of each kind of each stream, from the ledger. Read-only.
export type LatestRun = {
  readonly stream: string
  readonly kind: string
  readonly status: string
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly note: string | null
  readonly error: string | null
}

export async function readLatestRuns(
  client: Pick<ClientBase, 'query'>,
  streams: readonly string[],
): Promise<readonly LatestRun[]> {
  const { rows } = await client.query<LatestRun>(
    `select last_run.stream, kind, status, started_at as "startedAt", finished_at as "finishedAt", note, error
     from unnest($1::text[]) as wanted (stream)
     cross join lateral ${latestRunsSql('wanted.stream')} as last_run`,
    [streams],
  )
  return rows
}

// How many rows changed in the mirror a minute, from the ledger: the rows of a run are spread over the time it took. All workers
// write there, so this is the same wherever it is asked. A run in progress has told nothing yet;
// related records are no rows of their stream.
export type RowRates = {
  /** Where the first bucket begins. */
  readonly from: Date
  readonly bucketMs: number
  readonly buckets: number
  /** Rows a minute in each bucket, the last of which is over, by stream. Streams without any are not here. */
  readonly streams: ReadonlyMap<string, readonly number[]>
}

const bucketMs = 60_000
const buckets = 30
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
       where finished_at > begins and kind <> 'related' and inserted + updated + marked_deleted > 0
     ), spread as (
       select stream, bucket,
         sum(
           changed * (least(to_ms, (bucket + 1) * $1) - greatest(from_ms, bucket * $1)) / (to_ms - from_ms)
         ) as changed
       from recent, generate_series(
         greatest(0, floor(from_ms / $1)::int), least($2 - 1, floor(to_ms / $1)::int)
       ) as bucket
       group by stream, bucket
     )
     select begins as "from", stream, bucket, changed::float8 * 60000 / $1 as rate
     from span left join spread on true`,
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
