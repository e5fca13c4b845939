// What is in schema `bi`: its views with their columns, and what is known of the fields behind them. Read-only.

import { type Ground, isOutdated } from '../../streams/beliefs.ts'
import { type MirroredStream, relatedStreams } from '../../streams/catalog.ts'
import { historyOf } from '../schema/table-schema.ts'
import type { Queryable } from '../server/session.ts'

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
  /** What the upstream says that it means. */
  readonly description?: string | null
}
export type ViewMap = {
  readonly name: string
  readonly stream: string
  readonly columns: readonly ColumnMap[]
  /** Fields that have no column: their values are in `_rescued` of the table in `mirror`. */
  readonly unplaced: readonly { readonly field: string; readonly note: string | null }[]
}

/** A stream's own view, that of its past, and which assignments have its records: those that exist. */
const viewsOf = ({ name }: MirroredStream): readonly string[] => [
  name,
  historyOf({ name }).name,
  ...(relatedStreams.some((one) => one.name === name && one.belongsTo === 'many')
    ? [`assignment_${name}`]
    : []),
]

export async function readSchemaMap(
  client: Queryable,
  streams: readonly MirroredStream[],
): Promise<readonly ViewMap[]> {
  const wanted = streams.flatMap((stream) => viewsOf(stream).map((view) => ({ view, stream: stream.name })))
  const { rows } = await client.query<ViewMap>(
    `select view.relname as name, wanted.stream,
       coalesce((
         select jsonb_agg(jsonb_build_object(
                  'name', attname, 'type', format_type(atttypid, null), 'field', source_name,
                  'isKey', wanted.stream = view.relname and exists (
                    select from pg_index
                    join pg_attribute as keyed on keyed.attrelid = indrelid and keyed.attnum = any (indkey)
                    where indrelid = to_regclass(format('mirror.%I', wanted.stream)) and indisprimary
                      and keyed.attname = shown.attname
                  ),
                  'nullShare', null_share, 'firstSeenAt', first_seen_at, 'rescued', coalesce(rescued, 0), 'note', note, 'description', description
                ) order by attnum)
         from pg_attribute as shown
         left join tidemark.field on field.stream = wanted.stream and field.column_name = shown.attname
         where attrelid = view.oid and attnum > 0 and not attisdropped
       ), '[]') as columns,
       coalesce((
         select jsonb_agg(jsonb_build_object('field', source_name, 'note', note) order by source_name)
         from tidemark.field
         where field.stream = wanted.stream and wanted.stream = view.relname and column_name is null
       ), '[]') as unplaced
     from unnest($1::text[], $2::text[]) with ordinality as wanted (view, stream, place)
     join pg_class as view on view.oid = to_regclass(format('bi.%I', wanted.view)) and view.relkind = 'v'
     order by place`,
    [wanted.map(({ view }) => view), wanted.map(({ stream }) => stream)],
  )
  return rows
}

// The data dictionary as people search it. Read-only.
export type FieldLine = {
  readonly stream: string
  readonly sourceName: string
  /** Null when the field has no column: its values are in `_rescued`, or it was only ever null. */
  readonly columnName: string | null
  readonly columnType: string | null
  readonly note: string | null
  readonly firstSeenAt: Date
  readonly lastSeenAt: Date
  readonly rescued: number
  /** From 0 to 1; null before the first record was counted. */
  readonly nullShare: number | null
}

/** Those of a stream (null: of all) whose name or column holds the text, whatever its case. */
export async function readFields(
  client: Queryable,
  { stream, text }: { readonly stream: string | null; readonly text: string },
  limit: number,
): Promise<readonly FieldLine[]> {
  const { rows } = await client.query<FieldLine>(
    `select stream, source_name as "sourceName", column_name as "columnName", column_type as "columnType", note,
       first_seen_at as "firstSeenAt", last_seen_at as "lastSeenAt", rescued::float8 as rescued, null_share::float8 as "nullShare"
     from tidemark.field
     where ($1::text is null or stream = $1)
       and ($2 = '' or strpos(lower(source_name), lower($2)) > 0 or strpos(lower(column_name), lower($2)) > 0)
     order by stream, source_name limit $3`,
    [stream, text, limit],
  )
  return rows
}

/** The streams that have any. */
export async function readFieldStreams(client: Queryable): Promise<readonly string[]> {
  const { rows } = await client.query<{ stream: string }>(
    'select distinct stream from tidemark.field order by stream',
  )
  return rows.map(({ stream }) => stream)
}

// Beliefs about the upstream as people read them. Read-only.
export type BeliefLine = {
  readonly stream: string
  readonly name: string
  readonly value: string
  readonly evidence: string
  readonly firstAt: Date
  readonly testedAt: Date
  /** It is doubted from then on; null: as long as beliefs of its kind last. */
  readonly expiresAt: Date | null
  /** Since when runs rely on it; null: none does. */
  readonly restsSince: Date | null
  readonly previousValue: string | null
  /** When it flipped; null when it never did. */
  readonly changedAt: Date | null
}

export async function readBeliefs(client: Queryable): Promise<readonly BeliefLine[]> {
  const { rows } = await client.query<BeliefLine & Ground & { readonly fieldNow: string | null }>(
    `select stream, name, value, evidence, first_at as "firstAt", tested_at as "testedAt",
       expires_at as "expiresAt", rests_since as "restsSince", previous_value as "previousValue", changed_at as "changedAt",
       version_field as "versionField", rule, (
         select value from tidemark.belief as field
         where field.stream = belief.stream and field.name = 'version_field' and field.expires_at is null
       ) as "fieldNow"
     from tidemark.belief order by stream, name`,
  )
  return rows.map(({ versionField, rule, fieldNow, ...line }) => ({
    ...line,
    expiresAt: isOutdated(line.name, { versionField, rule }, fieldNow) ? line.testedAt : line.expiresAt,
  }))
}
