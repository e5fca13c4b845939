// Records that cannot be rows: kept whole, with the reason (P5). The same record for the same reason is one row, however often it comes.

import { createHash } from 'node:crypto'
import pg, { type ClientBase } from 'pg'
import { repeatedFields } from '../../json/json.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { isObject, keyReader, type Rejected } from '../../streams/record.ts'
import { sharedKeyReason } from '../../streams/twins.ts'
import { qualified } from '../schema/places.ts'
import { type Column, readTableSchema } from '../schema/table-schema.ts'
import type { Queryable } from '../server/session.ts'
import { canonicalText, fitsJsonb, holdableValue } from '../types/jsonb.ts'
import { keyCheck } from '../types/table.ts'

/** Returns how many were not known before. */
export async function quarantine(
  client: ClientBase,
  { name, keyFields }: Pick<MirroredStream, 'name' | 'keyFields'>,
  rejected: readonly Rejected[],
): Promise<number> {
  const keyOf = keyReader(keyFields)
  const described = rejected.map((one) => ({
    ...describe(one),
    key: isObject(one.record) ? keyOf(one.record) : null,
  }))
  const entries = new Map(described.map((entry) => [entry.fingerprint, entry]))
  const all = [...entries.values()]
  const { rows } = await client.query<{ added: string }>(
    `with seen as (
       insert into tidemark.quarantine as known
         (stream, fingerprint, reason, record, record_text, repeated, key, times_seen)
       select $1, fingerprint, reason, record::jsonb, record_text, repeated::jsonb, key, 1
       from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
         as given (fingerprint, reason, record, record_text, repeated, key)
       order by fingerprint
       on conflict (stream, fingerprint) do update
         set last_seen_at = now(), times_seen = known.times_seen + 1, key = excluded.key
       returning known.xmax = 0 as is_new
     )
     select count(*) filter (where is_new) as added from seen`,
    [
      name,
      all.map((entry) => entry.fingerprint),
      all.map((entry) => entry.reason),
      all.map((entry) => entry.record),
      all.map((entry) => entry.recordText),
      all.map((entry) => entry.repeated),
      all.map((entry) => entry.key),
    ],
  )
  return Number(rows[0]?.added ?? 0)
}

/** Looked at in one go: more wait for the next. */
const mostLookedAt = 10_000

/**
 * Takes out those whose record came again as a row: the row of their key changed after they last came, and is no older than they are. Two
 * records that share a key stay: one of them is the row all the time. Returns how many were taken out.
 */
export async function settleRepaired(client: Queryable, stream: MirroredStream): Promise<number> {
  const schema = await readTableSchema(client, stream)
  if (schema === null) return 0
  const { rows: open } = await client.query<{ id: string; key: string }>(
    `select id::text, key from tidemark.quarantine
     where stream = $1 and dropped_at is null and key is not null and not starts_with(reason, $2)
     order by id limit ${mostLookedAt}`,
    [stream.name, sharedKeyReason],
  )
  const fits = keyCheck(schema.key.type)
  const usable = open.filter(({ key }) => fits(key))
  if (usable.length === 0) return 0
  const version = (fieldOf: (column: Column) => string) =>
    `coalesce(${['null', ...schema.versions.map(fieldOf)].join(', ')})`
  const kept = version(({ field }) => `kept.record ->> ${pg.escapeLiteral(field)}`)
  const current = version(({ name }) => `mine.${pg.escapeIdentifier(name)}`)
  const { rowCount } = await client.query(
    `update tidemark.quarantine as kept
     set dropped_at = now(), drop_reason = 'its record came again, and is a row', fingerprint = kept.fingerprint || ' ' || kept.id
     from unnest($1::bigint[], $2::${schema.key.type}[]) as given (id, key)
     join ${qualified(stream)} as mine on mine.${pg.escapeIdentifier(schema.key.name)} = given.key
     where kept.id = given.id and kept.dropped_at is null
       and mine._deleted_at is null and mine._synced_at > kept.last_seen_at
       and case when ${kept} ~ '^[0-9]{1,18}$' then ${current} >= (${kept})::bigint else true end is not false`,
    [usable.map(({ id }) => id), usable.map(({ key }) => key)],
  )
  return rowCount ?? 0
}

function describe({ record, reason }: Rejected) {
  const text = canonicalText(record)
  const earlier = isObject(record) ? record[repeatedFields] : undefined
  const repeated = earlier ? holdableValue(earlier) : null
  const holds = fitsJsonb(record, text)
  return {
    fingerprint: createHash('sha256')
      .update(`${reason}\n${text}\n${repeated ?? ''}`)
      .digest('base64url'),
    reason,
    record: holds ? text : null,
    recordText: holds ? null : text,
    repeated,
  }
}
