// The run ledger as people read it: the newest first, by what they look for; one run with all that was noted of it; and the last hour
// as a chart shows it.

import { and, desc, eq, getTableColumns, lt, type SQL, sql } from 'drizzle-orm'
import pg from 'pg'
import { kinds } from '../../streams/catalog.ts'
import type { RunStep } from '../../streams/run-steps.ts'
import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { runTable } from '../tables/runs.ts'
import { ask, asText, type Within } from './ask.ts'
import type { Span } from './watch.ts'

/**
 * Of a line `held` of tidemark.lease: whether the process of Postgres that it names still serves the run. Mostly nobody holds the lock, and
 * to take it for a moment tells that much cheaper than the list of all locks. Not to be asked by the process of that run itself, which
 * would be given its own lock again.
 */
export const isAliveSql = `(case
  when pg_try_advisory_lock_shared(held.holder_key) then not pg_advisory_unlock_shared(held.holder_key)
  else exists (
    select from pg_locks
    where locktype = 'advisory' and granted and objsubid = 1 and pid = held.holder_pid
      and (classid::bigint << 32) | objid::bigint = held.holder_key)
  end)`

/** `stream` is an expression. */
export const isHeldSql = (stream: string, lane: 'incremental' | 'whole' | 'probe'): string => `exists (
  select from tidemark.lease as held where held.stream = ${stream} and held.lane = '${lane}' and ${isAliveSql})`

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
  }: { readonly ofKinds?: string; readonly where?: string; readonly limit?: number | string } = {},
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
export type RunFilter = Within & {
  readonly stream: string | null
  readonly kind: string | null
  /** A status, or `changed`: whatever changed the mirror. */
  readonly outcome: string | null
}
const { differences, steps, isIdle: _, ...columns } = getTableColumns(runTable)
const runStory = {
  ...columns,
  id: asText(runTable.id),
  positionFrom: asText(runTable.positionFrom),
  positionTo: asText(runTable.positionTo),
}
const { host: _host, pid: _pid, bytes: _bytes, errorCode: _errorCode, ...runLine } = runStory
/** As many runs in a row share it as `polls` says. */
export type RunLine = Awaited<ReturnType<typeof readRuns>>[number]

/** Those with a lower id than `before`; null: from the newest. */
export function readRuns(
  client: Queryable,
  { stream, kind, outcome, ...within }: RunFilter,
  page: { readonly before: string | null; readonly limit: number },
) {
  const { inserted, updated, markedDeleted } = runTable
  const hasChanged = sql`${inserted} + ${updated} + ${markedDeleted} > 0`
  return ask(client, (db) =>
    db
      .select(runLine)
      .from(runTable)
      .where(
        and(
          stream === null ? undefined : eq(runTable.stream, stream),
          kind === null ? undefined : eq(runTable.kind, kind),
          outcome === null
            ? undefined
            : outcome === 'changed'
              ? hasChanged
              : sql`${runTable.status} = ${outcome}`,
          page.before === null ? undefined : lt(runTable.id, BigInt(page.before)),
          went(within),
        ),
      )
      .orderBy(desc(runTable.id))
      .limit(page.limit),
  )
}

const placesSql = `(
  select name as stream, kind from tidemark.stream cross join unnest(${allKinds}) as wanted (kind)
) as place`

/** The id of the last run that began before a moment. Of each kind the runs of a stream follow one another, so that an index finds it. */
export const lastRunBeforeSql = (moment: string): string => `(
  select max(last.id) from ${placesSql}
  cross join lateral (
    select id from tidemark.run as one
    where one.stream = place.stream and one.kind = place.kind and started_at < ${moment} order by started_at desc limit 1
  ) as last
)`

/** The id of the first run that had not ended before a moment. */
const firstRunSinceSql = (moment: string): string => `(
  select min(coalesce(before.id, later.id)) from ${placesSql}
  left join lateral (
    select id from (
      select id, finished_at from tidemark.run as one
      where one.stream = place.stream and one.kind = place.kind and started_at < ${moment} order by started_at desc limit 1
    ) as last where coalesce(finished_at, 'infinity') >= ${moment}
  ) as before on true
  left join lateral (
    select id from tidemark.run as one
    where one.stream = place.stream and one.kind = place.kind and started_at >= ${moment} order by started_at limit 1
  ) as later on true
)`

/** It went on at some moment of a span. */
function went({ from, to }: Within): SQL | undefined {
  const literal = (at: Date) => `timestamptz '${at.toISOString()}'`
  const parts = [
    from &&
      `coalesce(finished_at, 'infinity') >= ${literal(from)} and id >= ${firstRunSinceSql(literal(from))}`,
    to && `started_at < ${literal(to)} and id <= ${lastRunBeforeSql(literal(to))}`,
  ].filter(Boolean)
  return parts.length === 0 ? undefined : sql.raw(`(${parts.join(' and ')})`)
}

// The last run of each kind of each stream, from the ledger. Read-only.
export type LatestRun = Pick<
  RunLine,
  'stream' | 'kind' | 'status' | 'startedAt' | 'finishedAt' | 'note' | 'error'
>

export const readLatestRuns = (client: Queryable, streams: readonly string[]) =>
  queryRows<LatestRun>(
    client,
    `select last_run.stream, kind, status, started_at as "startedAt", finished_at as "finishedAt", note, error
     from unnest($1::text[]) as wanted (stream)
     cross join lateral ${latestRunsSql('wanted.stream')} as last_run`,
    [streams],
  )

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

export async function readRowRates(client: Queryable): Promise<RowRates> {
  const rows = await queryRows<{ from: Date; stream: string | null; bucket: number; rate: number }>(
    client,
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

export type RunStory = NonNullable<Awaited<ReturnType<typeof readRun>>>

const mostOfEach = 25

/** Some of the lines that a run left in a table, as a list of objects. */
const leftBy = <Line>(table: 'difference' | 'late_arrival' | 'checkpoint', line: string, where: string) =>
  sql<readonly Line[]>`coalesce((
    select jsonb_agg(jsonb_build_object(${sql.raw(line)})) from (
      select * from tidemark.${sql.raw(table)} as one
      where one.stream = run.stream and run_id = run.id and ${sql.raw(where)} order by one.id limit ${sql.raw(String(mostOfEach))}
    ) as shown
  ), '[]')`

/** Null when it is not known, or was forgotten. `steps`: where runs share a line, those of the last one. */
export async function readRun(client: Queryable, id: string) {
  const whileItRan = 'between run.started_at and coalesce(run.finished_at, now())'
  const [found] = await ask(client, (db) =>
    db
      .select({
        ...runStory,
        steps: sql<readonly RunStep[] | null>`${steps}`,
        /** How many differences it found, by cause. */
        causes: sql<Readonly<Record<string, number>> | null>`${differences}`,
        differences: leftBy<{ key: string; cause: string; fields: readonly string[]; cure: string | null }>(
          ...(['difference', `'key', key, 'cause', cause, 'fields', fields, 'cure', cure`, 'true'] as const),
        ),
        lateArrivals: leftBy<{ key: string; lateMs: number }>(
          ...(['late_arrival', `'key', key, 'lateMs', late_ms`, `found_at ${whileItRan}`] as const),
        ),
        checkpoints: leftBy<{ position: string; at: string }>(
          'checkpoint',
          `'position', position::text, 'at', reached_at`,
          `reached_at ${whileItRan} + interval '1 second'`,
        ),
      })
      .from(runTable)
      .where(eq(runTable.id, BigInt(id))),
  )
  return found ?? null
}

export type RunsOfHost = {
  readonly host: string
  readonly pid: number
  readonly runs: number
  readonly failed: number
}

/** Ids rise with time, so that the newest are the recent past whatever the size of the ledger. */
const countedRuns = 20_000

/**
 * Of the last `ms`, by the program that did them: those that found something, and those that failed. Those that found nothing share a line,
 * which may have begun long ago, and does not tell which programs did them.
 */
export const countRuns = (client: Queryable, ms: number) =>
  queryRows<RunsOfHost>(
    client,
    `select host, pid, count(*) filter (where status = 'done')::float8 as runs, count(*) filter (where status = 'failed')::float8 as failed
     from (select * from tidemark.run order by id desc limit ${countedRuns}) as run
     where not is_idle and finished_at > now() - $1::float8 * interval '1 millisecond'
     group by host, pid`,
    [ms],
  )

/** The more a run matters, the later it stands here. */
export const runEffects = ['nothing new', 'wrote rows', 'caught something', 'failed'] as const
export type RunEffect = (typeof runEffects)[number]
/** One or more runs of one kind that began in the same slot. */
export type RunSpan = {
  readonly stream: string
  readonly kind: string
  /** Slots since the span began; the last slot is `slots - 1`. */
  readonly from: number
  readonly to: number
  /** What the most noteworthy of them came to. */
  readonly effect: RunEffect
  readonly runs: number
}

export const slots = 300

export async function readRunSpans(
  client: Queryable,
  streams: readonly string[],
  { from, to }: Omit<Span, 'bucketMs'>,
): Promise<readonly RunSpan[]> {
  const rows = await queryRows<Omit<RunSpan, 'effect'> & { readonly effect: number }>(
    client,
    `with recent as (
       select stream, kind, polls, greatest(started_at, $5) as began, least(coalesce(finished_at, now()), $6) as ended,
         case
           when status = 'failed' then 3
           -- What the reading of changes alone had not brought.
           when marked_deleted + quarantined > 0
             or exists (select from tidemark.missed_rows as missed where missed.stream = run.stream and missed.run_id = run.id)
             or exists (
               select from tidemark.late_arrival as late
               where late.stream = run.stream and late.run_id = run.id
                 and late.found_at between run.started_at and coalesce(run.finished_at, now())
             ) then 2
           when inserted + updated > 0 then 1
           else 0
         end as effect
       from unnest($1::text[]) as wanted_stream (name)
       cross join unnest($4::text[]) as wanted_kind (name)
       cross join lateral (
         select * from tidemark.run
         where run.stream = wanted_stream.name and run.kind = wanted_kind.name
           -- Runs that found nothing share a line, which may have begun earlier.
           and started_at > $5::timestamptz - interval '1 hour' and started_at < $6 and coalesce(finished_at, now()) > $5
       ) as run
     ), placed as (
       select *, floor(extract(epoch from began - $5) * 1000 / $2)::int as "from",
         floor(extract(epoch from ended - $5) * 1000 / $2)::int as "to"
       from recent
     )
     select stream, kind, least("from", $3 - 1) as "from", least(max("to"), $3 - 1) as "to", max(effect) as effect,
       sum(polls)::int as runs
     from placed group by stream, kind, "from" order by stream, kind, "from"`,
    [streams, (to.getTime() - from.getTime()) / slots, slots, kinds, from, to],
  )
  return rows.map((row) => ({ ...row, effect: runEffects[row.effect] ?? 'nothing new' }))
}
