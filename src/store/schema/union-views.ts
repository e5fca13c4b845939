// A view over several sources shows what their views of one stream show: the source first, columns by their names, each with a type that
// holds the values of all. It is built on the views of the sources, so it never shows more than they do.

import pg, { type ClientBase } from 'pg'
import { baseOf, environmentSource, sourceIn } from '../../streams/names.ts'
import { queryAny } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { inBi } from './places.ts'
import { refreshView, remadeView, type View } from './views.ts'

/** The schema of the views over all sources. Each group has one that begins like it. */
export const fleetSchema = 'fleet'
export const schemaOfUnion = (name: string): string => `${fleetSchema}_${name}`

/** In SQL, of a line of pg_namespace. */
export const isUnionSchemaSql = `(nspname = '${fleetSchema}' or starts_with(nspname, '${fleetSchema}_'))
  and obj_description(pg_namespace.oid, 'pg_namespace') = 'Tidemark: source ' || nspname`

type Column = { readonly name: string; readonly type: string }
type Shown = ReadonlyMap<string, readonly Column[]>

/** Of views by the keys of their streams, in their order; what is no view has none. */
async function readColumns(client: Queryable, keys: readonly string[]): Promise<Shown> {
  const { rows } = await client.query<Column & { key: string }>(
    `select key, attname as name, format_type(atttypid, atttypmod) as type
     from unnest($1::text[], $2::text[]) with ordinality as wanted (key, view, place)
     join pg_attribute on attrelid = to_regclass(view) and attnum > 0 and not attisdropped order by place, attnum`,
    [keys, keys.map((name) => inBi({ name }))],
  )
  return Map.groupBy(rows, ({ key }) => key)
}

const numbers = ['smallint', 'integer', 'bigint', 'numeric']

/** The narrowest type that holds the values of both. */
function widest(one: string, other: string): string {
  if (one === other) return one
  const places = [one, other].map((type) => numbers.indexOf(type.replace(/\(.*/, '')))
  return places.includes(-1) ? 'text' : (numbers[Math.max(...places)] ?? 'text')
}

const sourceColumn = 'source'

/** Once a column has a type, it keeps it or gets a wider one: reports were written for it. */
function typesOf(shown: readonly Column[], members: Shown): ReadonlyMap<string, string> {
  const types = new Map([[sourceColumn, 'text'], ...shown.map(({ name, type }) => [name, type] as const)])
  // A field of that name would say another thing.
  for (const { name, type } of [...members.values()].flat())
    if (name !== sourceColumn) types.set(name, widest(types.get(name) ?? type, type))
  return types
}

function unionOf(name: string, members: Shown, types: ReadonlyMap<string, string>): View {
  const [first = ''] = members.keys()
  return {
    name,
    describe: `${baseOf(name)} of several sources: living rows, each with its source`,
    ownColumns: [sourceColumn],
    table: inBi({ name: first || name }),
    query(columns) {
      const branch = (key: string | null, own: readonly Column[]) => {
        const values = columns.map((column) => {
          const [quoted, type] = [pg.escapeIdentifier(column), types.get(column) ?? 'text']
          const source = key === null ? 'null' : pg.escapeLiteral(sourceIn(key) || environmentSource)
          if (column === sourceColumn) return `${source}::text as ${quoted}`
          const isOwn = own.some((one) => one.name === column)
          return `${isOwn ? quoted : 'null'}::${type} as ${quoted}`
        })
        return `select ${values.join(', ')} ${key === null ? 'where false' : `from ${inBi({ name: key })}`}`
      }
      if (members.size === 0) return branch(null, [])
      return [...members].map(([key, own]) => branch(key, own)).join('\nunion all\n')
    },
  }
}

/** In a transaction. Where a type has to change, the view is made anew, with its rights; rejects if somebody built on it. */
export async function showUnion(client: ClientBase, name: string, keys: readonly string[]): Promise<void> {
  const shown = (await readColumns(client, [name])).get(name) ?? []
  const members = await readColumns(client, keys)
  const types = typesOf(shown, members)
  const columns = [...types.keys()]
  const view = unionOf(name, members, types)
  if (shown.some(({ name: column, type }) => types.get(column) !== type))
    await remadeView(client, view, async () => {}, columns)
  else await refreshView(client, view, columns)
}

export type Union = {
  readonly name: string
  readonly keys: readonly string[]
  /** How many columns of theirs it reads. */
  readonly columns: number
}

/** What there is: each view over sources with the keys of what it shows. */
export async function readUnions(client: Queryable): Promise<readonly Union[]> {
  const { rows } = await client.query<Union>(
    `select mine.nspname || '.' || shown.relname as name, array_remove(array_agg(distinct
         case when place.nspname = 'bi' then used.relname::text else place.nspname || '.' || used.relname end
       ), null) as keys, count(distinct (refobjid, refobjsubid)) filter (where refobjsubid > 0)::int as columns
     from (select oid, nspname from pg_namespace where ${isUnionSchemaSql}) as mine
     join pg_class as shown on shown.relnamespace = mine.oid and shown.relkind = 'v'
     join pg_rewrite on ev_class = shown.oid
     left join pg_depend on classid = 'pg_rewrite'::regclass and objid = pg_rewrite.oid and refclassid = 'pg_class'::regclass and refobjid <> shown.oid
     left join (pg_class as used join pg_namespace as place on place.oid = used.relnamespace) on used.oid = refobjid
     where pg_has_role(shown.relowner, 'usage') and shown.relname <> 'freshness' group by 1 order by 1`,
  )
  return rows
}

/** Whether it shows all columns of these. */
export async function isCurrent(client: Queryable, { name, keys, columns }: Union): Promise<boolean> {
  const own = (await readColumns(client, [name])).get(name) ?? []
  const members = await readColumns(client, keys)
  const types = typesOf(own, members)
  const there = [...members.values()].flat().filter((column) => column.name !== sourceColumn)
  return (
    there.length === columns &&
    types.size === own.length &&
    own.every((one) => types.get(one.name) === one.type)
  )
}

/** In a transaction: takes some views of streams out of all views over sources. Returns those, as they were. */
export async function leaveUnions(client: ClientBase, isToLeave: (key: string) => boolean) {
  if (!(await queryAny(client, `select from pg_namespace where ${isUnionSchemaSql} limit 1`))) return []
  const left = (await readUnions(client)).filter(({ keys }) => keys.some(isToLeave))
  for (const { name, keys } of left) {
    const others = keys.filter((key) => !isToLeave(key))
    await showUnion(client, name, others)
  }
  return left
}
