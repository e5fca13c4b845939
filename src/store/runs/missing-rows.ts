// What is kept of rows that a listing lacked while their deletions are blocked, for whoever decides: what a look at some of them said,
// and from which time the missing ones are.

import pg, { type ClientBase } from 'pg'
import type { MissingSpread } from '../queries/evidence.ts'
import { qualified, type TableSchema } from '../schema/table-schema.ts'

/** Some keys of a temporary table of them, from all over it. */
export async function someKeys(client: ClientBase, table: string, limit: number): Promise<readonly string[]> {
  const { rows } = await client.query<{ key: string }>(
    `select key from (
       select key, row_number() over (order by length(key), key) - 1 as place, count(*) over () as rows from ${table}
     ) as placed
     where place * $1 / rows <> (place - 1) * $1 / rows or place = 0
     order by place limit $1`,
    [limit],
  )
  return rows.map(({ key }) => key)
}

const mostBuckets = 24
const mostColumns = 12
/** Of the rows that have to have a time in it. */
const leastShare = 0.9

/** Rows are told apart best by when they were made; otherwise any time that nearly all of them have will do. */
const tellsBirth = /^(sys_)?(reg|creat|insert|add|enter)/

/** By a time of the rows; `table` holds the keys of the missing ones. */
export async function spreadOf(
  client: ClientBase,
  { stream, key, columns }: TableSchema,
  table: string,
): Promise<MissingSpread | null> {
  const times = columns
    .filter(({ type, name }) => (type === 'timestamptz' || type === 'date') && !name.startsWith('_'))
    .toSorted((one, other) => Number(tellsBirth.test(other.name)) - Number(tellsBirth.test(one.name)))
    .slice(0, mostColumns)
  if (times.length === 0) return null
  const mirror = qualified(stream)
  const { rows: shares } = await client.query<Record<string, number | null>>(
    `select ${times.map(({ name }, index) => `count(${pg.escapeIdentifier(name)})::float8 / nullif(count(*), 0) as "${index}"`).join(', ')}
     from ${mirror} where _deleted_at is null`,
  )
  const column = times.find((_one, index) => (shares[0]?.[index] ?? 0) >= leastShare)?.name
  if (column === undefined) return null
  const time = `mine.${pg.escapeIdentifier(column)}`
  const { rows } = await client.query<{
    unit: MissingSpread['unit']
    from: string
    missing: number
    rows: number
  }>(
    `with living as materialized (
       select ${time}::timestamptz at time zone 'UTC' as at, absent.key is not null as is_missing
       from ${mirror} as mine left join ${table} as absent on absent.key = mine.${pg.escapeIdentifier(key.name)}::text
       where mine._deleted_at is null and ${time} is not null and isfinite(${time})
     ), scale as (
       select case when max(at) - min(at) > interval '${mostBuckets} months' then 'year'
                   when max(at) - min(at) > interval '${mostBuckets} days' then 'month' else 'day' end as unit
       from living
     ), bucket as (
       select unit, generate_series(date_trunc(unit, min(at)), max(at), ('1 ' || unit)::interval) as from
       from living, scale group by unit
       order by 2 desc limit ${mostBuckets + 1}
     )
     select unit, bucket.from::date::text as from, count(*) filter (where is_missing)::float8 as missing,
       count(living.at)::float8 as rows
     from bucket left join living on date_trunc(unit, at) = bucket.from
     group by unit, bucket.from order by bucket.from desc`,
  )
  const [newest] = rows
  if (!newest) return null
  return {
    column,
    unit: newest.unit,
    buckets: rows.map((one) => [one.from, one.missing, one.rows] as const).reverse(),
  }
}
