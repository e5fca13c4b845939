// What a run notes of deletions that are blocked until a person decides about them (P7).

import type { Shortfall } from '../../sync/ports/audits.ts'
import type { MissingEvidence } from '../book/deletions.ts'
import { queryCount } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'

/** Whether a person keeps the very rows that are missing now. A block that a search made does not name its rows, so their number tells. */
const keepsThese = (before: string, now: string): string =>
  `${before} ? 'rejected' and coalesce(${before}->'fingerprint' = ${now}->'fingerprint', ${before}->'missing' = ${now}->'missing', false)`

/**
 * `shortfall` null: nothing is blocked any more. Deletions that are blocked already keep the time of their block, even if the next
 * listing lacks other rows. A rejection holds only while the same rows are missing: if others are, the block begins anew. What looks at
 * some of the rows showed is kept until there are newer looks. What the sweep has compared before
 * tells nothing of them: its round has no beginning any more, and counts for nothing.
 */
export async function storeBlockedDeletions(
  client: Queryable,
  stream: string,
  shortfall: (Shortfall & { readonly evidence?: MissingEvidence }) | null,
) {
  await client.query(
    `with known as (
       select name, $2::jsonb || case
         when jsonb_typeof(before) is distinct from 'object' then jsonb_build_object('at', now())
         when before ? 'rejected' and not (${keepsThese('before', '$2::jsonb')})
           then jsonb_build_object('at', now())
         else jsonb_strip_nulls(jsonb_build_object(
           'at', coalesce(before->'at', to_jsonb(now())), 'rejected', before->'rejected'
         )) end || jsonb_strip_nulls(jsonb_build_object(
           'evidence', coalesce($2::jsonb->'evidence', before->'evidence')
         )) as told
       from (select name, blocked_deletions as before from tidemark.stream where name = $1) as stored
     )
     update tidemark.stream set blocked_deletions = told, sweep_began_at = case when told is null then sweep_began_at end
     from known
     where stream.name = known.name and (blocked_deletions is distinct from told or (sweep_began_at is not null and told is not null))`,
    [stream, shortfall],
  )
}

export async function isRejected(client: Queryable, stream: string, shortfall: Shortfall): Promise<boolean> {
  const rejected = `select from tidemark.stream where name = $1 and ${keepsThese('blocked_deletions', '$2::jsonb')}`
  return (await queryCount(client, rejected, [stream, shortfall])) === 1
}

/** What is marked until now, a person has approved. */
export async function noteApproved(client: Queryable, stream: string) {
  await client.query('update tidemark.stream set deletions_approved_at = now() where name = $1', [stream])
}
