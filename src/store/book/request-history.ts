// What requests to the upstream came to, all workers together, in the span of a chart.

import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { Span } from './watch.ts'

export type ServiceBucket = {
  readonly service: string
  readonly at: Date
  readonly requests: number
  readonly bytes: number
  /** By class: `429`, `5xx`, `4xx`, `none`. */
  readonly failures: Readonly<Record<string, number>>
  /** How many answers took up to 10, 20, 40 … 40,960 ms, and more. */
  readonly latency: readonly number[]
}

const latencyClasses = 14
const latencySums = Array.from(
  { length: latencyClasses },
  (_, index) => `coalesce(sum(latency[${index + 1}]), 0)::float8`,
).join(', ')

const fastestMs = 10

/** The upper edge of the class in which a share of the answers lies; null without answers. */
export function quantileMs(latency: readonly number[], share: number): number | null {
  const all = latency.reduce((sum, one) => sum + one, 0)
  if (all === 0) return null
  let seen = 0
  const index = latency.findIndex((amount) => {
    seen += amount
    return seen >= all * share
  })
  return fastestMs * 2 ** Math.max(0, index)
}

/** All workers together. */
export const readRequests = (client: Queryable, { from, to, bucketMs }: Span) =>
  queryRows<ServiceBucket>(
    client,
    `with lines as materialized (
       select *, date_bin($3::float8 * interval '1 millisecond', at, $1) as bucket
       from tidemark.service_minute where at >= $1 and at < $2
     ), failed as (
       select service, bucket, jsonb_object_agg(class, amount) as failures from (
         select service, bucket, class, sum(one::bigint) as amount
         from lines cross join jsonb_each_text(failures) as found (class, one) group by 1, 2, 3
       ) as by_class group by 1, 2
     )
     select service, bucket as at, requests, bytes, coalesce(failures, '{}') as failures, latency
     from (
       select service, bucket, sum(requests)::float8 as requests, sum(bytes)::float8 as bytes, array[${latencySums}] as latency
       from lines group by service, bucket
     ) as summed
     left join failed using (service, bucket)
     order by service, bucket`,
    [from, to, bucketMs],
  )

/** Requests that runs of a kind made of a stream; both null: those that no run made. */
export type AskedBucket = {
  readonly at: Date
  readonly stream: string | null
  readonly kind: string | null
  readonly requests: number
}

/** All workers and services together. */
export const readAskedFor = (client: Queryable, { from, to, bucketMs }: Span) =>
  queryRows<AskedBucket>(
    client,
    `with lines as materialized (
       select requests, asked_for, date_bin($3::float8 * interval '1 millisecond', at, $1) as bucket
       from tidemark.service_minute where at >= $1 and at < $2
     ), named as (
       select bucket, name, sum(amount::bigint) as requests
       from lines cross join jsonb_each_text(asked_for) as found (name, amount) group by 1, 2
     )
     select bucket as at, split_part(name, ' ', 1) as stream, split_part(name, ' ', 2) as kind, requests::float8 from named
     union all
     select bucket, null, null, (made - coalesce(told, 0))::float8
     from (select bucket, sum(requests) as made from lines group by 1) as whole
     left join (select bucket, sum(requests) as told from named group by 1) as known using (bucket)
     where made > coalesce(told, 0)
     order by 1, 2, 3`,
    [from, to, bucketMs],
  )
