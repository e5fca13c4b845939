// The quarantine as people page through it. Nothing is deleted: what was taken out stays, with who did it and why.

import type { Queryable } from '../server/session.ts'
import type { quarantineTable } from '../tables/findings.ts'
import type { Within } from './ask.ts'

/** Null: of all streams, or all ids. */
export type QuarantineSelection = { readonly stream: string | null; readonly id: bigint | null }

export type QuarantineEntry = Readonly<
  Pick<typeof quarantineTable.$inferSelect, 'stream' | 'reason' | 'firstSeenAt' | 'lastSeenAt' | 'timesSeen'>
> & {
  readonly id: string
  /** The record's JSON, up to the limit that was asked for. */
  readonly text: string
  /** Earlier values of fields that it carried twice, as JSON. */
  readonly repeatedText: string | null
}

/** More than Postgres keeps in one value. */
const longestText = 2 ** 31 - 1

/** In the order of their ids, those after one, that came in a span of time. A record may be large: `mostCharacters` cuts it. */
export async function readQuarantine(
  client: Queryable,
  { stream, id }: QuarantineSelection,
  page: Within & { readonly after: string; readonly limit: number; readonly mostCharacters?: number },
): Promise<readonly QuarantineEntry[]> {
  const { rows } = await client.query<QuarantineEntry>(
    `select id::text, stream, reason, left(coalesce(record_text, record::text), $5) as text,
       left(repeated::text, $5) as "repeatedText",
       first_seen_at as "firstSeenAt", last_seen_at as "lastSeenAt", times_seen::float8 as "timesSeen"
     from tidemark.quarantine as kept
     where dropped_at is null and ($1::text is null or stream = $1) and ($2::bigint is null or kept.id = $2)
       and kept.id > $3 and last_seen_at >= coalesce($6::timestamptz, '-infinity') and first_seen_at < coalesce($7::timestamptz, 'infinity')
     order by kept.id limit $4`,
    [
      ...[stream, id?.toString() ?? null, page.after, page.limit, page.mostCharacters ?? longestText],
      ...[page.from ?? null, page.to ?? null],
    ],
  )
  return rows
}

/** How many of a stream there are, and the highest id; null when it has none. */
export async function readQuarantineOf(
  client: Queryable,
  stream: string,
): Promise<{ readonly records: number; readonly through: string } | null> {
  const { rows } = await client.query<{ records: number; through: string }>(
    `select count(*)::int as records, max(id)::text as through
     from tidemark.quarantine where dropped_at is null and stream = $1 having count(*) > 0`,
    [stream],
  )
  return rows[0] ?? null
}

/** How many there are, up to an id. */
export async function countQuarantine(
  client: Queryable,
  { stream, id }: QuarantineSelection,
  through: bigint | null,
): Promise<number> {
  const { rows } = await client.query<{ records: number }>(
    `select count(*)::int as records from tidemark.quarantine
     where dropped_at is null and ($1::text is null or stream = $1) and ($2::bigint is null or id = $2)
       and ($3::bigint is null or id <= $3)`,
    [stream, id?.toString() ?? null, through?.toString() ?? null],
  )
  return rows[0]?.records ?? 0
}

/** The stream of an entry that is still in quarantine. */
export async function streamOfEntry(client: Queryable, id: bigint): Promise<string | null> {
  const { rows } = await client.query<{ stream: string }>(
    'select stream from tidemark.quarantine where id = $1 and dropped_at is null',
    [id.toString()],
  )
  return rows[0]?.stream ?? null
}

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
