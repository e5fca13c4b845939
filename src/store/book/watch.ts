// What workers note for those who watch: that they are there, what each minute was like, and what requests to the upstream came to.
// Minutes thin out to hours after eight days, and hours go after ninety.

import { getTableColumns, sql } from 'drizzle-orm'
import pg, { type Pool } from 'pg'
import { DatabaseError } from '../../util/errors.ts'
import { holdableJson } from '../../util/text.ts'
import { queryRows, queryValue } from '../server/query.ts'
import { inTurn, type Queryable, withConnection } from '../server/session.ts'
import { type minuteTable, workerTable } from '../tables/progress.ts'
import { ask } from './ask.ts'
import { isUnexplainedSql, type Unexplained } from './symptoms.ts'
import { keptSql, type Target, targetsSql, unnotedFor } from './targets.ts'

export type WorkerLine = Readonly<
  Pick<typeof workerTable.$inferSelect, 'id' | 'host' | 'pid' | 'version' | 'startedAt'>
> & {
  readonly runs: readonly { readonly stream: string; readonly kind: string; readonly since: Date }[]
  /** What does not work, and when it is tried again; null: as soon as it works. `part`: what the worker knows of it. */
  readonly waits: readonly { readonly what: string; readonly until: Date | null; readonly part?: object }[]
}

/** Keeps more rows than fit into its memory, so that Postgres needs room on its disk for a moment. A small write alone may find room in a full one. */
const needsRoomSql = `
  set local work_mem = '64kB';
  select from generate_series(1, 2500) as kept offset 2499;`
/** The role may write no temporary files: then Postgres says so, whatever the disk is like. */
const temporaryFileLimit = '53400'
const readOnly = '25006'
let isRoomAsked = true

/**
 * Notes that the worker lives and what it does, which also shows that Postgres takes a write: a standby refuses it, and so does a full
 * disk. Removes lines of workers that have been gone for a day. Returns the ids of those that have said something within a minute, the one
 * that began first before the others.
 */
export async function noteWorker(pool: Pool, line: WorkerLine): Promise<readonly string[]> {
  try {
    // In one message: nothing else is asked of Postgres as often.
    const text = `begin; ${isRoomAsked ? needsRoomSql : ''} ${lineSql(line)}; ${livingSql}; commit`
    const results = await withConnection(pool, (client) => client.query(text))
    return resultsOf(results).flatMap(({ command, rows }) =>
      command === 'SELECT' ? rows.flatMap(({ id }) => id ?? []) : [],
    )
  } catch (error) {
    const code = error instanceof pg.DatabaseError ? error.code : null
    if (code === readOnly)
      throw new DatabaseError(
        'Postgres is read-only. It may have become a standby, or its disk may be full.',
        {
          cause: error,
        },
      )
    if (code !== temporaryFileLimit || !isRoomAsked) throw error
    isRoomAsked = false
    return await noteWorker(pool, line)
  }
}

/** Of several statements in one message there are several results, which the driver's types do not say. */
const resultsOf = (results: unknown) =>
  results as readonly { readonly command: string; readonly rows: readonly { readonly id?: string }[] }[]

function lineSql({ id, host, pid, version, startedAt, runs, waits }: WorkerLine): string {
  const own = pg.escapeLiteral(id)
  const values = [host, String(pid), version, startedAt.toISOString()].map((one) => pg.escapeLiteral(one))
  const doing = [JSON.stringify(runs), holdableJson(waits)].map((one) => pg.escapeLiteral(one))
  return `
    with gone as (
      delete from tidemark.worker where seen_at < now() - interval '1 day' and id <> ${own}
    )
    insert into tidemark.worker (id, host, pid, version, started_at, seen_at, runs, waits)
    values (${own}, ${values.join(', ')}, now(), ${doing.join(', ')})
    on conflict (id) do update set seen_at = now(), runs = excluded.runs, waits = excluded.waits`
}

/** What the last worker noted of the streams stands for when it was there. */
export const forgetWorker = (client: Queryable, id: string) =>
  client.query(
    `with gone as (
       delete from tidemark.worker where id = $1
     ), noted as (
       select stream from tidemark.standing where seen_at > now() - interval '5 minutes' order by stream for update
     )
     update tidemark.standing as known set seen_at = now() from noted where known.stream = noted.stream`,
    [id],
  )

/** When any worker was there last, also one that has ended; null: there never was one. */
export const readLastSeen = (client: Queryable) =>
  queryValue<Date>(
    client,
    'select greatest((select max(seen_at) from tidemark.worker), (select max(seen_at) from tidemark.standing)) as at',
  )

const silentFor = `interval '1 minute'`
const livingSql = `select id from tidemark.worker where seen_at > now() - ${silentFor} order by started_at, id`

/** The better ones first: of a minute the worst is kept. */
export const minuteStates = ['up to date', 'loading', 'paused', 'behind', 'needs you'] as const
export type MinuteState = (typeof minuteStates)[number]

/** In the words of `tidemark.freshness`. */
export type NotedState = 'loading' | 'live' | 'behind' | 'stopped' | 'paused'
export type Standing = {
  readonly stream: string
  readonly state: NotedState
  readonly reason: string | null
}

/** How each stream is now. */
export const noteStandings = (client: Queryable, standings: readonly Standing[]) =>
  client.query(
    `insert into tidemark.standing as known (stream, state, reason, seen_at)
     select stream, state, reason, now() from jsonb_to_recordset($1) as seen (stream text, state text, reason text)
     order by stream
     on conflict (stream) do update
     set state = excluded.state, reason = excluded.reason, seen_at = excluded.seen_at`,
    [holdableJson(standings)],
  )

/** Seconds since that time; null: there was none yet. */
export type Ages = Readonly<Record<'readAge' | 'settledAge' | 'deletionsAge', number | null>>
export type StateMinutes = Ages & {
  readonly stream: string
  readonly at: Date
  readonly minutes: number
  readonly state: MinuteState
}

/** The worst ages and states of some minutes, whichever worker looks. */
export const noteStateMinutes = (client: Queryable, seen: readonly StateMinutes[]) =>
  client.query(
    `insert into tidemark.minute as known (stream, at, minutes, read_age, settled_age, deletions_age, state)
     select stream, at, minutes, "readAge", "settledAge", "deletionsAge", state
     from jsonb_to_recordset($1) as seen (
       stream text, at timestamptz, minutes smallint, "readAge" real, "settledAge" real, "deletionsAge" real, state text
     )
     order by stream, at, minutes
     on conflict (stream, at, minutes) do update
     set read_age = greatest(known.read_age, excluded.read_age),
         settled_age = greatest(known.settled_age, excluded.settled_age),
         deletions_age = greatest(known.deletions_age, excluded.deletions_age),
         state = case when array_position($2::text[], known.state) > array_position($2, excluded.state)
                   then known.state else excluded.state end`,
    [JSON.stringify(seen), minuteStates],
  )

export type ServiceMinute = {
  readonly service: string
  readonly at: Date
  readonly requests: number
  readonly bytes: number
  readonly failures: Readonly<Record<string, number>>
  /** By stream and kind of run. */
  readonly askedFor: Readonly<Record<string, number>>
  readonly latency: readonly number[]
}

/** `minutes` hold all that the worker has counted in them so far, so noting them again replaces the same numbers. */
export async function noteRequests(client: Queryable, worker: string, minutes: readonly ServiceMinute[]) {
  if (minutes.length === 0) return
  await client.query(
    `insert into tidemark.service_minute (service, at, worker, requests, bytes, failures, asked_for, latency)
     select service, at, $1, requests, bytes, failures, "askedFor", latency
     from jsonb_to_recordset($2) as given (
       service text, at timestamptz, requests bigint, bytes bigint, failures jsonb, "askedFor" jsonb, latency bigint[]
     )
     on conflict (service, at, minutes, worker) do update
     set requests = excluded.requests, bytes = excluded.bytes, failures = excluded.failures, asked_for = excluded.asked_for,
         latency = excluded.latency`,
    [worker, JSON.stringify(minutes)],
  )
}

/** The first worker does it for all. Whether a target was kept can be told only minute by minute. */
export const thinMinutes = (pool: Pool, targets: readonly Target[]): Promise<void> =>
  inTurn(pool, 'thin minutes', async () => {
    await pool.query(thinStreamsSql, [minuteStates, JSON.stringify(targets)])
    await pool.query(thinServicesSql)
  })

const endOfMinutes = `date_trunc('hour', now() - interval '8 days')`
const endOfHours = `now() - interval '90 days'`

const thinStreamsSql = `
  with forgotten as (
    delete from tidemark.minute where minutes = 60 and at < ${endOfHours}
  ), over as (
    delete from tidemark.minute where minutes < 60 and at < ${endOfMinutes} returning *
  ), by_target as (
    select over.stream, date_trunc('hour', at) as hour, time,
      jsonb_build_array(least(60, sum(own.kept)), 60 - least(60, sum(uncounted))) as kept
    from over join ${targetsSql('$2')} using (stream) cross join lateral (${keptSql}) as own
    where state is not null group by 1, 2, 3
  ), hours as (
    select stream, hour, jsonb_object_agg(time, kept) as kept from by_target group by 1, 2
  )
  insert into tidemark.minute as known
    (stream, at, minutes, inserted, updated, deleted, quarantined, read_age, settled_age, deletions_age, state, kept)
  select over.stream, date_trunc('hour', at), 60, sum(inserted), sum(updated), sum(deleted), sum(quarantined),
    max(read_age), max(settled_age), max(deletions_age), ($1::text[])[max(array_position($1::text[], state))],
    (array_agg(hours.kept))[1]
  from over left join hours on hours.stream = over.stream and hour = date_trunc('hour', at) group by 1, 2
  on conflict (stream, at, minutes) do update
  set inserted = known.inserted + excluded.inserted, updated = known.updated + excluded.updated,
      deleted = known.deleted + excluded.deleted, quarantined = known.quarantined + excluded.quarantined,
      read_age = greatest(known.read_age, excluded.read_age),
      settled_age = greatest(known.settled_age, excluded.settled_age),
      deletions_age = greatest(known.deletions_age, excluded.deletions_age),
      kept = coalesce(known.kept, excluded.kept)`

/** The numbers of a column by their names, of each service and hour. */
const addedUp = (column: string): string => `
    select service, at, jsonb_object_agg(name, amount) as sums
    from (
      select service, date_trunc('hour', at) as at, name, sum(amount::bigint) as amount
      from over cross join jsonb_each_text(${column}) as found (name, amount) group by 1, 2, 3
    ) as by_name group by 1, 2`

const thinServicesSql = `
  with forgotten as (
    delete from tidemark.service_minute where minutes = 60 and at < ${endOfHours}
  ), over as (
    delete from tidemark.service_minute where minutes = 1 and at < ${endOfMinutes} returning *
  ), hours as (
    select service, date_trunc('hour', at) as at, sum(requests) as requests, sum(bytes) as bytes
    from over group by 1, 2
  ), failed as (${addedUp('failures')}
  ), asked as (${addedUp('asked_for')}
  ), answered as (
    select service, at, array_agg(answers order by place) as latency
    from (
      select service, date_trunc('hour', at) as at, place, sum(amount)::bigint as answers
      from over cross join unnest(latency) with ordinality as found (amount, place) group by 1, 2, 3
    ) as by_place group by 1, 2
  )
  insert into tidemark.service_minute (service, at, minutes, worker, requests, bytes, failures, asked_for, latency)
  select hours.service, hours.at, 60, '', requests, bytes, coalesce(failed.sums, '{}'), coalesce(asked.sums, '{}'), answered.latency
  from hours join answered using (service, at) left join failed using (service, at) left join asked using (service, at)
  on conflict (service, at, minutes, worker) do nothing`

export type WorkerSeen = Awaited<ReturnType<typeof readWorkers>>[number]

export const readWorkers = (client: Queryable) =>
  ask(client, (db) =>
    db
      .select({
        ...getTableColumns(workerTable),
        /** It has said nothing for a minute. */
        isGone: sql<boolean>`${workerTable.seenAt} < now() - ${sql.raw(silentFor)}`,
      })
      .from(workerTable)
      .orderBy(workerTable.startedAt, workerTable.id),
  )

/** How long ago, at most, a request of any worker last succeeded, by service; those without one in the last days are left out. */
export const readServicesWorked = (client: Queryable) =>
  queryRows<{ service: string; agoMs: number }>(
    client,
    `select service, greatest(0, extract(epoch from now() - latest.at)::float8 * 1000) as "agoMs"
     from (select distinct service from tidemark.source) as known
     cross join lateral (
       select at from tidemark.service_minute as one
       where one.service = known.service and at > now() - interval '3 days'
         and requests > coalesce((select sum(value::bigint) from jsonb_each_text(failures)), 0)
       order by at desc limit 1
     ) as latest`,
  )

/** What the state of a stream is made of, besides its problems. */
export type StreamStanding = {
  readonly stream: string
  /** By an operator. */
  readonly paused: { readonly at: string } | null
  readonly readThroughAt: Date | null
  /** When its first load was complete; null or left out: it is not, or not known to be. */
  readonly firstReadThroughAt?: Date | null
  /** Left out: not known, or not. */
  readonly isReadAgain?: boolean
  readonly running: readonly string[]
  /** Null or left out: none. */
  readonly unexplained?: Unexplained | null
}

const ageSql = (column: string) => `extract(epoch from now() - ${column})::float8`

export const readStandings = (client: Queryable, streams: readonly string[]) =>
  queryRows<StreamStanding & Ages>(client, {
    name: 'tidemark_standings',
    text: `select name as stream, read_through_at as "readThroughAt", ${ageSql('read_through_at')} as "readAge",
       ${ageSql('settled_through_at')} as "settledAge", ${ageSql('deletions_known_at')} as "deletionsAge",
       case when paused_at is not null then jsonb_build_object('at', paused_at) end as paused,
       case when ${isUnexplainedSql} then unexplained end as unexplained,
       array(select kind from tidemark.run where run.stream = name and status = 'running') as running
     from tidemark.stream where name = any ($1) order by name`,
    values: [streams],
  })

/** Ages are the worst, in seconds; null: no worker looked. */
export type MinuteBucket = Readonly<Omit<typeof minuteTable.$inferSelect, 'minutes' | 'state' | 'kept'>>
export type Span = { readonly from: Date; readonly to: Date; readonly bucketMs: number }

/** Buckets in which nothing was noted are left out. Rows add up, ages are the worst. */
export const readMinutes = (client: Queryable, streams: readonly string[], { from, to, bucketMs }: Span) =>
  queryRows<MinuteBucket>(
    client,
    `select stream, date_bin($4::float8 * interval '1 millisecond', at, $2) as at,
       sum(inserted)::float8 as inserted, sum(updated)::float8 as updated, sum(deleted)::float8 as deleted,
       sum(quarantined)::float8 as quarantined, max(read_age)::float8 as "readAge",
       max(settled_age)::float8 as "settledAge", max(deletions_age)::float8 as "deletionsAge"
     from tidemark.minute where stream = any ($1) and at >= $2 and at < $3
     group by 1, 2 order by 1, 2`,
    [streams, from, to, bucketMs],
  )

/** A span of time in which a stream was in one state. State null: no worker looked. */
export type StateSpan = {
  readonly stream: string
  readonly from: Date
  readonly to: Date
  readonly state: string | null
}

/** To the minute. A state that lasts is noted at its end: until then the last one goes on while a worker says that it is there. */
export const readStates = (
  client: Queryable,
  streams: readonly string[],
  { from, to }: Omit<Span, 'bucketMs'>,
) =>
  queryRows<StateSpan>(
    client,
    `with noted as (
       select stream, at, at + minutes * interval '1 minute' as until, state, row_number() over (partition by stream order by at desc) as place
       from tidemark.minute where stream = any ($1) and at >= $2 and at < $3 and state is not null
     ), lines as (
       select stream, at, until, state from noted
       union all
       select stream, until, least($3, seen.at), state from noted cross join (
         select date_trunc('minute', max(seen_at)) as at from tidemark.worker
       ) as seen
       where place = 1 and until < least($3, seen.at) and until > seen.at - ${unnotedFor}
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
