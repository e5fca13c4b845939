// Backfills: asked for, as far as they have come, and what one would take. Any worker can take them up.

import type { Backfill } from '../../sync/ports/store.ts'
import { queryAny, queryRow, queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'

const columns = `id::text, stream, position_from::text as "from", position_to::text as "to", position::text, status,
  requested_at as "requestedAt", requested_by as "requestedBy", started_at as "startedAt", finished_at as "finishedAt",
  rows_read::float8 as "rowsRead", inserted::float8 as inserted, updated::float8 as updated,
  quarantined::float8 as quarantined, attempts, error, note`

type Line = Omit<Backfill, 'from' | 'to' | 'position'> & Record<'from' | 'to' | 'position', string>

/** `sql`: what follows `from`. */
async function readLines(client: Queryable, sql: string, values: readonly unknown[]) {
  const lines = await queryRows<Line>(
    client,
    `select ${columns} from tidemark.backfill as known ${sql}`,
    values,
  )
  return lines.map(
    (line): Backfill => ({
      ...line,
      from: BigInt(line.from),
      to: BigInt(line.to),
      position: BigInt(line.position),
    }),
  )
}

/** The oldest that is not finished and does not wait to be tried again. Those that failed come last. Null: there is none. */
export async function nextBackfill(client: Queryable, stream: string) {
  const [next] = await readLines(
    client,
    `where stream = $1 and status in ('waiting', 'running') and coalesce(retry_at <= now(), true)
     order by error is not null, case when error is not null then attempts end, known.id limit 1`,
    [stream],
  )
  return next ?? null
}

export const readBackfill = async (client: Queryable, id: string) =>
  (await readLines(client, 'where known.id = $1', [id]))[0] ?? null

/** The newest first. */
export const listBackfills = (client: Queryable, stream: string | null) =>
  readLines(client, 'where $1::text is null or stream = $1 order by known.id desc limit 100', [stream])

/** What can be said of a backfill before it runs. `msPerRow` is that of earlier readings; null when none tells. */
export async function estimateBackfill(client: Queryable, stream: string) {
  const known = await queryRow<{ readonly msPerRow: number | null; readonly largestAnswer: number | null }>(
    client,
    `select (
       select extract(epoch from sum(finished_at - started_at)) * 1000
         / nullif(sum(inserted + updated + unchanged), 0)
       from (
         select * from tidemark.run
         where stream = $1 and kind in ('incremental', 'backfill') and status = 'done' and polls = 1
           and inserted + updated + unchanged >= 100
         order by id desc limit 20
       ) as recent
     )::float8 as "msPerRow",
     (select value::float8 from tidemark.belief where stream = $1 and name = 'largest_answer') as "largestAnswer"`,
    [stream],
  )
  return known ?? { msPerRow: null, largestAnswer: null }
}

/** An unfinished request of the same span is taken up again instead of a second one being made. Returns its id. */
export async function requestBackfill(
  client: Queryable,
  request: { readonly stream: string; readonly from: bigint; readonly to: bigint; readonly by: string },
): Promise<{ readonly id: string }> {
  const stored = await queryRow<{ id: string }>(
    client,
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
     ), due as (
       insert into tidemark.due (stream, kind) values ($1, 'backfill')
       on conflict (stream, kind) do update set due_at = excluded.due_at, asked_at = excluded.asked_at
     )
     select id::text from known union all select id::text from added`,
    [request.stream, request.from, request.to, request.by],
  )
  if (!stored) throw new Error(`The backfill of ${request.stream} could not be stored. Try again.`)
  return stored
}

/** The run in progress notices at its next page. False when it was over already. */
export const cancelBackfill = (client: Queryable, id: string, by: string) =>
  queryAny(
    client,
    `update tidemark.backfill set status = 'cancelled', finished_at = now(), note = $2
     where id = $1 and status in ('waiting', 'running')`,
    [id, `cancelled by ${by}`],
  )
