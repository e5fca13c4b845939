// What people did, as it is read again; and how a stream stands, in the few words that an action may change. Read-only.

import type { ClientBase } from 'pg'

type Queryable = Pick<ClientBase, 'query'>

export type ActionLine = {
  readonly id: string
  readonly at: Date
  readonly who: string
  readonly door: string
  readonly address: string
  readonly action: string
  readonly target: string
  readonly stream: string | null
  readonly reason: string | null
  readonly confirmed: string | null
  readonly before: Standing | null
  readonly after: Standing | null
  readonly result: string
  readonly told: string
}
export type Standing = Readonly<Record<string, string | number | boolean | null>>

/** The newest first, those with a lower id than `before`; null: of all streams, from the newest. */
export async function readActions(
  client: Queryable,
  {
    stream,
    before,
    limit,
  }: { readonly stream: string | null; readonly before: string | null; readonly limit: number },
): Promise<readonly ActionLine[]> {
  const { rows } = await client.query<ActionLine>(
    `select id::text, at, who, door, address, action, target, stream, reason, confirmed::text, before, after, result, told
     from tidemark.action as known
     where ($1::text is null or stream = $1) and ($2::bigint is null or known.id < $2)
     order by known.id desc limit $3`,
    [stream, before, limit],
  )
  return rows
}

/** Null when there is no such stream. */
export async function readStanding(client: Queryable, stream: string): Promise<Standing | null> {
  const { rows } = await client.query<{ standing: Standing }>(
    `select jsonb_build_object(
       'paused', paused_at is not null,
       'position', position::text,
       'deletions blocked', blocked_deletions -> 'missing',
       'deletions rejected', coalesce(blocked_deletions ? 'rejected', false),
       'in quarantine', (
         select count(*) from tidemark.quarantine as kept where kept.stream = name and dropped_at is null
       ),
       'missed rows', (
         select coalesce(sum(rows), 0) from tidemark.missed_rows as missed
         where missed.stream = name and acknowledged_at is null
       ),
       'unfinished backfills', (
         select count(*) from tidemark.backfill as asked where asked.stream = name and status in ('waiting', 'running')
       )
     ) as standing
     from tidemark.stream where name = $1`,
    [stream],
  )
  return rows[0]?.standing ?? null
}
