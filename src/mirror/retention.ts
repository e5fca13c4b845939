// What the ledger and the history forget: checkpoints thin out with age, old runs and late arrivals go. Rewinds stay.

import type { ClientBase } from 'pg'

/** Cheap enough for the end of a run that changed something; all it looks at is found by index. */
export async function thinHistory(client: Pick<ClientBase, 'query'>, stream: string): Promise<void> {
  await client.query(
    `with aged as (
       -- Every checkpoint for a day, the last of each hour for a month, then the last of each day.
       select id, row_number() over (
         partition by case when reached_at < now() - interval '30 days'
                           then date_trunc('day', reached_at) else date_trunc('hour', reached_at) end
         order by reached_at desc, id desc
       ) as rank
       from tidemark.checkpoint
       where stream = $1 and reason is null and reached_at < date_trunc('hour', now() - interval '1 day')
     ), thinned as (
       delete from tidemark.checkpoint using aged where checkpoint.id = aged.id and aged.rank > 1
     ), forgotten as (
       delete from tidemark.run
       where stream = $1 and status <> 'running' and started_at < now() - interval '90 days'
     )
     delete from tidemark.late_arrival where stream = $1 and found_at < now() - interval '90 days'`,
    [stream],
  )
}
