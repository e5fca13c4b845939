// Rows that a complete listing did not show, and how they come to be marked as deleted (P7). A listing that is empty or has shrunk
// by more than a fifth proves nothing: its deletions are blocked until an operator approves them.

import pg, { type ClientBase } from 'pg'
import {
  type Absences,
  type AbsentRows,
  doubtfulWith,
  type Gone,
  type ListAbsences,
  type MarkedBySource,
  type Shortfall,
} from '../../sync/ports/audits.ts'
import { markedWithinDay } from '../book/deletions.ts'
import { touchedSql } from '../schema/own-columns.ts'
import { qualified } from '../schema/places.ts'
import { keepingSql, keepingWhereKept } from '../schema/row-history.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryColumn, queryRow, queryValue } from '../server/query.ts'
import { emptyTableSql } from '../server/session.ts'
import { isRejected, noteApproved, storeBlockedDeletions } from './blocked-deletions.ts'
import { withinLease } from './lease.ts'
import { someKeys } from './missing-rows.ts'
import type { RunParts } from './run.ts'
import { type SeenSince, seenKeysTable } from './seen-keys.ts'

/** The row's key as text, for joining with what was seen. */
const keyText = (tableSchema: TableSchema): string =>
  `mine.${pg.escapeIdentifier(tableSchema.key.name)}::text`

/** Leaves out rows that were written since then. A time that is still to come is that of a clock which was put back. */
export const isOlderSql = (began: string): string =>
  `(mine._synced_at < ${began} or mine._synced_at > clock_timestamp())`
/** The listing of a run may be older than rows that were written since it began. $1 is the run. */
const isOlderThanRun = isOlderSql('(select started_at from tidemark.run where id = $1)')

/**
 * The one way in which rows are marked as gone from the upstream. `where` picks them among the living rows `mine`, `from` is what
 * it is joined with. Within a transaction that proves the lease. Returns how many they were.
 */
export async function markAbsent(
  client: ClientBase,
  tableSchema: TableSchema,
  absent: {
    readonly from?: string
    readonly where: string
    readonly values: readonly unknown[]
    /** When the proof was made, if that was not now: a page that was read before it cannot bring the row back. */
    readonly at?: string
    /** Kept with the key of each row. */
    readonly evidence?: string
  },
): Promise<number> {
  const { stream } = tableSchema
  const table = qualified(stream)
  const isKept = keepingSql(tableSchema, 'marked') !== ''
  const kept = isKept ? await keepingWhereKept(client, tableSchema, 'marked') : ''
  return (
    (await queryValue<number>(
      client,
      `with gone as materialized (
       select mine.ctid, ${absent.at ?? 'now()'} as at, ${absent.evidence ?? 'null::text'} as evidence
       from ${table} as mine${absent.from === undefined ? '' : `, ${absent.from}`}
       where mine._deleted_at is null and ${absent.where}
       -- All writers take their row locks in the same order.
       order by mine.${pg.escapeIdentifier(tableSchema.key.name)} for update of mine
     ), marked as (
       update ${table} as mine set _deleted_at = gone.at, _deleted_reason = 'absent', ${touchedSql}
       from gone where mine.ctid = gone.ctid
       returning ${keyText(tableSchema)} as key, gone.evidence, mine as written
     )${kept}, noted as (
       insert into tidemark.suspect (stream, key, evidence)
       select ${pg.escapeLiteral(stream.name)}, key, evidence from marked where evidence is not null
       on conflict (stream, key) do update set missing_since = now(), evidence = excluded.evidence, there_at = null
     )
     select count(*)::int as marked from marked`,
      [...absent.values],
    )) ?? 0
  )
}

// ── list streams: two complete listings in a row are the proof ───────────────────────────────────────────────

const nothing: Absences = { marked: 0, waiting: 0, blocked: 0 }

export function listAbsencesOf(parts: RunParts): ListAbsences {
  const { session, seenKeys } = parts
  const { client } = session
  const compare = async (firstPage: number) => {
    const tableSchema = await parts.tableSchema()
    if (!tableSchema) return null
    const seen = await seenKeys.since(firstPage)
    return { tableSchema, seen, compared: await compareWithSeen(client, tableSchema, seen) }
  }
  return {
    count: (firstPage) =>
      session.afterWrites(async () => (await compare(firstPage))?.compared.shortfall.missing ?? 0),
    settle: (firstPage, approved = 0) =>
      session.afterWrites(async () => {
        const found = await compare(firstPage)
        if (!found) return nothing
        const { tableSchema, seen, compared } = found
        if (compared.shortfall.missing === 0 && !compared.isNoted && approved === 0) return nothing
        await parts.noteLine()
        const absences = await withinLease(client, session.lease, () =>
          settle(client, tableSchema, seen, approved),
        )
        parts.onMarked(absences.marked)
        return absences
      }),
  }
}

/** `isNoted`: rows are missed, or deletions blocked, since an earlier listing. */
async function compareWithSeen(client: ClientBase, tableSchema: TableSchema, seen: SeenSince) {
  const found = await queryRow<Shortfall & { isNoted: boolean }>(
    client,
    `select count(*)::int as living, count(*) filter (where seen.key is null)::int as missing,
       (bit_xor(hashtextextended(${keyText(tableSchema)}, 0)) filter (where seen.key is null))::text as fingerprint,
       (select count(*)::int from ${seen.sql(1)} as shown) as seen,
       exists (select from tidemark.suspect where stream = $2)
         or exists (select from tidemark.stream where name = $2 and blocked_deletions is not null) as "isNoted"
     from ${qualified(tableSchema.stream)} as mine
     left join ${seen.sql(1)} as seen on seen.key = ${keyText(tableSchema)}
     where mine._deleted_at is null`,
    [seen.value, tableSchema.stream.name],
  )
  const { isNoted, ...shortfall } = found ?? { isNoted: true, living: 0, missing: 0, seen: 0 }
  return { shortfall, isNoted }
}

async function settle(client: ClientBase, tableSchema: TableSchema, seen: SeenSince, approved: number) {
  const { name } = tableSchema.stream
  const compared = await compareWithSeen(client, tableSchema, seen)
  const { missing } = compared.shortfall
  const isMore = missing > approved
  const tooMany = isMore ? doubtfulWith(compared.shortfall, await markedWithinDay(client, name)) : null
  const shortfall = tooMany ?? compared.shortfall
  const isBlocked = tooMany !== null || (isMore && (await isRejected(client, name, shortfall)))
  // Rows first and suspects after them, as everywhere.
  const marked =
    isBlocked || missing === 0
      ? 0
      : await markAbsent(client, tableSchema, {
          from: 'tidemark.suspect as before',
          where: `before.stream = $1 and before.key = ${keyText(tableSchema)}
            and not exists (select from ${seen.sql(2)} as seen where seen.key = before.key)`,
          values: [name, seen.value],
        })
  await storeBlockedDeletions(client, name, isBlocked ? shortfall : null)
  if (approved > 0 && !isBlocked) await noteApproved(client, name)
  if (isBlocked) {
    // Even if the listing proves nothing else: a record that it showed is not absent.
    await client.query(
      `delete from tidemark.suspect using ${seen.sql(2)} as seen
       where suspect.stream = $1 and suspect.key = seen.key`,
      [name, seen.value],
    )
    return { ...nothing, blocked: missing, markedBefore: shortfall.marked ?? 0 }
  }
  await client.query('delete from tidemark.suspect where stream = $1', [name])
  if (missing === 0) return nothing
  const { rowCount: waiting } = await client.query(
    `insert into tidemark.suspect (stream, key)
     select $1, ${keyText(tableSchema)} from ${qualified(tableSchema.stream)} as mine
     where mine._deleted_at is null
       and not exists (select from ${seen.sql(2)} as seen where seen.key = ${keyText(tableSchema)})`,
    [name, seen.value],
  )
  return { marked, waiting: waiting ?? 0, blocked: 0 }
}

// ── changes streams: a look at the record itself is the proof ────────────────────────────────────────────────

export const absentTable = 'pg_temp.tidemark_absent'

/** Kept in a temporary table of the run's own connection, so that memory does not grow (P10). */
export function absentRowsOf(parts: RunParts): AbsentRows {
  const { session, stream } = parts
  const { client, lease } = session
  return {
    gather: () => session.afterWrites(() => gather(parts)),
    markedBySource: (limit) => session.afterWrites(() => markedBySource(parts, limit)),
    some: (limit) => session.afterWrites(() => someKeys(client, absentTable, limit)),
    // Before the records of these keys are asked for.
    keys: (after, limit) =>
      session.afterWrites(async () => {
        const keys = await keysAfter(client, absentTable, after, limit)
        await client.query(`update ${absentTable} set asked_at = clock_timestamp() where key = any ($1)`, [
          keys,
        ])
        return keys
      }),
    spareShown: () =>
      session.afterWrites(async () => {
        await client.query(
          `delete from ${absentTable} as absent using ${seenKeysTable} as seen where seen.key = absent.key`,
        )
      }),
    noteGone: (gone) => session.afterWrites(() => noteGone(client, gone)),
    noteThere: (keys) => noteThere(parts, keys),
    ...slicesOf(parts),
    markGone: () =>
      session.fencedAfterWrites(async () => {
        const tableSchema = await readTableSchema(client, stream)
        if (!tableSchema) return 0
        const marked = await markAbsent(client, tableSchema, {
          from: `${absentTable} as absent`,
          where: `absent.evidence is not null and absent.key = ${keyText(tableSchema)} and ${isOlderThanRun}`,
          values: [lease.runId],
          at: 'absent.asked_at',
          evidence: 'absent.evidence',
        })
        parts.onMarked(marked)
        return marked
      }),
  }
}

/** Rows that the list lacks although a look said that their records are there. */
export async function noteThere(
  { session, stream }: Pick<RunParts, 'session' | 'stream'>,
  keys: readonly string[],
): Promise<void> {
  if (keys.length === 0) return
  await session.afterWrites(() =>
    session.client.query(
      `insert into tidemark.suspect (stream, key, there_at) select $1, key, now() from unnest($2::text[]) as there (key) order by key
       on conflict (stream, key) do update set there_at = now(), evidence = null`,
      [stream.name, keys],
    ),
  )
}

const inSlice = `key::bigint > $1 and ($2::bigint is null or key::bigint <= $2)`

/** The half of AbsentRows that is proven slice by slice of the list. */
function slicesOf({
  session: { client, afterWrites },
}: RunParts): Pick<AbsentRows, 'lowestAbove' | 'lackedAgain' | 'noteSliceGone' | 'countGone' | 'forgetGone'> {
  return {
    lowestAbove: (after) =>
      afterWrites(async () => {
        if (after === null)
          await client.query(
            `create index if not exists tidemark_absent_number on ${absentTable} ((key::bigint))`,
          )
        const found = await queryRow<{ key: string; at: string }>(
          client,
          `select key, clock_timestamp()::text as at from ${absentTable}
           where $1::bigint is null or key::bigint > $1 order by key::bigint limit 1`,
          [after],
        )
        return found && { key: BigInt(found.key), at: found.at }
      }),
    lackedAgain: ({ after, to, listed }) =>
      afterWrites(async () => {
        await client.query(`delete from ${absentTable} where key = any ($1)`, [listed])
        return await queryValue<string>(
          client,
          `select key from ${absentTable} where ${inSlice} order by random() limit 1`,
          [after, to],
        )
      }),
    noteSliceGone: ({ after, to }, at, evidence) =>
      afterWrites(async () => {
        await client.query(
          `update ${absentTable} set asked_at = $3::timestamptz, evidence = $4 where ${inSlice}`,
          [after, to, at, evidence],
        )
      }),
    countGone: () =>
      afterWrites(async () => {
        const counted = `select count(*)::float8 from ${absentTable} where evidence is not null`
        return (await queryValue<number>(client, counted)) ?? 0
      }),
    forgetGone: () =>
      afterWrites(async () => {
        await client.query(`update ${absentTable} set evidence = null`)
      }),
  }
}

async function gather({ session, stream, seenKeys }: RunParts): Promise<Shortfall> {
  const { client, lease } = session
  const tableSchema = await readTableSchema(client, stream)
  await seenKeys.analyze()
  await client.query(
    `${emptyTableSql(absentTable, 'key text primary key, asked_at timestamptz not null default now(), evidence text')};
     -- Keys of another stream may be no numbers.
     drop index if exists pg_temp.tidemark_absent_number`,
  )
  if (!tableSchema) return { living: 0, missing: 0, seen: 0 }
  await client.query(
    `delete from tidemark.suspect using ${seenKeysTable} as seen
     where suspect.stream = $1 and suspect.there_at is not null and suspect.key = seen.key`,
    [stream.name],
  )
  await client.query(
    `insert into ${absentTable} (key)
     select ${keyText(tableSchema)} from ${qualified(stream)} as mine
     left join ${seenKeysTable} as seen on seen.key = ${keyText(tableSchema)}
     where mine._deleted_at is null and seen.key is null and ${isOlderThanRun}`,
    [lease.runId],
  )
  const found = await queryRow<Shortfall>(
    client,
    `select (select count(*) from ${qualified(stream)} where _deleted_at is null)::float8 as living,
            (select count(*) from ${absentTable})::float8 as missing,
            (select bit_xor(hashtextextended(key, 0))::text from ${absentTable}) as fingerprint,
            (select count(*) from ${seenKeysTable})::float8 as seen`,
  )
  return found ?? { living: 0, missing: 0, seen: 0 }
}

async function markedBySource({ session: { client }, stream, seenKeys, startedAt }: RunParts, limit: number) {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema) return { shown: 0, hidden: [] }
  await seenKeys.analyze()
  const found = await queryRow<MarkedBySource>(
    client,
    `with marked as (
       select ${keyText(tableSchema)} as key, seen.key is not null as is_shown
       from ${qualified(stream)} as mine left join ${seenKeysTable} as seen on seen.key = ${keyText(tableSchema)}
       where mine._deleted_reason = 'source' and ${isOlderSql('$1')}
     )
     select (select count(*)::int from marked where is_shown) as shown,
       array(select key from marked where not is_shown order by key desc limit $2) as hidden`,
    [startedAt, limit],
  )
  return found ?? { shown: 0, hidden: [] }
}

async function noteGone(client: ClientBase, gone: readonly Gone[]): Promise<void> {
  await client.query(
    `update ${absentTable} as absent set evidence = gone.evidence
     from unnest($1::text[], $2::text[]) as gone (key, evidence) where gone.key = absent.key`,
    arraysOf(gone, 'key', 'evidence'),
  )
}

/** Some keys of a temporary table, in their order. */
export const keysAfter = (client: ClientBase, table: string, after: string | null, limit: number) =>
  queryColumn<string>(
    client,
    `select key from ${table} where $1::text is null or key > $1 order by key limit $2`,
    [after, limit],
  )
