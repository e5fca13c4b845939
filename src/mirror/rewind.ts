// Moves the live position by an operator's word (P2): every run in progress is fenced out, and what was mirrored above the
// target may be replaced by older versions, because the upstream may have been restored from a backup.

import type { ClientBase, Pool } from 'pg'
import { withConnection } from './connections.ts'
import { inTransaction } from './transaction.ts'

export type Rewind = {
  readonly stream: string
  readonly position: bigint
  readonly reason: string
  readonly by: string
}
export type Rewound = { readonly from: bigint; readonly to: bigint; readonly wasStopped: boolean }

export const rewindStream = (pool: Pool, rewind: Rewind): Promise<Rewound> =>
  withConnection(pool, (client) => inTransaction(client, () => move(client, rewind)))

async function move(client: ClientBase, { stream, position, reason, by }: Rewind): Promise<Rewound> {
  // Waits for commits under way; of the runs that go on, none can write after this.
  await client.query(
    `insert into tidemark.lane (stream, lane, epoch) values ($1, 'head', 1)
     on conflict (stream, lane) do nothing`,
    [stream],
  )
  await client.query('update tidemark.lane set epoch = epoch + 1 where stream = $1', [stream])
  const { rows } = await client.query<{ position: string; was_stopped: boolean }>(
    `select position::text, stopped_reason is not null as was_stopped from tidemark.stream where name = $1 for update`,
    [stream],
  )
  const [before] = rows
  if (!before) throw new Error(`the database does not know stream ${stream}; run: tidemark migrate`)
  await client.query(
    `update tidemark.stream set
       position = $2, position_reached_at = now(), stopped_reason = null, stopped_at = null,
       complete_at = (
         select max(reached_at) from tidemark.checkpoint
         where stream = $1 and position <= $2 and reached_at <= complete_at
       ),
       unguarded_above = least(unguarded_above, $2), unguarded_before = clock_timestamp()
     where name = $1`,
    [stream, position.toString()],
  )
  await client.query(
    `insert into tidemark.checkpoint (stream, position, reason, moved_by) values ($1, $2, $3, $4)`,
    [stream, position.toString(), reason, by],
  )
  return { from: BigInt(before.position), to: position, wasStopped: before.was_stopped }
}
