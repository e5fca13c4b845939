// Records that cannot be rows: kept whole, with the reason (P5). The same record for the same reason is one row, however
// often it comes.

import { createHash } from 'node:crypto'
import type { ClientBase } from 'pg'
import { repeatedFields } from '../json/json.ts'
import { isObject, type Unfit } from '../record.ts'
import { canonicalText, fitsJsonb, holdableValue } from './json-text.ts'

/** Returns how many were not known before. */
export async function quarantine(
  client: ClientBase,
  stream: string,
  unfit: readonly Unfit[],
): Promise<number> {
  const entries = new Map(unfit.map((one) => describe(one)).map((entry) => [entry.fingerprint, entry]))
  const all = [...entries.values()]
  const { rows } = await client.query<{ added: string }>(
    `with seen as (
       insert into tidemark.quarantine as known
         (stream, fingerprint, reason, record, record_text, repeated, times_seen)
       select $1, fingerprint, reason, record::jsonb, record_text, repeated::jsonb, 1
       from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
         as given (fingerprint, reason, record, record_text, repeated)
       order by fingerprint
       on conflict (stream, fingerprint) do update set last_seen_at = now(), times_seen = known.times_seen + 1
       returning known.xmax = 0 as is_new
     )
     select count(*) filter (where is_new) as added from seen`,
    [
      stream,
      all.map((entry) => entry.fingerprint),
      all.map((entry) => entry.reason),
      all.map((entry) => entry.record),
      all.map((entry) => entry.recordText),
      all.map((entry) => entry.repeated),
    ],
  )
  return Number(rows[0]?.added ?? 0)
}

function describe({ record, reason }: Unfit) {
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
