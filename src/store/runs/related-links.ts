// Which related records an assignment has, and what becomes of a record that no assignment has any more.

import pg, { type ClientBase } from 'pg'
import { type RelatedStream, relatedIn, relatedNamed } from '../../streams/catalog.ts'
import { baseOf } from '../../streams/names.ts'
import type { Family, RelatedLink } from '../../sync/ports/related.ts'
import type { RelatedOptions } from '../book/related.ts'
import { closeNewSql } from '../schema/closed-rights.ts'
import { inBiBefore, sourceSql } from '../schema/places.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryColumn, queryRows, queryValue } from '../server/query.ts'
import { keyCheck, keyFromSql } from '../types/table.ts'
import { markAbsent } from './absences.ts'

const listOf = (families: readonly Family[]) =>
  families.flatMap(({ due, children }) =>
    children.map(({ stream, keys }) => ({ id: due.assignmentId, stream, keys })),
  )

/**
 * Called before the records themselves are written, so that no record is ever stored that no assignment has. The assignments are noted
 * too, as not read: if this stops before they are, and one of them is deleted then, what it has is still looked for (P8).
 */
export async function addLinks(client: ClientBase, source: string, families: readonly Family[]) {
  const links = listOf(families).flatMap(({ id, stream, keys }) => keys.map((key) => ({ id, stream, key })))
  await client.query(
    `insert into tidemark.related_fetch (source, assignment_id, hash, groups)
     select $2, id, '', '{}' from unnest($1::bigint[]) as shown (id) on conflict do nothing`,
    [families.map(({ due }) => due.assignmentId), source],
  )
  await client.query(
    `insert into tidemark.related_link (assignment_id, stream, key)
     select * from unnest($1::bigint[], $2::text[], $3::text[]) on conflict do nothing`,
    arraysOf(links, 'id', 'stream', 'key'),
  )
}

/** Removes links that were not shown, marks records that no assignment has any more (P7), and returns how many. Within a transaction. */
export async function replaceLinks(
  client: ClientBase,
  { source, streams = [] }: Pick<RelatedOptions, 'streams'> & { readonly source: string },
  families: readonly Family[],
): Promise<number> {
  const groups = listOf(families)
  const links = groups.flatMap(({ id, stream, keys }) => keys.map((key) => ({ id, stream, key })))
  const removed = await queryRows<Unlinked>(
    client,
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
    [...arraysOf(links, 'id', 'stream', 'key'), ...arraysOf(groups, 'id', 'stream')],
  )
  const marked = await markWithoutLinks(client, { source, streams }, removed)
  for (const { name, belongsTo } of relatedIn(source))
    if (belongsTo === 'many' && links.some(({ stream }) => stream === name)) await showLinks(client, name)
  return marked
}

type Unlinked = { readonly stream: string; readonly keys: readonly string[] }

/** Marks those of these records that no assignment has any more, also of groups that are switched off. Within a transaction. */
export async function markWithoutLinks(
  client: ClientBase,
  { source, streams = [] }: Pick<RelatedOptions, 'streams'> & { readonly source: string },
  unlinked: readonly Unlinked[],
): Promise<number> {
  let marked = 0
  for (const { stream, keys } of unlinked)
    marked += await markWithoutLink(
      client,
      [...streams, ...relatedIn(source)].find(({ name }) => name === stream),
      keys,
    )
  return marked
}

async function markWithoutLink(
  client: ClientBase,
  stream: RelatedStream | undefined,
  keys: readonly string[],
): Promise<number> {
  const tableSchema = stream && (await readTableSchema(client, stream))
  if (!tableSchema) return 0
  const key = pg.escapeIdentifier(tableSchema.key.name)
  return await markAbsent(client, tableSchema, {
    where: `mine.${key} = any ($1::${tableSchema.key.type}[])
      and not exists (select from tidemark.related_link where stream = $2 and key = mine.${key}::text)`,
    values: [keys.filter(keyCheck(tableSchema.key.type)), stream.name],
  })
}

/**
 * Makes a view of which assignment has which record: many assignments have one customer, and an assignment has many employees. A record
 * whose key does not fit is in quarantine, and not in the view.
 */
async function showLinks(client: ClientBase, name: string): Promise<void> {
  const stream = relatedNamed(name)
  const tableSchema = stream && (await readTableSchema(client, stream))
  if (!tableSchema) return
  const { type, name: keyName } = tableSchema.key
  const view = inBiBefore('assignment_', { name })
  const before = await queryValue<string>(client, 'select pg_get_viewdef(to_regclass($1))', [view])
  const column = pg.escapeIdentifier(keyName)
  const key = keyFromSql(type, 'key')
  const makeSql = `create or replace view ${view} as
     select assignment_id, ${key} as ${column}
     from tidemark.related_link where stream = ${pg.escapeLiteral(name)} and ${key} is not null`
  if (before !== null) {
    if (before.includes(`(key)::${type} AS`)) await remake(client, makeSql)
    return
  }
  await client.query(
    `${makeSql};
     ${closeNewSql(view)};
     comment on view ${view} is ${pg.escapeLiteral(`which assignment has which ${baseOf(name)}`)};
     comment on column ${view}.assignment_id is 'key of the assignment';
     comment on column ${view}.${column} is ${pg.escapeLiteral(`key of the ${baseOf(name)}`)}`,
  )
}

/** A view of an earlier version, which one key that does not fit kept from being read. While somebody reads it, or if it is not ours, it stays. */
async function remake(client: ClientBase, makeSql: string): Promise<void> {
  await client.query(`savepoint remaking; set local lock_timeout = '200ms'`)
  await client.query(makeSql).catch(() => client.query('rollback to savepoint remaking'))
  await client.query('release savepoint remaking')
}

export const linked = (client: ClientBase, source: string, assignmentIds: readonly string[]) =>
  queryRows<RelatedLink>(
    client,
    `select assignment_id::text as "assignmentId", stream, key from tidemark.related_link
     where assignment_id = any ($1::bigint[]) and ${sourceSql('stream')} = $2`,
    [assignmentIds, source],
  )

export const othersWith = (client: ClientBase, group: string, besides: readonly string[], limit: number) =>
  queryColumn<string>(
    client,
    `select distinct assignment_id::text as "assignmentId" from (
       select assignment_id from tidemark.related_link
       where stream = $1 and assignment_id <> all ($2::bigint[]) order by assignment_id desc limit 1000
     ) as others limit $3`,
    [group, besides, limit],
  )
