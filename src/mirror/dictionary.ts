// The data dictionary: how often each field came, came empty, or was rescued. Counted in memory while a run lasts, added
// to the table once at its end.

import type { ClientBase } from 'pg'
import { foldName } from './column-names.ts'
import type { Tally } from './page-encoding.ts'

type FieldCounts = { nonNull: number; rescued: number }

export type Dictionary = {
  count(tally: Tally): void
  flush(client: Pick<ClientBase, 'query'>, stream: string): Promise<void>
}

export function startDictionary(): Dictionary {
  const fields = new Map<string, FieldCounts>()
  let records = 0

  const countsOf = (field: string): FieldCounts => {
    const folded = foldName(field)
    const counts = fields.get(folded) ?? { nonNull: 0, rescued: 0 }
    fields.set(folded, counts)
    return counts
  }

  return {
    count(tally) {
      records += tally.records
      for (const [field, nonNull] of tally.nonNull) countsOf(field).nonNull += nonNull
      for (const [field, rescued] of tally.rescued) {
        const counts = countsOf(field)
        counts.rescued += rescued
        counts.nonNull += rescued
      }
    },
    async flush(client, stream) {
      if (records === 0) return
      const entries = [...fields]
      await client.query(
        `update tidemark.field as known
         set records_seen = known.records_seen + $2, nulls_seen = known.nulls_seen + greatest($2 - counted.non_null, 0),
             rescued = known.rescued + counted.rescued,
             rescued_since = case when counted.rescued > 0 then coalesce(known.rescued_since, now()) else known.rescued_since end,
             last_seen_at = case when counted.non_null > 0 then now() else known.last_seen_at end
         from unnest($3::text[], $4::bigint[], $5::bigint[]) as counted (folded, non_null, rescued)
         where known.stream = $1 and known.folded = counted.folded`,
        [
          stream,
          records,
          entries.map(([folded]) => folded),
          entries.map(([, counts]) => counts.nonNull),
          entries.map(([, counts]) => counts.rescued),
        ],
      )
      fields.clear()
      records = 0
    },
  }
}
