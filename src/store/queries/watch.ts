// What workers noted for those who watch: which of them there are, and what was in the minutes and hours before. Read-only.

import type { ClientBase } from 'pg'
import { isUnexplainedSql, type Unexplained } from './symptoms.ts'

type Queryable = Pick<ClientBase, 'query'>

export type WorkerSeen = {
  readonly id: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly startedAt: Date
  readonly seenAt: Date
  /** It has said nothing for a minute. */
  readonly isGone: boolean
  readonly runs: readonly { readonly stream: string; readonly kind: string; readonly since: string }[]
  readonly waits: readonly {
    readonly what: string
    readonly until: string | null
    /** What the worker knows of a part that does not work. */
    readonly part?: Readonly<Record<string, unknown>>
  }[]
}

export async function readWorkers(client: Queryable): Promise<readonly WorkerSeen[]> {
  const { rows } = await client.query<WorkerSeen>(
    `select id, host, pid, version, started_at as "startedAt", seen_at as "seenAt",
       seen_at < now() - interval '1 minute' as "isGone", runs, waits
     from tidemark.worker order by started_at, id`,
  )
  return rows
}

/** How long ago, at most, a request of any worker last succeeded, by service; those without one in the last days are left out. */
export async function readServicesWorked(
  client: Queryable,
): Promise<readonly { readonly service: string; readonly agoMs: number }[]> {
  const { rows } = await client.query<{ service: string; agoMs: number }>(
    `select service, greatest(0, extract(epoch from now() - latest.at)::float8 * 1000) as "agoMs"
     from (select distinct service from tidemark.source) as known
     cross join lateral (
       select at from tidemark.service_minute as one
       where one.service = known.service and at > now() - interval '3 days'
         and requests > coalesce((select sum(value::bigint) from jsonb_each_text(failures)), 0)
       order by at desc limit 1
     ) as latest`,
  )
  return rows
}

/** What the state of a stream is made of, besides its problems. */
export type StreamStanding = {
  readonly stream: string
  /** By an operator. */
  readonly paused: { readonly at: string } | null
  readonly readThroughAt: Date | null
  readonly running: readonly string[]
  /** Null or left out: none. */
  readonly unexplained?: Unexplained | null
}

export async function readStandings(
  client: Queryable,
  streams: readonly string[],
): Promise<readonly StreamStanding[]> {
  const { rows } = await client.query<StreamStanding>(
    `select name as stream, read_through_at as "readThroughAt",
       case when paused_at is not null then jsonb_build_object('at', paused_at) end as paused,
       case when ${isUnexplainedSql} then unexplained end as unexplained,
       array(select kind from tidemark.run where run.stream = name and status = 'running') as running
     from tidemark.stream where name = any ($1)`,
    [streams],
  )
  return rows
}

export type MinuteBucket = {
  readonly stream: string
  readonly at: Date
  readonly inserted: number
  readonly updated: number
  readonly deleted: number
  readonly quarantined: number
  /** The worst, in seconds; null: no worker looked. */
  readonly readAge: number | null
  readonly settledAge: number | null
  readonly deletionsAge: number | null
}
type Span = { readonly from: Date; readonly to: Date; readonly bucketMs: number }

/** Buckets in which nothing was noted are left out. Rows add up, ages are the worst. */
export async function readMinutes(
  client: Queryable,
  streams: readonly string[],
  { from, to, bucketMs }: Span,
): Promise<readonly MinuteBucket[]> {
  const { rows } = await client.query<MinuteBucket>(
    `select stream, date_bin($4::float8 * interval '1 millisecond', at, $2) as at,
       sum(inserted)::float8 as inserted, sum(updated)::float8 as updated, sum(deleted)::float8 as deleted,
       sum(quarantined)::float8 as quarantined, max(read_age)::float8 as "readAge",
       max(settled_age)::float8 as "settledAge", max(deletions_age)::float8 as "deletionsAge"
     from tidemark.minute where stream = any ($1) and at >= $2 and at < $3
     group by 1, 2 order by 1, 2`,
    [streams, from, to, bucketMs],
  )
  return rows
}

/** A span of time in which a stream was in one state. State null: no worker looked. */
export type StateSpan = {
  readonly stream: string
  readonly from: Date
  readonly to: Date
  readonly state: string | null
}

/** To the minute. */
export async function readStates(
  client: Queryable,
  streams: readonly string[],
  { from, to }: Omit<Span, 'bucketMs'>,
): Promise<readonly StateSpan[]> {
  const { rows } = await client.query<StateSpan>(
    `with lines as (
       select stream, at, at + minutes * interval '1 minute' as until, state
       from tidemark.minute where stream = any ($1) and at >= $2 and at < $3 and state is not null
     ), gaps as (
       select *, lag(until) over (partition by stream order by at) as before from lines
     ), pieces as (
       select stream, at, until, state from gaps
       union all
       select stream, before, at, null from gaps where before < at
     ), changes as (
       select *, state is distinct from lag(state) over same
           or lag(until) over same is distinct from at as is_new
       from pieces window same as (partition by stream order by at)
     ), numbered as (
       select *, count(*) filter (where is_new) over (partition by stream order by at) as span from changes
     )
     select stream, min(at) as "from", max(until) as "to", min(state) as state
     from numbered group by stream, span order by stream, min(at)`,
    [streams, from, to],
  )
  return rows
}

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

/** All workers together. */
export async function readRequests(
  client: Queryable,
  { from, to, bucketMs }: Span,
): Promise<readonly ServiceBucket[]> {
  const { rows } = await client.query<ServiceBucket>(
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
  return rows
}
