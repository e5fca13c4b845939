// Private fields in a history whose table has them no more (P20).

import pg, { type ClientBase } from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { historyColumns } from '../schema/own-columns.ts'
import { qualified } from '../schema/places.ts'
import { historyOf } from '../schema/table-schema.ts'

/** Columns of the history that the table has no more: somebody dropped it, and it was filled anew. */
export async function clearPastAlone(
  client: ClientBase,
  stream: MirroredStream,
  fields: readonly string[],
  holdsField: (text: string) => string,
): Promise<void> {
  const past = qualified(historyOf(stream))
  const bare = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')
  const { rows } = await client.query<{ name: string; isJson: boolean }>(
    `select attname as name, atttypid = 'jsonb'::regtype as "isJson" from pg_attribute as kept
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped and not exists (
       select from pg_attribute as mine
       where mine.attrelid = to_regclass($2) and mine.attname = kept.attname and not mine.attisdropped
     )`,
    [past, qualified(stream)],
  )
  const [wanted, own] = [fields.map(bare), historyColumns.map(({ name }) => name)]
  for (const { name, isJson } of rows) {
    const isWanted = wanted.includes(bare(name))
    if (own.includes(name) || !(isWanted || isJson)) continue
    const column = pg.escapeIdentifier(name)
    const where = isWanted ? `${column} is not null` : holdsField(`${column}::text`)
    await client.query(`update ${past} set ${column} = null where ${where}`)
  }
}
