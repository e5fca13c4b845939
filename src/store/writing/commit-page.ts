// The two ways a page is committed: quickly, and carefully when the table must change first or Postgres refuses some of
// the page. Either way it is one transaction (P1) that ends with the fence (P2).

import type { ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import type { Rejected, Row } from '../../streams/record.ts'
import type { EncodedPage } from '../encoding/page.ts'
import { endLease, holdLease, type Lease } from '../runs/lease.ts'
import { advanceBackfill } from '../runs/positions.ts'
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

export type Page = {
  readonly rows: readonly Row[]
  readonly rejected: readonly Rejected[]
  /** As in Records. */
  readonly readAtMs: number
  /** Where the position moves to; null when this page moves none. */
  readonly position: bigint | null
}
export type Committed = Merged & { readonly quarantined: number; readonly newlyQuarantined: number }
export type CommitContext = {
  readonly stream: MirroredStream
  readonly lease: Lease
  readonly collectArrivals: boolean
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
  const { collectArrivals, timeZone } = context
  const { tableSchema } = table
  const takeTurn = async () => {
    if (!(await isStillCurrent())) throw new TableChanged()
  }
  const mayInsert = () => isAllNew() && !collectArrivals && tableSchema.history === null
  const insertOrMerge = async () => {
    if (mayInsert()) {
      // Not beside the page before: both may hold one row, and then each would wait for the other.
      await takeTurn()
      if (mayInsert()) return await insertPage(client, tableSchema, encoded, timeZone)
    }
    await stagePage(client, tableSchema, encoded, timeZone)
    await takeTurn()
    return await mergePage(client, tableSchema, { collectArrivals, readAtMs: page.readAtMs })
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
  return await retryOnLockTimeout(`a change of table mirror.${context.stream.name}`, () =>
    orRollBack(client, async () => {
      await client.query(beginSql(context.timeZone))
      const changed = growth ? await grow(client, context, { table, growth, settledColumns }) : table
      await prepareStaging(client, changed.tableSchema, false)
      const { collectArrivals } = context
      const into = { ...changed, collectArrivals, readAtMs: page.readAtMs }
      const merged = await mergeApart(client, into, page.rows)
      const columnsVersion = changed.tableSchema.version
      const committed = await end(client, context, page, { merged, rejected: merged.refused, columnsVersion })
      return { committed, table: changed }
    }),
  )
}

async function grow(
  client: ClientBase,
  { lease, log }: CommitContext,
  { table, growth, settledColumns }: { table: Table; growth: Growth; settledColumns: Set<string> },
): Promise<Table> {
  await limitLockWaits(client)
  await holdLease(client, lease)
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
  const rejected = [...page.rejected, ...ending.rejected]
  const newlyQuarantined = rejected.length > 0 ? await quarantine(client, context.stream.name, rejected) : 0
  const { lease } = context
  const columnsVersion = await endLease(
    client,
    lease,
    lease.backfill === null ? page.position : null,
    context.stream.name,
  )
  if (lease.backfill !== null) {
    const { inserted, updated } = ending.merged
    const rowsRead = page.rows.length + page.rejected.length
    const counts = { rowsRead, inserted, updated, quarantined: rejected.length }
    await advanceBackfill(client, lease.backfill, page.position, counts)
  }
  // Another program added a column that this page would have had to clear.
  if (ending.columnsVersion !== null && ending.columnsVersion !== columnsVersion) throw new TableChanged()
  await client.query('commit')
  return { ...ending.merged, quarantined: rejected.length, newlyQuarantined }
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
