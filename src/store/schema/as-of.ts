// The functions `bi.<stream>_at(moment)`, which show the rows of a stream as they were, with the columns of its view. Postgres puts such a
// function in place, so that what a query asks for (one key, some columns) reaches the index on key and time.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import { besideIn, sourceIn } from '../../streams/names.ts'
import { queryRow } from '../server/query.ts'
import { inBi, type Named, viewSql } from './places.ts'
import { historyOf, type TableSchema } from './table-schema.ts'
import { granteeSql, optionSql, unlessOthers } from './views.ts'

export const asOfName = ({ name }: Named): string => `${inBi({ name: `${name}_at` })}(timestamptz)`

/** By it Tidemark knows its own functions: those that somebody changed stay. */
const mark = '-- Tidemark makes this anew for each new column. To change it, take this line out.'
/** What earlier versions made. */
const former =
  '^\\s*(select \\(latest\\.kept\\)\\.\\* from \\(\\s*select distinct on \\(kept\\."(?:[^"]|"")+"\\) kept from .* as kept' +
  '\\s*where kept\\._observed_at <= \\$1 order by kept\\."(?:[^"]|"")+", kept\\._observed_at desc' +
  '\\s*\\) as latest where \\(latest\\.kept\\)\\._deleted_at is null' +
  '|(with recursive known \\(key, place\\) as .*)?select \\* from \\(\\s*select distinct on .* where _observed_at <= \\$1 order by [^;]*' +
  '\\) as latest where _deleted_at is null( and \\(select max\\(place\\) from known\\) > 1000)?)\\s*$'

type Known = {
  readonly isOurs: boolean
  /** As they are declared; null: it was dropped. */
  readonly columns: string | null
  readonly rights: readonly string[]
}

/** In SQL, of the key of a stream: whether an earlier version made its function. */
export const isFormerSql = (key: string): string => `exists (
  select from pg_proc where oid = to_regprocedure(${viewSql(`${key} || '_at'`)} || '(timestamptz)') and prosrc ~ ${pg.escapeLiteral(former)}
)`

/** Null: there is none. */
export async function readAsOf(client: ClientBase, stream: Named): Promise<Known | null> {
  return await queryRow<Known>(
    client,
    `select strpos(prosrc, $2) > 0 or prosrc ~ $3 as "isOurs",
       coalesce((
         select string_agg(format('"%s" %s', replace(name, '"', '""'), format_type(type, null)), ', ' order by place)
         from unnest(proargnames, proallargtypes, proargmodes) with ordinality as arguments (name, type, mode, place) where mode = 't'
       ), '') as columns,
       array(
         select format('grant execute on function %s to %s%s', $1::text, ${granteeSql}, option)
         from aclexplode(coalesce(proacl, acldefault('f', proowner))), ${optionSql} where grantee <> proowner
       ) as rights
     from pg_proc where oid = to_regprocedure($1)`,
    [asOfName(stream), mark, former],
  )
}

/** Makes the function, or makes it anew. One that somebody put in its place stays, and must not stop the mirror. */
export async function showAsOf(client: ClientBase, tableSchema: TableSchema, log: Logger): Promise<void> {
  const known = await readAsOf(client, tableSchema.stream)
  if (known && !known.isOurs) return
  const what = { log, what: asOfName(tableSchema.stream), lack: 'does not show new columns' }
  await unlessOthers(client, what, () => makeAsOf(client, tableSchema, known))
}

/** Takes the function away for as long as `change` takes: the types of its columns are its own. Rights stay. */
export async function withoutAsOf(client: ClientBase, tableSchema: TableSchema, change: () => Promise<void>) {
  const known = await readAsOf(client, tableSchema.stream)
  if (!known?.isOurs) return await change()
  await client.query(`drop function ${asOfName(tableSchema.stream)} restrict`)
  await change()
  await makeAsOf(client, tableSchema, { ...known, columns: null })
}

/** `known`: the one before it. If it has other columns it has to go first, unless that was done. */
async function makeAsOf(
  client: ClientBase,
  tableSchema: TableSchema,
  known: Pick<Known, 'rights' | 'columns'> | null,
): Promise<void> {
  const { stream } = tableSchema
  const name = asOfName(stream)
  const { columns, body } = await readBody(client, tableSchema)
  const isNew = known === null || known.columns === null
  const rights = known?.rights ?? [`grant execute on function ${name} to public`]
  await client.query(
    [
      ...(isNew || known.columns === columns ? [] : [`drop function ${name} restrict`]),
      `create or replace function ${name} returns table (${columns}) language sql stable as $as_of$${body}$as_of$`,
      `comment on function ${name} is ${pg.escapeLiteral(`the living rows of ${stream.name} as they were at a moment`)}`,
      ...(known?.columns === columns ? [] : [`revoke all on function ${name} from public`, ...rights]),
    ].join(';\n'),
  )
}

type Shown = {
  readonly name: string
  readonly type: string
  readonly from: string | null
  /** Of a column that has the texts of another's codes: which column, and the field by which the texts are kept. */
  readonly codes: string | null
  readonly field: string | null
}

/** With the columns of the view as it is; a column of it that the history lacks is empty. Texts of codes are those of today. */
async function readBody(client: ClientBase, { stream, key, history }: TableSchema) {
  const { rows } = await client.query<Shown>(
    `select attname as name, format_type(atttypid, null) as type, history_from::text as from, column_name as codes, folded as field
     from pg_attribute join tidemark.stream on stream.name = $2
     left join tidemark.field on field.stream = $2 and label_column = attname
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`,
    [inBi(stream), stream.name],
  )
  // Who calls the function of a source may read its own state alone.
  const labels =
    sourceIn(stream.name) === '' ? 'tidemark.label' : inBi({ name: besideIn(stream.name, 'label') })
  const shown = rows.map(({ name, type, codes, field }) => {
    if (name === '_synced_at') return 'latest._observed_at'
    // The view may show it as text: see `shownAsText`.
    if (history?.columns.includes(name)) return `latest.${pg.escapeIdentifier(name)}::${type}`
    if (codes === null || field === null || !history?.columns.includes(codes)) return `null::${type}`
    const [ofStream, ofField] = [stream.name, field].map(pg.escapeLiteral)
    return `(
      select text from ${labels}
      where label.stream = ${ofStream} and label.field = ${ofField} and code = latest.${pg.escapeIdentifier(codes)}::text
    )`
  })
  const lines = inBi(historyOf(stream))
  const keyName = pg.escapeIdentifier(key.name)
  const rowsSql = stream.kind === 'changes' ? newestSql(lines, keyName, '') : byKeySql(lines, keyName)
  const since = `${pg.escapeLiteral(stream.name)}, ${pg.escapeLiteral(rows[0]?.from ?? '-infinity')}, $1`
  return {
    columns: rows.map(({ name, type }) => `${pg.escapeIdentifier(name)} ${type}`).join(', '),
    body: `
  ${mark}
  select ${shown.join(', ')}
  from (${rowsSql}) as latest
  where ${inBi({ name: besideIn(stream.name, 'history_reaches') })}(${since})
`,
  }
}

/** With a condition on the key, that key alone is read. Without one, all lines are. */
const newestSql = (lines: string, key: string, condition: string): string => `
    select * from (
      select distinct on (${key}) * from ${lines} where _observed_at <= $1 order by ${key} desc, _observed_at desc
    ) as newest where _deleted_at is null${condition}
  `

const mostKeys = 1_000

// A list has few records and many lines of each, most often: then looking up each key beats reading all lines. The keys are found one
// after the other in the index, up to a limit. Of each the newest line is looked up. Two values are compared at once, because with `=`
// Postgres may prefer the index on the time alone, and read all lines for a key that changed long ago.
const byKeySql = (lines: string, key: string): string => `
    with recursive known (key, place) as (
      (select ${key}, 1 from ${lines} order by ${key} limit 1)
      union all
      select following.key, place + 1 from known, lateral (
        select ${key} as key from ${lines} where ${key} > known.key order by ${key} limit 1
      ) as following where place <= ${mostKeys}
    )
    select newest.* from known, lateral (
      select * from ${lines} as kept
      where (kept.${key}, kept._observed_at) <= (known.key, $1) and kept.${key} >= known.key and kept._observed_at <= $1
      order by kept.${key} desc, kept._observed_at desc limit 1
    ) as newest
    where newest._deleted_at is null and newest.${key} = known.key and (select max(place) from known) <= ${mostKeys}
    union all${newestSql(lines, key, ` and (select max(place) from known) > ${mostKeys}`)}`
