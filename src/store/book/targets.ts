// How well targets were kept, from what was noted minute by minute: it counts from the first such time on. A minute in which nobody looked
// counts as missed, one in which the stream was paused does not count.

import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'

export type Target = {
  readonly stream: string
  /** Which of the three times. */
  readonly time: string
  /** The age that it is measured by: a list is settled whenever it is read. */
  readonly age: string
  readonly seconds: number
}
export type KeptTarget = Pick<Target, 'stream' | 'time'> & {
  readonly days: number
  /** From 0 to 1; null: nothing counts yet. */
  readonly share: number | null
  /** For how long anything counts. */
  readonly countedMs: number
}

/** Of a parameter, as lines. */
export const targetsSql = (parameter: string) =>
  `jsonb_to_recordset(${parameter}) as target (stream text, time text, age text, seconds float8)`

/** Of a line of `tidemark.minute`, beside its target: the minutes in which it was kept, and those that do not count. */
export const keptSql = `
  select age, case when counts and age <= seconds then minutes else 0 end as kept, case when counts then 0 else minutes end as uncounted
  from (select state <> 'paused' and read_age is not null as counts,
    case target.age when 'read' then read_age when 'settled' then settled_age else deletions_age end as age) as seen`

/** Longer than a worker waits until it notes that a state lasts. */
export const unnotedFor = `interval '7 minutes'`

/** Of the last 7 and 30 days. */
export async function readKeptTargets(client: Queryable, targets: readonly Target[]) {
  if (targets.length === 0) return []
  return await queryRows<KeptTarget>(
    client,
    `select target.stream, target.time, days, counted * 60000 as "countedMs",
       case when counted > 0 then least(1, kept / counted) end as share
     from ${targetsSql('$1')} cross join (values (7), (30)) as span (days)
     cross join lateral (
       select min(at) as began from tidemark.minute as line cross join lateral (${keptSql}) as own
       where line.stream = target.stream and at >= now() - days * interval '1 day' and age is not null
     ) as first
     cross join lateral (
       select sum(coalesce((line.kept -> target.time ->> 0)::float8, own.kept)) as kept,
         sum(coalesce(60 - (line.kept -> target.time ->> 1)::float8, uncounted)) as uncounted,
         max(at + minutes * interval '1 minute') as ended
       from tidemark.minute as line cross join lateral (${keptSql}) as own
       where line.stream = target.stream and state is not null and at >= began
     ) as noted
     cross join lateral (
       select coalesce(greatest(0, extract(epoch from
         case when ended < now() - ${unnotedFor} then now() else ended end - began)::float8 / 60 - uncounted), 0) as counted
     ) as sums
     order by 1, 2, 3`,
    [JSON.stringify(targets)],
  )
}
