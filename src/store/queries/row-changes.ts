// How a row changed, for the tables whose past is kept: each change with the values before and after. Read-only.

import pg, { type ClientBase } from 'pg'
import type { StoryTable } from './row-story.ts'

/** Between one state that was seen and the next. */
export type RowChange = {
  readonly at: string
  readonly isDeleted: boolean
  readonly isBack: boolean
  /** Values as text, cut to a length; null where there was none. The first of them. */
  readonly fields: readonly {
    readonly column: string
    readonly before: string | null
    readonly after: string | null
  }[]
  readonly fieldCount: number
}

const mostFields = 6
const mostCharacters = 80

/** The newest first. None where no past is kept, and none of the state that was seen first. */
export async function readRowChanges(
  client: Pick<ClientBase, 'query'>,
  { tableSchema }: StoryTable,
  key: string,
  limit: number,
): Promise<readonly RowChange[]> {
  const { history } = tableSchema
  if (!history) return []
  const { rows } = await client.query<RowChange>(
    `with past as (
       select * from ${history.table} where ${pg.escapeIdentifier(tableSchema.key.name)} = $1
       order by _observed_at desc limit $2::int + 1
     ), pairs as (
       select _observed_at as at, _deleted_at, lag(_deleted_at) over seen as was_deleted_at,
         to_jsonb(past) - '{_observed_at,_deleted_at}'::text[] as now,
         to_jsonb(lag(past) over seen) - '{_observed_at,_deleted_at}'::text[] as before
       from past window seen as (order by _observed_at)
     )
     select at::text, _deleted_at is not null and was_deleted_at is null as "isDeleted",
       _deleted_at is null and was_deleted_at is not null as "isBack",
       (
         select coalesce(jsonb_agg(jsonb_build_object(
           'column', name, 'before', left(before ->> name, ${mostCharacters}), 'after', left(now ->> name, ${mostCharacters})
         )), '[]')
         from (select * from unnest(changed.names) as name limit ${mostFields}) as shown
       ) as fields,
       cardinality(changed.names) as "fieldCount"
     from pairs
     cross join lateral (
       select array(
         select name from jsonb_object_keys(now) as name where before -> name is distinct from now -> name order by name
       ) as names
     ) as changed
     where before is not null
     order by pairs.at desc`,
    [key, limit],
  )
  return rows
}
