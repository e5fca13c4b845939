// What there is to say about each stream: how complete it is, what ran last, what needs a person, and whether a person paused it.

import pg, { type QueryResult } from 'pg'
import type { AddedStream, FoundOut } from '../../streams/catalog.ts'
import { isAssignments } from '../../streams/names.ts'
import { qualified, tableSql } from '../schema/places.ts'
import { queryColumn, queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { streamTable } from '../tables/state.ts'
import { isReadAgainSql } from './checkpoints.ts'
import { type RelatedProgress, readRelatedProgress } from './related.ts'
import { latestRunsSql, type RunLine } from './runs.ts'
import { type BlockedDeletions, blockedDeletionsOf, isUnexplainedSql, type Unexplained } from './symptoms.ts'

export type StreamOverview = Readonly<
  Pick<
    typeof streamTable.$inferSelect,
    | 'readThroughAt'
    | 'settledThroughAt'
    | 'firstReadThroughAt'
    | 'deletionsKnownAt'
    | 'lastSuccessAt'
    | 'lastReconcileAt'
    | 'lookbackReason'
  >
> & {
  readonly stream: string
  readonly position: string
  /** All of it was to be read once more since the first load: its position was moved back to the beginning. */
  readonly isReadAgain: boolean
  readonly lagMs: number | null
  /** Deleted ones among them. As Postgres has counted along, or estimates them after a crash of its own; null when it does not know yet. */
  readonly rows: number | null
  /** Null where they cannot be counted now: somebody dropped their index, or holds the table. */
  readonly deletedRows: number | null
  readonly lastRun: LastRun | null
  readonly running: readonly string[]
  readonly lookbackMs: number | null
  readonly lateArrivals: number
  /** Records that cannot be rows. */
  readonly quarantined: number
  /** Values that did not fit their column. */
  readonly rescued: number
  /** Rows that only a reconcile found, until somebody acknowledges them. */
  readonly missedRows: number
  readonly unfinishedBackfills: number
  /** Of assignments, where their related records are mirrored. */
  readonly related: RelatedProgress | null
  /** Until an operator approves or rejects them. */
  readonly blockedDeletions: BlockedDeletions | null
  /** Differences that no look has explained: deletions stay known through a time before. */
  readonly unexplained: Unexplained | null
  /** By an operator; null: it is read as usual. */
  readonly paused: { readonly at: string; readonly by: string; readonly reason: string | null } | null
}
export type LastRun = Pick<RunLine, 'id' | 'kind' | 'error' | 'note'> & {
  readonly status: string
  readonly startedAt: string
  readonly finishedAt: string | null
}

/** Null: it is not known how many there are, or how many of them are deleted. */
export const livingRows = ({ rows, deletedRows }: Pick<StreamOverview, 'rows' | 'deletedRows'>) =>
  rows === null || deletedRows === null ? null : Math.max(0, rows - deletedRows)

type Found = Omit<StreamOverview, 'related' | 'blockedDeletions' | 'deletedRows'> & {
  /** Of the index of deleted rows, as it was last analyzed; null where there is none. */
  readonly deletedAtLast: number | null
  readonly blockedDeletions: unknown
}

export async function readOverview(client: Queryable, streams: readonly string[]) {
  const rows = await queryRows<Found>(
    client,
    `select
       stream.name as stream,
       stream.position::text as position,
       read_through_at as "readThroughAt",
       round(extract(epoch from now() - read_through_at) * 1000)::float8 as "lagMs",
       settled_through_at as "settledThroughAt",
       deletions_known_at as "deletionsKnownAt",
       first_read_through_at as "firstReadThroughAt",
       ${isReadAgainSql('stream.name')} as "isReadAgain",
       -- A Postgres that was killed forgets how many there are, until it counts them some day.
       case when to_regclass(${tableSql('stream.name')}) is null then 0 else
         (select coalesce(nullif(pg_stat_get_live_tuples(oid), 0)::float8, nullif(reltuples, -1)::float8,
                          case when pg_relation_size(oid) = 0 then 0 end)
          from pg_class where oid = to_regclass(${tableSql('stream.name')})) end as rows,
       (
         select reltuples::float8 from pg_index
         join pg_class on pg_class.oid = indexrelid
         join pg_attribute on attrelid = indrelid and attname = '_deleted_at' and attnum = indkey[0]
         where indrelid = to_regclass(${tableSql('stream.name')}) and indpred is not null and indisvalid limit 1
       ) as "deletedAtLast",
       last_success_at as "lastSuccessAt",
       last_reconcile_at as "lastReconcileAt",
       last_run.line as "lastRun",
       array(
         select kind from tidemark.run where run.stream = stream.name and status = 'running' order by kind
       ) as running,
       lookback_ms::float8 as "lookbackMs",
       lookback_reason as "lookbackReason",
       (
         select count(*) from tidemark.late_arrival as late where late.stream = stream.name
       )::int as "lateArrivals",
       (
         select count(*) from tidemark.quarantine as kept where kept.stream = stream.name and dropped_at is null
       )::int as quarantined,
       (
         select coalesce(sum(field.rescued), 0) from tidemark.field where field.stream = stream.name
       )::float8 as rescued,
       (
         select coalesce(sum(missed.rows), 0) from tidemark.missed_rows as missed
         where missed.stream = stream.name and acknowledged_at is null
       )::float8 as "missedRows",
       (
         select count(*) from tidemark.backfill as asked
         where asked.stream = stream.name and asked.status in ('waiting', 'running')
       )::int as "unfinishedBackfills",
       blocked_deletions as "blockedDeletions",
       case when ${isUnexplainedSql} then unexplained end as unexplained,
       case when paused_at is not null
         then jsonb_build_object('at', paused_at, 'by', paused_by, 'reason', pause_reason) end as paused
     from unnest($1::text[]) with ordinality as wanted (name, place)
     join tidemark.stream on stream.name = wanted.name
     left join lateral (
       select jsonb_build_object('id', id::text, 'kind', latest.kind, 'status', status, 'startedAt', started_at,
                'finishedAt', finished_at, 'error', error, 'note', note) as line
       from ${latestRunsSql('stream.name')} as latest
       order by coalesce(finished_at, started_at) desc, id desc limit 1
     ) as last_run on true
     order by wanted.place`,
    [streams],
  )
  const related = new Map<string, RelatedProgress | null>()
  for (const stream of streams.filter(isAssignments))
    related.set(stream, await readRelatedProgress(client, stream))
  const deleted = await countDeleted(client, rows)
  return rows.map(({ deletedAtLast: _, ...row }) => ({
    ...row,
    // A stream without a table has no rows.
    deletedRows: row.rows === 0 ? 0 : (deleted.get(row.stream) ?? null),
    blockedDeletions: blockedDeletionsOf(row.blockedDeletions),
    related: related.get(row.stream) ?? null,
  }))
}

/** With more of them, the estimate of the last analyze does. */
const mostDeletedCounted = 100_000
/** Somebody holds the table, such as with an ALTER TABLE, or dropped it just now. */
const unavailable = ['55P03', '42P01']

async function countDeleted(client: Queryable, streams: readonly Pick<Found, 'stream' | 'deletedAtLast'>[]) {
  const known = new Map(streams.map(({ stream, deletedAtLast }) => [stream, deletedAtLast]))
  const counted = [...known].flatMap(([stream, last]) =>
    last !== null && last <= mostDeletedCounted ? stream : [],
  )
  if (counted.length === 0) return known
  for (const stream of counted) known.set(stream, null)
  const counts = counted.map(
    (stream) =>
      `select ${pg.escapeLiteral(stream)} as stream, count(*)::float8 as rows from ${qualified({ name: stream })} where _deleted_at is not null`,
  )
  try {
    const [, { rows }] = (await client.query(
      `select set_config('lock_timeout', '100ms', true); ${counts.join(' union all ')}`,
    )) as unknown as [unknown, QueryResult<{ stream: string; rows: number }>]
    for (const { stream, rows: deleted } of rows) known.set(stream, deleted)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && unavailable.includes(String(error.code)))) throw error
  }
  return known
}

/** What was found out about streams that the settings add, by their names. */
export async function learnAddedStreams(client: Queryable, added: readonly AddedStream[]) {
  if (added.length === 0) return new Map<string, FoundOut>()
  const rows = await queryRows<{ name: string; found: FoundOut }>(
    client,
    'select name, found_out as found from tidemark.stream where name = any ($1) and found_out is not null',
    [added.map(({ name }) => name)],
  )
  return new Map(rows.map(({ name, found }) => [name, found]))
}

// Streams that an operator has paused: who, since when and why. Only says it; the worker keeps to it.
export type Pause = { readonly at: Date; readonly by: string; readonly reason: string | null }

/** The pause that there was already, which stays; null when this one began. */
export async function pauseStream(
  client: Queryable,
  { stream, by, reason }: { readonly stream: string; readonly by: string; readonly reason: string | null },
): Promise<Pause | null> {
  const before = await queryRow<Pause | { readonly at: null }>(
    client,
    `with before as (select name, paused_at, paused_by, pause_reason from tidemark.stream where name = $1 for update),
     paused as (
       update tidemark.stream as known set paused_at = now(), paused_by = $2, pause_reason = $3
       from before where known.name = before.name and before.paused_at is null
     )
     select paused_at as at, paused_by as by, pause_reason as reason from before`,
    [stream, by, reason],
  )
  return before && before.at !== null ? before : null
}

/** The pause that ended; null when there was none. */
export const resumeStream = (client: Queryable, stream: string) =>
  queryRow<Pause>(
    client,
    `with before as (
       select name, paused_at, paused_by, pause_reason from tidemark.stream
       where name = $1 and paused_at is not null for update
     ), resumed as (
       update tidemark.stream as known set paused_at = null, paused_by = null, pause_reason = null
       from before where known.name = before.name
     )
     select paused_at as at, paused_by as by, pause_reason as reason from before`,
    [stream],
  )

export const pausedStreams = async (client: Queryable) =>
  new Set(await queryColumn<string>(client, 'select name from tidemark.stream where paused_at is not null'))

/** Rows that only a reconcile found are shown no more. Returns how many rows they were. */
export const acknowledgeMissedRows = async (client: Queryable, stream: string, by: string) =>
  (await queryValue<number>(
    client,
    `with seen as (
       update tidemark.missed_rows set acknowledged_at = now(), acknowledged_by = $2
       where stream = $1 and acknowledged_at is null returning rows
     )
     select coalesce(sum(rows), 0)::float8 as rows from seen`,
    [stream, by],
  )) ?? 0
