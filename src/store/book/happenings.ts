// What happened lately that somebody may want to know: late commits, quarantines, reconciles that found something, and what people did.
// Read-only.

import { formatDuration } from '../../util/text.ts'
import type { Queryable } from '../server/session.ts'
import { latestRunsSql } from './runs.ts'

export type Happening = {
  readonly at: Date
  /** Null when it is not about one. */
  readonly stream: string | null
  readonly tone: '' | 'warn' | 'bad'
  readonly text: string
  /** The key of the row that it is about. */
  readonly key: string | null
  readonly runId: string | null
}

const most = 8
/** Each kind is found by an index, or among the newest of the ledger. */
const recentRuns = 2_000

/** Of the last seven days, the newest first. */
export async function readHappenings(
  client: Queryable,
  streams: readonly string[],
): Promise<readonly Happening[]> {
  const { rows } = await client.query<Happening>(
    `with late as (
       select found_at as at, stream, 'warn' as tone,
         format('A late commit was caught: it became visible %s s after its version had been passed', round(late_ms / 1000.0, 1)) as text,
         key, null::text as "runId"
       from unnest($1::text[]) as wanted (name)
       cross join lateral (
         select * from tidemark.late_arrival where stream = wanted.name order by found_at desc limit ${most}
       ) as newest
     ), aside as (
       select first_seen_at, stream, 'bad', format('A record went into quarantine: %s', left(reason, 120)), null, null
       from tidemark.quarantine where stream = any ($1) and dropped_at is null order by id desc limit ${most}
     ), audits as (
       select finished_at, stream, '',
         case kind
           -- It wrote nothing: what it found is told.
           when 'verify' then upper(left(note, 1)) || substr(note, 2)
           else format('%s: %s new, %s changed, %s marked deleted', initcap(kind), inserted, updated, marked_deleted)
         end, null, id::text
       from unnest($1::text[]) as wanted (name)
       cross join lateral ${latestRunsSql('wanted.name', { ofKinds: `array['reconcile', 'backfill', 'verify']`, where: `status = 'done'`, limit: 3 })} as run
     ), failed as (
       -- While something is away, runs fail one after the other: the last of each kind stands for them.
       select distinct on (stream, kind) finished_at, stream, 'bad',
         format('%s %s run failed', case when kind ~ '^[aeiou]' then 'An' else 'A' end, replace(kind, 'lookback', 'look-back')),
         null, id::text
       from (select * from tidemark.run order by id desc limit ${recentRuns}) as recent
       where stream = any ($1) and status = 'failed' order by stream, kind, id desc
     ), done as (
       select at, coalesce(stream, target), '',
         format('%s: %s%s', coalesce(nullif(who, ''), door), told, case when reason is null then '' else format(' “%s”', reason) end),
         null, null
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

type Return = {
  readonly at: Date
  readonly key: string
  readonly lastedMs: number
  readonly isReadSince: boolean
}

/** Outages that are over. Nothing was missed when all changes have been read through a later moment; a list is read whole the next time. */
async function readReturns(client: Queryable, streams: readonly string[]): Promise<readonly Happening[]> {
  const { rows } = await client.query<Return>(
    `select ended_at as at, key, extract(epoch from ended_at - since)::float8 * 1000 as "lastedMs",
       not exists (
         select from tidemark.stream where name = any ($1) and position > 0 and paused_at is null and coalesce(read_through_at < ended_at, true)
       ) as "isReadSince"
     from tidemark.problem_history
     where ended_at > now() - interval '7 days' and (kind = 'service_down' or key in ('part_down:database', 'part_down:queue'))
     order by ended_at desc limit ${most}`,
    [streams],
  )
  return rows.map(({ at, key, lastedMs, isReadSince }) => ({
    ...{ at, stream: null, tone: '', key: null, runId: null },
    text: `${nameOf(key)} works again after ${formatDuration(lastedMs)}; ${isReadSince ? 'nothing was missed' : 'what changed meanwhile comes with the next runs'}`,
  }))
}

const nameOf = (key: string): string => {
  const name = key.slice(key.indexOf(':') + 1)
  if (!key.startsWith('part_down:')) return `The ${name} service`
  return name === 'database' ? 'Postgres' : 'The queue'
}
