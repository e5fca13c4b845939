// What the search for vanished records needs of the rows: which keys the upstream's list should show, in the order of the keys, and
// how far the search has come. Keys are whole numbers here: of other keys nothing tells how the upstream sorts them.

import pg, { type ClientBase } from 'pg'
import {
  type Gone,
  provenByParts,
  type ShownCounts,
  type ShownRows,
  type Slice,
} from '../../sync/ports/audits.ts'
import { type Marked, markedOf, markedSql } from '../book/deletions.ts'
import { isUnexplainedSql } from '../book/symptoms.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryAny, queryColumn, queryRow, queryValue } from '../server/query.ts'
import { statementName } from '../server/session.ts'
import { isOlderSql, markAbsent, noteThere } from './absences.ts'
import { storeBlockedDeletions } from './blocked-deletions.ts'
import { holdSql, lostLease } from './lease.ts'
import { beforeAnswersSql } from './ledger.ts'
import type { RunParts } from './run.ts'

/** Null where keys are no whole numbers, or there is no table yet. */
const asking =
  ({ session, tableSchema }: RunParts) =>
  <Row extends pg.QueryResultRow>(sql: (table: Keyed) => string, values: readonly unknown[]) =>
    session.alone(async () => {
      const keyed = keyedBy(await tableSchema())
      return keyed && (await queryRow<Row>(session.client, sql(keyed), values))
    })

/** The reading half of ShownRows. */
function shownKeysOf(
  parts: RunParts,
): Pick<ShownRows, 'counts' | 'keyAt' | 'countLiving' | 'countMissing' | 'someDeleted'> {
  const { stream } = parts
  const ask = asking(parts)
  const keyBy = async (sql: (table: Keyed) => string, values: readonly unknown[]) => {
    const found = await ask<{ key: string }>(sql, values)
    return found && BigInt(found.key)
  }
  return {
    async counts() {
      return await ask<ShownCounts>(
        (
          keyed,
        ) => `select (rows.living + (select count(*) from (${setAside(keyed, false)}) as aside))::float8 as living,
            (rows.shown + (select count(*) from (${setAside(keyed, true)}) as aside))::float8 as "withDeleted"
          from (
            select count(*) filter (where ${isShown(false)}) as living, count(*) as shown from ${keyed.table} where ${isShown(true)}
          ) as rows`,
        [stream.name],
      )
    },
    async keyAt(rank, withDeleted) {
      return await keyBy(
        (keyed) =>
          `select key from (
             select ${keyed.key} as key from ${keyed.table} where ${isShown(withDeleted)}
             union all ${setAside(keyed, withDeleted)}
           ) as listed order by key offset $2 limit 1`,
        [stream.name, rank - 1],
      )
    },
    async countLiving(some) {
      const found = await ask<{ count: number }>(
        ({ table, key }) =>
          `select count(*)::int as count from ${table} where ${key} = any ($1::bigint[]) and _deleted_at is null`,
        [some],
      )
      return found?.count ?? 0
    },
    async countMissing(slice) {
      await ask(
        () =>
          `delete from tidemark.suspect where stream = $1 and (there_at is not null or ${isSuspect}) and key = any ($2)`,
        [stream.name, slice.listed],
      )
      const found = await ask<{ all: number; living: number }>(
        (table) =>
          `select count(*)::float8 as all, count(*) filter (where _deleted_at is null)::float8 as living
           ${missingFrom(table, slice)}`,
        [...valuesOf(slice), parts.startedAt],
      )
      return found ?? { all: 0, living: 0 }
    },
    async someDeleted() {
      return await keyBy(
        ({ table, key: column }) =>
          `select ${column} as key from ${table} where _deleted_reason = 'source' order by ${column} desc limit 1`,
        [],
      )
    },
  }
}

/** The half of ShownRows that keeps what the sweep is to look at. */
function suspectsOf(parts: RunParts): Pick<ShownRows, 'suspect' | 'countSuspects' | 'suspects'> {
  const { session, stream } = parts
  const ask = asking(parts)
  return {
    async suspect(slice) {
      await ask(
        (
          keyed,
        ) => `insert into tidemark.suspect (stream, key) select $5, mine.${keyed.key}::text ${missingFrom(keyed, slice)}
          on conflict (stream, key) do update set missing_since = now(), evidence = null`,
        [...valuesOf(slice), parts.startedAt, stream.name],
      )
    },
    async countSuspects() {
      const found = await ask<{ count: number }>(
        ({ table, key }) => `select count(*)::float8 as count from tidemark.suspect
          join ${table} as mine on mine.${key}::text = suspect.key and mine._deleted_at is null
          where stream = $1 and ${isSuspect}`,
        [stream.name],
      )
      return found?.count ?? 0
    },
    async suspects(after, limit) {
      return await session.alone(() =>
        queryColumn<string>(
          session.client,
          `select key from tidemark.suspect where stream = $1 and ${isSuspect} and ($2::text is null or key > $2) order by key limit $3`,
          [stream.name, after, limit],
        ),
      )
    },
  }
}

/** The half of ShownRows that tells which records are looked at again. */
function lookedAgainOf(parts: RunParts): Pick<ShownRows, 'hiddenKeys' | 'noteThere' | 'markedByParts'> {
  const { session, stream } = parts
  const keys = async (which: string, values: readonly unknown[]) => {
    const sql = `select key from tidemark.suspect where stream = $1 and ${which}`
    const found = await session.alone(() =>
      queryColumn<string>(session.client, sql, [stream.name, ...values]),
    )
    return found.map(BigInt)
  }
  return {
    hiddenKeys: (limit) => keys('there_at is not null order by there_at limit $2', [limit]),
    noteThere: (there) => noteThere(parts, there),
    markedByParts: (limit) =>
      keys('starts_with(evidence, $2) order by missing_since limit $3', [provenByParts, limit]),
  }
}

/** A person has to decide about deletions, or keeps the rows. */
const areBlocked = (client: ClientBase, stream: string): Promise<boolean> =>
  queryAny(client, 'select from tidemark.stream where name = $1 and blocked_deletions is not null', [stream])

type Beforehand = Awaited<ReturnType<ShownRows['beforehand']>>

/** The half of ShownRows that blocks deletions, when too many rows vanished at once to be believed. */
export function blockingOf({ session, stream }: RunParts): Pick<ShownRows, 'block' | 'beforehand'> {
  const { client } = session
  return {
    // This run saw only a part of the list, so it does not replace what a reconcile blocked or a person rejected.
    block: (shortfall) =>
      session.fencedAfterWrites(async () => {
        if (shortfall === null || !(await areBlocked(client, stream.name)))
          await storeBlockedDeletions(client, stream.name, shortfall)
      }),
    async beforehand() {
      return await session.alone(async () => {
        const found = await queryRow<Beforehand & Marked>(client, {
          name: 'tidemark_before_search',
          text: `select blocked_deletions is not null as "isBlocked", ${markedSql}, sweep_began_at as "sweepBeganAt",
             exists (
               select from tidemark.suspect where stream = $1 and (there_at is not null or starts_with(evidence, $2))
             ) as "mustLookAgain"
           from tidemark.stream where name = $1`,
          values: [stream.name, provenByParts],
        })
        const { isBlocked = false, sweepBeganAt = null, mustLookAgain = true } = found ?? {}
        return { isBlocked, sweepBeganAt, mustLookAgain, marked: await markedOf(client, stream.name, found) }
      })
    },
  }
}

/** The half of ShownRows that keeps what ranks say. */
function ranksOf(parts: RunParts): Pick<ShownRows, 'ranksAgree' | 'ranksDiffer'> {
  const { session, stream } = parts
  const { client } = session
  return {
    async ranksAgree() {
      await session.afterWrites(async () => {
        const keyed = keyedBy(await parts.tableSchema())
        if (keyed === null) return
        const isLater =
          '(ranks_agreed_at is null or (last_lookback_at >= ranks_agreed_at and read_through_at >= ranks_agreed_at))'
        const { stream: name, lane, epoch } = session.lease
        const text = `with fence as materialized (${holdSql}), agreed as (
             update tidemark.stream
             set unexplained = null,
               deletions_known_at = case when ${isLater} then greatest(deletions_known_at, case
                 when not ${hasHiddenSince(keyed)} and not ${mayHaveGoneBack(keyed)} then ranks_agreed_at end)
                 else deletions_known_at end,
               ranks_agreed_at = case when ${isLater} then $4 else ranks_agreed_at end
             where name = $1 and (unexplained is not null or ${isLater}) and exists (select from fence)
           )
           select exists (select from fence) as holds`
        const holds = await queryValue<boolean>(client, {
          name: statementName(client, 'ranks_agree', text),
          text,
          values: [name, lane, epoch, parts.startedAt],
        })
        if (!holds) throw lostLease(session.lease)
      })
    },
    async ranksDiffer(differences) {
      await session.fenced(() =>
        client.query(
          `update tidemark.stream set unexplained = jsonb_build_object(
             'since', case when ${isUnexplainedSql} then (unexplained ->> 'since')::timestamptz else $2 end, 'differences', $3::int
           ) where name = $1`,
          [stream.name, parts.startedAt, differences],
        ),
      )
    },
  }
}

export function shownRowsOf(parts: RunParts): ShownRows {
  const { session, stream } = parts
  const { client } = session
  return {
    ...shownKeysOf(parts),
    ...suspectsOf(parts),
    ...blockingOf(parts),
    ...lookedAgainOf(parts),
    ...ranksOf(parts),
    ...markingOf(parts),
    async sweep() {
      const known = await session.alone(() =>
        queryRow<{ key: string | null; began: Date | null }>(
          client,
          'select swept_key as key, sweep_began_at as began from tidemark.stream where name = $1',
          [stream.name],
        ),
      )
      return { after: known?.key == null ? null : BigInt(known.key), beganAt: known?.began ?? null }
    },
    async moveSweep(after) {
      await session.fenced(() =>
        client.query(
          `with forgotten as (delete from tidemark.suspect where stream = $1 and ${isSuspect} and $2::text is null)
           update tidemark.stream
           set swept_key = $2::text, sweep_began_at = case when $2::text is null then $3::timestamptz else sweep_began_at end
           where name = $1`,
          [stream.name, after, parts.startedAt],
        ),
      )
    },
    async knownThrough(at) {
      await session.fenced(() =>
        client.query(
          `update tidemark.stream as known set deletions_known_at = greatest(deletions_known_at, least(${beforeAnswersSql('$2::timestamptz', '$3::text')}, (
             select min(there_at) from tidemark.suspect where suspect.stream = known.name
           ))) where name = $1`,
          [stream.name, at, session.lease.runId],
        ),
      )
    },
  }
}

/** No look has told yet whether its record is there. */
const isSuspect = '(evidence is null and there_at is null)'

type Keyed = { readonly stream: string; readonly table: string; readonly key: string }

/** Postgres compares: if the list shows little, as many rows may be missing as the table has (P10). */
const missingFrom = ({ stream, table, key }: Keyed, { withDeleted }: Slice): string => `
  from ${table} as mine
  where ${isShown(withDeleted)} and ($1::bigint is null or mine.${key} > $1) and ($2::bigint is null or mine.${key} <= $2)
    and ${isOlderSql('$4')} and not exists (select from unnest($3::bigint[]) as listed (key) where listed.key = mine.${key})
    and not exists (
      select from tidemark.suspect where suspect.stream = ${pg.escapeLiteral(stream)} and suspect.key = mine.${key}::text and (there_at is not null or ${isSuspect})
    )`

const valuesOf = ({ after, to, listed }: Slice) => [after, to, listed]

const keyedBy = (tableSchema: TableSchema | null): Keyed | null =>
  tableSchema?.key.type === 'bigint'
    ? {
        stream: tableSchema.stream.name,
        table: qualified(tableSchema.stream),
        key: pg.escapeIdentifier(tableSchema.key.name),
      }
    : null

/**
 * Whether a row came since then among those that were there: the list may have shown its record already, and that hid a vanished one. Another
 * record may hide it now.
 */
const hasHiddenSince = ({ table, key }: Keyed): string => `exists (
  select from ${table} where _synced_at >= ranks_agreed_at and _first_seen_at >= ranks_agreed_at
    and ${key} < (select ${key} from ${table} where _first_seen_at < ranks_agreed_at order by ${key} desc limit 1))`

/**
 * Whether a restored backup is suspected: then records may stand below the position that no poll reads, and each of them may hide one that
 * vanished. That is decided within this time.
 */
const mayHaveGoneBack = ({ table, key }: Keyed): string => `exists (
  select from tidemark.pinned_record as pin join ${table} as mine on mine.${key} = pin.key::bigint and mine._deleted_at is null
  where pin.stream = $1 and pin.lost_since > now() - interval '15 minutes')`

/** The keys of records that the list shows and that are no rows: those in quarantine. $1 is the stream. */
const setAside = ({ table, key }: Keyed, withDeleted: boolean): string => `
  select distinct whole.key from tidemark.quarantine
  cross join lateral (select case when quarantine.key ~ '^-?[0-9]{1,18}$' then quarantine.key::bigint end as key) as whole
  where stream = $1 and whole.key is not null
    and not exists (select from ${table} as mine where mine.${key} = whole.key and ${isShown(withDeleted)})`

/** A record that vanished is shown by no list; one that is marked deleted by the source itself is shown by some. */
const isShown = (withDeleted: boolean): string =>
  withDeleted ? `(_deleted_at is null or _deleted_reason = 'source')` : '_deleted_at is null'

/** The half of ShownRows that marks. */
function markingOf(parts: RunParts): Pick<ShownRows, 'clock' | 'markGone'> {
  const { session, stream } = parts
  const { client } = session
  return {
    async clock() {
      const now = await session.alone(() => queryValue<string>(client, 'select clock_timestamp()::text'))
      return now ?? 'now'
    },
    async markGone(gone, askedAt) {
      await session.afterWrites(parts.noteLine)
      const marked = await session.fencedAfterWrites(async () => {
        const tableSchema = await readTableSchema(client, stream)
        if (!tableSchema || (await areBlocked(client, stream.name))) return 0
        await noteRemoved(client, tableSchema, gone)
        const count = await markAbsent(client, tableSchema, {
          from: 'unnest($1::text[], $2::text[]) as absent (key, evidence)',
          where: `absent.key = mine.${pg.escapeIdentifier(tableSchema.key.name)}::text and ${isOlderSql('$3')}`,
          values: [...arraysOf(gone, 'key', 'evidence'), parts.startedAt, askedAt],
          at: '$4::timestamptz',
          evidence: 'absent.evidence',
        })
        await keepEvidence(client, stream.name, gone)
        return count
      })
      parts.onMarked(marked)
      return marked
    },
  }
}

/** Also of rows that were marked before. */
const keepEvidence = (client: ClientBase, stream: string, gone: readonly Gone[]) =>
  client.query(
    `update tidemark.suspect set evidence = told.evidence from unnest($2::text[], $3::text[]) as told (key, evidence)
     where stream = $1 and suspect.key = told.key`,
    [stream, ...arraysOf(gone, 'key', 'evidence')],
  )

/** Records that the source had marked as deleted, and those in quarantine, that are gone now: no list shows them any more. */
async function noteRemoved(client: ClientBase, tableSchema: TableSchema, gone: readonly Gone[]) {
  const { stream, key } = tableSchema
  const keys = gone.map((one) => one.key)
  await client.query(
    `update ${qualified(stream)} as mine set _deleted_reason = 'absent', _xid = pg_current_xact_id()
     where mine.${pg.escapeIdentifier(key.name)}::text = any ($1) and mine._deleted_reason = 'source'`,
    [keys],
  )
  await client.query(
    `update tidemark.quarantine
     set key = null, dropped_at = coalesce(dropped_at, now()),
       drop_reason = coalesce(drop_reason, 'the upstream no longer has the record')
     where stream = $1 and key = any ($2)`,
    [stream.name, keys],
  )
}
