// The comments of tables, views and columns, by which tools show what they mean: from the dictionary and from the upstream's description.

import pg, { type ClientBase } from 'pg'
import { viewName } from '../../streams/names.ts'
import { printable } from './column-names.ts'
import { inBi, type Named, qualified } from './places.ts'
import { viewOf } from './views.ts'

type Commented = {
  readonly relation: string
  readonly name: string
  readonly field: string
  /** Of the field, when the column shows the texts of its codes. */
  readonly codes_in: string | null
  readonly description: string | null
  readonly unit: string | null
  readonly allowed: string | null
  readonly refers_to: string | null
  readonly comment: string | null
}

/** The table and its view, where they are what their names say, and nobody else's. */
const ownRelations = `(values ($1::text, 'rp'), ($2::text, 'v')) as own (relation, kinds)
  join pg_class on oid = to_regclass(relation) and strpos(kinds, relkind::text) > 0`

/** Comments on the table, on its view, and on the columns of both. Words that somebody else put there stay. */
export async function describeTable(client: ClientBase, stream: Named, words: string | null): Promise<void> {
  const relations = [qualified(stream), inBi(viewOf(stream))]
  const { rows: columns } = await client.query<Commented>(
    `select relation, attname as name, source_name as field, case when attname = label_column then column_name end as codes_in,
       concat_ws(': ', label, coalesce(meaning, description)) as description, unit,
       coalesce(${textsSql('field')}, array_to_string(allowed_values, ', ')) as allowed, refers_to,
       col_description(attrelid, attnum) as comment
     from ${ownRelations}
     join pg_attribute on attrelid = oid and not attisdropped
     join tidemark.field on stream = $3 and attname in (column_name, case when relkind = 'v' then label_column end)`,
    [...relations, stream.name],
  )
  const statements = columns.flatMap((column) => {
    const { relation, name, field, comment } = column
    const wanted = commentOf(column)
    const own = `${column.codes_in === null ? 'field' : 'text of field'} ${field}`
    const isOurs = comment === null || comment === own || comment.startsWith(`${own}: `)
    return isOurs && comment !== wanted
      ? [`comment on column ${relation}.${pg.escapeIdentifier(name)} is ${pg.escapeLiteral(wanted)}`]
      : []
  })
  const { rows } = await client.query<{ kind: string; relation: string; words: string | null }>(
    `select case relkind when 'v' then 'view' else 'table' end as kind, relation,
       obj_description(oid, 'pg_class') as words
     from ${ownRelations}`,
    relations,
  )
  for (const { kind, relation, words: before } of words === null ? [] : rows) {
    const [own = ''] = (before ?? '').split(': “')
    const wanted = `${own}: “${printable(words ?? '').slice(0, longestComment)}”`
    const isOurs = own === viewOf(stream).describe || own.startsWith(`${stream.name}, with deleted rows`)
    if (isOurs && before !== wanted)
      statements.push(`comment on ${kind} ${relation} is ${pg.escapeLiteral(wanted)}`)
  }
  if (statements.length > 0) await client.query(statements.join(';\n'))
}

const longestComment = 2_000

/** `1 = New, 2 = Planned`, of a line of `tidemark.field`. */
export const textsSql = (line: string): string => `(
  select string_agg(code || ' = ' || text, ', ' order by length(code), code)
  from tidemark.label where label.stream = ${line}.stream and label.field = ${line}.folded
)`

/** `field assignmentPriority: Priority: 1 is highest. Unit: 1. One of 1, 2, 3. Refers to bi.x.` */
function commentOf({ field, codes_in: codes, description, unit, allowed, refers_to: to }: Commented): string {
  if (codes !== null) return `text of field ${field}: what stands for ${codes}`
  const words = [
    description || null,
    unit && `Unit: ${unit}.`,
    allowed && `One of ${allowed}.`,
    to && `Refers to ${viewName(to)}.`,
  ].filter((part) => part !== null)
  const comment = words.length === 0 ? `field ${field}` : `field ${field}: ${words.join(' ')}`
  return comment.length > longestComment ? `${comment.slice(0, longestComment - 1)}…` : comment
}
