// A backfill's own position and counts, moved in the transaction of each page (P1). The fence is the run's (P2).

import type { ClientBase } from 'pg'
import { BackfillCancelled } from '../../sync/ports/store.ts'
import type { Lease } from './lease.ts'

type Counts = {
  readonly rowsRead: number
  readonly inserted: number
  readonly updated: number
  readonly quarantined: number
}

/** Takes the backfill up, and says where it has come to. */
export async function beginBackfill(
  client: Pick<ClientBase, 'query'>,
  { runId }: Lease,
  id: string,
): Promise<bigint> {
  const { rows } = await client.query<{ position: string }>(
    `with begun as (
       update tidemark.backfill
       set status = 'running', started_at = coalesce(started_at, now()), attempts = attempts + 1, error = null
       where id = $1 and status in ('waiting', 'running')
       returning position
     ), told as (
       update tidemark.run set position_from = begun.position, position_to = begun.position from begun where id = $2
     )
     select position::text from begun`,
    [id, runId],
  )
  const [begun] = rows
  if (!begun) throw new BackfillCancelled(id)
  return BigInt(begun.position)
}

export async function advanceBackfill(
  client: Pick<ClientBase, 'query'>,
  id: string,
  position: bigint | null,
  counts: Counts,
): Promise<void> {
  const { rowCount } = await client.query(
    `update tidemark.backfill
     set position = greatest(position, $2), rows_read = rows_read + $3, inserted = inserted + $4,
         updated = updated + $5, quarantined = quarantined + $6
     where id = $1 and status = 'running'`,
    [id, position?.toString() ?? null, counts.rowsRead, counts.inserted, counts.updated, counts.quarantined],
  )
  if (rowCount === 0) throw new BackfillCancelled(id)
}

/** What this run concluded was wrong: the backfill goes on from where the run began. */
export async function retreatBackfill(
  client: Pick<ClientBase, 'query'>,
  id: string,
  position: bigint,
): Promise<void> {
  await client.query(
    `update tidemark.backfill set position = least(position, $2) where id = $1 and status = 'running'`,
    [id, position.toString()],
  )
}

export async function endBackfill(
  client: Pick<ClientBase, 'query'>,
  id: string,
  isComplete: boolean,
  note: string | null,
): Promise<void> {
  const { rowCount } = await client.query(
    `update tidemark.backfill
     set status = 'done', finished_at = now(), note = $3, position = case when $2 then position_to else position end
     where id = $1 and status = 'running'`,
    [id, isComplete, note],
  )
  if (rowCount === 0) throw new BackfillCancelled(id)
}
