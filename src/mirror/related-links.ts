// Which related records an assignment has, and what becomes of a record that no assignment has any more.

import pg, { type ClientBase } from 'pg'
import { relatedStreams } from '../streams.ts'
import type { Family } from '../sync/related-ports.ts'
import { qualified, readShape } from './shape.ts'

const listOf = (families: readonly Family[]) =>
  families.flatMap(({ due, children }) =>
    children.map(({ stream, keys }) => ({ id: due.assignmentId, stream, keys })),
  )

/** Before the records themselves are written, so that none is ever there that nobody has. */
export async function addLinks(client: ClientBase, families: readonly Family[]): Promise<void> {
  const links = listOf(families).flatMap(({ id, stream, keys }) => keys.map((key) => ({ id, stream, key })))
  await client.query(
    `insert into tidemark.related_link (assignment_id, stream, key)
     select * from unnest($1::bigint[], $2::text[], $3::text[]) on conflict do nothing`,
    [links.map(({ id }) => id), links.map(({ stream }) => stream), links.map(({ key }) => key)],
  )
}

/** Within a transaction. Takes away what was not shown, marks records that nobody has any more as deleted (P7), and returns how many. */
export async function replaceLinks(client: ClientBase, families: readonly Family[]): Promise<number> {
  const groups = listOf(families)
  const links = groups.flatMap(({ id, stream, keys }) => keys.map((key) => ({ id, stream, key })))
  const { rows } = await client.query<{ stream: string; keys: string[] }>(
    `with shown as (
       select * from unnest($1::bigint[], $2::text[], $3::text[]) as shown (assignment_id, stream, key)
     ), removed as (
       delete from tidemark.related_link as known
       using unnest($4::bigint[], $5::text[]) as listed (assignment_id, stream)
       where known.assignment_id = listed.assignment_id and known.stream = listed.stream
         and not exists (
           select from shown
           where shown.assignment_id = known.assignment_id and shown.stream = known.stream and shown.key = known.key
         )
       returning known.stream, known.key
     )
     select stream, array_agg(distinct key) as keys from removed group by stream`,
    [
      links.map(({ id }) => id),
      links.map(({ stream }) => stream),
      links.map(({ key }) => key),
      groups.map(({ id }) => id),
      groups.map(({ stream }) => stream),
    ],
  )
  let marked = 0
  for (const { stream, keys } of rows) marked += await markWithoutLink(client, stream, keys)
  for (const { name, belongsTo } of relatedStreams)
    if (belongsTo === 'many' && links.some(({ stream }) => stream === name)) await showLinks(client, name)
  return marked
}

async function markWithoutLink(client: ClientBase, name: string, keys: readonly string[]): Promise<number> {
  const stream = relatedStreams.find((one) => one.name === name)
  const shape = stream && (await readShape(client, stream))
  if (!shape) return 0
  const key = pg.escapeIdentifier(shape.key.name)
  const { rowCount } = await client.query(
    `update ${qualified(shape.stream)} as mine
     set _deleted_at = now(), _deleted_reason = 'absent', _synced_at = now()
     where mine.${key} = any ($1::${shape.key.type}[]) and mine._deleted_at is null
       and not exists (select from tidemark.related_link where stream = $2 and key = mine.${key}::text)`,
    [keys, name],
  )
  return rowCount ?? 0
}

/** Who has which: many assignments have one customer, and an assignment has many employees. */
async function showLinks(client: ClientBase, name: string): Promise<void> {
  const stream = relatedStreams.find((one) => one.name === name)
  const shape = stream && (await readShape(client, stream))
  if (!shape) return
  const view = `bi.${pg.escapeIdentifier(`assignment_${name}`)}`
  const { rows } = await client.query<{ is_there: boolean }>(
    'select to_regclass($1) is not null as is_there',
    [view],
  )
  if (rows[0]?.is_there) return
  await client.query(
    `create view ${view} as
     select assignment_id, key::${shape.key.type} as ${pg.escapeIdentifier(shape.key.name)}
     from tidemark.related_link where stream = ${pg.escapeLiteral(name)};
     comment on view ${view} is ${pg.escapeLiteral(`which assignment has which ${name}`)}`,
  )
}
