// Where rows are otherwise than the upstream describes its records: what it says of each field, beside what the rows of its stream hold.

import pg from 'pg'
import { foldName } from '../store/schema/column-names.ts'
import { qualified, tableSql } from '../store/schema/places.ts'
import type { Queryable } from '../store/server/session.ts'
import { count, plural } from '../util/text.ts'
import type { RecordType } from './description.ts'
import { columnTypeOf } from './make-tables.ts'

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

/** For streams that are described. A table with more than `mostCounted` rows is not counted: its numbers are estimates. */
export async function readFieldsBeside(
  client: Queryable,
  streams: readonly string[],
  { mostCounted = Number.POSITIVE_INFINITY }: { readonly mostCounted?: number } = {},
): Promise<readonly FieldBeside[]> {
  // Readings are counted in the dictionary: a row that was read twice counts twice. Their shares are those of the rows.
  const { rows } = await client.query<FieldBeside>(
    `with wanted as materialized (select name, to_regclass(${tableSql('name')}) as oid from unnest($1::text[]) as stream (name))
     select stream, source_name as field, described_as as "describedAs", attname as "columnName",
       column_type as "columnType", table_rows as rows,
       case when records_seen = nulls_seen or table_rows = 0 then 0
         else greatest(1, round(table_rows * (1 - null_share)))::float8 end as values,
       least(rescued, table_rows)::float8 as rescued
     from wanted
     join pg_class as mirrored using (oid)
     join tidemark.field on stream = wanted.name
     left join pg_attribute on attrelid = oid and attname = column_name and not attisdropped
     cross join lateral (
       select coalesce(nullif(pg_stat_get_live_tuples(oid), 0)::float8, nullif(reltuples, -1)::float8, 0) as table_rows
     ) as estimated
     where exists (select from tidemark.field as described where described.stream = wanted.name and described_as is not null)
     order by stream, source_name`,
    [streams],
  )
  const byStream = [...Map.groupBy(rows, ({ stream }) => stream).values()]
  const counted: FieldBeside[] = []
  for (const fields of byStream)
    counted.push(...((fields[0]?.rows ?? 0) > mostCounted ? fields : await countRows(client, fields)))
  return counted
}

async function countRows(client: Queryable, fields: readonly FieldBeside[]): Promise<readonly FieldBeside[]> {
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

export type Difference = {
  readonly stream: string
  readonly field: string
  readonly kind: 'never had a value' | 'not described' | 'another type' | 'values that do not fit'
  readonly described: string | null
  readonly column: string | null
  /** How many rows that is about. */
  readonly count: number
}

/** A field that never had a value contradicts nothing. */
export const isContradiction = ({ kind }: Difference): boolean => kind !== 'never had a value'

export const differencesOf = (
  fields: readonly FieldBeside[],
  types: ReadonlyMap<string, RecordType>,
): readonly Difference[] => fields.flatMap((field) => differenceOf(field, types.get(field.stream)))

function differenceOf(
  { stream, field, describedAs, columnType, rows, values, rescued }: FieldBeside,
  type: RecordType | undefined,
): readonly Difference[] {
  const common = { stream, field, described: describedAs, column: columnType }
  if (rows === 0) return []
  if (describedAs === null) return values === 0 ? [] : [{ ...common, kind: 'not described', count: values }]
  const said = type?.fields.find(({ name }) => foldName(name) === foldName(field))
  const wanted = said ? columnTypeOf(said) : null
  if (rescued > 0) return [{ ...common, kind: 'values that do not fit', count: rescued }]
  if (wanted !== null && columnType !== null && wanted !== columnType)
    return [{ ...common, kind: 'another type', count: values }]
  return values === 0 ? [{ ...common, kind: 'never had a value', count: rows }] : []
}

const meanings: Readonly<Record<Difference['kind'], (one: Difference) => string>> = {
  'never had a value': ({ described: said, count: rows }) =>
    `described as ${said}; none of ${plural(rows, 'row')} has a value`,
  'not described': ({ column, count: rows }) =>
    `not described; ${plural(rows, 'row')} with a value, ${column === null ? 'in _rescued' : `in a column of type ${column}`}`,
  'another type': ({ described: said, column }) => `described as ${said}; its column is ${column}`,
  'values that do not fit': ({ described: said, count: rows }) =>
    `described as ${said}; ${plural(rows, 'row')} with a value that does not fit`,
}

/** In one line, without its field. */
export const differenceInWords = (one: Difference): string => meanings[one.kind](one)

export type Verdict = { readonly value: 'as described' | 'otherwise'; readonly evidence: string }

/** Of one stream, by what its columns hold; `openApi` and `at` say what was read, and where. */
export function verdictOn(
  type: RecordType,
  beside: readonly FieldBeside[],
  { openApi, at }: { readonly openApi: string; readonly at: string },
): Verdict {
  const from = `OpenAPI ${openApi} of ${at}`
  const others = beside.flatMap((field) => differenceOf(field, type)).filter(isContradiction)
  const haveValues = beside.filter(({ describedAs, values }) => describedAs !== null && values > 0).length
  if (others.length === 0)
    return {
      value: 'as described',
      evidence:
        haveValues === 0
          ? `none of ${plural(type.fields.length, 'field')} in ${from} had a value here when that was read; each run has compared what came since`
          : `${haveValues} of ${plural(type.fields.length, 'field')} in ${from} have values, and all fit`,
    }
  const named = others.slice(0, mostNamed).map(({ field }) => field)
  const more = others.length > mostNamed ? ` and ${count(others.length - mostNamed)} more` : ''
  return {
    value: 'otherwise',
    evidence: `${plural(others.length, 'field')} not as in ${from}: ${named.join(', ')}${more}`,
  }
}

const mostNamed = 5
