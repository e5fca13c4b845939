// `bi.dictionary`: every column of the views of streams, with what is known of it, for those who read the views.

import { hash } from 'node:crypto'
import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { keyIn, schemasOf } from '../../streams/names.ts'
import { changeTable } from '../server/session.ts'
import { closeNewSql } from './closed-rights.ts'
import { textsSql } from './comments.ts'
import { baseSql, inBi } from './places.ts'
import { meaningsSql, unlessOthers } from './views.ts'

/** The catalog is asked by names: a role that may not use a schema cannot have its tables looked up. */
const queryOf = (source: string): string => {
  const { tables, views } = schemasOf(source)
  const nameSql = source === '' ? 'stream.name' : baseSql('stream.name')
  return `
  select view.relname::text as "view", shown.attname::text as "column", field.source_name as field,
    field.label as label, format_type(shown.atttypid, shown.atttypmod) as type,
    case when shown.attname = field.label_column then 'text of ' || field.column_name
      when field.folded is null then own.description else coalesce(field.meaning, field.description) end as description,
    field.unit as unit,
    exists (
      select from pg_index
      join pg_class as keyed on keyed.oid = indrelid and keyed.relname = view.relname and keyed.relnamespace = '${tables}'::regnamespace
      join pg_attribute as part on part.attrelid = indrelid and part.attnum = any (indkey)
      where indisprimary and part.attname = shown.attname
    ) as key,
    case when shown.attname = field.column_name then field.refers_to end as refers_to,
    case when shown.attname = field.column_name then field.reference_share end as reference_share,
    coalesce(${textsSql('field')}, array_to_string(field.allowed_values, ', ')) as allowed_values,
    field.null_share as empty_share,
    case when shown.attname = field.column_name then field.rescued end as misfits
  from pg_class as view
  join pg_namespace as place on place.oid = view.relnamespace and place.nspname = '${views}'
  join tidemark.stream on view.relname in (
    select ${nameSql} || ending from unnest(array['', '_history', '_versions', '_changes', '_day']) as ending
  )${source === '' ? '' : ` and starts_with(stream.name, '${source}.')`}
  join pg_attribute as shown on shown.attrelid = view.oid and shown.attnum > 0 and not shown.attisdropped
  left join pg_description as own on own.classoid = 'pg_class'::regclass and own.objoid = view.oid and own.objsubid = shown.attnum
  left join tidemark.field on field.stream = stream.name and shown.attname in (field.column_name, field.label_column)
  where view.relkind = 'v'
  order by view.relname, shown.attnum`
}

const meanings: Readonly<Record<string, string>> = {
  view: 'view in schema bi',
  column: 'its column',
  field: 'field of the upstream’s record; empty for columns of Tidemark’s own',
  label: 'what people call it, by the dictionary',
  type: 'type of the column',
  description: 'what it means, by the dictionary or else by the upstream’s description',
  unit: 'unit of its numbers',
  key: 'whether it is the key of the view, or part of it',
  refers_to: 'view whose keys its values are',
  reference_share: 'share of its values that this view has, from 0 to 1',
  allowed_values: 'the values that it may have, each with its text where it has one',
  empty_share: 'share of the records in which it was empty, from 0 to 1',
  misfits: 'how many values did not fit the column; they are in _rescued of the table',
}

/** Made anew only when it is another one than before: whoever reads it meanwhile has it locked. A view that somebody has in its place stays. */
export async function showDictionary(client: ClientBase, source: string, log: Logger): Promise<void> {
  const [lacking] = await lackingDictionaries(client, [source])
  if (!lacking) return
  const { view, query, comment, before } = lacking
  const statements = [
    `create or replace view ${view} as ${query}`,
    `comment on view ${view} is ${pg.escapeLiteral(comment)}`,
    meaningsSql(view, meanings),
    ...(before === null ? [closeNewSql(view)] : []),
  ]
  const what = { log, what: view, lack: 'does not say what the columns mean' }
  await changeTable(client, view, 'make', () =>
    unlessOthers(client, what, () => client.query(statements.join(';\n'))),
  )
}

type Known = { readonly source: string; readonly view: string; readonly before: string | null }

/** Of these sources. */
export async function lackingDictionaries(client: ClientBase, sources: readonly string[]) {
  const viewOf = (source: string) => inBi({ name: keyIn(source, 'dictionary') })
  const { rows } = await client.query<Known>(
    `select source, view, obj_description(to_regclass(view), 'pg_class') as before
     from unnest($1::text[], $2::text[]) with ordinality as wanted (source, view, place) order by place`,
    [sources, sources.map(viewOf)],
  )
  return rows.flatMap((known) => {
    const query = queryOf(known.source)
    const edition = hash('sha256', query).slice(0, 8)
    const comment = `what is known of each column of the views of streams (edition ${edition})`
    return known.before === comment ? [] : [{ ...known, query, comment }]
  })
}
