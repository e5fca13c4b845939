// The run ledger as people read it: the newest first, by what they look for. Read-only.

import type { ClientBase } from 'pg'

/** Null: all of them. */
export type RunFilter = {
  readonly stream: string | null
  readonly lane: string | null
  /** A status, or `changed`: whatever changed the mirror. */
  readonly outcome: string | null
}
export type RunLine = {
  readonly id: string
  readonly stream: string
  readonly lane: string
  readonly status: string
  readonly startedAt: Date
  readonly finishedAt: Date | null
  readonly positionFrom: string | null
  readonly positionTo: string | null
  readonly inserted: number
  readonly updated: number
  readonly unchanged: number
  readonly markedDeleted: number
  readonly rescued: number
  readonly quarantined: number
  readonly requests: number
  readonly error: string | null
  readonly note: string | null
  /** How many runs in a row this line stands for. */
  readonly polls: number
}

/** Those with a lower id than `before`; null: from the newest. */
export async function readRuns(
  client: Pick<ClientBase, 'query'>,
  { stream, lane, outcome }: RunFilter,
  page: { readonly before: string | null; readonly limit: number },
): Promise<readonly RunLine[]> {
  const { rows } = await client.query<RunLine>(
    `select id::text, stream, lane, status, started_at as "startedAt", finished_at as "finishedAt",
       position_from::text as "positionFrom", position_to::text as "positionTo",
       inserted::float8 as inserted, updated::float8 as updated, unchanged::float8 as unchanged,
       marked_deleted::float8 as "markedDeleted", rescued::float8 as rescued, quarantined::float8 as quarantined,
       requests::float8 as requests, error, note, polls
     from tidemark.run as known
     where ($1::text is null or stream = $1) and ($2::text is null or lane = $2)
       and case when $3::text is null then true
                when $3 = 'changed' then known.inserted + known.updated + known.marked_deleted > 0
                else status = $3 end
       and ($4::bigint is null or known.id < $4)
     order by known.id desc limit $5`,
    [stream, lane, outcome, page.before, page.limit],
  )
  return rows
}
