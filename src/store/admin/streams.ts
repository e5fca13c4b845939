// What an operator changes about a stream as a whole: its live position, whether it is read, and what was taken note of.

import type { ClientBase, Pool } from 'pg'
import { UsageError } from '../../util/errors.ts'
import { inTransaction, withConnection } from '../server/session.ts'

export type Rewind = {
  readonly stream: string
  readonly position: bigint
  readonly reason: string
  readonly by: string
  /** The position that the operator saw. If it is lower by now, nothing is moved. Null: move in any case. */
  readonly seen?: bigint | null
}
export type Rewound = { readonly from: bigint; readonly to: bigint }

/**
 * Moves the live position by an operator's word (P2): every run in progress is fenced out, and what was mirrored above the target
 * may be replaced by older versions, because the upstream may have been restored from a backup.
 */
export const rewindStream = (pool: Pool, rewind: Rewind): Promise<Rewound> =>
  withConnection(pool, (client) => inTransaction(client, () => move(client, rewind)))

async function move(
  client: ClientBase,
  { stream, position, reason, by, seen = null }: Rewind,
): Promise<Rewound> {
  // Waits for commits under way. Runs that are in progress cannot write after this.
  await client.query(
    `insert into tidemark.lease (stream, lane, epoch) values ($1, 'incremental', 1)
     on conflict (stream, lane) do nothing`,
    [stream],
  )
  await client.query('update tidemark.lease set epoch = epoch + 1 where stream = $1', [stream])
  const { rows } = await client.query<{ position: string }>(
    `select position::text from tidemark.stream where name = $1 for update`,
    [stream],
  )
  const [before] = rows
  if (!before) throw new Error(`The database does not know the stream ${stream}. Run: tidemark migrate`)
  if (seen !== null && BigInt(before.position) < seen)
    throw new UsageError(
      `Nothing was moved: ${stream} is at ${before.position} by now, below the ${seen} that it was at when this was asked for. It was moved back meanwhile. Look again.`,
    )
  await client.query(
    `update tidemark.stream set
       position = $2, position_reached_at = now(), unread = null,
       read_through_at = (
         select max(reached_at) from tidemark.checkpoint
         where stream = $1 and position <= $2 and reached_at <= read_through_at
       ),
       -- What the list confirmed may be of an upstream that is no more.
       settled_through_version = case when settled_through_version <= $2 then settled_through_version end,
       settled_through_at = case when settled_through_version <= $2 then settled_through_at end,
       unguarded_above = least(unguarded_above, $2), unguarded_before = clock_timestamp()
     where name = $1`,
    [stream, position.toString()],
  )
  // What is read from there on relies on the beliefs of now.
  await client.query('update tidemark.belief set rests_from = $2 where stream = $1 and rests_from > $2', [
    stream,
    position.toString(),
  ])
  await client.query(
    `insert into tidemark.checkpoint (stream, position, reason, moved_by) values ($1, $2, $3, $4)`,
    [stream, position.toString(), reason, by],
  )
  return { from: BigInt(before.position), to: position }
}

// Streams that an operator has paused: who, since when and why. Only says it; the worker keeps to it.
type Queryable = Pick<ClientBase, 'query'>

export type Pause = { readonly at: Date; readonly by: string; readonly reason: string | null }

/** The pause that there was already, which stays; null when this one began. */
export async function pauseStream(
  client: Queryable,
  { stream, by, reason }: { readonly stream: string; readonly by: string; readonly reason: string | null },
): Promise<Pause | null> {
  const { rows } = await client.query<Pause | { readonly at: null }>(
    `with before as (select name, paused_at, paused_by, pause_reason from tidemark.stream where name = $1 for update),
     paused as (
       update tidemark.stream as known set paused_at = now(), paused_by = $2, pause_reason = $3
       from before where known.name = before.name and before.paused_at is null
     )
     select paused_at as at, paused_by as by, pause_reason as reason from before`,
    [stream, by, reason],
  )
  const [before] = rows
  return before && before.at !== null ? before : null
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

/** Rows that only a reconcile found are shown no more. Returns how many rows they were. */
export async function acknowledgeMissedRows(client: Queryable, stream: string, by: string): Promise<number> {
  const { rows } = await client.query<{ rows: number }>(
    `with seen as (
       update tidemark.missed_rows set acknowledged_at = now(), acknowledged_by = $2
       where stream = $1 and acknowledged_at is null returning rows
     )
     select coalesce(sum(rows), 0)::float8 as rows from seen`,
    [stream, by],
  )
  return rows[0]?.rows ?? 0
}

/** Declares that the rows here are those of this source. Runs in progress still read the one before, so none of them can write any more. */
export const adoptSource = (
  pool: Pool,
  {
    service,
    baseUrl,
    account,
    streams,
  }: {
    readonly service: string
    readonly baseUrl: string
    readonly account: string
    readonly streams: readonly { readonly name: string }[]
  },
  { by, reason }: { readonly by: string; readonly reason: string },
): Promise<void> =>
  withConnection(pool, (client) =>
    inTransaction(client, async () => {
      // Update the source first: a run that takes its lease from now on waits for this. Runs that have theirs are fenced out next.
      await client.query(
        `update tidemark.source set base_url = $2, account = $3, noted_at = now(), adopted_by = $4, reason = $5
         where service = $1`,
        [service, baseUrl, account, by, reason],
      )
      await client.query('update tidemark.lease set epoch = epoch + 1 where stream = any ($1)', [
        streams.map(({ name }) => name),
      ])
    }),
  )
