// Whether a look-back, a reconcile or a reading of related records is due. Nothing is remembered in the program, so that the answer is
// right for any number of workers and after a kill (P8). Read-only.

import { isLocallyChangedSql } from '../schema/watch-table.ts'
import type { Queryable } from '../server/session.ts'
import { isHeldSql, latestRunsSql } from './runs.ts'

// What is needed to tell whether a stream's look-back run is due: how long ago it was last read, by the clock of the database.
export type LookbackState = {
  /** False before the first position: there is no recent past to read. */
  readonly hasPosition: boolean
  /** Everything was read once. */
  readonly isLoaded: boolean
  /** The first load is under way. */
  readonly isLoading: boolean
  /** Null when it never ended well. */
  readonly sinceLastMs: number | null
  readonly lookbackMs: number | null
  /** A version came late within the last five minutes, so others may. */
  readonly isRecentlyLate: boolean
}

const lastLookback = latestRunsSql('stream.name', {
  ofKinds: `array['lookback']`,
  where: `status = 'done'`,
})

export async function readLookbackState(client: Queryable, stream: string): Promise<LookbackState | null> {
  const { rows } = await client.query<LookbackState>(
    `select
       position > 0 as "hasPosition",
       first_read_through_at is not null as "isLoaded",
       first_read_through_at is null and exists (
         select from tidemark.run where run.stream = stream.name and kind = 'incremental' and status = 'running'
       ) as "isLoading",
       lookback_ms::float8 as "lookbackMs",
       (
         select case when finished_at <= now() then extract(epoch from now() - finished_at)::float8 * 1000 end from ${lastLookback} as latest
       ) as "sinceLastMs",
       exists (
         select from tidemark.late_arrival as late
         where late.stream = name and found_at > now() - interval '5 minutes'
       ) as "isRecentlyLate"
     from tidemark.stream where name = $1`,
    [stream],
  )
  return rows[0] ?? null
}

/** Whether somebody changed its table in Postgres since a run looked (P15). */
export async function isLocallyChanged(client: Queryable, stream: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `select from tidemark.stream as known where name = $1 and ${isLocallyChangedSql}`,
    [stream],
  )
  return (rowCount ?? 0) > 0
}

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

// Which streams have not been read as their schedule asks for. The queue keeps the schedules, and may know another database than this one:
// one that was lost and made anew, or restored.
export type PollState = { readonly stream: string; readonly readThroughAt: Date | null }

/** Without those that are paused, are read at this moment, or were tried within the last while. */
export async function readRestingPolls(
  client: Queryable,
  streams: readonly string[],
  restMs: number,
): Promise<readonly PollState[]> {
  const { rows } = await client.query<PollState>(
    `select name as stream, read_through_at as "readThroughAt" from tidemark.stream
     where name = any ($1) and paused_at is null and not exists (
       select from tidemark.run
       where run.stream = stream.name and kind in ('incremental', 'list')
         and ((status = 'running' and (${isHeldSql('stream.name', 'incremental')} or ${isHeldSql('stream.name', 'whole')}))
              or finished_at > now() - $2::float8 * interval '1 millisecond')
     )`,
    [streams, restMs],
  )
  return rows
}

// Which streams lack a reconcile that they should have had by now.
export type ReconcilesOwed = {
  /** The last one that the schedule asked for. */
  readonly slot: Date
  /** A stream whose reconcile failed is left alone for so long. */
  readonly restMs: number
  readonly lookbackMs: number
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
export async function streamsLackingReconcile(
  client: Queryable,
  streams: readonly string[],
  { slot, restMs, lookbackMs, replicaLagMs }: ReconcilesOwed,
): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select name from tidemark.stream
     cross join lateral (
       select first_read_through_at + greatest(lookback_ms, $4) * interval '1 millisecond' as may_settle_at
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
                or (status = 'done' and is_unsettled is not true and finished_at >= greatest($2, now() - interval '2 hours')
                    and not (is_standing is true and started_at < inconclusive_since)
                    -- One that ended after the block has lifted it, found as much missing, or blocked itself.
                    and not (is_blocked is true and finished_at < blocked_at)
                    and not (is_wanted is true and started_at < reconcile_wanted_at))))
     order by name`,
    [streams, slot, restMs, lookbackMs, replicaLagMs],
  )
  return rows.map(({ name }) => name)
}
