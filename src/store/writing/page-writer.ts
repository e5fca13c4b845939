// Writes the pages of one run, two at a time: while one is merged, the next is already copied into its staging table.
// Merges and commits keep the order of the calls, and a page that fails takes every later one with it (P1, P6).

import type { ClientBase, Pool } from 'pg'
import type { MirroredStream } from '../../streams/catalog.ts'
import type { Records, Row } from '../../streams/record.ts'
import type { Written } from '../../sync/ports/store.ts'
import { type EncodedPage, rowsToWrite, type Tally } from '../encoding/page.ts'
import type { Growth } from '../schema/grow-table.ts'
import { type Connection, takeConnection } from '../server/session.ts'
import {
  type CommitContext,
  type Committed,
  commitCarefully,
  commitQuickly,
  commitWithoutRows,
  type Page,
  TableChanged,
} from './commit-page.ts'
import { expectNewRows } from './new-rows.ts'
import { type Dictionary, startDictionary } from './quarantine.ts'
import { isAboutContent, isAboutInserting } from './stage-page.ts'
import { openTable, type Table } from './table.ts'

export type PageWriter = {
  write(page: Records, position: bigint | null): Promise<Written>
  /** Resolves when no page is in flight, however they ended. */
  settled(): Promise<void>
  close(): void
}
type Outcome = {
  readonly written: Written
  readonly tally: Tally | null
  readonly newlyQuarantined: number
  readonly position: bigint | null
}
type Options = CommitContext & {
  readonly pool: Pool
  readonly keyField: () => string | null
  /** How long the past of rows is kept, where it is. */
  readonly keptMs: number
  /** How many connections write at the same time: 1 or 2. */
  readonly connections: number
  readonly onCommit: (outcome: Outcome) => void
}
type Slot = { connection: Connection | null; free: Promise<unknown> }
/** What a page waits for: room in memory, its connection, and the commit of the page before it. */
type Order = {
  readonly room: Promise<unknown>
  readonly slot: Slot
  readonly slotFree: Promise<unknown>
  readonly previous: Promise<unknown>
  /** How many of its rows the page before it held as well. */
  readonly repeatedCount: number
}
type Prepared = { readonly table: Table; readonly encoded: EncodedPage }
type Result = { readonly committed: Committed; readonly encoded: EncodedPage | null }

export function startPageWriter(options: Options): PageWriter {
  const { pool, lease } = options
  const slots = Array.from(
    { length: options.connections },
    (): Slot => ({ connection: null, free: Promise.resolve() }),
  )
  const settledColumns = new Set<string>()
  let pageCount = 0
  let last: Promise<unknown> = Promise.resolve()
  let beforeLast: Promise<unknown> = last
  let current: Promise<Table> | null = null
  const newRows = expectNewRows()

  function write(records: Records, position: bigint | null): Promise<Written> {
    const slot = slots[pageCount++ % slots.length] as Slot
    const { rows, repeatedCount } = newRows.nextPage(records.rows)
    const page: Page = {
      rows: rowsToWrite(rows),
      rejected: records.rejected,
      readAtMs: records.readAtMs ?? performance.now(),
      // Only the incremental run reads everything above the position, so only it can tell that it is complete (P6). A backfill
      // moves a position of its own.
      position: lease.kind === 'incremental' || lease.backfill !== null ? position : null,
    }
    const order: Order = { room: beforeLast, slot, slotFree: slot.free, previous: last, repeatedCount }
    const written = writeInOrder(page, records.rows.length, order)
    beforeLast = last
    last = written
    slot.free = written.catch(() => {})
    return written
  }

  async function writeInOrder(page: Page, rowCount: number, order: Order): Promise<Written> {
    await order.room
    // Encoded before its connection is free: this program works while Postgres does.
    const prepared = page.rows.length > 0 ? await prepare(page.rows) : null
    await order.slotFree
    const connection = await connectionOf(order.slot)
    const { client } = connection
    try {
      const { committed, encoded } = prepared
        ? await commitRows(client, page, prepared, order)
        : await commitNoRows(client, page, order)
      const { inserted, updated, quarantined, arrivals } = committed
      if (encoded) newRows.wereWritten(inserted + order.repeatedCount === encoded.rowCount)
      const refused = quarantined - page.rejected.length
      const written = {
        inserted,
        updated,
        unchanged: rowCount - inserted - updated - refused,
        rescued: encoded?.rescued ?? 0,
        quarantined,
        arrivals,
      }
      const { newlyQuarantined } = committed
      options.onCommit({ written, tally: encoded?.tally ?? null, newlyQuarantined, position: page.position })
      return written
    } catch (error) {
      connection.release(error)
      order.slot.connection = null
      throw error
    }
  }

  /** One that Postgres or the network ended between two pages held nothing of any. */
  async function connectionOf(slot: Slot): Promise<Connection> {
    if (slot.connection?.isBroken()) {
      slot.connection.release()
      slot.connection = null
    }
    slot.connection ??= await takeConnection(pool)
    return slot.connection
  }

  async function prepare(rows: readonly Row[]): Promise<Prepared> {
    const opening = current ?? openTable({ ...options, keyField: options.keyField() }, rows, settledColumns)
    current = opening
    try {
      const table = await opening
      return { table, encoded: await table.encode(rows) }
    } catch (error) {
      if (current === opening) current = null
      throw error
    }
  }

  async function commitNoRows(client: ClientBase, page: Page, order: Order): Promise<Result> {
    await order.previous
    return { committed: await commitWithoutRows(client, options, page), encoded: null }
  }

  async function commitRows(client: ClientBase, page: Page, first: Prepared, order: Order): Promise<Result> {
    let { table, encoded } = first
    let isApart = false
    const isStillCurrent = async () => {
      await order.previous
      return (await current) === table
    }
    for (;;) {
      try {
        if (isApart) return await commitApart(client, page, { table, encoded }, isStillCurrent)
        if (encoded.growth)
          return await commitAfterGrowth(client, page, table, encoded.growth, isStillCurrent)
        const committed = await commitQuickly(client, options, page, {
          ...{ table, encoded, isStillCurrent },
          isAllNew: () => order.repeatedCount === 0 && newRows.areExpected(),
        })
        return { committed, encoded }
      } catch (error) {
        if (isAboutInserting(error) && newRows.wereRefused()) continue
        if (isAboutContent(error) && !isApart) {
          isApart = true
          continue
        }
        if (!(error instanceof TableChanged)) throw error
        // By another program, unless it was the page before this one, which knows what the table is like now.
        if ((await current) === table) current = null
        ;({ table, encoded } = await prepare(page.rows))
        isApart = false
      }
    }
  }

  async function commitAfterGrowth(
    client: ClientBase,
    page: Page,
    table: Table,
    growth: Growth,
    isStillCurrent: () => Promise<boolean>,
  ): Promise<Result> {
    if (!(await isStillCurrent())) throw new TableChanged()
    const grown = await commitCarefully(client, options, page, { table, growth, settledColumns })
    current = Promise.resolve(grown.table)
    return { committed: grown.committed, encoded: await grown.table.encode(page.rows) }
  }

  async function commitApart(
    client: ClientBase,
    page: Page,
    { table, encoded }: Prepared,
    isStillCurrent: () => Promise<boolean>,
  ): Promise<Result> {
    if (!(await isStillCurrent())) throw new TableChanged()
    const { committed } = await commitCarefully(client, options, page, {
      table,
      growth: null,
      settledColumns,
    })
    return { committed, encoded }
  }

  return {
    write,
    async settled() {
      await last.catch(() => {})
    },
    close() {
      for (const slot of slots) slot.connection?.release()
    },
  }
}

// The page writers of one run, one for each table that it writes, with what each table's dictionary is to be told at the end.
export type Writers = {
  /** Opened when it is first asked for. */
  of(table: MirroredStream, keyField: () => string | null): PageWriter
  settled(): Promise<void>
  close(): void
  flushDictionaries(client: Pick<ClientBase, 'query'>): Promise<void>
}

export function openWriters(
  start: (
    table: MirroredStream,
    keyField: () => string | null,
    onTally: (tally: Tally) => void,
  ) => PageWriter,
): Writers {
  const opened = new Map<string, { readonly writer: PageWriter; readonly dictionary: Dictionary }>()
  return {
    of(table, keyField) {
      const known = opened.get(table.name)
      if (known) return known.writer
      const dictionary = startDictionary()
      const writer = start(table, keyField, dictionary.count)
      opened.set(table.name, { writer, dictionary })
      return writer
    },
    async settled() {
      for (const { writer } of opened.values()) await writer.settled()
    },
    close() {
      for (const { writer } of opened.values()) writer.close()
    },
    async flushDictionaries(client) {
      for (const [name, { dictionary }] of opened) await dictionary.flush(client, name)
    },
  }
}
