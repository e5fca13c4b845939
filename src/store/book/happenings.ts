// What happened that somebody may want to know: late commits, quarantines, reconciles that found something, and what people did.
// Read-only.

import type { Stream } from '../../streams/catalog.ts'
import { besideIn } from '../../streams/names.ts'
import type { Queryable } from '../server/session.ts'
import type { Within } from './ask.ts'
import { lastRunBeforeSql, latestRunsSql, type RunLine } from './runs.ts'

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
  /** An outage is over. What changed meanwhile is here once all streams that it concerned are read, and settled, through a later moment. */
  | {
      readonly what: 'return'
      readonly problem: string
      readonly lastedMs: number
      /** Those that were not read since, of streams that are not paused; null: it concerned none of those that were asked for. */
      readonly unread: readonly string[] | null
      /** Those for whose late changes and deletions nobody has looked since. */
      readonly unsettled: readonly string[]
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

/** Failed runs are looked for among so many before the end of the span: ids rise with time. */
const recentRuns = 2_000
const weekMs = 7 * 86_400_000

export type Lately = Within & { readonly skip?: number; readonly limit?: number }

/** Of the last seven days unless a span is given, the newest first. Each kind is found by an index, or among the newest of the ledger. */
export async function readHappenings(
  client: Queryable,
  streams: readonly Pick<Stream, 'name' | 'service'>[],
  { from, to, skip = 0, limit = 8 }: Lately = {},
): Promise<readonly Happened[]> {
  const begin = from ?? new Date((to ?? new Date()).getTime() - weekMs)
  // The clock of this program says nothing of what Postgres has noted by its own: without an end, the newest is shown.
  const values = [streams.map(({ name }) => name), begin, to ?? 'infinity', skip + limit]
  const services = streams.map(({ name, service }) => besideIn(name, service))
  const [some, returns] = await Promise.all([
    client.query<Happened>(happeningsSql, values),
    client.query<Happened>(returnsSql, [...values, services]),
  ])
  const all = [...some.rows, ...returns.rows]
  return all.toSorted((a, b) => b.at.getTime() - a.at.getTime()).slice(skip, skip + limit)
}

// $1 is the streams, $2 and $3 the span, $4 how many.
const happeningsSql = `
  with late as (
    select found_at as at, stream, key, null::text as "runId",
      jsonb_build_object('what', 'late commit', 'lateMs', late_ms) as fact
    from unnest($1::text[]) as wanted (name)
    cross join lateral (
      select * from tidemark.late_arrival where stream = wanted.name and found_at >= $2 and found_at < $3 order by found_at desc limit $4
    ) as newest
  ), aside as (
    select first_seen_at, stream, null, null, jsonb_build_object('what', 'quarantined', 'reason', left(reason, 120))
    from tidemark.quarantine
    where stream = any ($1) and dropped_at is null and first_seen_at >= $2 and first_seen_at < $3 order by id desc limit $4
  ), audits as (
    select finished_at, stream, null, id::text, jsonb_build_object(
      'what', 'audit', 'kind', kind, 'note', note,
      'inserted', inserted, 'updated', updated, 'markedDeleted', marked_deleted
    )
    from unnest($1::text[]) as wanted (name)
    cross join lateral ${latestRunsSql('wanted.name', { ofKinds: `array['reconcile', 'backfill', 'verify']`, where: `status = 'done' and run.finished_at >= $2 and run.finished_at < $3`, limit: '$4' })} as run
  ), failed as (
    -- While something is away, runs fail one after the other: the last of each kind within an hour stands for them.
    select distinct on (stream, kind, date_trunc('hour', finished_at)) finished_at, stream, null, id::text,
      jsonb_build_object('what', 'failed run', 'kind', kind)
    from (
      select * from tidemark.run where id <= ${lastRunBeforeSql('$3')} order by id desc limit ${recentRuns}
    ) as recent
    where stream = any ($1) and status = 'failed' and finished_at >= $2 and finished_at < $3
    order by stream, kind, date_trunc('hour', finished_at), id desc
  ), done as (
    select at, coalesce(stream, target), null, null, jsonb_build_object(
      'what', 'action', 'who', coalesce(nullif(who, ''), door), 'told', told, 'reason', reason
    )
    from tidemark.action
    -- What goes on has no answer yet.
    where result in ('done', 'begun') and told <> '' and stream is not null and action <> 'download' and at >= $2 and at < $3 order by id desc limit $4
  )
  select * from (
    select * from late union all select * from aside union all select * from audits union all select * from failed union all select * from done
  ) as together
  order by at desc limit $4`

/** Outages that are over, with what has not been read since of the streams that they concerned. $5 is the service of each stream of $1. */
const returnsSql = `
  select ended_at as at, null as stream, null as key, null as "runId", jsonb_build_object(
    'what', 'return', 'problem', key, 'lastedMs', extract(epoch from ended_at - since)::float8 * 1000,
    'unread', unread, 'unsettled', unsettled
  ) as fact
  from tidemark.problem_history
  cross join lateral (
    select
      case when count(*) > 0 then coalesce(
        jsonb_agg(name order by place) filter (where not coalesce(read_through_at >= ended_at, false)), '[]'
      ) end as unread,
      -- A list is settled whenever it is read: it has no position.
      coalesce(jsonb_agg(name order by place) filter (
        where not coalesce(deletions_known_at >= ended_at and (position = 0 or settled_through_at >= ended_at), false)
      ), '[]') as unsettled
    from unnest($1::text[], $5::text[]) with ordinality as wanted (wanted_name, service, place)
    join tidemark.stream on name = wanted_name
    where paused_at is null and (kind = 'part_down' or key = 'service_down:' || service)
  ) as concerned
  where ended_at >= $2 and ended_at < $3 and (kind = 'service_down' or key in ('part_down:database', 'part_down:queue'))
  order by ended_at desc limit $4`
