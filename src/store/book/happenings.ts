// What happened lately that somebody may want to know: late commits, quarantines, reconciles that found something, and what people did.
// Read-only.

import type { Queryable } from '../server/session.ts'
import { latestRunsSql, type RunLine } from './runs.ts'

/** Of what kind it is, and what there is to say of it. */
export type Fact =
  | { readonly what: 'late commit'; readonly lateMs: number }
  | { readonly what: 'quarantined'; readonly reason: string }
  | ({ readonly what: 'audit'; readonly kind: string; readonly note: string | null } & Pick<
      RunLine,
      'inserted' | 'updated' | 'markedDeleted'
    >)
  | { readonly what: 'failed run'; readonly kind: string }
  | { readonly what: 'action'; readonly who: string; readonly told: string; readonly reason: string | null }
  /** An outage is over. Nothing was missed when all changes have been read through a later moment. */
  | {
      readonly what: 'return'
      readonly problem: string
      readonly lastedMs: number
      readonly isReadSince: boolean
    }
export type Happened = {
  readonly at: Date
  /** Null when it is not about one. */
  readonly stream: string | null
  /** The key of the row that it is about. */
  readonly key: string | null
  readonly runId: string | null
  readonly fact: Fact
}

const most = 8
/** Each kind is found by an index, or among the newest of the ledger. */
const recentRuns = 2_000

/** Of the last seven days, the newest first. */
export async function readHappenings(
  client: Queryable,
  streams: readonly string[],
): Promise<readonly Happened[]> {
  const { rows } = await client.query<Happened>(
    `with late as (
       select found_at as at, stream, key, null::text as "runId",
         jsonb_build_object('what', 'late commit', 'lateMs', late_ms) as fact
       from unnest($1::text[]) as wanted (name)
       cross join lateral (
         select * from tidemark.late_arrival where stream = wanted.name order by found_at desc limit ${most}
       ) as newest
     ), aside as (
       select first_seen_at, stream, null, null, jsonb_build_object('what', 'quarantined', 'reason', left(reason, 120))
       from tidemark.quarantine where stream = any ($1) and dropped_at is null order by id desc limit ${most}
     ), audits as (
       select finished_at, stream, null, id::text, jsonb_build_object(
         'what', 'audit', 'kind', kind, 'note', note,
         'inserted', inserted, 'updated', updated, 'markedDeleted', marked_deleted
       )
       from unnest($1::text[]) as wanted (name)
       cross join lateral ${latestRunsSql('wanted.name', { ofKinds: `array['reconcile', 'backfill', 'verify']`, where: `status = 'done'`, limit: 3 })} as run
     ), failed as (
       -- While something is away, runs fail one after the other: the last of each kind stands for them.
       select distinct on (stream, kind) finished_at, stream, null, id::text,
         jsonb_build_object('what', 'failed run', 'kind', kind)
       from (select * from tidemark.run order by id desc limit ${recentRuns}) as recent
       where stream = any ($1) and status = 'failed' order by stream, kind, id desc
     ), done as (
       select at, coalesce(stream, target), null, null, jsonb_build_object(
         'what', 'action', 'who', coalesce(nullif(who, ''), door), 'told', told, 'reason', reason
       )
       from tidemark.action where result in ('done', 'begun') and stream is not null and action <> 'download' order by id desc limit ${most}
     )
     select * from (
       select * from late union all select * from aside union all select * from audits union all select * from failed union all select * from done
     ) as together
     where at > now() - interval '7 days' order by at desc limit ${most}`,
    [streams],
  )
  const all = [...rows, ...(await readReturns(client, streams))]
  return all.toSorted((a, b) => b.at.getTime() - a.at.getTime()).slice(0, most)
}

/** Outages that are over. Nothing was missed when all changes have been read through a later moment; a list is read whole the next time. */
async function readReturns(client: Queryable, streams: readonly string[]): Promise<readonly Happened[]> {
  const { rows } = await client.query<Happened>(
    `select ended_at as at, null as stream, null as key, null as "runId", jsonb_build_object(
       'what', 'return', 'problem', key, 'lastedMs', extract(epoch from ended_at - since)::float8 * 1000,
       'isReadSince', not exists (
         select from tidemark.stream where name = any ($1) and position > 0 and paused_at is null and coalesce(read_through_at < ended_at, true)
       )
     ) as fact
     from tidemark.problem_history
     where ended_at > now() - interval '7 days' and (kind = 'service_down' or key in ('part_down:database', 'part_down:queue'))
     order by ended_at desc limit ${most}`,
    [streams],
  )
  return rows
}
