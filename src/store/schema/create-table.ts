// Makes the table of a stream, with its key, the mirror's own columns and its view. The columns that the data brings are
// table-growth.ts.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { inTransaction } from '../server/session.ts'
import { type ColumnType, columnName, fieldComment, foldName, printable } from './column-types.ts'
import { commentsOn, definitions, ownColumns } from './own-columns.ts'
import { qualified } from './table-schema.ts'
import { showColumns, viewOf } from './views.ts'

export type KeyColumn = { readonly field: string; readonly type: ColumnType }

/** Does nothing when the table is there. A transaction of its own. */
export async function createTable(
  client: ClientBase,
  stream: MirroredStream,
  key: KeyColumn,
  log: Logger,
): Promise<void> {
  await inTransaction(client, async () => {
    // Two programs that make one table at the same moment would otherwise get an error from the catalog.
    await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [
      `tidemark create ${stream.name}`,
    ])
    // Asked of the catalog itself: to_regclass may still remember that there was none.
    const { rows } = await client.query(
      "select from pg_tables where schemaname = 'mirror' and tablename = $1",
      [stream.name],
    )
    if (rows.length === 0) await create(client, stream, key, log)
  })
}

async function create(
  client: ClientBase,
  stream: MirroredStream,
  key: KeyColumn,
  log: Logger,
): Promise<void> {
  const table = qualified(stream)
  const name = columnName(key.field)
  const column = pg.escapeIdentifier(name)
  await client.query(`
    create table ${table} (${column} ${key.type} primary key, ${definitions(ownColumns)});
    create index on ${table} (_synced_at);
    comment on table ${table} is ${pg.escapeLiteral(`${stream.name}, with deleted rows and Tidemark’s own columns`)};
    comment on column ${table}.${column} is ${fieldComment(key.field)};
    ${commentsOn(table, ownColumns)}`)
  await client.query(
    `insert into tidemark.field (stream, folded, source_name, column_name, column_type) values ($1, $2, $3, $4, $5)
     on conflict (stream, folded) do update set column_name = excluded.column_name, column_type = excluded.column_type`,
    [stream.name, foldName(key.field), printable(key.field), name, key.type],
  )
  await client.query('insert into tidemark.stream (name) values ($1) on conflict do nothing', [stream.name])
  await showColumns(client, viewOf(stream), [name], log)
}
