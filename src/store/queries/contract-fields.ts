// What the upstream says of each field, beside what the rows of its stream hold. Read-only.

import pg, { type ClientBase } from 'pg'
import { qualified } from '../schema/table-schema.ts'

export type FieldBeside = {
  readonly stream: string
  readonly field: string
  /** Null: it is not described. */
  readonly describedAs: string | null
  readonly columnName: string | null
  readonly columnType: string | null
  /** Rows of its table, deleted ones too. */
  readonly rows: number
  /** Of those, how many have a value. */
  readonly values: number
  /** Of those, how many have a value that does not fit the column. */
  readonly rescued: number
}
type Client = Pick<ClientBase, 'query'>

/** For streams that are described. A table with more than `mostCounted` rows is not counted: its numbers are estimates. */
export async function readFieldsBeside(
  client: Client,
  streams: readonly string[],
  { mostCounted = Number.POSITIVE_INFINITY }: { readonly mostCounted?: number } = {},
): Promise<readonly FieldBeside[]> {
  // Readings are counted in the dictionary: a row that was read twice counts twice. Their shares are those of the rows.
  const { rows } = await client.query<FieldBeside>(
    `select stream, source_name as field, described_as as "describedAs", attname as "columnName",
       column_type as "columnType", table_rows as rows,
       case when records_seen = nulls_seen or table_rows = 0 then 0
         else greatest(1, round(table_rows * (1 - null_share)))::float8 end as values,
       least(rescued, table_rows)::float8 as rescued
     from tidemark.field
     join pg_class as mirrored on mirrored.oid = to_regclass(format('mirror.%I', stream))
     left join pg_attribute on attrelid = oid and attname = column_name and not attisdropped
     cross join lateral (
       select coalesce(nullif(pg_stat_get_live_tuples(oid), 0)::float8, nullif(reltuples, -1)::float8, 0) as table_rows
     ) as estimated
     where stream = any ($1) and stream in (select stream from tidemark.field where described_as is not null)
     order by stream, source_name`,
    [streams],
  )
  const byStream = [...Map.groupBy(rows, ({ stream }) => stream).values()]
  const counted: FieldBeside[] = []
  for (const fields of byStream)
    counted.push(...((fields[0]?.rows ?? 0) > mostCounted ? fields : await countRows(client, fields)))
  return counted
}

async function countRows(client: Client, fields: readonly FieldBeside[]): Promise<readonly FieldBeside[]> {
  const [stream = ''] = fields.map((field) => field.stream)
  const counts = fields.flatMap(({ field, columnName, rescued }) => [
    columnName === null ? '0' : `count(${pg.escapeIdentifier(columnName)})`,
    // Only what was ever rescued is looked for in every row.
    rescued === 0 ? '0' : `count(*) filter (where _rescued ? ${pg.escapeLiteral(field)})`,
  ])
  const { rows } = await client.query<{ counts: readonly string[] }>(
    `select array[count(*), ${counts.join(', ')}]::text[] as counts from ${qualified({ name: stream })}`,
  )
  const [all = 0, ...found] = (rows[0]?.counts ?? []).map(Number)
  return fields.map((field, index) => {
    const [inColumn = 0, rescued = 0] = found.slice(index * 2, index * 2 + 2)
    return { ...field, rows: all, values: inColumn + rescued, rescued }
  })
}
