// Makes the table of a stream, with its key, the mirror's own columns and its view. The columns that the data needs are added by
// grow-table.ts.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { baseOf, schemasOf, sourceIn, tableName } from '../../streams/names.ts'
import { queryAny } from '../server/query.ts'
import { changeTable, takeTurn } from '../server/session.ts'
import type { ColumnType } from '../types/table.ts'
import { showColumns } from './change-view.ts'
import { closeNewSql } from './closed-rights.ts'
import { foldName, keyColumnName, keyComment, printable } from './column-names.ts'
import { commentsOn, definitions, ownColumns } from './own-columns.ts'
import { type Named, qualified } from './places.ts'
import { viewOf } from './views.ts'
import { adoptTable, isLocallyChangedSql, toBeAdopted, watchTable } from './watch-table.ts'

export type KeyColumn = { readonly field: string; readonly type: ColumnType }
/** Type null: no table is made, but one that somebody put there is made like those of Tidemark. */
export type WantedKey = KeyColumn | { readonly field: string; readonly type: null }

/**
 * Makes the table of a stream where there is none, and makes sure that it is watched, and like those of Tidemark when somebody put
 * another in its place. A transaction of its own.
 */
export async function createTable(
  client: ClientBase,
  stream: MirroredStream,
  key: WantedKey | null,
  log: Logger,
): Promise<void> {
  if (key !== null && (await isAsNoted(client, stream))) return
  await changeTable(client, tableName(stream.name), 'make or watch', async () => {
    // Two programs that make one table at the same moment would otherwise get an error from the catalog.
    await takeTurn(client, `create ${stream.name}`)
    await client.query('insert into tidemark.stream (name) values ($1) on conflict do nothing', [stream.name])
    await watchTable(client, stream)
    if (key === null) return
    const change = await toBeAdopted(client, stream)
    if (change !== null) await adoptTable(client, stream, keyColumnName(key.field), { change, log })
    if (key.type === null || (await hasTable(client, stream))) return
    await create(client, stream, key, log)
    await watchTable(client, stream)
  })
}

/** Whether the table is there and watched, and nobody changed it: mostly it is so, and one question shows it. */
const isAsNoted = (client: ClientBase, { name }: Named): Promise<boolean> =>
  queryAny(
    client,
    `select from tidemark.stream as known where name = $1 and table_oid is not null and not ${isLocallyChangedSql}`,
    [name],
  )

/** Asks the catalog itself, because to_regclass may still remember that there was no table. */
export const hasTable = (client: ClientBase, { name }: Named): Promise<boolean> =>
  queryAny(client, 'select from pg_tables where schemaname = $1 and tablename = $2', [
    schemasOf(sourceIn(name)).tables,
    baseOf(name),
  ])

async function create(client: ClientBase, stream: MirroredStream, key: KeyColumn, log: Logger) {
  const table = qualified(stream)
  const name = keyColumnName(key.field)
  const column = pg.escapeIdentifier(name)
  await client.query(`
    create table ${table} (${column} ${key.type} primary key, ${definitions(ownColumns)});
    create index on ${table} (_synced_at);
    create index on ${table} (_deleted_at) where _deleted_at is not null;
    ${closeNewSql(table)};
    comment on table ${table} is ${pg.escapeLiteral(`${stream.name}, with deleted rows and Tidemark’s own columns`)};
    comment on column ${table}.${column} is ${keyComment(key.field)};
    ${commentsOn(table, ownColumns)}`)
  await client.query(
    `insert into tidemark.field (stream, folded, source_name, column_name, column_type) values ($1, $2, $3, $4, $5)
     on conflict (stream, folded) do update set column_name = excluded.column_name, column_type = excluded.column_type`,
    [stream.name, foldName(key.field), printable(key.field), name, key.type],
  )
  await showColumns(client, viewOf(stream), [name], log)
}
