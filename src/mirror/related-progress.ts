// How far the reading of related records has come. Counts only.

import type { ClientBase } from 'pg'
import { relatedStreams } from '../streams.ts'

export type RelatedProgress = {
  /** Assignments whose related records are as of the row that is here. */
  readonly read: number
  /** Assignments that changed since, or were never read. */
  readonly waiting: number
  /** Those among them that could not be read, and are tried again later. */
  readonly setAside: number
  /** Related records that cannot be rows. */
  readonly quarantined: number
}

/** Null where related records were never read. */
export async function readRelatedProgress(
  client: Pick<ClientBase, 'query'>,
): Promise<RelatedProgress | null> {
  const { rows: any } = await client.query('select from tidemark.related_fetch limit 1')
  if (any.length === 0) return null
  const { rows } = await client.query<RelatedProgress>(
    `select count(*) filter (where is_read)::float8 as read, count(*) filter (where not is_read)::float8 as waiting,
       count(*) filter (where not is_read and problem is not null)::float8 as "setAside",
       (select count(*) from tidemark.quarantine where stream = any ($1) and dropped_at is null)::float8 as quarantined
     from (
       select known.problem, coalesce(known.hash = mine._hash and known.problem is null, false) as is_read
       from mirror.assignment as mine left join tidemark.related_fetch as known using (assignment_id)
       where mine._deleted_at is null
     ) as living`,
    [relatedStreams.map(({ name }) => name)],
  )
  return rows[0] ?? null
}
