// Collects evidence about rows that a listing lacked, for the person who decides about blocked deletions: what looks at some of them said,
// and from which time the missing ones are.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MissingSpread } from '../book/deletions.ts'
import { qualified } from '../schema/places.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { queryColumn, queryRow, queryRows } from '../server/query.ts'

/** Some keys of a temporary table of them, from all over it. */
export const someKeys = (client: ClientBase, table: string, limit: number) =>
  queryColumn<string>(
    client,
    `select key from (
       select key, row_number() over (order by length(key), key) - 1 as place, count(*) over () as rows from ${table}
     ) as placed
     where place * $1 / rows <> (place - 1) * $1 / rows or place = 0
     order by place limit $1`,
    [limit],
  )

const mostBuckets = 24
const mostColumns = 12
/** At least this share of the rows has to have a time in the column. */
const leastShare = 0.9

/** Rows are told apart best by when they were made; otherwise any time that nearly all of them have will do. */
const tellsBirth = /^(sys_)?(reg|creat|insert|add|enter)/

/** From which time the missing rows are, by a time in them. `table` holds their keys. Null: it cannot be told. Within a transaction. */
export async function spreadOf(client: ClientBase, tableSchema: TableSchema, table: string, log: Logger) {
  await client.query('savepoint spreading')
  let spread: MissingSpread | null = null
  try {
    spread = await spreadByTime(client, tableSchema, table)
  } catch (error) {
    // Postgres cannot count with the times, for example at the end of its range. The block stands, with or without this chart.
    if (!(error instanceof pg.DatabaseError)) throw error
    await client.query('rollback to savepoint spreading')
    log.warn(
      { err: error },
      `From which time the missing rows of ${tableSchema.stream.name} are cannot be shown.`,
    )
  }
  await client.query('release savepoint spreading')
  return spread
}

async function spreadByTime(client: ClientBase, { stream, key, columns }: TableSchema, table: string) {
  const times = columns
    .filter(({ type, name }) => (type === 'timestamptz' || type === 'date') && !name.startsWith('_'))
    .toSorted((one, other) => Number(tellsBirth.test(other.name)) - Number(tellsBirth.test(one.name)))
    .slice(0, mostColumns)
  if (times.length === 0) return null
  const mirror = qualified(stream)
  const shares = await queryRow<Record<string, number | null>>(
    client,
    `select ${times.map(({ name }, index) => `count(${pg.escapeIdentifier(name)})::float8 / nullif(count(*), 0) as "${index}"`).join(', ')}
     from ${mirror} where _deleted_at is null`,
  )
  const column = times.find((_one, index) => (shares?.[index] ?? 0) >= leastShare)
  if (column === undefined) return null
  const time = `mine.${pg.escapeIdentifier(column.name)}`
  // A date is the same day in every zone; cast to timestamptz it would begin by the zone of the server.
  const at = column.type === 'date' ? `${time}::timestamp` : `${time} at time zone 'UTC'`
  type Bucket = { from: string; missing: number; rows: number } & Required<
    Pick<MissingSpread, 'unit' | 'before' | 'after'>
  >
  const rows = await queryRows<Bucket>(
    client,
    `with living as materialized (
       select ${at} as at, absent.key is not null as is_missing
       from ${mirror} as mine left join ${table} as absent on absent.key = mine.${pg.escapeIdentifier(key.name)}::text
       where mine._deleted_at is null and ${time} is not null and isfinite(${time})
     ), outside as (
       -- A few wrong times, such as 9999-12-31, must not decide the range: of few rows, one at each end where they are far apart.
       select case when extract(year from max(at)) - extract(year from min(at)) > ${mostBuckets}
                   then least(0.5, greatest(0.01, 1.5 / count(*))) else 0.01 end as share
       from living having count(*) > 0
     ), extent as (
       select percentile_disc((select share from outside)) within group (order by at) as first,
         percentile_disc((select 1 - share from outside)) within group (order by at) as last
       from living
     ), scale as (
       select first, last,
         case when last - first > interval '${mostBuckets} months' then 'year'
              when last - first > interval '${mostBuckets} days' then 'month' else 'day' end as unit
       from extent
     ), ends as (
       select unit, date_trunc(unit, last) as last, ('1 ' || unit)::interval as step,
         greatest(date_trunc(unit, first), date_trunc(unit, last) - ('${mostBuckets} ' || unit)::interval) as first
       from scale
     ), counted as (
       select least(last, greatest(first, date_trunc(unit, at))) as begins,
         count(*) filter (where is_missing)::float8 as missing, count(*)::float8 as rows,
         bool_or(at < first) as before, bool_or(at >= last + step) as after
       from living, ends group by 1
     )
     select unit, begins::date::text as from, coalesce(missing, 0) as missing, coalesce(rows, 0) as rows,
       coalesce(before, false) as before, coalesce(after, false) as after
     from ends, generate_series(first, last, step) as bucket (begins) left join counted using (begins)
     order by begins`,
  )
  const [oldest] = rows
  if (!oldest) return null
  return {
    column: column.name,
    unit: oldest.unit,
    buckets: rows.map((one) => [one.from, one.missing, one.rows] as const),
    before: oldest.before,
    after: rows.at(-1)?.after ?? false,
  }
}
