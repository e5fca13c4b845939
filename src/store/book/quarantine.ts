// The quarantine as people page through it. Nothing is deleted: what was taken out stays, with who did it and why.

import pg from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { sharedKeyReason } from '../../streams/twins.ts'
import { qualified } from '../schema/places.ts'
import { type Column, readTableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryCount, queryRow, queryRows, queryValue } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { quarantineTable } from '../tables/findings.ts'
import { keyCheck } from '../types/table.ts'
import type { Within } from './ask.ts'

/** Null: of all streams, or all ids. */
export type QuarantineSelection = { readonly stream: string | null; readonly id: bigint | null }

export type QuarantineEntry = Readonly<
  Pick<
    typeof quarantineTable.$inferSelect,
    'stream' | 'reason' | 'key' | 'firstSeenAt' | 'lastSeenAt' | 'timesSeen'
  >
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
export const readQuarantine = (
  client: Queryable,
  { stream, id }: QuarantineSelection,
  page: Within & { readonly after: string; readonly limit: number; readonly mostCharacters?: number },
) =>
  queryRows<QuarantineEntry>(
    client,
    `select id::text, stream, reason, key, left(coalesce(record_text, record::text), $5) as text,
       left(repeated::text, $5) as "repeatedText",
       first_seen_at as "firstSeenAt", last_seen_at as "lastSeenAt", times_seen::float8 as "timesSeen"
     from tidemark.quarantine as kept
     where dropped_at is null and ($1::text is null or stream = $1) and ($2::bigint is null or kept.id = $2)
       and kept.id > $3 and last_seen_at >= coalesce($6::timestamptz, '-infinity') and first_seen_at < coalesce($7::timestamptz, 'infinity')
     order by kept.id limit $4`,
    [stream, id, page.after, page.limit, page.mostCharacters ?? longestText, page.from, page.to],
  )

export type QuarantinedKey = Pick<QuarantineEntry, 'id' | 'stream' | 'reason'>

/** Entries of records that have this key, of some streams, the newest first. */
export const readQuarantinedKey = (
  client: Queryable,
  { streams, key }: { readonly streams: readonly string[]; readonly key: string },
  limit: number,
) =>
  queryRows<QuarantinedKey>(
    client,
    `select id::text, stream, reason from tidemark.quarantine as kept
     where dropped_at is null and stream = any ($1) and key = $2 order by kept.id desc limit $3`,
    [streams, key, limit],
  )

/** How many of a stream there are, and the highest id; null when it has none. */
export const readQuarantineOf = (client: Queryable, stream: string) =>
  queryRow<{ records: number; through: string }>(
    client,
    `select count(*)::int as records, max(id)::text as through
     from tidemark.quarantine where dropped_at is null and stream = $1 having count(*) > 0`,
    [stream],
  )

/** How many there are, up to an id. */
export const countQuarantine = async (
  client: Queryable,
  { stream, id }: QuarantineSelection,
  through: bigint | null,
) =>
  (await queryValue<number>(
    client,
    `select count(*)::int as records from tidemark.quarantine
     where dropped_at is null and ($1::text is null or stream = $1) and ($2::bigint is null or id = $2)
       and ($3::bigint is null or id <= $3)`,
    [stream, id, through],
  )) ?? 0

/** The stream of an entry that is still in quarantine. */
export const streamOfEntry = (client: Queryable, id: bigint) =>
  queryValue<string>(client, 'select stream from tidemark.quarantine where id = $1 and dropped_at is null', [
    id,
  ])

/** Takes entries out: those up to the id `through`, or all. Returns how many. */
export const dropFromQuarantine = (
  client: Queryable,
  { stream, id }: QuarantineSelection,
  reason: string,
  through: bigint | null = null,
) =>
  queryCount(
    client,
    `update tidemark.quarantine set dropped_at = now(), drop_reason = $3
     where dropped_at is null and ($1::text is null or stream = $1) and ($2::bigint is null or id = $2)
       and ($4::bigint is null or id <= $4)`,
    [stream, id, reason, through],
  )

/** What vanished since a record in quarantine last came is not known any more: the record itself may have. */
export async function doubtDeletions(client: Queryable, id: string): Promise<void> {
  await client.query(
    `with fenced as (
       -- What others compare meanwhile lacks the row.
       update tidemark.lease set epoch = epoch + 1 from tidemark.quarantine as kept
       where kept.id = $1 and lease.stream = kept.stream and lane in ('whole', 'deletions')
     )
     update tidemark.stream as known set deletions_known_at = least(deletions_known_at, last_seen_at), ranks_agreed_at = null
     from tidemark.quarantine as kept where kept.id = $1 and known.name = kept.stream and deletions_known_at > last_seen_at`,
    [id],
  )
}

/** Takes out one that was tried again. When such a record comes once more it is a new entry, and not this one (P5). */
export async function settleQuarantined(client: Queryable, id: string, why: string): Promise<void> {
  await client.query(
    `update tidemark.quarantine set dropped_at = now(), drop_reason = $2, fingerprint = fingerprint || ' ' || id
     where dropped_at is null and id = $1`,
    [id, why],
  )
}

/** So many are looked at in one go, drawn by chance: others the next time. */
const mostLookedAt = 10_000

/**
 * Takes out those whose record came again as a row: a page changed the row of their key after they last came, and it is no older than they are. Two
 * records that share a key stay: one of them is the row all the time. Returns how many were taken out.
 */
export async function settleRepaired(client: Queryable, stream: MirroredStream): Promise<number> {
  const schema = await readTableSchema(client, stream)
  if (schema === null) return 0
  const open = await queryRows<{ id: string; key: string }>(
    client,
    `select id::text, key from tidemark.quarantine
     where stream = $1 and dropped_at is null and key is not null and not starts_with(reason, $2)
     order by random() limit ${mostLookedAt}`,
    [stream.name, sharedKeyReason],
  )
  const fits = keyCheck(schema.key.type)
  const usable = open.filter(({ key }) => fits(key))
  if (usable.length === 0) return 0
  const version = (fieldOf: (column: Column) => string) =>
    `coalesce(${['null', ...schema.versions.map(fieldOf)].join(', ')})`
  const kept = version(({ field }) => `kept.record ->> ${pg.escapeLiteral(field)}`)
  const current = version(({ name }) => `mine.${pg.escapeIdentifier(name)}`)
  return await queryCount(
    client,
    `update tidemark.quarantine as kept
     set dropped_at = now(), drop_reason = 'its record came again, and is a row', fingerprint = kept.fingerprint || ' ' || kept.id
     from unnest($1::bigint[], $2::${schema.key.type}[]) as given (id, key)
     join ${qualified(stream)} as mine on mine.${pg.escapeIdentifier(schema.key.name)} = given.key
     where kept.id = given.id and kept.dropped_at is null
       and mine._deleted_at is null and mine._synced_at > kept.last_seen_at
       and kept.record is not null and case
         when ${kept} ~ '^[0-9]{1,18}$' then ${current} >= (${kept})::bigint
         else ${kept} is null or starts_with(kept.reason, 'no usable row version')
       end is not false
       and exists (select from tidemark.page where "table" = kept.stream and written_at = mine._synced_at)`,
    arraysOf(usable, 'id', 'key'),
  )
}
