// How far readings have come, as it is recorded. Read-only.

import type { ClientBase } from 'pg'
import type { Mark, ReadingProgress } from '../../streams/load-progress.ts'

type Queryable = Pick<ClientBase, 'query'>

/** Of those that go on or are to go on: first loads that are not complete, and whatever a run reads now. */
export async function readProgress(
  client: Queryable,
  streams: readonly string[],
): Promise<readonly ReadingProgress[]> {
  return await select(
    client,
    streams,
    `not is_complete and (reading = 'first load' or (ended_at is null and updated_at > now() - interval '1 minute'))`,
  )
}

/** First loads, also those that are complete. */
export const readFirstLoads = (client: Queryable, streams: readonly string[]) =>
  select(client, streams, `reading = 'first load'`)

async function select(
  client: Queryable,
  streams: readonly string[],
  where: string,
): Promise<readonly ReadingProgress[]> {
  const { rows } = await client.query<ReadingProgress & { marks: readonly Mark[] }>(
    `select stream, reading, began_at as "beganAt", updated_at as "updatedAt", ended_at as "endedAt",
       is_complete as "isComplete", rows::float8 as rows, rows_at as "rowsAt", requests::float8 as requests,
       bytes::float8 as bytes, total::float8 as total, total_at as "totalAt", total_requests as "totalRequests",
       share::float8 as share, waits_for as "waitsFor", waits_until as "waitsUntil", error, marks
     from tidemark.progress
     where stream = any ($1) and ${where}
     order by array_position($1, stream), began_at`,
    [streams],
  )
  return rows
}
