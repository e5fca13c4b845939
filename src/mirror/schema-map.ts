// What is in schema `bi`: its views with their columns, and what is known of the fields behind them. Read-only.

import type { ClientBase } from 'pg'
import { type MirroredStream, relatedStreams } from '../streams.ts'
import { historyOf } from './shape.ts'

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
  client: Pick<ClientBase, 'query'>,
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
                  'nullShare', null_share, 'firstSeenAt', first_seen_at, 'rescued', coalesce(rescued, 0), 'note', note
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
