// The history of positions, as people and programs read it.

import type { ClientBase } from 'pg'

export type Checkpoint = {
  readonly id: string
  readonly stream: string
  readonly position: string
  readonly reached_at: Date
  /** Why the position went back; null when it rose. */
  readonly reason: string | null
}

/** The newest first. */
export async function readCheckpoints(
  client: Pick<ClientBase, 'query'>,
  options: { readonly stream: string | null; readonly limit: number },
): Promise<readonly Checkpoint[]> {
  const { rows } = await client.query<Checkpoint>(
    `select id::text, stream, position::text, reached_at, reason
     from tidemark.checkpoint
     where $1::text is null or stream = $1
     order by reached_at desc, id desc
     limit $2`,
    [options.stream, options.limit],
  )
  return rows
}
