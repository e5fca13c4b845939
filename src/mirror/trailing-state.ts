// What is needed to tell whether a stream's trailing lane is due: how long ago it was last read, by the clock of the database.

import type { ClientBase } from 'pg'

export type TrailingState = {
  /** False before the first position: there is no recent past to read. */
  readonly hasPosition: boolean
  /** Null when it never ended well. */
  readonly sinceLastMs: number | null
  readonly lookbackMs: number | null
}

export async function readTrailingState(
  client: Pick<ClientBase, 'query'>,
  stream: string,
): Promise<TrailingState | null> {
  const { rows } = await client.query<TrailingState>(
    `select
       position > 0 as "hasPosition",
       lookback_ms::float8 as "lookbackMs",
       (select extract(epoch from now() - finished_at)::float8 * 1000 from tidemark.run
        where run.stream = stream.name and lane = 'trailing' and status = 'done'
        order by id desc limit 1) as "sinceLastMs"
     from tidemark.stream where name = $1`,
    [stream],
  )
  return rows[0] ?? null
}
