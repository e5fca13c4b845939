// The history of positions, as people and programs read it.

import type { ClientBase } from 'pg'

export type Checkpoint = {
  readonly id: string
  readonly stream: string
  readonly position: string
  readonly reached_at: Date
  /** Why the position went back; null when it rose. */
  readonly reason: string | null
  /** Who moved it back; null when a run did. */
  readonly moved_by: string | null
}

/** The newest first. */
export async function readCheckpoints(
  client: Pick<ClientBase, 'query'>,
  options: { readonly stream: string | null; readonly limit: number },
): Promise<readonly Checkpoint[]> {
  const { rows } = await client.query<Checkpoint>(
    `select id::text, stream, position::text, reached_at, reason, moved_by
     from tidemark.checkpoint as known
     where $1::text is null or stream = $1
     -- Without the table it would be the text above, and 9 the newest of ten.
     order by known.id desc
     limit $2`,
    [options.stream, options.limit],
  )
  return rows
}

export async function findCheckpoint(
  client: Pick<ClientBase, 'query'>,
  id: bigint,
): Promise<Pick<Checkpoint, 'stream' | 'position'> | null> {
  const { rows } = await client.query<Pick<Checkpoint, 'stream' | 'position'>>(
    'select stream, position::text from tidemark.checkpoint where id = $1',
    [id.toString()],
  )
  return rows[0] ?? null
}

/** Null when there is none. */
export async function firstCheckpointAt(
  client: Pick<ClientBase, 'query'>,
  stream: string,
): Promise<Date | null> {
  const { rows } = await client.query<{ reached_at: Date | null }>(
    'select min(reached_at) as reached_at from tidemark.checkpoint where stream = $1',
    [stream],
  )
  return rows[0]?.reached_at ?? null
}
