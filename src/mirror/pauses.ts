// Streams that an operator has paused: who, since when and why. Only says it; the worker keeps to it.

import type { ClientBase } from 'pg'

type Queryable = Pick<ClientBase, 'query'>

export type Pause = { readonly at: Date; readonly by: string; readonly reason: string | null }

/** False when it was paused already; who did it first stays. */
export async function pauseStream(
  client: Queryable,
  { stream, by, reason }: { readonly stream: string; readonly by: string; readonly reason: string | null },
): Promise<boolean> {
  const { rowCount } = await client.query(
    `update tidemark.stream set paused_at = now(), paused_by = $2, pause_reason = $3
     where name = $1 and paused_at is null`,
    [stream, by, reason],
  )
  return (rowCount ?? 0) > 0
}

/** The pause that ended; null when there was none. */
export async function resumeStream(client: Queryable, stream: string): Promise<Pause | null> {
  const { rows } = await client.query<Pause>(
    `with before as (
       select name, paused_at, paused_by, pause_reason from tidemark.stream
       where name = $1 and paused_at is not null for update
     ), resumed as (
       update tidemark.stream as known set paused_at = null, paused_by = null, pause_reason = null
       from before where known.name = before.name
     )
     select paused_at as at, paused_by as by, pause_reason as reason from before`,
    [stream],
  )
  return rows[0] ?? null
}

export async function pausedStreams(client: Queryable): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ name: string }>(
    'select name from tidemark.stream where paused_at is not null',
  )
  return new Set(rows.map(({ name }) => name))
}
