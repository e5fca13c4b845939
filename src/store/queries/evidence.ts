// What speaks for and against deletions that are blocked: which rows are missing, what looks at their records said, and how many were
// ever deleted at once. Read-only.

import type { ClientBase } from 'pg'

export type DeletionEvidence = {
  /** Some of the rows that were missing, with what a look at the record said; null: there was no look. */
  readonly samples: readonly { readonly key: string; readonly evidence: string | null }[]
  /** So many of the missing ones were looked at one by one, and were gone. */
  readonly lookedAndGone: number
  /** The most rows that one run ever marked deleted, in what the ledger still knows. */
  readonly mostInARun: number
  readonly lastReconcileAt: Date | null
}

const mostSamples = 20

export async function readDeletionEvidence(
  client: Pick<ClientBase, 'query'>,
  stream: string,
): Promise<DeletionEvidence> {
  const { rows } = await client.query<DeletionEvidence>(
    `select
       coalesce((
         select jsonb_agg(jsonb_build_object('key', key, 'evidence', evidence) order by key) from (
           select key, evidence from tidemark.suspect where stream = $1 order by evidence is null, key limit ${mostSamples}
         ) as shown
       ), '[]') as samples,
       (select count(*)::int from tidemark.suspect where stream = $1 and evidence is not null) as "lookedAndGone",
       (select coalesce(max(marked_deleted), 0)::float8 from tidemark.run where stream = $1) as "mostInARun",
       (select last_reconcile_at from tidemark.stream where name = $1) as "lastReconcileAt"`,
    [stream],
  )
  return rows[0] ?? { samples: [], lookedAndGone: 0, mostInARun: 0, lastReconcileAt: null }
}
