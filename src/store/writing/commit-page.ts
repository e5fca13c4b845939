// The two ways a page is committed: quickly, and carefully when the table must change first or Postgres refuses some of the page. Either way
// it is one transaction (P1) whose last statement moves the position and proves the lease (P2).
//
// | a page is ...                         | when                                            | falls to                    |
// |---------------------------------------|-------------------------------------------------|-----------------------------|
// | copied straight into its table        | the page before was all new                     | probed, staged and merged   |
// | probed, and that is all               | nothing is news, and the position stays         | staged and merged           |
// | probed, then copied straight          | the probe finds that all its news are new rows  | probed, staged and merged   |
// | probed, then its news staged, merged  | otherwise                                       | carefully                   |
// | staged and merged whole               | differences are asked for, damage included (P16)| carefully                   |
// | written carefully: halved until what  | columns lack, or Postgres refuses its content   | quarantine, for what is     |
// | is refused stands alone               |                                                 | refused                     |

import type { ClientBase } from 'pg'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { tableName } from '../../streams/names.ts'
import type { Rejected, Row } from '../../streams/record.ts'
import type { RunEnd, Unread } from '../../sync/ports/store.ts'
import type { Copies } from '../encoding/copy-rows.ts'
import type { EncodedPage } from '../encoding/page.ts'
import { type Growth, growTable } from '../schema/grow-table.ts'
import { readTableSchema } from '../schema/table-schema.ts'
import { limitLockWaits, type Queryable, retryOnLockTimeout } from '../server/session.ts'
import type { MergeReturns } from './merge-sql.ts'
import { probeRows } from './probe-rows.ts'
import { quarantine } from './quarantine.ts'
import {
  beginSql,
  insertRows,
  isAboutInserting,
  type Merged,
  mergeApart,
  mergePage,
  nothingMerged,
  prepareStaging,
  stageRows,
} from './stage-page.ts'
import { type Table, tableOf } from './table.ts'

/** The position that a run moves: the stream's own, a backfill's, or none. */
export type PositionStore = {
  /** Where it was when the run began. */
  readonly start: bigint
  /** What a reading in ranges had left unread above it then. */
  readonly unread: Unread | null
  /** Proves the lease and keeps it until the transaction ends. */
  hold(client: ClientBase): Promise<void>
  /**
   * For a page that changes no row, outside of a transaction: proves the lease and returns the version of the table's columns; null: such a
   * page moves the position, too, and ends like others.
   */
  leave(client: ClientBase, page: Pick<PageEnd, 'to' | 'unread' | 'table'>): Promise<number | null>
  /** The last statement before a commit. Rejects with `RunFenced` when the lease is lost. */
  advance(client: ClientBase, page: PageEnd): Promise<Advanced>
  /** Moves it back, in a transaction of its own. What was read above it counts no more. */
  retreat(client: ClientBase, reason: string, to: bigint): Promise<void>
  end(client: Queryable, end: RunEnd): Promise<void>
}
/** How far a page leads. */
type Reached = {
  /** Where the position moves to, unless it is there already; null: it stays. */
  readonly to: bigint | null
  /** What a reading in ranges has left unread above it; null: that stays as it is. */
  readonly unread: Unread | null
}
export type PageEnd = Reached & {
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
  /** The version of the table's columns: a page that was encoded for another version must not be committed. */
  readonly columnsVersion: number
}

export type Page = Reached & {
  readonly rows: readonly Row[]
  readonly rejected: readonly Rejected[]
  /** As in Records. */
  readonly readAtMs: number
}
export type Committed = Merged &
  Pick<Advanced, 'position'> & { readonly quarantined: number; readonly newlyQuarantined: number }
export type CommitContext = {
  readonly stream: MirroredStream
  readonly positions: PositionStore
  readonly returns: MergeReturns
  /** In which date-times without an offset are read. */
  readonly timeZone: string
  /** Makes the run's line in the ledger: before a page writes anything. */
  readonly noteRun: (client: ClientBase) => Promise<void>
  readonly log: Logger
}

/** A page, and the connection on which it is committed. */
type Commit = CommitContext & { readonly client: ClientBase; readonly page: Page }

/** Why a page is tried once more, in another way. */
export type WhyAgain =
  /** The page before has to be tried again, and locks that this page holds could block it. */
  | 'turn lost'
  /** The columns of the table changed since the page was encoded. */
  | 'table changed'
  /** It was to be copied straight into the table, and has to be merged after all: some rows are there already, or were left out. */
  | 'insert refused'
  /** Some rows have to be written, but only their hashes were made. */
  | 'rows wanted'

/** Nothing was kept of the attempt. */
export class TryAgain extends Error {
  override readonly name = 'TryAgain'
  readonly why: WhyAgain

  constructor(why: WhyAgain, options?: ErrorOptions) {
    super(why, options)
    this.why = why
  }
}

/**
 * How a page takes turns with the one before it. Two pages are written at a time: one is copied while the other is committed. A page
 * must not hold a lock that the page before it needs: it waits for that page to commit, and both would wait for ever.
 */
export type Turn = {
  /** Waits until it is certain that the page before changes no columns. From then on this page may read the table. */
  mayRead(): Promise<void>
  /** Waits until the page before has copied its rows and needs no further locks. From then on this page may lock rows. */
  mayCopy(): Promise<void>
  /** Says that this page has copied all of its rows straight into the table. */
  hasCopied(): void
  /** Waits until the page before is committed. Rejects with `TryAgain` if that failed, or if the table is another now. */
  take(): Promise<void>
}

type Quickly = {
  readonly table: Table
  readonly encoded: EncodedPage
  readonly turn: Turn
  /** Whether probably no row of the page is in the table yet, judging by the pages before it. */
  readonly isAllNew: () => boolean
  /** Whether the page has another record of a row that the page before has too. */
  readonly sharesRows: () => boolean
  /** The page must not be copied straight into the table: that was tried and refused. */
  readonly mustMerge: boolean
}

export async function commitQuickly(commit: Commit, asked: Quickly): Promise<Committed> {
  const { table, encoded, turn } = asked
  return await orRollBack(commit, async (transaction) => {
    const merged = await writeQuickly(commit, { ...asked, begin: transaction.begin })
    // P1, P2: the position goes last, behind the commit that it rests on.
    await turn.take()
    const ending = { merged, rejected: encoded.rejected, columnsVersion: table.tableSchema.version }
    return await leaveOrEnd(commit, ending, transaction)
  })
}

/** Where no transaction has begun, there may be nothing to write. */
async function leaveOrEnd(commit: Commit, ending: Ending, transaction: Transaction): Promise<Committed> {
  if (!transaction.hasBegun()) {
    const left = await leaveUnchanged(commit, ending)
    if (left) return left
    await commit.client.query(await transaction.begin())
  }
  return await end(commit, ending)
}

/** Null when there is something to write all the same. */
async function leaveUnchanged(commit: Commit, ending: Ending): Promise<Committed | null> {
  const { client, page, positions, stream } = commit
  const { rejected, columnsVersion } = ending
  if (page.rejected.length + rejected.length > 0) return null
  const found = await positions.leave(client, { ...page, table: stream.name })
  if (found === null) return null
  if (columnsVersion !== null && columnsVersion !== found) throw new TryAgain('table changed')
  return { ...nothingMerged, quarantined: 0, newlyQuarantined: 0, position: null }
}

/** Up to so many rows Postgres looks up one by one without being told to, and most pages of a poll change nothing. */
const smallPage = 200

async function writeQuickly(
  { client, page, returns }: Commit,
  asked: Quickly & Pick<Transaction, 'begin'>,
): Promise<Merged> {
  const { turn, begin } = asked
  const { tableSchema } = asked.table
  const { encoded } = asked.encoded
  const mayInsert =
    !asked.mustMerge && !encoded.areOnlyHashes && returns === 'counts' && tableSchema.history === null
  const insert = async (copies: Copies, rows: readonly Row[], beginning: () => Promise<string> | null) => {
    await turn.mayCopy()
    await insertRows(client, tableSchema, { copies, rows }, await beginning()).catch((cause) => {
      throw isAboutInserting(cause) ? new TryAgain('insert refused', { cause }) : cause
    })
    turn.hasCopied()
    return { ...nothingMerged, inserted: rows.length }
  }
  const merge = (staged: number) =>
    mergePage(client, tableSchema, { returns, readAtMs: page.readAtMs, staged })
  if (mayInsert && asked.isAllNew()) return await insert(encoded.all, encoded.rows, begin)
  const isSmall = returns !== 'differences' && encoded.rows.length <= smallPage
  if (!isSmall) await prepareStaging(client, tableSchema)
  if (returns === 'differences') {
    // A row that somebody changed here without a trace shows only when it is compared with the whole record (P16).
    await stageRows(client, tableSchema, encoded.all, await begin())
    await turn.take()
    return await merge(encoded.rows.length)
  }
  await turn.mayRead()
  if (asked.sharesRows()) await turn.take()
  if (!isSmall) await client.query(await begin())
  const news = await probeRows(client, tableSchema, encoded, page.readAtMs)
  const { indexes } = news
  if (indexes.length === 0) return nothingMerged
  if (encoded.areOnlyHashes) throw new TryAgain('rows wanted')
  if (isSmall) {
    await prepareStaging(client, tableSchema)
    await client.query(await begin())
  }
  if (mayInsert && news.areAllNew) {
    const rows = indexes.map((index) => encoded.rows[index] as Row)
    return await insert(encoded.only(indexes), rows, () => null)
  }
  await stageRows(client, tableSchema, encoded.only(indexes), '')
  await turn.take()
  return await merge(indexes.length)
}

/** A page without rows needs no table. */
export async function commitWithoutRows(commit: Commit): Promise<Committed> {
  const ending = { merged: nothingMerged, rejected: [], columnsVersion: null }
  return await orRollBack(commit, (transaction) => leaveOrEnd(commit, ending, transaction))
}

type Careful = {
  readonly table: Table
  /** Null: the table lacks nothing. */
  readonly growth: Growth | null
  /** What could not be changed is added to these. */
  readonly settledColumns: Set<string>
}

/**
 * Changes the table where the page needs that, and separates the rows that Postgres refuses from the others. Returns the page encoded
 * for the changed table.
 */
export async function commitCarefully(commit: Commit, careful: Careful) {
  const { client, page, stream, returns } = commit
  const { table, growth } = careful
  return await retryOnLockTimeout(client, tableName(stream.name), 'change the columns of', () =>
    orRollBack(commit, async ({ begin }) => {
      await client.query(await begin())
      const changed = growth ? await grow(commit, careful, growth) : table
      await prepareStaging(client, changed.tableSchema, false)
      const into = { ...changed, returns, readAtMs: page.readAtMs }
      const encoded = growth && (await changed.encode(page.rows))
      const merged = await mergeApart(client, into, page.rows, encoded)
      const columnsVersion = changed.tableSchema.version
      const committed = await end(commit, { merged, rejected: merged.refused, columnsVersion })
      return { committed, table: changed, encoded }
    }),
  )
}

async function grow(commit: Commit, { table, settledColumns }: Careful, growth: Growth): Promise<Table> {
  const { client, positions, log } = commit
  await limitLockWaits(client)
  await positions.hold(client)
  if (!(await growTable(client, table.tableSchema, growth, log))) throw new TryAgain('table changed')
  await client.query('set local lock_timeout = 0')
  const tableSchema = await readTableSchema(client, table.tableSchema.stream)
  if (!tableSchema) throw new TryAgain('table changed')
  // The column could not be changed because something depends on it. Remember that, instead of trying again with every page.
  for (const column of tableSchema.columns)
    if (column.type === 'bigint' && growth.widen.has(column.name)) settledColumns.add(column.name)
    else if (growth.retype?.has(column.name)) settledColumns.add(column.name)
  return tableOf(tableSchema, settledColumns, table.localTimes)
}

type Ending = {
  readonly merged: Merged
  readonly rejected: readonly Rejected[]
  readonly columnsVersion: number | null
}

async function end({ client, page, stream, positions }: Commit, ending: Ending): Promise<Committed> {
  const { merged, columnsVersion } = ending
  const rejected = [...page.rejected, ...ending.rejected]
  const quarantined = rejected.length
  const newlyQuarantined = quarantined > 0 ? await quarantine(client, stream, rejected) : 0
  const advanced = await positions.advance(client, {
    to: page.to,
    unread: page.unread,
    table: stream.name,
    counts: {
      rowsRead: page.rows.length + page.rejected.length,
      inserted: merged.inserted,
      updated: merged.updated,
      quarantined,
    },
  })
  // Another program changed the columns meanwhile: this page may lack a column that it would have to fill or clear.
  if (columnsVersion !== null && columnsVersion !== advanced.columnsVersion)
    throw new TryAgain('table changed')
  await client.query('commit')
  return { ...merged, quarantined, newlyQuarantined, position: advanced.position }
}

/** `begin` answers with what begins it. Until it is asked for there is nothing to roll back. */
type Transaction = { readonly begin: () => Promise<string>; readonly hasBegun: () => boolean }

async function orRollBack<Result>(
  { client, timeZone, noteRun }: Commit,
  work: (transaction: Transaction) => Promise<Result>,
): Promise<Result> {
  let hasBegun = false
  const begin = async () => {
    await noteRun(client)
    hasBegun = true
    return `${beginSql(timeZone)}; `
  }
  try {
    return await work({ begin, hasBegun: () => hasBegun })
  } catch (error) {
    // When the connection is gone, so is the transaction; the first error is the one to tell.
    if (hasBegun) await client.query('rollback').catch(() => {})
    throw error
  }
}
