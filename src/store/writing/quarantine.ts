// Records that cannot be rows: kept whole, with the reason (P5). The same record for the same reason is one row, however often it comes.

import { hash } from 'node:crypto'
import type { ClientBase } from 'pg'
import { repeatedFields } from '../../json/json.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { isObject, keyReader, type Rejected } from '../../streams/record.ts'
import { arraysOf, queryRow } from '../server/query.ts'
import { canonicalText, fitsJsonb, holdableValue } from '../types/jsonb.ts'

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
  const all = [...new Map(described.map((entry) => [entry.fingerprint, entry])).values()]
  const found = await queryRow<{ added: string }>(
    client,
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
    [name, ...arraysOf(all, 'fingerprint', 'reason', 'record', 'recordText', 'repeated', 'key')],
  )
  return Number(found?.added ?? 0)
}

function describe({ record, reason }: Rejected) {
  const text = canonicalText(record)
  const earlier = isObject(record) ? record[repeatedFields] : undefined
  const repeated = earlier ? holdableValue(earlier) : null
  const holds = fitsJsonb(record, text)
  return {
    fingerprint: hash('sha256', `${reason}\n${text}\n${repeated ?? ''}`, 'base64url'),
    reason,
    record: holds ? text : null,
    recordText: holds ? null : text,
    repeated,
  }
}
