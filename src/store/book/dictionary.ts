// What is in schema `bi`: its views with their columns, and what is known of the fields behind them. Read-only.

import { type AnyColumn, and, eq, getTableColumns, inArray, or, sql } from 'drizzle-orm'
import { isOutdated } from '../../streams/beliefs.ts'
import { type MirroredStream, relatedNamed } from '../../streams/catalog.ts'
import { baseOf, besideIn } from '../../streams/names.ts'
import { textsSql } from '../schema/comments.ts'
import { tableSql, viewSql } from '../schema/places.ts'
import { arraysOf, queryColumn, queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { beliefTable, fieldTable } from '../tables/findings.ts'
import { ask } from './ask.ts'

export type ColumnMap = {
  readonly name: string
  readonly type: string
  /** Null for columns of the mirror's own. */
  readonly field: string | null
  readonly isKey: boolean
  /** From 0 to 1. */
  readonly nullShare: number | null
  readonly firstSeenAt: string | null
  readonly rescued: number
  readonly note: string | null
  /** What it means, by the dictionary or else by the upstream’s description. */
  readonly description?: string | null
  /** What the dictionary says of it. */
  readonly label?: string | null
  readonly unit?: string | null
  readonly meantReference?: string | null
  /** It shows the texts of the codes of the field. */
  readonly isText?: boolean
  /** The text of each code. */
  readonly texts?: Readonly<Record<string, string>> | null
}
export type ViewMap = {
  readonly name: string
  readonly stream: string
  readonly columns: readonly ColumnMap[]
  /** Fields that have no column: their values are in `_rescued` of the table in `mirror`. */
  readonly unplaced: readonly { readonly field: string; readonly note: string | null }[]
}

/** A stream's own view, those of its past, and which assignments have its records: those that exist. */
const viewsOf = ({ name }: MirroredStream): readonly string[] => [
  name,
  ...['history', 'versions', 'changes', 'day'].map((what) => `${name}_${what}`),
  ...(relatedNamed(name)?.belongsTo === 'many' ? [besideIn(name, `assignment_${baseOf(name)}`)] : []),
]

export async function readSchemaMap(client: Queryable, streams: readonly MirroredStream[]) {
  const wanted = streams.flatMap((stream) => viewsOf(stream).map((view) => ({ view, stream: stream.name })))
  return await queryRows<ViewMap>(
    client,
    `select wanted.view as name, wanted.stream,
       coalesce((
         select jsonb_agg(jsonb_build_object(
                  'name', attname, 'type', format_type(atttypid, null), 'field', source_name,
                  'isKey', wanted.stream = wanted.view and exists (
                    select from pg_index
                    join pg_attribute as keyed on keyed.attrelid = indrelid and keyed.attnum = any (indkey)
                    where indrelid = to_regclass(${tableSql('wanted.stream')}) and indisprimary
                      and keyed.attname = shown.attname
                  ),
                  'nullShare', null_share, 'firstSeenAt', first_seen_at, 'rescued', coalesce(rescued, 0), 'note', note,
                  'description', case when field.label_column = attname then 'text of ' || column_name else coalesce(meaning, description) end,
                  'isText', coalesce(field.label_column = attname, false), 'label', label, 'unit', unit, 'meantReference', meant_reference,
                  'texts', case when field.column_name = attname then (
                    select jsonb_object_agg(code, text) from tidemark.label where label.stream = field.stream and label.field = field.folded
                  ) end
                ) order by attnum)
         from pg_attribute as shown
         left join tidemark.field on field.stream = wanted.stream and shown.attname in (field.column_name, field.label_column)
         where attrelid = view.oid and attnum > 0 and not attisdropped
       ), '[]') as columns,
       coalesce((
         select jsonb_agg(jsonb_build_object('field', source_name, 'note', note) order by source_name)
         from tidemark.field
         where field.stream = wanted.stream and wanted.stream = wanted.view and column_name is null
       ), '[]') as unplaced
     from unnest($1::text[], $2::text[]) with ordinality as wanted (view, stream, place)
     join pg_class as view on view.oid = to_regclass(${viewSql('wanted.view')}) and view.relkind = 'v'
     order by place`,
    arraysOf(wanted, 'view', 'stream'),
  )
}

// The data dictionary as people search it.
const fieldLine = {
  stream: fieldTable.stream,
  sourceName: fieldTable.sourceName,
  columnName: fieldTable.columnName,
  columnType: fieldTable.columnType,
  note: fieldTable.note,
  label: fieldTable.label,
  unit: fieldTable.unit,
  refersTo: fieldTable.refersTo,
  meaning: sql<string | null>`coalesce(${fieldTable.meaning}, ${fieldTable.description})`,
  allowed: sql<
    string | null
  >`coalesce(${sql.raw(textsSql('field'))}, array_to_string(${fieldTable.allowedValues}, ', '))`,
  firstSeenAt: fieldTable.firstSeenAt,
  lastSeenAt: fieldTable.lastSeenAt,
  rescued: fieldTable.rescued,
  nullShare: sql<number | null>`${fieldTable.nullShare}::float8`,
}
export type FieldLine = Awaited<ReturnType<typeof readFields>>[number]

/** Those of a stream (null: of all) whose name, column or label holds the text, whatever its case. */
export function readFields(
  client: Queryable,
  { stream, text }: { readonly stream: string | null; readonly text: string },
  limit: number,
) {
  const { stream: known, sourceName, columnName, label } = fieldTable
  const holds = (name: AnyColumn) => sql`strpos(lower(${name}), lower(${text})) > 0`
  return ask(client, (db) =>
    db
      .select(fieldLine)
      .from(fieldTable)
      .where(
        and(
          stream === null ? undefined : eq(known, stream),
          text === '' ? undefined : or(holds(sourceName), holds(columnName), holds(label)),
        ),
      )
      .orderBy(known, sourceName)
      .limit(limit),
  )
}

/** The streams that have any. */
export const readFieldStreams = (client: Queryable) =>
  queryColumn<string>(client, 'select distinct stream from tidemark.field order by 1')

/** A belief about the upstream. It is doubted from `expiresAt` on; null: as long as beliefs of its kind last. */
export type BeliefLine = Awaited<ReturnType<typeof readBeliefs>>[number]

/** Of all streams, unless some are named. */
export async function readBeliefs(
  client: Queryable,
  { streams }: { readonly streams?: readonly string[] } = {},
) {
  const { restsFrom: _, ...columns } = getTableColumns(beliefTable)
  const fieldNow = sql<string | null>`(
    select value from tidemark.belief as field
    where field.stream = belief.stream and field.name = 'version_field' and field.expires_at is null
  )`
  const found = await ask(client, (db) =>
    db
      .select({ ...columns, fieldNow })
      .from(beliefTable)
      .where(streams && inArray(beliefTable.stream, [...streams]))
      .orderBy(beliefTable.stream, beliefTable.name),
  )
  return found.map(({ versionField, rule, fieldNow, ...line }) => ({
    ...line,
    expiresAt: isOutdated(line.name, { versionField, rule }, fieldNow) ? line.testedAt : line.expiresAt,
  }))
}
