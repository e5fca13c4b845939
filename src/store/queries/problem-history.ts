// Problems that are over, and what a person did that ended them. Read-only.

import type { ClientBase } from 'pg'

export type ClosedProblem = {
  readonly kind: string
  readonly stream: string | null
  readonly what: string
  readonly since: Date
  readonly endedAt: Date
  /** What somebody did about it shortly before; null: it ended by itself. */
  readonly by: { readonly action: string; readonly who: string; readonly door: string } | null
}

/** By kind of problem. */
const endedBy: Readonly<Record<string, readonly string[]>> = {
  deletions_blocked: ['approve', 'reject'],
  deletions_frozen: ['approve', 'lookAgain'],
  quarantine: ['retryQuarantine', 'dropQuarantine'],
  missed_rows: ['acknowledge'],
  stale: ['resume', 'sync', 'rewind'],
  failing: ['sync'],
  stuck: ['sync', 'rewind'],
  inconclusive: ['sync', 'rewind'],
}

/** Of the last seven days, the newest first. */
export async function readClosedProblems(
  client: Pick<ClientBase, 'query'>,
  limit: number,
): Promise<readonly ClosedProblem[]> {
  const { rows } = await client.query<ClosedProblem>(
    `select kind, stream, what, since, ended_at as "endedAt", ended_by as by
     from tidemark.problem_history as over
     left join lateral (
       select jsonb_build_object('action', action, 'who', who, 'door', door) as ended_by
       from tidemark.action as deed
       where deed.stream = over.stream and result in ('done', 'begun')
         and deed.at between over.since and over.ended_at + interval '1 minute'
         and $2::jsonb -> over.kind ? action
       order by deed.id desc limit 1
     ) as last on true
     where ended_at > now() - interval '7 days'
     order by ended_at desc, over.id desc limit $1`,
    [limit, JSON.stringify(endedBy)],
  )
  return rows
}
