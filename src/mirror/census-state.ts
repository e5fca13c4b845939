// Which streams lack a census that they should have had by now.

import type { ClientBase } from 'pg'

type Queryable = Pick<ClientBase, 'query'>

/**
 * Streams that were complete before a slot of the schedule and have had no census since. One that is under way counts, also in
 * another program, as does one that ended without proving anything; what failed is left alone for a while.
 */
export async function streamsLackingCensus(
  client: Queryable,
  streams: readonly string[],
  slot: Date,
  restMs: number,
): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select name from tidemark.stream
     where name = any($1) and paused_at is null and stopped_reason is null
       and first_complete_at < $2 and coalesce(last_census_at, '-infinity') < $2
       and not exists (
         select from tidemark.run
         where run.stream = stream.name and lane = 'census'
           and (status = 'running' or (status = 'done' and finished_at >= $2)
                or finished_at > now() - $3::float8 * interval '1 millisecond'))
     order by name`,
    [streams, slot, restMs],
  )
  return rows.map(({ name }) => name)
}

export async function hasCensusSince(client: Queryable, stream: string, slot: Date): Promise<boolean> {
  const { rowCount } = await client.query(
    'select from tidemark.stream where name = $1 and last_census_at >= $2',
    [stream, slot],
  )
  return (rowCount ?? 0) > 0
}
