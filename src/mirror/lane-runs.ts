// The last run of each lane of each stream, from the ledger. Read-only.

import type { ClientBase } from 'pg'

export type LaneRun = {
  readonly stream: string
  readonly lane: string
  readonly status: string
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly note: string | null
  readonly error: string | null
}

export async function readLaneRuns(
  client: Pick<ClientBase, 'query'>,
  streams: readonly string[],
): Promise<readonly LaneRun[]> {
  const { rows } = await client.query<LaneRun>(
    `select stream, lane, last_run.*
     from tidemark.lane
     cross join lateral (
       select status, started_at as "startedAt", finished_at as "finishedAt", note, error
       from tidemark.run where run.stream = lane.stream and run.lane = lane.lane order by id desc limit 1
     ) as last_run
     where stream = any ($1)`,
    [streams],
  )
  return rows
}
