// What a complete listing lacked (P7): a row is marked deleted when the complete listing before lacked it too. A listing
// that is empty or has shrunk by more than a fifth proves nothing and is held for an operator, who believes a number of rows.

import pg, { type ClientBase } from 'pg'
import { type Absences, isDoubtful, type Shortfall } from '../../sync/ports/store.ts'
import { storeBlockedDeletions } from '../queries/symptoms.ts'
import { keepingSql } from '../schema/row-history.ts'
import { qualified, type TableSchema } from '../schema/table-schema.ts'
import { type Lease, withinLease } from './lease.ts'
import { type SeenKeys, seenKeysTable } from './seen-keys.ts'

type Listing = {
  readonly lease: Lease
  readonly tableSchema: TableSchema | null
  readonly seenKeys: SeenKeys
}

const nothing: Absences = { marked: 0, waiting: 0, blocked: 0 }

/** Keys were seen in the listing when their last page is `firstPage` or later. `shape` is null while there is no table. */
export async function settleAbsences(
  client: ClientBase,
  { lease, tableSchema, seenKeys }: Listing,
  firstPage: number,
  approved: number,
): Promise<Absences> {
  if (!tableSchema) return nothing
  await seenKeys.analyze()
  return await withinLease(client, lease, () => settle(client, lease, tableSchema, firstPage, approved))
}

/** How many living rows no page from this one on has shown. */
export async function countAbsent(
  client: ClientBase,
  { tableSchema, seenKeys }: Listing,
  firstPage: number,
): Promise<number> {
  if (!tableSchema) return 0
  await seenKeys.analyze()
  const { missing } = await compare(client, tableSchema, firstPage)
  return missing
}

async function compare(client: ClientBase, tableSchema: TableSchema, firstPage: number): Promise<Shortfall> {
  const { rows } = await client.query<Shortfall>(
    `select count(*)::int as living, count(*) filter (where seen.key is null)::int as missing,
       (select count(*)::int from ${seenKeysTable} where last_page >= $1) as seen
     from ${qualified(tableSchema.stream)} as mine
     left join ${seenKeysTable} as seen on seen.key = ${keyText(tableSchema)} and seen.last_page >= $1
     where mine._deleted_at is null`,
    [firstPage],
  )
  return rows[0] ?? { living: 0, missing: 0, seen: 0 }
}

const keyText = (tableSchema: TableSchema): string =>
  `mine.${pg.escapeIdentifier(tableSchema.key.name)}::text`

async function settle(
  client: ClientBase,
  lease: Lease,
  tableSchema: TableSchema,
  firstPage: number,
  approved: number,
): Promise<Absences> {
  const shortfall = await compare(client, tableSchema, firstPage)
  const { missing } = shortfall
  // Whatever else the listing proves: what it showed is not absent.
  await client.query(
    `delete from tidemark.suspect using ${seenKeysTable} as seen
     where suspect.stream = $1 and suspect.key = seen.key and seen.last_page >= $2`,
    [lease.stream, firstPage],
  )
  const isBlocked = missing > approved && isDoubtful(shortfall)
  await storeBlockedDeletions(client, lease.stream, isBlocked ? shortfall : null)
  if (isBlocked) return { ...nothing, blocked: missing }
  return missing > 0 ? await markOrWait(client, lease, tableSchema, firstPage) : nothing
}

async function markOrWait(
  client: ClientBase,
  lease: Lease,
  tableSchema: TableSchema,
  firstPage: number,
): Promise<Absences> {
  const table = qualified(tableSchema.stream)
  const key = keyText(tableSchema)
  const { rows } = await client.query<{ marked: number }>(
    `with lacking as materialized (
       -- All writers take their row locks in the same order.
       select mine.ctid from ${table} as mine, tidemark.suspect as before
       where before.stream = $1 and before.key = ${key} and mine._deleted_at is null
       order by mine.${pg.escapeIdentifier(tableSchema.key.name)} for update of mine
     ), marked as (
       update ${table} as mine set _deleted_at = now(), _deleted_reason = 'absent', _synced_at = now()
       from lacking where mine.ctid = lacking.ctid
       returning mine as written
     )${keepingSql(tableSchema, 'marked')}
     select count(*)::int as marked from marked`,
    [lease.stream],
  )
  await client.query('delete from tidemark.suspect where stream = $1', [lease.stream])
  const { rowCount: waiting } = await client.query(
    `insert into tidemark.suspect (stream, key)
     select $1, ${key} from ${table} as mine
     where mine._deleted_at is null
       and not exists (select from ${seenKeysTable} as seen where seen.key = ${key} and seen.last_page >= $2)`,
    [lease.stream, firstPage],
  )
  return { marked: rows[0]?.marked ?? 0, waiting: waiting ?? 0, blocked: 0 }
}
