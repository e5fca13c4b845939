// Who may write (P2): a run carries the epoch of its lane, and every transaction of it shows, at its end or throughout, that it
// is still the lane's. The statement that ends a page moves the position too (P1).

import type { ClientBase } from 'pg'
import { RunFenced } from '../../sync/ports/store.ts'
import { inTransaction } from '../server/session.ts'

export type Lease = {
  readonly stream: string
  readonly kind: string
  readonly epoch: string
  readonly runId: string
  /** The backfill whose own position the run moves, instead of the stream's. */
  readonly backfill: string | null
}

// Finds nothing when the turn is lost.
const holdSql = 'select from tidemark.lease where stream = $1 and lane = $2 and epoch = $3 for share'

/**
 * The last statement before a commit. Moves the position when there is one to move to, never down. Returns the version of
 * the columns of the table that was written, which the page must have been written by.
 */
export async function endLease(
  client: ClientBase,
  lease: Lease,
  position: bigint | null,
  table: string,
): Promise<number> {
  const { rows } = await client.query<{ is_mine: boolean; columns_version: number }>({
    name: 'tidemark_end_turn',
    text: `
      with fence as materialized (
        -- Locked, so that a rewind waits for this commit or is seen here.
        ${holdSql}
      ), moved as (
        update tidemark.stream set position = $4, position_reached_at = now()
        where name = $1 and position < $4 and exists (select from fence)
        returning position
      ), noted as (
        insert into tidemark.checkpoint (stream, position, run_id) select $1, position, $5 from moved
      )
      select exists (select from fence) as is_mine, columns_version from tidemark.stream where name = $6`,
    values: [lease.stream, lease.kind, lease.epoch, position?.toString() ?? null, lease.runId, table],
  })
  if (!rows[0]?.is_mine) throw new RunFenced(lease.stream, lease.kind)
  return rows[0].columns_version
}

/**
 * Keeps the turn until the transaction ends. Whatever locks more of the stream before its last statement begins with this: a
 * rewind takes the lanes first as well, and neither waits for the other.
 */
export async function holdLease(client: ClientBase, lease: Lease): Promise<void> {
  const { rowCount } = await client.query(holdSql, [lease.stream, lease.kind, lease.epoch])
  if (rowCount === 0) throw new RunFenced(lease.stream, lease.kind)
}

/** A transaction of a run that writes no page. */
export const withinLease = <Result>(
  client: ClientBase,
  lease: Lease,
  work: () => Promise<Result>,
): Promise<Result> =>
  inTransaction(client, async () => {
    await holdLease(client, lease)
    return await work()
  })

/** Moves the position back, and records why. */
export async function moveBack(
  client: ClientBase,
  lease: Lease,
  position: bigint,
  reason: string,
): Promise<void> {
  await withinLease(client, lease, () =>
    client.query(
      `with moved as (
         update tidemark.stream set position = $2, position_reached_at = now()
         where name = $1 and position > $2 returning position
       )
       insert into tidemark.checkpoint (stream, position, run_id, reason) select $1, position, $3, $4 from moved`,
      [lease.stream, position.toString(), lease.runId, reason],
    ),
  )
}

// How long Postgres keeps a lane for a program that says nothing. A frozen program, or one whose machine is gone, leaves a session
// that looks alive, and with it the lane: so the session says a word now and then, and Postgres itself ends one that does not (P8).
/** Longer than any page of JSON keeps this program from speaking. */
export const longestSilenceMs = 30_000
const wordsPerSilence = 3

/** Returns what ends it. A word that fails is no news: the next statement of the run fails as well. */
export function keepSpeaking(speak: () => Promise<unknown>, silenceMs: number): () => void {
  let isSpeaking = false
  const timer = setInterval(async () => {
    if (isSpeaking) return
    isSpeaking = true
    await speak().catch(() => {})
    isSpeaking = false
  }, silenceMs / wordsPerSilence)
  timer.unref()
  return () => clearInterval(timer)
}
