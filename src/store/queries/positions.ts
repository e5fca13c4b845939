// Looks at a stream's position, now and in the past: where it was, when it got somewhere, and which rows are its newest.

import { and, asc, desc, eq, gte, lte } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg, { type ClientBase, type Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import { qualified, readTableSchema, versionSql } from '../schema/table-schema.ts'
import { checkpointTable } from '../tables/state.ts'
import { isRewoundSql } from '../writing/merge-sql.ts'

/** The position as it is now; 0 before the first. */
export async function livePosition(client: Pick<ClientBase, 'query'>, stream: string): Promise<bigint> {
  const { rows } = await client.query<{ position: string }>(
    'select position::text from tidemark.stream where name = $1',
    [stream],
  )
  return BigInt(rows[0]?.position ?? 0)
}

/** The position that was held at a time; null before the first checkpoint. */
export async function positionAt(pool: Pool, stream: string, time: Date): Promise<bigint | null> {
  const [checkpoint] = await drizzle({ client: pool })
    .select({ position: checkpointTable.position })
    .from(checkpointTable)
    .where(and(eq(checkpointTable.stream, stream), lte(checkpointTable.reachedAt, time)))
    .orderBy(desc(checkpointTable.reachedAt), desc(checkpointTable.id))
    .limit(1)
  return checkpoint?.position ?? null
}

/** When the position first reached a version; null when no checkpoint tells. */
export async function reachedAt(pool: Pool, stream: string, version: bigint): Promise<Date | null> {
  const [checkpoint] = await drizzle({ client: pool })
    .select({ reachedAt: checkpointTable.reachedAt })
    .from(checkpointTable)
    .where(and(eq(checkpointTable.stream, stream), gte(checkpointTable.position, version)))
    .orderBy(asc(checkpointTable.reachedAt))
    .limit(1)
  return checkpoint?.reachedAt ?? null
}

type Versioned = { readonly key: string; readonly version: bigint }

/** The living rows with the highest versions at or below one, the highest first; none that a rewind left doubtful. */
export async function highestRows(
  client: Pick<ClientBase, 'query'>,
  stream: Stream,
  atMost: bigint,
  limit: number,
): Promise<readonly Versioned[]> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema || tableSchema.versions.length === 0) return []
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const columns = tableSchema.versions.map((column) => pg.escapeIdentifier(column.name))
  // The version is the first column that is not null; asked for one by one, each is found by its index.
  const parts = columns.map((column, index) => {
    const others = columns.slice(0, index).map((earlier) => ` and ${earlier} is null`)
    return `(select ${key}::text as key, ${column} as version from ${qualified(stream)} as mine
             where _deleted_at is null and ${column} <= $1${others.join('')}
               and ${isRewoundSql(tableSchema, 'mine')} is not true order by ${column} desc limit $2)`
  })
  const { rows } = await client.query<{ key: string; version: string }>(
    `select key, version from (${parts.join(' union all ')}) as newest order by version desc limit $2`,
    [atMost.toString(), limit],
  )
  return rows.map((row) => ({ key: row.key, version: BigInt(row.version) }))
}

/** How many rows have a version above `from`, up to `to`. */
export async function countBetween(
  client: Pick<ClientBase, 'query'>,
  stream: Stream,
  from: bigint,
  to: bigint,
): Promise<number> {
  const tableSchema = await readTableSchema(client, stream)
  const version = tableSchema && versionSql(tableSchema, 'mine')
  if (!version) return 0
  const { rows } = await client.query<{ rows: number }>(
    `select count(*)::float8 as rows from ${qualified(stream)} as mine where ${version} > $1 and ${version} <= $2`,
    [from.toString(), to.toString()],
  )
  return rows[0]?.rows ?? 0
}

// The history of positions, as people and programs read it.
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
