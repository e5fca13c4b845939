// What the dictionary says, compared with what is there: fields that nobody has seen, and codes without a text. Read-only, and of large
// tables only the first rows are looked at.

import pg from 'pg'
import { type Dictionary, foldField, meaningOf } from '../../streams/dictionary.ts'
import { count, nearest } from '../../util/text.ts'
import { inBi } from '../schema/places.ts'
import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { fieldTable } from '../tables/findings.ts'
import { ask } from './ask.ts'

const mostRows = 200_000
/** A column with more different values holds no codes. */
const mostCodes = 30

export type Occurring = { readonly code: string; readonly rows: number }

/** The different values of a column of a view, each with how many of the first rows have it; null: there are too many. */
export async function readCodes(client: Queryable, view: string, column: string) {
  const rows = await queryRows<Occurring>(
    client,
    `select code, count(*)::int as rows
     from (select ${pg.escapeIdentifier(column)}::text as code from ${inBi({ name: view })} limit ${mostRows}) as known
     where code is not null group by code order by rows desc, code limit ${mostCodes + 1}`,
  )
  return rows.length > mostCodes ? null : rows
}

export type Finding = { readonly stream: string; readonly line: number | null; readonly what: string }

/** In the order of the file. Of a stream of which no row came yet, nothing is known. */
export async function findUnfit(client: Queryable, dictionary: Dictionary): Promise<readonly Finding[]> {
  const { stream, sourceName, columnName, columnType } = fieldTable
  const known = Map.groupBy(
    await ask(client, (db) => db.select({ stream, sourceName, columnName, columnType }).from(fieldTable)),
    (field) => field.stream,
  )
  const findings: Finding[] = []
  for (const [name, { fields }] of dictionary) {
    const seen = known.get(name) ?? []
    if (seen.length < leastSeen) continue
    for (const field of fields.values()) {
      const tell = (what: string) => findings.push({ stream: name, line: field.line, what })
      const mine =
        seen.find((one) => meaningOf(dictionary, { name }, one.sourceName) === field) ??
        seen.find((one) => foldField(one.columnName ?? '') === foldField(field.name))
      // What is left out is not known by name, most often.
      if (!mine && !field.omit) tell(`no record had a field ${field.name}${instead(field.name, seen)}`)
      if (!mine?.columnName || !field.values) continue
      if (mine.columnType === 'jsonb') tell(`${field.name} holds objects or lists, and no codes`)
      const codes = await readCodes(client, name, mine.columnName)
      for (const { code, rows } of codes ?? [])
        if (!field.values.has(code))
          tell(
            `${field.name} is ${JSON.stringify(code)} in ${count(rows)} ${rows === 1 ? 'row' : 'rows'}, and has no text for it`,
          )
    }
  }
  return findings
}

/** The key alone says nothing of which fields records have. */
const leastSeen = 2

function instead(name: string, seen: readonly { readonly sourceName: string }[]): string {
  const [near] = nearest(
    name,
    seen.map(({ sourceName }) => sourceName),
  )
  return near === undefined ? '' : `: did you mean ${near}?`
}
