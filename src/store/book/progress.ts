// How far readings have come, as it is recorded. Read-only.

import type { Mark, ReadingProgress } from '../../streams/load-progress.ts'
import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { isReadAgainSql } from './checkpoints.ts'
import { isHeldSql } from './runs.ts'

/** Of those that go on or are to go on: first loads that are not complete, and whatever a run reads now. */
export async function readProgress(client: Queryable, streams: readonly string[]) {
  return await select(
    client,
    streams,
    `not is_complete and (reading = 'first load' or (ended_at is null and updated_at > now() - interval '1 minute'))`,
  )
}

/** First loads, also those that are complete. */
export const readFirstLoads = (client: Queryable, streams: readonly string[]) =>
  select(client, streams, `reading = 'first load'`)

const select = (client: Queryable, streams: readonly string[], where: string) =>
  queryRows<ReadingProgress & { marks: readonly Mark[] }>(
    client,
    `select progress.stream, reading, began_at as "beganAt", updated_at as "updatedAt", ended_at as "endedAt",
       is_complete as "isComplete", rows::float8 as rows, rows_at as "rowsAt", requests::float8 as requests,
       bytes::float8 as bytes, total::float8 as total, total_at as "totalAt", total_requests as "totalRequests",
       share::float8 as share, reading = 'first load' and ${isReadAgainSql('progress.stream')} as "isAgain", waits_for as "waitsFor", waits_until as "waitsUntil", error, marks, parts.unread,
       (
         select steps -> -1 ->> 'what' from tidemark.run
         where id = progress.run_id and status = 'running' and (kind <> 'reconcile' or ${isHeldSql('run.stream', 'whole')})
       ) as step
     from tidemark.progress
     left join lateral (
       select unread as ranges, 0 as begins from tidemark.stream
       where name = progress.stream and progress.reading in ('first load', 'incremental')
       union all
       select unread, position_from from tidemark.backfill
       where progress.reading = 'backfill' and id::text = progress.subject
     ) as left_over on true
     left join lateral (
       select jsonb_agg(
         jsonb_build_array(
           ((part ->> 0)::float8 - begins) / nullif((ranges ->> 'up_to')::float8 - begins, 0),
           ((part ->> 1)::float8 - begins) / nullif((ranges ->> 'up_to')::float8 - begins, 0)
         ) order by place
       ) as unread
       from jsonb_array_elements(ranges -> 'ranges') with ordinality as listed (part, place)
     ) as parts on true
     where progress.stream = any ($1) and ${where}
     order by array_position($1, progress.stream), began_at`,
    [streams],
  )
