// The index by which deleted rows are counted. A new table has it; tables of earlier versions get it here, while others go on reading and
// writing. Without it, as on a table that belongs to another role, deleted rows are not counted.

import type { ClientBase } from 'pg'
import type { Logger } from '../../log.ts'

/** While it waits for somebody's long query, the start of the worker waits as well. */
const longestWaitMs = 20_000

/** An index on this column alone that has a condition: to read the condition, Postgres would lock the table. */
const lackingSql = `
  select mirrored.oid::regclass::text as table, (
    select broken.indexrelid::regclass::text from pg_index as broken
    where broken.indrelid = mirrored.oid and not broken.indisvalid and broken.indpred is not null and broken.indkey[0] = own.attnum
    limit 1
  ) as broken
  from pg_class as mirrored
  join tidemark.stream on stream.name = mirrored.relname
  join pg_attribute as own on own.attrelid = mirrored.oid and own.attname = '_deleted_at' and not own.attisdropped
  where mirrored.relnamespace = to_regnamespace('mirror') and mirrored.relkind = 'r' and pg_has_role(mirrored.relowner, 'USAGE')
    and not exists (
      select from pg_index as its
      where its.indrelid = mirrored.oid and its.indisvalid and its.indpred is not null and its.indnatts = 1 and its.indkey[0] = own.attnum
    )`

/** What cannot be made now is made at another start. */
export async function indexDeletedRows(client: ClientBase, log: Logger): Promise<void> {
  const { rows } = await client.query<{ table: string; broken: string | null }>(lackingSql)
  if (rows.length === 0) return
  await client.query(`set lock_timeout = ${longestWaitMs}`)
  for (const { table, broken } of rows)
    try {
      if (broken !== null) await client.query(`drop index concurrently if exists ${broken}`)
      await client.query(`create index concurrently on ${table} (_deleted_at) where _deleted_at is not null`)
    } catch (error) {
      log.info(
        { err: error, table },
        'The index of deleted rows could not be made yet; the next start tries again.',
      )
    }
  await client.query('reset lock_timeout')
}
