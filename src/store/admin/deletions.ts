// What an operator answers when deletions are blocked: the rows stay, and no deletion is marked until the list is looked at again.

import pg, { type ClientBase, type Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import { keepingWhereKept } from '../schema/row-history.ts'
import { qualified, readTableSchema } from '../schema/table-schema.ts'
import { inTransaction, withConnection } from '../server/session.ts'

export type Rejecting = {
  readonly stream: Stream
  readonly by: string
  readonly reason: string | null
  /** Rows that were marked as gone within the last day, since a person last approved deletions, live again. */
  readonly restores: boolean
}

/** The rows of blocked deletions are kept. Returns how many others live again; null: no deletions are blocked. */
export const rejectDeletions = (pool: Pool, rejecting: Rejecting): Promise<number | null> =>
  withConnection(pool, (client) => inTransaction(client, () => reject(client, rejecting)))

async function reject(
  client: ClientBase,
  { stream, by, reason, restores }: Rejecting,
): Promise<number | null> {
  const { rowCount } = await client.query(
    `select from tidemark.stream where name = $1 and jsonb_typeof(blocked_deletions) = 'object'`,
    [stream.name],
  )
  if (rowCount === 0) return null
  // Rows before the stream, as runs lock them.
  const { rows, fingerprint } = restores ? await restore(client, stream) : nothing
  await client.query(
    `update tidemark.stream
     set blocked_deletions = blocked_deletions
       || jsonb_build_object('rejected', jsonb_build_object('at', now(), 'by', $2::text, 'reason', $3::text))
       -- The list lacks these rows too: the rejection holds while it lacks all of them.
       || jsonb_strip_nulls(jsonb_build_object(
         'missing', case jsonb_typeof(blocked_deletions -> 'missing') when 'number' then (blocked_deletions ->> 'missing')::numeric + $4 end,
         'living', case jsonb_typeof(blocked_deletions -> 'living') when 'number' then (blocked_deletions ->> 'living')::numeric + $4 end,
         'fingerprint', ((blocked_deletions ->> 'fingerprint')::bigint # $5::bigint)::text
       ))
     where name = $1 and jsonb_typeof(blocked_deletions) = 'object'`,
    [stream.name, by, reason, rows, fingerprint],
  )
  // Rows live again that were gone before the time through which deletions were known: when the first of them went, nobody knows. And of
  // what was marked within the last day, nothing is left.
  if (rows > 0)
    await client.query(
      `update tidemark.stream
       set deletions_known_at = null, ranks_agreed_at = null, swept_key = null, sweep_began_at = null, deletions_approved_at = now()
       where name = $1`,
      [stream.name],
    )
  return rows
}

type Restored = { readonly rows: number; readonly fingerprint: string | null }
const nothing: Restored = { rows: 0, fingerprint: null }

async function restore(client: ClientBase, stream: Stream): Promise<Restored> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return nothing
  const table = qualified(stream)
  const key = `mine.${pg.escapeIdentifier(tableSchema.key.name)}`
  const { rows } = await client.query<Restored>(
    `with gone as materialized (
       select mine.ctid from ${table} as mine, tidemark.stream as known
       where known.name = $1 and mine._deleted_reason = 'absent'
         and mine._deleted_at > greatest(now() - interval '1 day', known.deletions_approved_at)
       -- All writers take their row locks in the same order.
       order by ${key} for update of mine
     ), restored as (
       update ${table} as mine set _deleted_at = null, _deleted_reason = null, _synced_at = now()
       from gone where mine.ctid = gone.ctid
       returning ${key}::text as key, mine as written
     )${await keepingWhereKept(client, tableSchema, 'restored')}, forgotten as (
       delete from tidemark.suspect using restored where suspect.stream = $1 and suspect.key = restored.key
     )
     select count(*)::int as rows, bit_xor(hashtextextended(key, 0))::text as fingerprint from restored`,
    [stream.name],
  )
  return rows[0] ?? nothing
}

/** An operator takes the rejection back: a reconcile lists again, and lifts the block or asks anew. False: none was rejected. */
export async function lookAgain(client: Pick<ClientBase, 'query'>, stream: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `update tidemark.stream set blocked_deletions = blocked_deletions - 'rejected', reconcile_wanted_at = now()
     where name = $1 and blocked_deletions ? 'rejected'`,
    [stream],
  )
  return (rowCount ?? 0) > 0
}
