// Which runs are due: what the planner has to know of the streams, what was asked for, and which reconciles and polls are lacking. Nothing
// is remembered in the program, so that the answer is right for any number of workers and after a kill (P8).

import type { RunKind } from '../../streams/catalog.ts'
import { stoppedNote } from '../../sync/ports/store.ts'
import { sourceSql } from '../schema/places.ts'
import { isLocallyChangedSql } from '../schema/watch-table.ts'
import { arraysOf, queryAny, queryColumn, queryRow, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { isHeldSql } from './runs.ts'

type Place = { readonly stream: string; readonly kind: RunKind }

/** A stream, as far as it says which of its runs are due. Times are those of the clock of Postgres. */
export type StreamDue = {
  readonly name: string
  readonly isPaused: boolean
  readonly readThroughMs: number | null
  /** Everything was read once. */
  readonly isLoaded: boolean
  /** There is a recent past to read, and no first load under way. */
  readonly isQuiet: boolean
  readonly lookbackMs: number | null
  /** A version came late within the last five minutes, so others may. */
  readonly isRecentlyLate: boolean
  /** For how long its position has stood; null while a look-back has something to decide: its polls and pinned records are not as ever. */
  readonly stoodMs: number | null
}
type AskedRun = Place & {
  readonly dueMs: number
  readonly askedMs: number
  /** Null: no line asks for it. */
  readonly askedAt: string | null
}
export type DueState = {
  readonly nowMs: number
  /** Another one in a database that was made anew or restored. */
  readonly database: string
  /** Workers that are there. */
  readonly workers: number
  readonly streams: readonly StreamDue[]
  readonly asked: readonly AskedRun[]
}

const msSql = (moment: string) => `round(extract(epoch from ${moment}) * 1000)::float8`

/** All that a plan needs, in one statement. */
export async function readDueState(client: Queryable, streams: readonly string[]): Promise<DueState> {
  const state = await queryRow<DueState>(client, {
    name: 'tidemark_due',
    text: `select ${msSql('now()')} as "nowMs", 'tidemark.stream'::regclass::oid::text as database,
       (select count(*) from tidemark.worker where seen_at > now() - interval '1 minute')::int as workers,
       coalesce((
         select json_agg(json_build_object(
           'name', name, 'isPaused', paused_at is not null, 'readThroughMs', ${msSql('read_through_at')},
           'isLoaded', first_read_through_at is not null,
           'isQuiet', position > 0 and (first_read_through_at is not null or not exists (
             select from tidemark.run where run.stream = stream.name and kind = 'incremental' and status = 'running'
           )),
           'lookbackMs', lookback_ms,
           'isRecentlyLate', exists (
             select from tidemark.late_arrival as late
             where late.stream = name and found_at > now() - interval '5 minutes'
           ),
           'stoodMs', case when inconclusive_runs = 0 and hidden_since is null
             and not exists (
               select from tidemark.pinned_record as pinned
               where pinned.stream = name and (looked_at is null or lost_since > now() - interval '15 minutes')
             )
             -- One of another stream may have to begin here, too.
             and not exists (select from tidemark.epoch where epoch.stream <> name and ${sourceSql('epoch.stream')} = ${sourceSql('name')}
               and began_at > now() - interval '1 hour')
             then ${msSql('now() - position_reached_at')} end
         )) from tidemark.stream where name = any ($1)
       ), '[]') as streams,
       coalesce((
         select json_agg(json_build_object(
           'stream', stream, 'kind', kind, 'dueMs', ${msSql('due_at')}, 'askedMs', ${msSql('coalesce(asked_at, now())')}, 'askedAt', asked_at
         )) from (
           select stream, kind, due_at, asked_at from tidemark.due
           union all
           -- A worker of an earlier version has stored it.
           select stream, 'backfill', min(coalesce(retry_at, now())), null from tidemark.backfill
           where status in ('waiting', 'running')
             and not exists (select from tidemark.due where due.stream = backfill.stream and due.kind = 'backfill')
           group by stream
         ) as asked where stream = any ($1)
       ), '[]') as asked`,
    values: [streams],
  })
  if (!state) throw new Error('Postgres did not say what is due')
  return state
}

/** Makes a run due now, whatever its schedule says. Whoever asks again while it runs gets one after it. */
export const makeDue = (client: Queryable, { stream, kind }: Place): Promise<unknown> =>
  client.query(
    `insert into tidemark.due (stream, kind) values ($1, $2)
     on conflict (stream, kind) do update set due_at = excluded.due_at, asked_at = excluded.asked_at`,
    [stream, kind],
  )

/** What was handed to the queue is handed to it again after a while, should the queue lose it. */
export async function noteReleased(
  client: Queryable,
  asked: readonly (Place & { readonly askedAt: string })[],
): Promise<void> {
  if (asked.length === 0) return
  await client.query(
    `update tidemark.due set due_at = now() + interval '${releasedAgain}'
     from unnest($1::text[], $2::text[], $3::timestamptz[]) as released (stream, kind, asked_at)
     where due.stream = released.stream and due.kind = released.kind and due.asked_at = released.asked_at`,
    arraysOf(asked, 'stream', 'kind', 'askedAt'),
  )
}

const releasedAgain = '1 minute'

/** When it was asked for last; null: it is not asked for, or was done meanwhile. Whichever request a run began with, it does all that were there by then. */
export const lastAskedAt = (client: Queryable, { stream, kind }: Place) =>
  queryValue<string>(
    client,
    `select to_json(asked_at) #>> '{}' as "askedAt" from tidemark.due where stream = $1 and kind = $2`,
    [stream, kind],
  )

/** Its run has ended. A request that came meanwhile stays due, and so does a backfill that is not finished. */
export async function settleDue(
  client: Queryable,
  { stream, kind, askedAt }: Place & { readonly askedAt?: string },
): Promise<void> {
  const unfinished = `tidemark.backfill where stream = $1 and $2 = 'backfill' and status in ('waiting', 'running')`
  if (kind === 'backfill')
    await client.query(
      `insert into tidemark.due (stream, kind, due_at) select $1, $2, min(coalesce(retry_at, now())) from ${unfinished} having count(*) > 0
       on conflict (stream, kind) do update set due_at = excluded.due_at`,
      [stream, kind],
    )
  if (askedAt !== undefined)
    await client.query(
      `delete from tidemark.due where stream = $1 and kind = $2 and asked_at = $3 and not exists (select from ${unfinished})`,
      [stream, kind, askedAt],
    )
}

/** Whether somebody changed its table in Postgres since a run looked (P15). */
export const isLocallyChanged = (client: Queryable, stream: string) =>
  queryAny(client, `select from tidemark.stream as known where name = $1 and ${isLocallyChangedSql}`, [
    stream,
  ])

/** Whether no test of beliefs has been run for so long, whatever the last one came to. */
export async function isProbeDue(client: Queryable, stream: string, everyMs: number): Promise<boolean> {
  const { rowCount } = await client.query(
    `select from tidemark.run
     where stream = $1 and kind = 'probe'
       and ((status = 'running' and ${isHeldSql('$1', 'probe')}) or finished_at > now() - $2::float8 * interval '1 millisecond')
     limit 1`,
    [stream, everyMs],
  )
  return (rowCount ?? 0) === 0
}

/** Which of these streams are not paused, are not read at this moment, and were not tried within the last while. */
export const readRestingPolls = (client: Queryable, streams: readonly string[], restMs: number) =>
  queryColumn<string>(
    client,
    `select name from tidemark.stream
     where name = any ($1) and paused_at is null and not exists (
       select from tidemark.run
       where run.stream = stream.name and kind in ('incremental', 'list')
         and ((status = 'running' and (${isHeldSql('stream.name', 'incremental')} or ${isHeldSql('stream.name', 'whole')}))
              or finished_at > now() - $2::float8 * interval '1 millisecond')
     )`,
    [streams, restMs],
  )

// Which streams lack a reconcile that they should have had by now.
export type ReconcilesOwed = {
  /** The last one that the schedule asked for. */
  readonly slot: Date
  /** A stream whose reconcile failed is left alone for so long. */
  readonly restMs: number
  /** At least. */
  readonly lookbackMs: (stream: string) => number
  /** So long a replica may lag, and lack what came last. */
  readonly replicaLagMs: number
}

/** Fewer in a row are no problem. */
const inconclusiveRuns = 3

/**
 * Streams that need a reconcile:
 * - those that were complete before a slot of the schedule and have had none since;
 * - those whose first load was compared before its look-back had gone by: nothing could be settled then, so once more (P13);
 * - those whose polls have been inconclusive for longer than a replica lags: perhaps all records that the polls look for are gone, and
 *   only the list tells that;
 * - those for which a search blocked deletions that long ago: it saw only a part of the list, perhaps while rights were lost, and only the
 *   whole list tells whether the rows are still missing. Deletions that a person rejected wait for the night;
 * - those of which a search found more missing than it looks at singly: the whole is compared before any row is marked (P7).
 *
 * A reconcile that is under way counts, also in another program. One that ended without proving anything is repeated later than one that
 * failed, because it costs a whole list.
 */
export const streamsLackingReconcile = (
  client: Queryable,
  streams: readonly string[],
  { slot, restMs, lookbackMs, replicaLagMs }: ReconcilesOwed,
) =>
  queryColumn<string>(client, {
    name: 'tidemark_lacking_reconcile',
    text: `select name from tidemark.stream
     cross join lateral (
       select first_read_through_at + greatest(lookback_ms, ($4::float8[])[array_position($1, name)]) * interval '1 millisecond' as may_settle_at
     ) as first_load
     cross join lateral (
       select settled_through_version is null and may_settle_at < now() and last_reconcile_at < may_settle_at as is_unsettled,
         inconclusive_runs >= ${inconclusiveRuns} and inconclusive_since < now() - $5::float8 * interval '1 millisecond'
           and last_reconcile_at < inconclusive_since as is_standing,
         (blocked_deletions->>'at')::timestamptz as blocked_at,
         reconcile_wanted_at > coalesce(last_reconcile_at, '-infinity') and not coalesce(blocked_deletions ? 'rejected', false) as is_wanted
     ) as compared
     cross join lateral (
       select blocked_at < now() - $5::float8 * interval '1 millisecond' and not blocked_deletions ? 'rejected' as is_blocked
     ) as searched
     where name = any($1) and paused_at is null
       -- After a first load nothing is settled, and no deletion known, before the list has been compared (P13).
       and first_read_through_at is not null
       and (last_reconcile_at is null or is_unsettled or is_standing or is_blocked or is_wanted or (first_read_through_at < $2 and last_reconcile_at < $2))
       and not exists (
         select from tidemark.run
         where run.stream = stream.name and kind = 'reconcile'
           and ((status = 'running' and ${isHeldSql('stream.name', 'whole')})
                -- One that ended well before anything could be settled is no attempt at that.
                or (finished_at > now() - $3::float8 * interval '1 millisecond'
                    and not (is_unsettled is true and status = 'done' and started_at < may_settle_at))
                -- Nor is one that was stopped because its worker ended, or its stream was paused.
                or (status = 'done' and note is distinct from $6 and is_unsettled is not true and finished_at >= greatest($2, now() - interval '2 hours')
                    and not (is_standing is true and started_at < inconclusive_since)
                    -- One that ended after the block has lifted it, found as much missing, or blocked itself.
                    and not (is_blocked is true and finished_at < blocked_at)
                    and not (is_wanted is true and started_at < reconcile_wanted_at))))
     order by name`,
    values: [streams, slot, restMs, streams.map(lookbackMs), replicaLagMs, stoppedNote],
  })
