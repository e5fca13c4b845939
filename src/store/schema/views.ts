// The views in schema `bi`: of a stream, its living rows with the upstream's fields only; those of its past are in history-views.ts.
// Columns are only ever appended, so that what people built on top keeps working.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { baseOf, besideIn } from '../../streams/names.ts'
import { queryRow } from '../server/query.ts'
import { hasCode, unlessRefused } from '../server/session.ts'
import { closeNewSql } from './closed-rights.ts'
import { inBi, type Named, qualified } from './places.ts'

export type View = {
  readonly name: string
  readonly describe: string
  /** Columns of the mirror's own that it shows. */
  readonly ownColumns: readonly string[]
  /** The table whose comments on columns are its own as well, quoted. */
  readonly table: string
  /** Comments on columns that the table does not have. */
  readonly meanings?: Readonly<Record<string, string>>
  /** Its query, for these columns in this order. */
  readonly query: (columns: readonly string[]) => string
}

/** `row`: the name of the table or row that has them. */
export const columnsSql = (names: readonly string[], row?: string): string =>
  names
    .map(pg.escapeIdentifier)
    .map((name) => (row === undefined ? name : `${row}.${name}`))
    .join(', ')

export const viewOf = (stream: Named): View => ({
  name: stream.name,
  describe: `${stream.name}: living rows, with the upstream’s fields`,
  ownColumns: ['_synced_at'],
  table: qualified(stream),
  query: (columns) => `select ${columnsSql(columns)} from ${qualified(stream)} where _deleted_at is null`,
})

// Postgres's codes for a view or function that is not ours: the view shows other columns, it is no view, the function returns something
// else, or it belongs to another role.
const isOfOthers = /^42(?:P16|703|809|501|P13)$/

/** Somebody's view or function was built on it. */
export const isBuiltUpon = (error: unknown): error is pg.DatabaseError => hasCode(error, /^2BP01$/)

export async function unlessOthers(
  client: ClientBase,
  { log, what, lack }: { readonly log: Logger; readonly what: string; readonly lack: string },
  make: () => Promise<unknown>,
): Promise<void> {
  const isExpected = (error: unknown): error is pg.DatabaseError =>
    hasCode(error, isOfOthers) || isBuiltUpon(error)
  const refusal = await unlessRefused(client, 'showing', make, isExpected)
  if (refusal === null) return
  const why = isBuiltUpon(refusal) ? 'is used by a view or function' : 'was not made by Tidemark'
  log.warn({ err: refusal }, `${what} ${why}, so it ${lack}.`)
}

export async function refreshView(
  client: ClientBase,
  view: View,
  columns: readonly string[],
  before?: string,
): Promise<void> {
  const shown = await viewColumns(client, view)
  const labels = await readLabels(client, view)
  const asText = await shownAsText(client, view)
  const isLabel = (column: string) => labels.some(({ name }) => name === column)
  const ofTable = [...new Set([...shown, ...columns, ...view.ownColumns])]
  const options = before ?? (await viewOptions(client, view))
  const rows = view.query(ofTable.filter((name) => !isLabel(name)))
  await client.query(
    `create or replace view ${inBi(view)}${options} as ${labels.length + asText.length === 0 ? rows : withTexts(rows, ofTable, { labels, asText })}`,
  )
  if (shown.length === 0) await client.query(closeNewSql(inBi(view)))
  await describeView(client, view)
}

type LabelColumn = {
  readonly name: string
  readonly column: string
  readonly stream: string
  readonly field: string
}

/** The columns of texts in the view of a stream, each with the column whose codes they stand for. A field of that name goes before it. */
async function readLabels(client: ClientBase, view: View): Promise<readonly LabelColumn[]> {
  const { rows } = await client.query<LabelColumn>(
    `with mine as (select attname from pg_attribute where attrelid = to_regclass($2) and not attisdropped)
     select label_column as name, column_name as column, stream, folded as field from tidemark.field
     where stream = $1 and column_name in (select attname from mine) and label_column not in (select attname from mine)
     order by label_column`,
    [view.name, view.table],
  )
  return rows
}

/**
 * Columns that the view shows as text although they are none: the texts of codes stood there before a field of that name came. Postgres
 * changes no type of a view in place.
 */
async function shownAsText(client: ClientBase, view: View): Promise<readonly string[]> {
  if (view.table !== qualified(view)) return []
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute as shown join pg_attribute as told using (attname)
     where shown.attrelid = to_regclass($1) and told.attrelid = to_regclass($2) and not told.attisdropped
       and shown.atttypid = 'text'::regtype and told.atttypid <> 'text'::regtype`,
    [inBi(view), view.table],
  )
  return rows.map(({ name }) => name)
}

type Texts = { readonly labels: readonly LabelColumn[]; readonly asText: readonly string[] }

/** A text that nobody asks for costs nothing: Postgres leaves out the join, because a code has one text. */
function withTexts(rows: string, ofTable: readonly string[], { labels, asText }: Texts): string {
  const all = [...new Set([...ofTable, ...labels.map(({ name }) => name)])]
  const shown = all.map((name) => {
    const quoted = pg.escapeIdentifier(name)
    const place = labels.findIndex((one) => one.name === name)
    if (place >= 0) return `label_${place}.text as ${quoted}`
    return asText.includes(name) ? `mine.${quoted}::text as ${quoted}` : `mine.${quoted}`
  })
  const joins = labels.map(
    ({ column, stream, field }, place) =>
      `left join tidemark.label as label_${place} on label_${place}.stream = ${pg.escapeLiteral(stream)}
         and label_${place}.field = ${pg.escapeLiteral(field)} and label_${place}.code = mine.${pg.escapeIdentifier(column)}::text`,
  )
  return `select ${shown.join(', ')} from (${rows}) as mine ${joins.join(' ')}`
}

/** Comments on the columns of a view whose name is quoted already. */
export const meaningsSql = (view: string, meanings: Readonly<Record<string, string>>): string =>
  Object.entries(meanings)
    .map(([name, words]) => [pg.escapeIdentifier(name), pg.escapeLiteral(words)])
    .map(([column, words]) => `comment on column ${view}.${column} is ${words}`)
    .join(';\n')

/** Copies the table's comments to the view, for the tools that show them. Comments that somebody else wrote stay. */
async function describeView(client: ClientBase, view: View): Promise<void> {
  const { meanings = {} } = view
  const { rows } = await client.query<{ statement: string }>(
    `select format('comment on column %s.%I is %L', $1::text, shown.attname, col_description(told.attrelid, told.attnum)) as statement
     from pg_attribute as shown
     join pg_attribute as told on told.attrelid = to_regclass($2) and told.attname = shown.attname
     where shown.attrelid = to_regclass($1) and shown.attnum > 0
       and col_description(shown.attrelid, shown.attnum) is null and col_description(told.attrelid, told.attnum) is not null
     union all
     select format('comment on column %s.%I is %L', $1, name, meaning)
     from unnest($4::text[], $5::text[]) as own (name, meaning) join pg_attribute on attrelid = to_regclass($1) and attname = name
     where col_description(attrelid, attnum) is null
     union all
     select format('comment on view %s is %L', $1::text, $3::text)
     where obj_description(to_regclass($1), 'pg_class') is null`,
    [inBi(view), view.table, view.describe, Object.keys(meanings), Object.values(meanings)],
  )
  await client.query(rows.map(({ statement }) => statement).join(';\n'))
}

/** Takes the view away for as long as `change` takes. Rights, options and comments stay. It shows these columns then. */
export async function remadeView(
  client: ClientBase,
  view: View,
  change: () => Promise<void>,
  columns: readonly string[],
): Promise<void> {
  const options = await viewOptions(client, view)
  const lost = await statementsFor(
    client,
    view,
    `select format('grant %s on %s to %s%s', privilege_type, $1::text, ${granteeSql}, option)
     from pg_class, aclexplode(relacl), ${optionSql} where oid = to_regclass($1) and grantee <> relowner
     union all
     select format('grant %s (%I) on %s to %s%s', privilege_type, attname, $1::text, ${granteeSql}, option)
     from pg_attribute, aclexplode(attacl), ${optionSql} where attrelid = to_regclass($1) and not attisdropped
     union all
     select case when objsubid = 0 then format('comment on view %s is %L', $1::text, description)
                 else format('comment on column %s.%I is %L', $1::text, attname, description) end
     from pg_description left join pg_attribute on attrelid = objoid and attnum = objsubid and objsubid > 0
     where classoid = 'pg_class'::regclass and objoid = to_regclass($1)`,
  )
  await hideVehicleDays(client, view)
  await client.query(`drop view ${inBi(view)} restrict`)
  await change()
  await refreshView(client, view, columns, options)
  const givenByDefault = await statementsFor(
    client,
    view,
    `select format('revoke all on %s from %s', $1::text, ${granteeSql})
     from pg_class, aclexplode(relacl) where oid = to_regclass($1) and grantee <> relowner`,
  )
  for (const statement of [...givenByDefault, ...lost]) await client.query(statement)
}

/** The view of the days of vehicles, over the table or the history of these. */
export const vehicleDays = ({ name }: Named): string => inBi({ name: besideIn(name, 'tracker_object_day') })

/** The view over a history is made again when the next run opens the table. */
export async function hideVehicleDays(client: ClientBase, history: Named): Promise<void> {
  if (baseOf(history.name) === 'tracker_object_history')
    await client.query(`drop view if exists ${vehicleDays(history)} restrict`)
}

export const granteeSql = `case when grantee = 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end`
export const optionSql = `lateral (select case when is_grantable then ' with grant option' else '' end) as given (option)`

async function statementsFor(client: ClientBase, view: View, text: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ statement: string }>(
    `select * from (${text}) as wanted (statement)`,
    [inBi(view)],
  )
  return rows.map(({ statement }) => statement)
}

/** Such as `security_invoker=true`: what somebody set for the view, as it stands in `with (…)`. */
async function viewOptions(client: ClientBase, view: View): Promise<string> {
  const found = await queryRow<{ options: string }>(
    client,
    `select format(' with (%s)', array_to_string(reloptions, ', ')) as options
     from pg_class where oid = to_regclass($1) and reloptions is not null`,
    [inBi(view)],
  )
  return found?.options ?? ''
}

export async function viewColumns(client: ClientBase, view: Named): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`,
    [inBi(view)],
  )
  return rows.map((row) => row.name)
}
