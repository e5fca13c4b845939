// What a person or a write asks for, and what is taken out of the quarantine: kept in Postgres, so that any worker can act on it.

import pg, { type ClientBase } from 'pg'
import { streams } from '../../streams/catalog.ts'
import { foldName } from '../schema/column-names.ts'
import { qualified, readTableSchema } from '../schema/table-schema.ts'

type Queryable = Pick<ClientBase, 'query'>

// ── backfills ────────────────────────────────────────────────────────────────────────────────────────────────

/** An unfinished request of the same span is taken up again instead of a second one being made. Returns its id. */
export async function requestBackfill(
  client: Queryable,
  request: { readonly stream: string; readonly from: bigint; readonly to: bigint; readonly by: string },
): Promise<{ readonly id: string }> {
  const { rows } = await client.query<{ id: string }>(
    `with known as (
       -- Whoever asks for it again does not want it to wait.
       update tidemark.backfill set retry_at = null, error = null
       where id = (
         select id from tidemark.backfill
         where stream = $1 and position_from = $2 and position_to = $3 and status in ('waiting', 'running')
         order by id limit 1
       )
       returning id
     ), added as (
       insert into tidemark.backfill (stream, position_from, position_to, position, requested_by)
       select $1, $2, $3, $2, $4 where not exists (select from known)
       returning id
     )
     select id::text from known union all select id::text from added`,
    [request.stream, request.from.toString(), request.to.toString(), request.by],
  )
  const [stored] = rows
  if (!stored) throw new Error(`The backfill of ${request.stream} could not be stored. Try again.`)
  return stored
}

/** The run in progress notices at its next page. False when it was over already. */
export async function cancelBackfill(client: Queryable, id: string, by: string): Promise<boolean> {
  const { rowCount } = await client.query(
    `update tidemark.backfill set status = 'cancelled', finished_at = now(), note = $2
     where id = $1 and status in ('waiting', 'running')`,
    [id, `cancelled by ${by}`],
  )
  return (rowCount ?? 0) > 0
}

// ── the quarantine: nothing is deleted, what was taken out stays, with who and why ───────────────────────────

/** Takes entries out: those up to the id `through`, or all. Returns how many. */
export async function dropFromQuarantine(
  client: Queryable,
  { stream, id }: { readonly stream: string | null; readonly id: bigint | null },
  reason: string,
  through: bigint | null = null,
): Promise<number> {
  const { rowCount } = await client.query(
    `update tidemark.quarantine set dropped_at = now(), drop_reason = $3
     where dropped_at is null and ($1::text is null or stream = $1) and ($2::bigint is null or id = $2)
       and ($4::bigint is null or id <= $4)`,
    [stream, id?.toString() ?? null, reason, through?.toString() ?? null],
  )
  return rowCount ?? 0
}

/** Takes out one that was tried again. When such a record comes once more it is a new entry, and not this one (P5). */
export async function settleQuarantined(client: Queryable, id: string, why: string): Promise<void> {
  await client.query(
    `update tidemark.quarantine set dropped_at = now(), drop_reason = $2, fingerprint = fingerprint || ' ' || id
     where dropped_at is null and id = $1`,
    [id, why],
  )
}

// ── related records ──────────────────────────────────────────────────────────────────────────────────────────

/** An assignment as a write names it. */
export type NamedAssignment = { readonly id: string } | { readonly idExt: string }

/** Has an assignment's related records read again even if its row is unchanged: a write changed something that the assignment carries. */
export async function readRelatedAgain(client: Queryable, named: NamedAssignment): Promise<void> {
  if ('id' in named) {
    await client.query('update tidemark.related_fetch set retry_at = now() where assignment_id = $1', [
      named.id,
    ])
    return
  }
  const assignment = streams.find(({ name }) => name === 'assignment')
  const tableSchema = assignment && (await readTableSchema(client, assignment))
  const idExt = tableSchema?.columns.find(({ field }) => foldName(field) === 'assignmentidext')
  // An assignment that is not mirrored yet is read anyway when it comes.
  if (!tableSchema || !idExt) return
  await client.query(
    `update tidemark.related_fetch as known set retry_at = now() from ${qualified(tableSchema.stream)} as mine
     where known.assignment_id = mine.${pg.escapeIdentifier(tableSchema.key.name)}
       and mine.${pg.escapeIdentifier(idExt.name)}::text = $1`,
    [named.idExt],
  )
}
