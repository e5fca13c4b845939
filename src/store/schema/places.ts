// Where the rows of a stream are, in SQL: the tables and views of a source are in schemas of its own.

import pg from 'pg'
import { baseOf, schemasOf, sourceIn } from '../../streams/names.ts'

/** A stream by its key, or what else has a source before its name. */
export type Named = { readonly name: string }
type Kind = keyof ReturnType<typeof schemasOf>

const placed = (kind: Kind, key: string): string => {
  const source = sourceIn(key)
  const schema = schemasOf(source)[kind]
  return `${source === '' ? schema : pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(baseOf(key))}`
}

/** The table of a stream, or of its history. */
export const qualified = ({ name }: Named): string => placed('tables', name)

/** A view of a stream, or what else has its name before its own. */
export const inBi = ({ name }: Named): string => placed('views', name)

/** What holds a month of a history. */
export const inPast = ({ name }: Named): string => placed('past', name)

/** Of a view that has a name before that of the stream, such as `assignment_customer`. */
export const inBiBefore = (before: string, { name }: Named): string =>
  placed('views', `${name.slice(0, name.length - baseOf(name).length)}${before}${baseOf(name)}`)

const placeSql = (key: string, unnamed: string, suffix: string): string =>
  `case when strpos(${key}, '.') = 0 then format('${unnamed}.%I', ${key})
     else format('%I.%I', split_part(${key}, '.', 1) || '${suffix}', split_part(${key}, '.', 2)) end`

/** Of an expression that is the key of a stream: the name of its table, for `to_regclass`. */
export const tableSql = (key: string): string => placeSql(key, 'mirror', '_mirror')

/** The same for its view. */
export const viewSql = (key: string): string => placeSql(key, 'bi', '')

/** Of an expression that is the key of a stream: the schema of its table. */
export const schemaSql = (key: string): string =>
  `case when strpos(${key}, '.') = 0 then 'mirror' else split_part(${key}, '.', 1) || '_mirror' end`

/** Of an expression that is the key of a stream: the name of its table without the schema. */
export const baseSql = (key: string): string => `substr(${key}, strpos(${key}, '.') + 1)`

/** Of an expression that is the key of a stream: its source. */
export const sourceSql = (key: string): string => `left(${key}, greatest(0, strpos(${key}, '.') - 1))`

/** Of the key of a notice, such as `dictionary:acme` and `related_off:acme.assignment`: its source. */
export const noticeSourceSql = `case when split_part(key, ':', 1) in ('source_stopped', 'seen_source_stopped', 'dictionary')
  then split_part(key, ':', 2) else ${sourceSql("split_part(key, ':', 2)")} end`
