// The runs of the last hour in slots of 12 seconds: what a chart of them can show, however many there were. Read-only.

import type { ClientBase } from 'pg'
import { kinds } from '../../streams/catalog.ts'

/** The more a run matters, the later it stands here. */
export const runEffects = ['nothing new', 'wrote rows', 'caught something', 'failed'] as const
export type RunEffect = (typeof runEffects)[number]
/** One or more runs of one kind that began in the same slot. */
export type RunSpan = {
  readonly stream: string
  readonly kind: string
  /** Slots since the hour began; the last slot is `slots - 1`. */
  readonly from: number
  readonly to: number
  /** What the most noteworthy of them came to. */
  readonly effect: RunEffect
  readonly runs: number
}

export const slotMs = 12_000
export const slots = 300

/** Until now. */
export async function readRunSpans(
  client: Pick<ClientBase, 'query'>,
  streams: readonly string[],
): Promise<readonly RunSpan[]> {
  const { rows } = await client.query<Omit<RunSpan, 'effect'> & { readonly effect: number }>(
    `with hour as (
       select now() - $2::int * $3::int * interval '1 millisecond' as begins
     ), recent as (
       select stream, kind, polls, greatest(started_at, begins) as began, coalesce(finished_at, now()) as ended, begins,
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
       cross join hour
       cross join lateral (
         select * from tidemark.run
         where run.stream = wanted_stream.name and run.kind = wanted_kind.name
           -- Runs that found nothing share a line, which may have begun earlier.
           and started_at > begins - interval '1 hour' and coalesce(finished_at, now()) > begins
       ) as run
     ), placed as (
       select *, floor(extract(epoch from began - begins) * 1000 / $2)::int as "from",
         floor(extract(epoch from ended - begins) * 1000 / $2)::int as "to"
       from recent
     )
     select stream, kind, least("from", $3 - 1) as "from", least(max("to"), $3 - 1) as "to", max(effect) as effect,
       sum(polls)::int as runs
     from placed group by stream, kind, "from" order by stream, kind, "from"`,
    [streams, slotMs, slots, kinds],
  )
  return rows.map((row) => ({ ...row, effect: runEffects[row.effect] ?? 'nothing new' }))
}
