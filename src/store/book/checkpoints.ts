// A stream's position, now and in the past: where it was, when it got somewhere, and how an operator moves it back.

import { and, desc, eq, gte, lt, min } from 'drizzle-orm'
import type { ClientBase, Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import { UsageError } from '../../util/errors.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema, versionSql } from '../schema/table-schema.ts'
import { queryColumn, queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { checkpointTable, streamTable } from '../tables/state.ts'
import { ask, asText, inOneTransaction, type Within } from './ask.ts'

export type Reach = {
  readonly stream: string
  readonly readThroughAt: Date | null
  readonly settledThroughAt: Date | null
  readonly deletionsKnownAt: Date | null
}

/** How far streams have been read, as every role that reads the mirror may see it; null: all of them. */
export const readReach = (client: Queryable, streams: readonly string[] | null) =>
  queryRows<Reach>(
    client,
    `select stream, read_through_time as "readThroughAt", settled_through_time as "settledThroughAt",
       deletions_known_through as "deletionsKnownAt"
     from tidemark.freshness where $1::text[] is null or stream = any ($1) order by array_position($1, stream), stream`,
    [streams],
  )

/** The position as it is now; 0 before the first. */
export async function livePosition(client: Queryable, stream: string): Promise<bigint> {
  const { position, name } = streamTable
  const [found] = await ask(client, (db) => db.select({ position }).from(streamTable).where(eq(name, stream)))
  return found?.position ?? 0n
}

/** In SQL: a checkpoint of the present epoch. Versions of one before it were those of another upstream. $1 is the stream. */
const isOfEpoch = `stream = $1 and reached_at >= coalesce(
  (select max(began_at) from tidemark.epoch where stream = $1), '-infinity'
)`

/** The position that was held at a time; null before the first checkpoint. */
export async function positionAt(client: Queryable, stream: string, time: Date): Promise<bigint | null> {
  const position = await queryValue<string>(
    client,
    `select least(position, (
       -- Where it was moved to since: what is above that is handed out anew, or to be read again.
       select min(position) from tidemark.checkpoint where ${isOfEpoch} and reached_at > $2 and moved_by is not null
     ))::text as position
     from tidemark.checkpoint
     where ${isOfEpoch} and reached_at <= $2
     order by reached_at desc, id desc limit 1`,
    [stream, time],
  )
  return position === null ? null : BigInt(position)
}

/** When the position first reached each of these versions; null where no checkpoint tells. */
export const reachedAt = (client: Queryable, stream: string, versions: readonly bigint[]) =>
  queryColumn<Date | null>(
    client,
    `select (
       select min(reached_at) from tidemark.checkpoint where ${isOfEpoch} and position >= wanted.version
     ) as reached_at
     from unnest($2::bigint[]) with ordinality as wanted (version, place)
     order by place`,
    [stream, versions],
  )

/** How many rows have a version above `from`, up to `to`. Those that were found gone are not read again. */
export async function countBetween(client: Queryable, stream: Stream, from: bigint, to: bigint) {
  const tableSchema = await readTableSchema(client, stream)
  const version = tableSchema && versionSql(tableSchema, 'mine')
  if (!version) return 0
  return (
    (await queryValue<number>(
      client,
      `select count(*)::float8 as rows from ${qualified(stream)} as mine where ${version} > $1 and ${version} <= $2 and _deleted_reason is distinct from 'absent'`,
      [from, to],
    )) ?? 0
  )
}

/** A position that was reached. Why it went back, and who moved it: null when it rose, or a run did. */
export type Checkpoint = Awaited<ReturnType<typeof readCheckpoints>>[number]

/** The newest first, those with a lower id than `before`; null: whatever there is. */
export function readCheckpoints(
  client: Queryable,
  asked: Within & {
    readonly stream: string | null
    readonly limit: number
    readonly before?: string | null
  },
) {
  const { id, stream, position, reachedAt, reason, movedBy } = checkpointTable
  return ask(client, (db) =>
    db
      .select({
        id: asText(id),
        stream,
        position: asText(position),
        reached_at: reachedAt,
        reason,
        moved_by: movedBy,
      })
      .from(checkpointTable)
      .where(
        and(
          asked.stream === null ? undefined : eq(stream, asked.stream),
          asked.before ? lt(id, BigInt(asked.before)) : undefined,
          asked.from ? gte(reachedAt, asked.from) : undefined,
          asked.to ? lt(reachedAt, asked.to) : undefined,
        ),
      )
      .orderBy(desc(id))
      .limit(asked.limit),
  )
}

export async function findCheckpoint(client: Queryable, id: bigint) {
  const { stream, position } = checkpointTable
  const [found] = await ask(client, (db) =>
    db
      .select({ stream, position: asText(position) })
      .from(checkpointTable)
      .where(eq(checkpointTable.id, id)),
  )
  return found ?? null
}

/** Null when there is none. */
export async function firstCheckpointAt(client: Queryable, stream: string): Promise<Date | null> {
  const { reachedAt } = checkpointTable
  const [found] = await ask(client, (db) =>
    db
      .select({ at: min(reachedAt) })
      .from(checkpointTable)
      .where(eq(checkpointTable.stream, stream)),
  )
  return found?.at ?? null
}

/** The field that a stream's row versions are in; null: nobody has found it out yet, or it is doubted. */
export const readVersionField = (client: Queryable, stream: string) =>
  queryValue<string>(client, {
    name: 'tidemark_version_field',
    text: `select value from tidemark.belief where stream = $1 and name = 'version_field' and expires_at is null`,
    values: [stream],
  })

/** The field that is the key of a list stream, where it was found in the data. */
export async function readKeyField(client: Queryable, stream: string): Promise<string | null> {
  const { keyField, name } = streamTable
  const [found] = await ask(client, (db) => db.select({ keyField }).from(streamTable).where(eq(name, stream)))
  return found?.keyField ?? null
}

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
  inOneTransaction(pool, (client) => move(client, rewind))

async function move(client: ClientBase, { stream, position, reason, by, seen = null }: Rewind) {
  // Waits for commits under way. Runs that are in progress cannot write after this.
  await client.query(
    `insert into tidemark.lease (stream, lane, epoch) values ($1, 'incremental', 1)
     on conflict (stream, lane) do nothing`,
    [stream],
  )
  await client.query('update tidemark.lease set epoch = epoch + 1 where stream = $1', [stream])
  const before = await queryRow<{ position: string }>(
    client,
    `select position::text from tidemark.stream where name = $1 for update`,
    [stream],
  )
  if (!before) throw new Error(`The database does not know the stream ${stream}. Run: tidemark migrate`)
  if (seen !== null && BigInt(before.position) < seen)
    throw new UsageError(
      `Nothing was moved: ${stream} is at ${before.position} by now, below the ${seen} that it was at when this was asked for. It was moved back meanwhile. Look again.`,
    )
  await client.query(
    `update tidemark.stream set
       position = $2, position_reached_at = now(), unread = null,
       -- All is to be read again from there on; that it was once, at another time, says nothing of now.
       read_through_at = null,
       -- What the list confirmed may be of an upstream that is no more.
       settled_through_version = case when settled_through_version <= $2 then settled_through_version end,
       settled_through_at = case when settled_through_version <= $2 then settled_through_at end,
       unguarded_above = least(unguarded_above, $2), unguarded_before = clock_timestamp()
     where name = $1`,
    [stream, position],
  )
  // What is read from there on relies on the beliefs of now.
  await client.query('update tidemark.belief set rests_from = $2 where stream = $1 and rests_from > $2', [
    stream,
    position,
  ])
  await client.query(
    `insert into tidemark.checkpoint (stream, position, reason, moved_by) values ($1, $2, $3, $4)`,
    [stream, position, reason, by],
  )
  return { from: BigInt(before.position), to: position }
}

/** In SQL, of a stream that is not read through: whether what was read of it, all or a part, is to be read again from its beginning. */
export const isReadAgainSql = (stream: string): string =>
  `exists (
    select from tidemark.checkpoint as moved where moved.stream = ${stream} and moved.position = 0 and moved.reason is not null
  )`
