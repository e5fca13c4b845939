// Makes the table of a stream, with its key, the mirror's own columns and its view. The columns that the data brings are
// table-growth.ts.

import pg, { type ClientBase } from 'pg'
import type { Stream } from '../streams.ts'
import { columnName, foldName } from './column-names.ts'
import type { ColumnType } from './column-types.ts'
import { qualified } from './shape.ts'
import { refreshView } from './views.ts'

export type KeyColumn = { readonly field: string; readonly type: ColumnType }

/** Does nothing when the table is there. Runs inside the caller's transaction, or as one of its own. */
export async function createTable(client: ClientBase, stream: Stream, key: KeyColumn): Promise<void> {
  const table = qualified(stream)
  const name = columnName(key.field)
  const column = pg.escapeIdentifier(name)
  // Two programs that make one table at the same moment would otherwise get an error from the catalog.
  await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [`tidemark create ${stream.name}`])
  try {
    const { rows } = await client.query('select to_regclass($1) is not null as exists', [table])
    if (rows[0]?.exists) return
    await client.query(`
      create table ${table} (
        ${column} ${key.type} primary key,
        _first_seen_at timestamptz not null,
        _synced_at timestamptz not null,
        _deleted_at timestamptz,
        _deleted_reason text,
        _hash bytea not null,
        _rescued jsonb
      );
      create index on ${table} (_synced_at);
      comment on column ${table}.${column} is ${pg.escapeLiteral(`field ${key.field}`)};
      comment on column ${table}._rescued is 'values that fit no column, by their field'`)
    await client.query(
      `insert into tidemark.field (stream, folded, source_name, column_name, column_type) values ($1, $2, $3, $4, $5)
       on conflict (stream, folded) do update set column_name = excluded.column_name, column_type = excluded.column_type`,
      [stream.name, foldName(key.field), key.field, name, key.type],
    )
    await client.query('insert into tidemark.stream (name) values ($1) on conflict do nothing', [stream.name])
    await refreshView(client, stream, [name])
  } finally {
    await client.query('select pg_advisory_unlock(hashtextextended($1, 0))', [
      `tidemark create ${stream.name}`,
    ])
  }
}
