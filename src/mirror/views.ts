// The view of a stream in schema `bi`: living rows, the upstream's fields only. Columns are only ever appended, so that
// what people built on top keeps working.

import pg, { type ClientBase } from 'pg'
import type { Logger } from '../log.ts'
import type { Stream } from '../streams.ts'
import { qualified } from './shape.ts'

const viewOf = (stream: Stream): string => `bi.${pg.escapeIdentifier(stream.name)}`

// What Postgres says to changing a view that shows other things, or is no view, or is not ours to change.
const otherView = new Set(['42P16', '42703', '42809', '42501'])

/** Shows these columns besides those it shows already. A view that somebody put in place of ours must not stop the mirror. */
export async function showColumns(
  client: ClientBase,
  stream: Stream,
  columns: readonly string[],
  log: Logger,
): Promise<void> {
  await client.query('savepoint showing')
  try {
    await refreshView(client, stream, columns)
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && otherView.has(error.code ?? ''))) throw error
    await client.query('rollback to savepoint showing')
    log.warn(
      { err: error, stream: stream.name },
      'the view in schema bi is not ours and does not show new columns',
    )
  }
  await client.query('release savepoint showing')
}

async function refreshView(client: ClientBase, stream: Stream, columns: readonly string[]): Promise<void> {
  const names = [...new Set([...(await viewColumns(client, stream)), ...columns, '_synced_at'])]
  await client.query(
    `create or replace view ${viewOf(stream)} as
     select ${names.map(pg.escapeIdentifier).join(', ')} from ${qualified(stream)} where _deleted_at is null`,
  )
}

/** Takes the view away for as long as `change` takes, because Postgres changes no type that a view shows. */
export async function withoutView(
  client: ClientBase,
  stream: Stream,
  change: () => Promise<void>,
): Promise<void> {
  const columns = await viewColumns(client, stream)
  const { rows: grants } = await client.query<{ statement: string }>(
    `select format('grant %s on %s to %s', privilege_type, $1::text,
                   case when grantee = 0 then 'public' else quote_ident(pg_get_userbyid(grantee)) end) as statement
     from pg_class, aclexplode(relacl) where oid = to_regclass($1) and grantee <> relowner`,
    [viewOf(stream)],
  )
  await client.query(`drop view if exists ${viewOf(stream)} restrict`)
  await change()
  if (columns.length > 0) await refreshView(client, stream, columns)
  for (const { statement } of grants) await client.query(statement)
}

async function viewColumns(client: ClientBase, stream: Stream): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`,
    [viewOf(stream)],
  )
  return rows.map((row) => row.name)
}
