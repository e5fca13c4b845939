// The positions that runs move: the stream's own, that of a backfill, or none. Each is moved by the last statement of a page's
// transaction (P1), which proves the lease (P2).

import pg, { type ClientBase } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import { BackfillCancelled } from '../../sync/ports/store.ts'
import { backoff } from '../../util/backoff.ts'
import { qualified } from '../schema/places.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { queryRow, queryRows, queryValue } from '../server/query.ts'
import { delaySql, type Queryable } from '../server/session.ts'
import type { PageEnd, PositionStore } from '../writing/commit-page.ts'
import { isRewoundSql } from '../writing/difference-sql.ts'
import { holdLease, holdSql, type Lease, lostLease, withinLease } from './lease.ts'
import { readUnread, type StartingPoint, unreadSql, unreadText } from './unread.ts'

type Moved = {
  readonly is_mine: boolean
  /** Null where the page moved none. */
  readonly position: string | null
  readonly columns_version: number
}

const leaseOf = ({ stream, lane, epoch }: Lease) => [stream, lane, epoch]

async function advance(client: ClientBase, lease: Lease, statement: pg.QueryConfig) {
  const moved = await queryRow<Moved>(client, statement)
  if (!moved?.is_mine) throw lostLease(lease)
  const position = moved.position === null ? null : BigInt(moved.position)
  return { position, columnsVersion: moved.columns_version }
}

/** Which run wrote the rows of this moment. `run`, `table` and `rows` are parameters. */
const notePageSql = (run: string, table: string, rows: string): string => `
        page as (
          insert into tidemark.page ("table", written_at, run_id)
          select ${table}, now(), ${run} where ${rows}::bigint > 0 and exists (select from fence)
        )`
const writtenRows = ({ counts }: PageEnd): number => counts.inserted + counts.updated

/** Proves the lease without holding it: nothing is written. Returns the version of the table's columns. */
async function prove(client: Queryable, lease: Lease, table: string): Promise<number> {
  const found = await queryRow<{ columns_version: number }>(client, {
    name: 'tidemark_prove',
    text: `
      select columns_version from tidemark.stream
      where name = $4 and exists (select from tidemark.lease where stream = $1 and lane = $2 and epoch = $3)`,
    values: [...leaseOf(lease), table],
  })
  if (!found) throw lostLease(lease)
  return found.columns_version
}

/** The stream's own position. Only a retreat moves it down (P2). */
export function livePosition(lease: Lease, { position: start, unread }: StartingPoint): PositionStore {
  let reached = start
  return {
    start,
    unread,
    hold: (client) => holdLease(client, lease),
    leave: async (client, { to, unread: left, table }) =>
      left === null && (to === null || to <= reached) ? await prove(client, lease, table) : null,
    async advance(client, page) {
      const moved = await advanceLive(client, lease, page)
      if (moved.position !== null) reached = moved.position
      return moved
    },
    async retreat(client, reason, to) {
      await withinLease(client, lease, async () => {
        await client.query(retreatSql, [lease.stream, to, lease.runId, reason])
      })
      if (to < reached) reached = to
    },
    end: async () => {},
  }
}

const advanceLive = (client: ClientBase, lease: Lease, page: PageEnd) =>
  advance(client, lease, {
    name: 'tidemark_advance_live',
    text: `
        with fence as materialized (
          ${holdSql}
        ), moved as (
          update tidemark.stream set position = $4, position_reached_at = now(), unread = ${unreadSql('$7')}
          where name = $1 and position < $4 and exists (select from fence)
          returning position
        ), read_above as (
          update tidemark.stream set unread = ${unreadSql('$7')}
          where name = $1 and position < $4 is not true and $7 is not null and exists (select from fence)
        ), noted as (
          insert into tidemark.checkpoint (stream, position, run_id) select $1, position, $5 from moved
        ), ${notePageSql('$5', '$6', '$8')}
        select exists (select from fence) as is_mine, (select position::text from moved) as position,
          columns_version
        from tidemark.stream where name = $6`,
    values: [
      ...[...leaseOf(lease), page.to, lease.runId, page.table],
      ...[unreadText(page.unread), writtenRows(page)],
    ],
  })

/** Takes back what rested on a belief that fell. No belief counts as relied on after this: runs that rely on one note that anew. */
const retreatSql = `
  with moved as (
    update tidemark.stream
    set position = $2, position_reached_at = now(),
        -- What was read on the strength of it may lack rows.
        read_through_at = null
    where name = $1 and position > $2
    returning position
  ), forgotten as (
    -- A position that goes back forgets by itself what was read above it.
    update tidemark.stream set unread = null where name = $1 and position <= $2 and unread is not null
  ), taken_back as (
    update tidemark.belief set rests_from = null, rests_since = null
    where stream = $1 and rests_from is not null
  )
  insert into tidemark.checkpoint (stream, position, run_id, reason)
  select $1, position, $3, $4 from moved`

/** For runs that do not read everything above a position: they could not say up to where all is read (P6). */
export const noPosition = (lease: Lease, { position: start }: StartingPoint): PositionStore => ({
  start,
  unread: null,
  hold: (client) => holdLease(client, lease),
  leave: (client, { table }) => prove(client, lease, table),
  advance: (client, page) =>
    advance(client, lease, {
      name: 'tidemark_advance_nothing',
      text: `
        with fence as materialized (
          ${holdSql}
        ), ${notePageSql('$5', '$4', '$6')}
        select exists (select from fence) as is_mine, null as position, columns_version
        from tidemark.stream where name = $4`,
      values: [...leaseOf(lease), page.table, lease.runId, writtenRows(page)],
    }),
  retreat: async () => {},
  end: async () => {},
})

/** Takes a backfill up, and says where it has come to. */
export async function takeUpBackfill(client: Queryable, id: string): Promise<StartingPoint> {
  const taken = await queryRow<{ position: string; unread: unknown }>(
    client,
    `update tidemark.backfill
     set status = 'running', started_at = coalesce(started_at, now()), attempts = attempts + 1,
         error = null, retry_at = null
     where id = $1 and status in ('waiting', 'running')
     returning position, unread`,
    [id],
  )
  if (!taken) throw new BackfillCancelled(id)
  return { position: BigInt(taken.position), unread: readUnread(taken.unread) }
}

/** The position of a backfill, which also counts what its pages came to. */
export const backfillPosition = (
  lease: Lease,
  { position: start, unread }: StartingPoint,
  id: string,
): PositionStore => ({
  start,
  unread,
  hold: (client) => holdLease(client, lease),
  // It counts the rows of each page.
  leave: async () => null,
  async advance(client, page) {
    const moved = await advance(client, lease, advanceBackfill(lease, id, page))
    if (moved.position === null) throw new BackfillCancelled(id)
    return moved
  },
  retreat: (client, _reason, to) =>
    withinLease(client, lease, async () => {
      await client.query(
        `update tidemark.backfill set position = least(position, $2), unread = null
         where id = $1 and status = 'running'`,
        [id, to],
      )
    }),
  async end(client, { status, isComplete, isCutShort = false, note, error }) {
    if (isCutShort) return
    const isDone = status === 'done' && isComplete
    await client.query(
      `update tidemark.backfill
       set status = case when $5 then 'done' else 'waiting' end,
           position = case when $5 then position_to else position end, unread = case when not $5 then unread end,
           finished_at = case when $5 then now() end,
           note = case when $5 then $6 end,
           error = $7,
           -- One that the upstream keeps disturbing, or that proves nothing, is not read again and again.
           retry_at = case when $8 then now() + ${delaySql(backoff.backfill, 'attempts')} end
       where id = $4 and status = 'running' and exists (${holdSql})`,
      [
        ...leaseOf(lease),
        id,
        isDone,
        note,
        isDone ? null : (error ?? note ?? 'it could not be read completely'),
        (status === 'done' || status === 'inconclusive') && !isDone,
      ],
    )
  },
})

const advanceBackfill = (lease: Lease, id: string, { to, unread, table, counts }: PageEnd) => ({
  name: 'tidemark_advance_backfill',
  text: `
    with fence as materialized (
      ${holdSql}
    ), moved as (
      update tidemark.backfill
      set position = greatest(position, $4), rows_read = rows_read + $5, inserted = inserted + $6,
          updated = updated + $7, quarantined = quarantined + $8, unread = ${unreadSql('$11')}
      where id = $9 and status = 'running' and exists (select from fence)
      returning position
    ), ${notePageSql('$12', '$10', '($6::bigint + $7::bigint)')}
    select exists (select from fence) as is_mine, (select position::text from moved) as position,
      columns_version
    from tidemark.stream where name = $10`,
  values: [
    ...leaseOf(lease),
    to,
    counts.rowsRead,
    counts.inserted,
    counts.updated,
    counts.quarantined,
    id,
    table,
    unreadText(unread),
    lease.runId,
  ],
})

/**
 * Makes the stream as before a first load: nothing counts as read through, or compared with the list. Within a transaction.
 * `isOfSome`: all rows in doubt are known, so of the others what is settled stays, and which deletions are known.
 */
export const readFromBeginning = (
  client: Queryable,
  { stream, runId }: { readonly stream: string; readonly runId: string | null },
  reason: string,
  isOfSome = false,
) =>
  client.query(
    `with certain as (
       delete from tidemark.doubt where stream = $1 and not $4
     ), before as (
       select position from tidemark.stream where name = $1
     ), moved as (
       update tidemark.stream
       set position = 0, position_reached_at = null, unread = null, read_through_at = null, first_read_through_at = null,
           settled_through_version = case when $4 then settled_through_version end,
           settled_through_at = case when $4 then settled_through_at end, last_reconcile_at = null,
           deletions_known_at = case when $4 then deletions_known_at end, ranks_agreed_at = null, swept_key = null, sweep_began_at = null
       where name = $1
     ), loaded as (
       delete from tidemark.progress where stream = $1 and reading = 'first load'
     ), relied as (
       update tidemark.belief set rests_from = 0 where stream = $1 and rests_from > 0
     ), restarted as (
       update tidemark.run set position_from = 0, position_to = 0 where id = $2
     )
     insert into tidemark.checkpoint (stream, position, run_id, reason)
     select $1, 0, $2, $3 from before where position > 0`,
    [stream, runId, reason, isOfSome],
  )

export type Versioned = { readonly key: string; readonly version: bigint }

export const isLivingSql = '_deleted_at is null'
/** Rows whose records the upstream still serves: living ones, and those that the source itself marked as deleted. */
export const isShownSql = `(_deleted_at is null or _deleted_reason = 'source')`

/** The rows with the highest versions at or below one, the highest first; none that a rewind or a new epoch left doubtful. */
export async function highestRows(
  client: Queryable,
  stream: Stream,
  { atMost, limit }: { readonly atMost: bigint; readonly limit: number },
): Promise<readonly Versioned[]> {
  const tableSchema = await readTableSchema(client, stream)
  if (!tableSchema || tableSchema.versions.length === 0) return []
  const key = pg.escapeIdentifier(tableSchema.key.name)
  const columns = tableSchema.versions.map((column) => pg.escapeIdentifier(column.name))
  // The version is the first column that is not null; asked for one by one, each is found by its index.
  const parts = columns.map((column, index) => {
    const others = columns.slice(0, index).map((earlier) => ` and ${earlier} is null`)
    return `(select ${key}::text as key, ${column} as version from ${qualified(stream)} as mine
             where ${isShownSql} and ${column} <= $1${others.join('')}
               and ${isRewoundSql(tableSchema, 'mine')} is not true
             order by ${column} desc limit $2)`
  })
  const rows = await queryRows<{ key: string; version: string }>(
    client,
    `select key, version from (${parts.join(' union all ')}) as newest order by version desc limit $2`,
    [atMost, limit],
  )
  return rows.map((row) => ({ key: row.key, version: BigInt(row.version) }))
}

/** Whether the table holds a living row, doubtful or not. */
export async function hasRows(client: Queryable, stream: Stream): Promise<boolean> {
  if (!(await readTableSchema(client, stream))) return false
  const any = `select exists (select from ${qualified(stream)} where ${isLivingSql})`
  return (await queryValue<boolean>(client, any)) ?? false
}
