// Private fields in a history whose table has them no more (P20).

import pg from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { historyColumns } from '../schema/own-columns.ts'
import { qualified } from '../schema/places.ts'
import { historyOf } from '../schema/table-schema.ts'
import type { Queryable } from '../server/session.ts'
import { namesAnySql } from './private-names.ts'

/** Columns of the history that the table has no more, because somebody dropped it, and which of their lines hold values of these fields. */
export async function readPastAlone(client: Queryable, stream: MirroredStream, fields: readonly string[]) {
  const bare = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')
  const { rows } = await client.query<{ name: string; isJson: boolean }>(
    `select attname as name, atttypid = 'jsonb'::regtype as "isJson" from pg_attribute as kept
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped and not exists (
       select from pg_attribute as mine
       where mine.attrelid = to_regclass($2) and mine.attname = kept.attname and not mine.attisdropped
     )`,
    [qualified(historyOf(stream)), qualified(stream)],
  )
  const [wanted, own] = [fields.map(bare), historyColumns.map(({ name }) => name)]
  return rows.flatMap(({ name, isJson }) => {
    const isWanted = wanted.includes(bare(name))
    if (own.includes(name) || !(isWanted || isJson)) return []
    const column = pg.escapeIdentifier(name)
    return { column, where: isWanted ? `${column} is not null` : namesAnySql(`${column}::text`, fields) }
  })
}
