// Erasing (P20): removes records from here, in one transaction: rows, their past, and all that is kept under their keys. Texts that name a
// key stay, such as notes of runs, evidence and recorded calls; docs/guides/privacy.md lists them.
// Nothing that is known of the stream changes with it: neither its position, nor what is settled, nor which deletions are known.

import pg, { type ClientBase, type Pool } from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import { foldField } from '../../streams/dictionary.ts'
import { isAssignments, sourceIn } from '../../streams/names.ts'
import { inOneTransaction } from '../book/ask.ts'
import { qualified, sourceSql } from '../schema/places.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { queryColumn, queryCount, queryRow, queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import { keyCheck } from '../types/table.ts'
import { markWithoutLinks } from './related-links.ts'

/** How many traces of each kind. */
export type Traces = ReturnType<typeof noTraces>
const noTraces = () => ({ rows: 0, history: 0, quarantine: 0, notes: 0 })

type Erasing = {
  readonly stream: MirroredStream
  readonly keys: readonly string[]
  readonly keepsRows?: boolean
}

/** All together or nothing. As a dry run nothing, and it is told what would be. */
export const eraseAll = (
  pool: Pool,
  erasing: readonly Erasing[],
  { isDryRun = false }: { readonly isDryRun?: boolean } = {},
): Promise<Traces> =>
  inOneTransaction(pool, async (client) => {
    const all = noTraces()
    if (!isDryRun) for (const { stream, keys } of erasing) await fenceOlder(client, stream, keys)
    for (const { stream, keys, ...how } of erasing) {
      const traces = await eraseKeys(client, stream, keys, how)
      for (const kind of ['rows', 'history', 'quarantine', 'notes'] as const) all[kind] += traces[kind]
    }
    // What is left of the transaction is its end.
    if (isDryRun) await client.query(`rollback; begin`)
    return all
  })

/** A run that began before a row was marked may hold an answer in which its record still is: it writes no more, and is begun anew. */
async function fenceOlder(client: ClientBase, stream: MirroredStream, keys: readonly string[]) {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return
  const { name, type } = tableSchema.key
  await client.query(
    `update tidemark.lease set epoch = epoch + 1
     where stream = $1 and (run ->> 'at')::timestamptz < (
       select max(_deleted_at) from ${qualified(stream)} as mine where mine.${pg.escapeIdentifier(name)} = any ($2::${type}[])
     )`,
    [stream.name, keys.filter(keyCheck(type))],
  )
}

/** `keepsRows`: the records exist upstream, and their rows stay, with the last line of their past. Within a transaction. */
async function eraseKeys(
  client: ClientBase,
  stream: MirroredStream,
  keys: readonly string[],
  { keepsRows = false }: { readonly keepsRows?: boolean } = {},
): Promise<Traces> {
  const tableSchema = await readTableSchema(client, stream)
  const erased = noTraces()
  const remove = async (table: string, where: string, values: readonly unknown[]) =>
    await queryCount(client, `delete from ${table} as mine where ${where}`, values)
  const ofTable = tableSchema ? keys.filter(keyCheck(tableSchema.key.type)) : []
  if (tableSchema && ofTable.length > 0) {
    const key = pg.escapeIdentifier(tableSchema.key.name)
    const isOne = `mine.${key} = any ($1::${tableSchema.key.type}[])`
    if (!keepsRows) erased.rows = await remove(qualified(stream), isOne, [ofTable])
    const history = tableSchema.history?.table
    const isOld = `exists (select from ${history} as later where later.${key} = mine.${key} and later._observed_at > mine._observed_at)`
    if (history)
      erased.history = await remove(history, keepsRows ? `${isOne} and ${isOld}` : isOne, [ofTable])
  }
  const isNamed = 'mine.stream = $1 and mine.key = any ($2::text[])'
  const named = [stream.name, keys]
  erased.quarantine = await remove('tidemark.quarantine', isNamed, named)
  if (tableSchema)
    erased.quarantine += await remove('tidemark.quarantine', hasKeySql, [
      ...[stream.name, tableSchema.key.field, keys],
      patternOf(tableSchema.key.field, keys),
    ])
  const ofRows = keepsRows ? [] : ['pinned_record', 'doubt']
  for (const table of ['difference', 'late_arrival', 'suspect', ...ofRows])
    erased.notes += await remove(`tidemark.${table}`, isNamed, named)
  if (!keepsRows) erased.notes += await unlink(client, stream, keys)
  erased.notes += await forgetSamples(client, stream, keys)
  return erased
}

/** Of what the upstream lists no more the key is not kept: it stands in the record itself. */
const hasKeySql = `mine.stream = $1 and mine.key is null and (
  exists (
    select from jsonb_each_text(case jsonb_typeof(record) when 'object' then record end) as field (name, value)
    where lower(name) = lower($2) and value = any ($3::text[])
  ) or record_text ~* $4
)`

/** Of JSON that jsonb cannot hold. */
function patternOf(field: string, keys: readonly string[]): string {
  const exactly = (text: string) => text.replaceAll(/[^\p{L}\p{N}]/gu, '\\$&')
  return `"${exactly(field)}"\\s*:\\s*"?(${keys.map(exactly).join('|')})"?\\s*[,}]`
}

/** What only an erased assignment had is marked as deleted, as if its related records had been read once more. */
async function unlink(client: ClientBase, { name, kind }: MirroredStream, keys: readonly string[]) {
  const remove = (text: string) => queryCount(client, `delete from ${text}`, [name, keys])
  if (kind === 'related')
    return await remove('tidemark.related_link where stream = $1 and key = any ($2::text[])')
  if (!isAssignments(name)) return 0
  const ofAssignments = 'assignment_id::text = any ($2::text[])'
  const links = await queryRows<{ stream: string; key: string }>(
    client,
    `delete from tidemark.related_link where ${sourceSql('stream')} = ${sourceSql('$1')} and ${ofAssignments} returning stream, key`,
    [name, keys],
  )
  const unlinked = [...Map.groupBy(links, ({ stream }) => stream)].map(([stream, lost]) => ({
    stream,
    keys: lost.map(({ key }) => key),
  }))
  await markWithoutLinks(client, { source: sourceIn(name) }, unlinked)
  const read = await remove(`tidemark.related_fetch where source = ${sourceSql('$1')} and ${ofAssignments}`)
  return links.length + read
}

/** Keys among the samples of problems, and of fields that are watched. */
async function forgetSamples(client: ClientBase, { name }: MirroredStream, keys: readonly string[]) {
  const missed = await queryCount(
    client,
    `update tidemark.missed_rows set samples = (
       select coalesce(jsonb_agg(sample), '[]') from jsonb_array_elements(samples) as sample where sample ->> 'key' <> all ($2::text[])
     )
     where stream = $1 and exists (
       select from jsonb_array_elements(samples) as sample where sample ->> 'key' = any ($2::text[])
     )`,
    [name, keys],
  )
  const watched = await queryCount(
    client,
    `update tidemark.field set steady_sample = jsonb_set(steady_sample, '{records}', (steady_sample -> 'records') - $2::text[])
     where stream = $1 and steady_sample -> 'records' ?| $2::text[]`,
    [name, keys],
  )
  return missed + watched
}

export type Relatives = {
  readonly stream: MirroredStream
  readonly keys: readonly string[]
  readonly living: number
}

const ownerField = 'assignmentid'

/**
 * The records that only this assignment has: those of its groups that no other assignment is known to have, and rows of other streams that
 * name it and are marked as deleted. `living`: how many of those exist upstream, so that they stay.
 */
export async function relativesOf(client: Queryable, streams: readonly MirroredStream[], key: string) {
  const relatives: Relatives[] = []
  for (const stream of streams) {
    const tableSchema = isAssignments(stream.name) ? null : await readTableSchema(client, stream)
    if (!tableSchema) continue
    const found = await queryRow<{ keys: readonly string[]; living: number }>(
      client,
      `select coalesce(array_agg(key) filter (where not is_living), '{}') as keys,
         count(*) filter (where is_living)::float8 as living
       from (${ownedSql(tableSchema)}) as owned`,
      [key, stream.name],
    )
    if (found && found.keys.length + found.living > 0) relatives.push({ stream, ...found })
  }
  return relatives
}

function ownedSql(tableSchema: TableSchema): string {
  const key = `mine.${pg.escapeIdentifier(tableSchema.key.name)}::text`
  const owner = tableSchema.columns.find(({ field }) => foldField(field) === ownerField)
  const isOwned = owner ? `mine.${pg.escapeIdentifier(owner.name)}::text = $1` : 'false'
  const hasLink = (of: string) =>
    `exists (select from tidemark.related_link as link where link.stream = $2 and link.key = ${key} and link.assignment_id::text ${of} $1)`
  return `select ${key} as key, mine._deleted_at is null and not ${hasLink('=')} as is_living
    from ${qualified(tableSchema.stream)} as mine
    where (${isOwned} or ${hasLink('=')}) and not ${hasLink('<>')}`
}

/** Keys of rows that were marked as deleted so long ago, in any order. Not of related records that an assignment still shows so marked. */
export async function longDeleted(
  client: Queryable,
  stream: MirroredStream,
  {
    ageMs,
    reason,
    limit,
  }: { readonly ageMs: number; readonly reason: 'absent' | 'source'; readonly limit: number },
): Promise<readonly string[]> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return []
  const key = `${pg.escapeIdentifier(tableSchema.key.name)}::text`
  return await queryColumn<string>(
    client,
    `select ${key} as key from ${qualified(stream)}
     where _deleted_at < now() - make_interval(secs => $1::float8 / 1000) and _deleted_reason = $2
       and not exists (select from tidemark.related_link as link where link.stream = $4 and link.key = ${key})
     order by random() limit $3`,
    [ageMs, reason, limit, stream.name],
  )
}
