// The two ways a page is committed: quickly, and carefully when the table must change first or Postgres refuses some of
// the page. Either way it is one transaction (P1) whose last statement moves the position and proves the lease (P2).

import type { ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import type { Rejected, Row } from '../../streams/record.ts'
import type { RunEnd } from '../../sync/ports/store.ts'
import type { EncodedPage } from '../encoding/page.ts'
import { type Growth, growTable } from '../schema/grow-table.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { limitLockWaits, retryOnLockTimeout } from '../server/session.ts'
import { quarantine } from './quarantine.ts'
import {
  beginSql,
  insertPage,
  type Merged,
  mergeApart,
  mergePage,
  nothingMerged,
  prepareStaging,
  stagePage,
} from './stage-page.ts'
import { type Table, tableOf } from './table.ts'

/** The position that a run moves: the stream's own, a backfill's, or none. */
export type PositionStore = {
  /** Where it was when the run began. */
  readonly start: bigint
  /** Proves the lease and keeps it until the transaction ends. */
  hold(client: ClientBase): Promise<void>
  /** The last statement before a commit. Rejects with `RunFenced` when the lease is lost. */
  advance(client: ClientBase, page: PageEnd): Promise<Advanced>
  /** Moves it back to where it was, in a transaction of its own. */
  retreat(client: ClientBase, reason: string): Promise<void>
  end(client: Pick<ClientBase, 'query'>, end: RunEnd): Promise<void>
}
export type PageEnd = {
  /** Where the position moves to, unless it is there already; null: it stays. */
  readonly to: bigint | null
  /** The name of the table that was written. */
  readonly table: string
  readonly counts: {
    readonly rowsRead: number
    readonly inserted: number
    readonly updated: number
    readonly quarantined: number
  }
}
export type Advanced = {
  /** Where it is now; null when it was not moved. */
  readonly position: bigint | null
  /** Of the table that was written: a page that was encoded by another version must not be committed. */
  readonly columnsVersion: number
}

export type Page = {
  readonly rows: readonly Row[]
  readonly rejected: readonly Rejected[]
  /** As in Records. */
  readonly readAtMs: number
  /** Where the position moves to; null: it stays. */
  readonly to: bigint | null
}
export type Committed = Merged & {
  readonly quarantined: number
  readonly newlyQuarantined: number
  /** Where the position is now; null when it was not moved. */
  readonly position: bigint | null
}
export type CommitContext = {
  readonly stream: MirroredStream
  readonly positions: PositionStore
  readonly tellsArrivals: boolean
  /** Of date-times without an offset. */
  readonly timeZone: string
  readonly log: Logger
}

/** The columns of the table changed since the page was encoded. Nothing was kept of the attempt. */
export class TableChanged extends Error {
  override readonly name = 'TableChanged'
}

/** `isStillCurrent` waits until the pages before this one are committed, and tells whether the table is as it was. */
export async function commitQuickly(
  client: ClientBase,
  context: CommitContext,
  page: Page,
  {
    table,
    encoded,
    isStillCurrent,
    isAllNew,
  }: {
    table: Table
    encoded: EncodedPage
    isStillCurrent: () => Promise<boolean>
    /** Whether no row of the page is expected to be there, by what the pages before it were. */
    isAllNew: () => boolean
  },
): Promise<Committed> {
  const { tellsArrivals, timeZone } = context
  const { tableSchema } = table
  const takeTurn = async () => {
    if (!(await isStillCurrent())) throw new TableChanged()
  }
  const mayInsert = () => isAllNew() && !tellsArrivals && tableSchema.history === null
  const insertOrMerge = async () => {
    if (mayInsert()) {
      // Not beside the page before: both may hold one row, and then each would wait for the other.
      await takeTurn()
      if (mayInsert()) return await insertPage(client, tableSchema, encoded, timeZone)
    }
    await stagePage(client, tableSchema, encoded, timeZone)
    await takeTurn()
    return await mergePage(client, tableSchema, { tellsArrivals, readAtMs: page.readAtMs })
  }
  return await orRollBack(client, async () => {
    const merged = await insertOrMerge()
    return await end(client, context, page, {
      merged,
      rejected: encoded.rejected,
      columnsVersion: tableSchema.version,
    })
  })
}

/** A page without rows needs no table. */
export async function commitWithoutRows(
  client: ClientBase,
  context: CommitContext,
  page: Page,
): Promise<Committed> {
  return await orRollBack(client, async () => {
    await client.query(beginSql(context.timeZone))
    return await end(client, context, page, { merged: nothingMerged, rejected: [], columnsVersion: null })
  })
}

/** Changes the table where there is growth, and separates the rows that Postgres refuses from the others. */
export async function commitCarefully(
  client: ClientBase,
  context: CommitContext,
  page: Page,
  { table, growth, settledColumns }: { table: Table; growth: Growth | null; settledColumns: Set<string> },
): Promise<{ readonly committed: Committed; readonly table: Table }> {
  return await retryOnLockTimeout(`change the columns of mirror.${context.stream.name}`, () =>
    orRollBack(client, async () => {
      await client.query(beginSql(context.timeZone))
      const changed = growth ? await grow(client, context, { table, growth, settledColumns }) : table
      await prepareStaging(client, changed.tableSchema, false)
      const { tellsArrivals } = context
      const into = { ...changed, tellsArrivals, readAtMs: page.readAtMs }
      const merged = await mergeApart(client, into, page.rows)
      const columnsVersion = changed.tableSchema.version
      const committed = await end(client, context, page, { merged, rejected: merged.refused, columnsVersion })
      return { committed, table: changed }
    }),
  )
}

async function grow(
  client: ClientBase,
  { positions, log }: CommitContext,
  { table, growth, settledColumns }: { table: Table; growth: Growth; settledColumns: Set<string> },
): Promise<Table> {
  await limitLockWaits(client)
  await positions.hold(client)
  if (!(await growTable(client, table.tableSchema, growth, log))) throw new TableChanged()
  await client.query('set local lock_timeout = 0')
  const tableSchema = await readTableSchema(client, table.tableSchema.stream)
  if (!tableSchema) throw new TableChanged()
  // Still bigint: something depends on the column, and asking again at every page would not change that.
  for (const column of tableSchema.columns)
    if (column.type === 'bigint' && growth.widen.has(column.name)) settledColumns.add(column.name)
  return tableOf(tableSchema, settledColumns)
}

type Ending = {
  readonly merged: Merged
  readonly rejected: readonly Rejected[]
  readonly columnsVersion: number | null
}

async function end(
  client: ClientBase,
  context: CommitContext,
  page: Page,
  ending: Ending,
): Promise<Committed> {
  const { stream, positions } = context
  const { merged, columnsVersion } = ending
  const rejected = [...page.rejected, ...ending.rejected]
  const quarantined = rejected.length
  const newlyQuarantined = quarantined > 0 ? await quarantine(client, stream.name, rejected) : 0
  const advanced = await positions.advance(client, {
    to: page.to,
    table: stream.name,
    counts: {
      rowsRead: page.rows.length + page.rejected.length,
      inserted: merged.inserted,
      updated: merged.updated,
      quarantined,
    },
  })
  // Another program added a column that this page would have had to clear.
  if (columnsVersion !== null && columnsVersion !== advanced.columnsVersion) throw new TableChanged()
  await client.query('commit')
  return { ...merged, quarantined, newlyQuarantined, position: advanced.position }
}

async function orRollBack<Result>(client: ClientBase, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    // When the connection is gone, so is the transaction; the first error is the one to tell.
    await client.query('rollback').catch(() => {})
    throw error
  }
}
