// The data dictionary: how often each field came, came empty, or was rescued. Counted in memory, and added to the table at the end of a
// run that changed something, and otherwise once an hour: records that come again unchanged say little that is not known.

import { mostUnplaced } from '../../streams/field-types.ts'
import type { Tally } from '../encoding/page.ts'
import { foldName, printable } from '../schema/column-names.ts'
import { maxColumns } from '../schema/table-schema.ts'
import { arraysOf } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'

export type Dictionary = ReturnType<typeof startDictionary>

const flushEveryMs = 3_600_000

/** Those of a store, by the name of the table. */
export function openDictionaries(): (table: string) => Dictionary {
  const opened = new Map<string, Dictionary>()
  return (table) => {
    const dictionary = opened.get(table) ?? startDictionary()
    opened.set(table, dictionary)
    return dictionary
  }
}

export function startDictionary() {
  const fields = new Map<string, { folded: string; nonNull: number; rescued: number }>()
  const newFields = new Map<string, string>()
  let records = 0
  let flushedMs = Number.NEGATIVE_INFINITY

  const countsOf = (field: string) => {
    const folded = foldName(field)
    const counts = fields.get(folded) ?? { folded, nonNull: 0, rescued: 0 }
    fields.set(folded, counts)
    return counts
  }

  /** What is counted meanwhile, by another run of the stream, is for the next time. */
  async function flush(client: Queryable, stream: string): Promise<void> {
    if (records === 0) return
    const [counted, entries, unknown] = [records, [...fields.values()], new Map(newFields)]
    records = 0
    fields.clear()
    newFields.clear()
    flushedMs = performance.now()
    await noteEmptyFields(client, stream, unknown)
    await client.query(
      `with counted as (
         select * from unnest($3::text[], $4::bigint[], $5::bigint[]) as counted (folded, non_null, rescued)
       ), otherwise as (
         select string_agg(source_name, ', ' order by source_name) filter (where place <= ${mostNamed}) as fields, count(*) as number
         from (
           select source_name, row_number() over (order by source_name) as place
           from counted join tidemark.field using (folded) join tidemark.belief using (stream)
           where stream = $1 and name = 'contract' and non_null > 0
             and (described_as is null or counted.rescued > 0 or widened_at > tested_at)
         ) as named
       ), fallen as (
         -- What the upstream says about itself no longer holds.
         update tidemark.belief
         set value = 'otherwise', previous_value = value, changed_at = now(), tested_at = now(),
             evidence = case number when 1 then '1 field that came is' else number || ' fields that came are' end
               || ' not as described: ' || fields
         from otherwise where stream = $1 and name = 'contract' and value = 'as described' and number > 0
       )
       update tidemark.field as known
       set records_seen = known.records_seen + $2, nulls_seen = known.nulls_seen + greatest($2 - counted.non_null, 0),
           rescued = known.rescued + counted.rescued,
           rescued_since = case when counted.rescued > 0 then coalesce(known.rescued_since, now()) else known.rescued_since end,
           last_seen_at = case when counted.non_null > 0 then now() else known.last_seen_at end,
           -- One that the upstream describes has its column before it ever came.
           first_seen_at = case
             when counted.non_null > 0 and known.records_seen = known.nulls_seen and known.described_as is not null then now()
             else known.first_seen_at
           end
       from counted where known.stream = $1 and known.folded = counted.folded`,
      [stream, counted, ...arraysOf(entries, 'folded', 'nonNull', 'rescued')],
    )
    await forgetFields(client, stream)
  }

  return {
    count(tally: Tally): void {
      records += tally.records
      for (const field of tally.newFields) newFields.set(foldName(field), field)
      for (const folded of newFields.keys()) countsOf(folded)
      for (const [field, nonNull] of tally.nonNull) countsOf(field).nonNull += nonNull
      for (const [field, rescued] of tally.rescued) {
        // An upstream may make up a name for every record (P10).
        if (fields.size >= mostCounted && !fields.has(foldName(field))) continue
        const counts = countsOf(field)
        counts.rescued += rescued
        counts.nonNull += rescued
      }
    },
    flush,
    /** The same, if it was not done for an hour. */
    async flushNowAndThen(client: Queryable, stream: string): Promise<void> {
      if (performance.now() - flushedMs >= flushEveryMs) await flush(client, stream)
    },
  }
}

const mostCounted = 10_000
/** Names that are remembered for a stream: its columns, fields without a column, and fields that were only ever null (P10). */
const mostFields = maxColumns + mostUnplaced
/** In the evidence of a belief. */
const mostNamed = 5

/** Notes fields that came but were only ever null, and so have no column. When the first value comes, the field is not new any more. */
async function noteEmptyFields(client: Queryable, stream: string, fields: ReadonlyMap<string, string>) {
  if (fields.size === 0) return
  await client.query(
    `insert into tidemark.field (stream, folded, source_name)
     select $1, folded, source_name from unnest($2::text[], $3::text[]) as came (folded, source_name)
     limit greatest(0, ${mostFields} - (select count(*) from tidemark.field where stream = $1))
     on conflict (stream, folded) do nothing`,
    [stream, [...fields.keys()], [...fields.values()].map(printable)],
  )
}

/**
 * The values of a field that is forgotten are rescued as before. By the places of the lines: compared by name, Postgres reads all of them
 * again for each one while it believes that there are few.
 */
async function forgetFields(client: Queryable, stream: string): Promise<void> {
  await client.query(
    `delete from tidemark.field where ctid = any (array(
       select place from (
         select ctid as place, column_name from tidemark.field where stream = $1
         order by column_name is null, volatile_since is null, note is null, first_seen_at, folded offset ${mostFields}
       ) as many where column_name is null
     ))`,
    [stream],
  )
}
