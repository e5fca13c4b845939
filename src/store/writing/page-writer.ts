// Writes the pages of one run, two at a time (src/sync/pipeline.ts hands it no more): while one is merged, the next is already copied into its
// staging table. Where few connections are left, it writes one at a time, and keeps no connection between two pages.
// Merges and commits keep the order of the calls, and a page that fails takes every later one with it (P1, P6).

import type { ClientBase, Pool } from 'pg'
import type { Records, Row } from '../../streams/record.ts'
import type { Unread, Written } from '../../sync/ports/store.ts'
import { type EncodedPage, rowsToWrite, type Tally } from '../encoding/page.ts'
import { type Connection, isCrowded, takeConnection } from '../server/session.ts'
import {
  type CommitContext,
  type Committed,
  commitCarefully,
  commitQuickly,
  commitWithoutRows,
  type Page,
  TryAgain,
  type Turn,
  type WhyAgain,
} from './commit-page.ts'
import { expectNewRows, type NewRows, type NextPage } from './new-rows.ts'
import { isAboutContent, isDeadlock } from './stage-page.ts'
import { openTable, type Table } from './table.ts'

export type PageWriter = ReturnType<typeof startPageWriter>
export type Outcome = Pick<Committed, 'newlyQuarantined' | 'position'> & {
  readonly written: Written
  readonly tally: Tally | null
}
export type WriterOptions = CommitContext & {
  readonly pool: Pool
  readonly keyField: () => string | null
  readonly runId: string
  /** Asked with each connection. Rejects when the session of the run, which holds its lease, has ended. */
  readonly expectSession: () => Promise<unknown>
  /** How many connections write at the same time: 1 or 2. */
  readonly connections: number
  readonly onCommit: (outcome: Outcome) => void
}

type Writer = {
  readonly options: WriterOptions
  readonly slots: readonly Slot[]
  /** Columns that stay bigint, because something depends on them. */
  readonly settledColumns: Set<string>
  readonly newRows: NewRows
  /** The table as the page that was prepared last found it; null when it has to be looked at. */
  table: Promise<Table> | null
  pageCount: number
  last: OnItsWay
}
/** The moments of a page that the page behind it waits for. All of them are over when the page is. */
const newMoments = () => ({
  /** The page will not change the columns, or has changed them: now the next page can be encoded for the columns that there are. */
  isEncoded: Promise.withResolvers<void>(),
  isQuick: Promise.withResolvers<void>(),
  hasCopied: Promise.withResolvers<void>(),
  /** Whether its first try was committed. */
  isTried: Promise.withResolvers<boolean>(),
})
type Moments = ReturnType<typeof newMoments>
type OnItsWay = Moments & { readonly written: Promise<unknown> }
type Slot = { connection: Connection | null; free: Promise<unknown> }
const newSlot = (): Slot => ({ connection: null, free: Promise.resolve() })
/** What a page waits for: its connection, and the commit of the page before it. */
type Order = Omit<NextPage, 'rows'> & {
  readonly slot: Slot
  readonly slotFree: Promise<unknown>
  readonly previous: OnItsWay
  readonly own: Moments
}
type Prepared = { readonly table: Table; readonly encoded: EncodedPage }
/** A page on its way, on the connection that it got. */
type Task = { readonly client: ClientBase; readonly page: Page; readonly order: Order }
type Result = { readonly committed: Committed; readonly encoded: EncodedPage | null }

export function startPageWriter(options: WriterOptions) {
  const writer: Writer = {
    options,
    slots: Array.from({ length: options.connections }, newSlot),
    settledColumns: new Set(),
    newRows: expectNewRows(),
    table: null,
    pageCount: 0,
    last: { ...newMoments(), written: Promise.resolve() },
  }
  settle(writer.last, true)
  return {
    write: (page: Records, to: bigint | null, unread: Unread | null = null): Promise<Written> =>
      enqueue(writer, page, { to, unread }),
    /** Resolves when no page is in flight, however they ended. */
    async settled(): Promise<void> {
      await writer.last.written.catch(() => {})
    },
    close(): void {
      for (const slot of writer.slots) giveBack(slot)
    },
  }
}

function settle(page: Moments, isCommitted: boolean): void {
  page.isEncoded.resolve()
  page.isTried.resolve(isCommitted)
  page.isQuick.resolve()
  page.hasCopied.resolve()
}

function enqueue(writer: Writer, records: Records, reached: Pick<Page, 'to' | 'unread'>): Promise<Written> {
  const slot = writer.slots[
    isCrowded(writer.options.pool) ? 0 : writer.pageCount++ % writer.slots.length
  ] as Slot
  const { rows, ...likePageBefore } = writer.newRows.nextPage(records.rows)
  const page: Page = {
    rows: rowsToWrite(rows, records.haveOwnKeys),
    rejected: records.rejected,
    readAtMs: records.readAtMs ?? performance.now(),
    ...reached,
  }
  const order: Order = {
    slot,
    slotFree: slot.free,
    previous: writer.last,
    own: newMoments(),
    ...likePageBefore,
  }
  const written = writeInOrder(writer, page, records.rows.length, order)
  written.then(
    () => settle(order.own, true),
    () => settle(order.own, false),
  )
  writer.last = { ...order.own, written }
  slot.free = written.catch(() => {})
  return written
}

async function writeInOrder(writer: Writer, page: Page, rowCount: number, order: Order): Promise<Written> {
  await order.previous.isEncoded.promise
  // The page is encoded before its connection is free, so that this program works while Postgres does.
  const onlyHashes = writer.options.returns !== 'differences' && writer.newRows.noneIsExpected()
  const prepared = page.rows.length > 0 ? await prepare(writer, page.rows, onlyHashes) : null
  if (!prepared?.encoded.growth) order.own.isEncoded.resolve()
  await order.slotFree
  const connection = await connectionOf(writer, order.slot)
  const task: Task = { client: connection.client, page, order }
  try {
    const { committed, encoded } = prepared
      ? await commitRows(writer, task, prepared)
      : await commitNoRows(writer, task)
    const { inserted, updated, quarantined, arrivals, newlyQuarantined, position } = committed
    if (encoded)
      writer.newRows.wereWritten({
        areAllNew: inserted + order.repeatedCount === encoded.encoded.rows.length,
        areAllKnown: inserted + updated === 0,
      })
    const refused = quarantined - page.rejected.length
    const written = {
      inserted,
      updated,
      unchanged: rowCount - inserted - updated - refused,
      rescued: encoded?.rescued ?? 0,
      quarantined,
      arrivals,
    }
    writer.options.onCommit({ written, tally: encoded?.tally ?? null, newlyQuarantined, position })
    encoded?.encoded.release()
    if (isCrowded(writer.options.pool)) giveBack(order.slot)
    return written
  } catch (error) {
    giveBack(order.slot, error)
    throw error
  }
}

function giveBack(slot: Slot, error?: unknown): void {
  slot.connection?.release(error)
  slot.connection = null
}

/**
 * Replaces a connection that Postgres or the network ended between two pages: no transaction was open on it. But the next one may be to a
 * server that took over and lacks pages which were committed, with the lease as it was. The session of the run does not live on there.
 */
async function connectionOf({ options }: Writer, slot: Slot): Promise<Connection> {
  if (slot.connection?.isBroken()) giveBack(slot)
  if (slot.connection !== null) return slot.connection
  slot.connection = await takeConnection(options.pool)
  try {
    await options.expectSession()
  } catch (error) {
    giveBack(slot, error)
    throw error
  }
  return slot.connection
}

async function prepare(writer: Writer, rows: readonly Row[], onlyHashes = false): Promise<Prepared> {
  const { options, settledColumns } = writer
  const opening =
    writer.table ?? openTable({ ...options, keyField: options.keyField() }, rows, settledColumns)
  writer.table = opening
  try {
    const table = await opening
    return { table, encoded: await table.encode(rows, { waitsForGrowth: true, onlyHashes }) }
  } catch (error) {
    if (writer.table === opening) writer.table = null
    throw error
  }
}

async function commitNoRows({ options }: Writer, { client, page, order }: Task): Promise<Result> {
  await order.previous.written
  return { committed: await commitWithoutRows({ ...options, client, page }), encoded: null }
}

const mostDeadlocks = 3

/** Tries again, in another way, until the page is in: the table may change under it, and Postgres may refuse some of it. */
async function commitRows(writer: Writer, task: Task, first: Prepared): Promise<Result> {
  const { previous, own } = task.order
  let prepared = first
  const way: Way = { isApart: false, mustMerge: false, isAlone: false }
  let deadlocksLeft = mostDeadlocks
  for (;;) {
    try {
      return await commitOnce(writer, task, prepared, way)
    } catch (error) {
      // Makes the page behind roll back what it has begun, and wait until this page is written.
      own.isTried.resolve(false)
      switch (whyAgain(error, way)) {
        case 'turn lost':
          await previous.written
          way.isAlone = true
          break
        case 'insert refused':
          writer.newRows.wereRefused()
          way.mustMerge = true
          break
        case 'rows wanted':
          writer.newRows.wereWanted()
          prepared = await prepare(writer, task.page.rows)
          break
        case 'table changed':
          // If `writer.table` is another one by now, the page before has changed the table and put it there. If not, another program did.
          if ((await writer.table) === prepared.table) writer.table = null
          prepared = await prepare(writer, task.page.rows)
          way.isApart = false
          break
        case 'content refused':
          way.isApart = true
          break
        case 'deadlock':
          if (deadlocksLeft-- === 0) throw error
          break
        default:
          throw error
      }
    }
  }
}

function whyAgain(error: unknown, way: Way): WhyAgain | 'content refused' | 'deadlock' | null {
  if (error instanceof TryAgain) return error.why
  // A writer that is not Tidemark has locked rows in another order than that of their keys.
  if (isDeadlock(error)) return 'deadlock'
  return isAboutContent(error) && !way.isApart ? 'content refused' : null
}

/** How a page is tried. */
type Way = {
  isApart: boolean
  mustMerge: boolean
  /** The page before is written. */
  isAlone: boolean
}

async function commitOnce(writer: Writer, task: Task, prepared: Prepared, way: Way): Promise<Result> {
  const { order } = task
  const { table, encoded } = prepared
  const commit = { ...writer.options, client: task.client, page: task.page }
  const growth = way.isApart ? null : encoded.growth
  if (way.isApart || growth) {
    await order.previous.written
    way.isAlone = true
    if ((await writer.table) !== table) throw new TryAgain('table changed')
    const { settledColumns } = writer
    const grown = await commitCarefully(commit, { table, growth, settledColumns })
    if (growth) writer.table = Promise.resolve(grown.table)
    return { committed: grown.committed, encoded: grown.encoded ?? encoded }
  }
  order.own.isQuick.resolve()
  const committed = await commitQuickly(commit, {
    table,
    encoded,
    turn: turnOf(writer, order, table, way),
    isAllNew: () => order.repeatedCount === 0 && writer.newRows.areExpected() && !order.sharesRows(),
    sharesRows: order.sharesRows,
    mustMerge: way.mustMerge,
  })
  return { committed, encoded }
}

function turnOf(writer: Writer, { previous, own }: Order, table: Table, way: Way): Turn {
  /** Waits for the moment, and rejects as soon as it is certain that the page before has to be tried again. */
  const orLost = async (moment: Promise<unknown>) => {
    const lost = previous.isTried.promise.then((isCommitted) => isCommitted || way.isAlone)
    if (!(await Promise.race([lost, moment.then(() => true)]))) throw new TryAgain('turn lost')
  }
  return {
    mayRead: () => orLost(previous.isQuick.promise),
    mayCopy: () => orLost(previous.hasCopied.promise),
    hasCopied: () => own.hasCopied.resolve(),
    async take() {
      if (!way.isAlone && !(await previous.isTried.promise)) throw new TryAgain('turn lost')
      await previous.written
      if ((await writer.table) !== table) throw new TryAgain('table changed')
    },
  }
}
