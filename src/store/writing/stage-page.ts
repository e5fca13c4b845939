// One page in one transaction on one connection, step by step: stage, merge, quarantine, end. The order of pages and what
// to do when a step fails is page-writer.ts.

import pg, { type ClientBase, type Connection, type Submittable } from 'pg'
import { tableName } from '../../streams/names.ts'
import type { Rejected, Row } from '../../streams/record.ts'
import type { Arrival } from '../../sync/ports/audits.ts'
import type { Copies } from '../encoding/copy-rows.ts'
import type { EncodedPage, EncodePage } from '../encoding/page.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { statementName, writerSql } from '../server/session.ts'
import { toDifference } from './difference-sql.ts'
import {
  emptyStagingSql,
  expectNewSql,
  insertConditionSql,
  insertSql,
  insertStagedSql,
  leftOutSql,
  type MergedArrival,
  type MergedCounts,
  type MergeReturns,
  mergeSettings,
  mergeSql,
  stageSql,
  stagingSql,
  stagingTable,
} from './merge-sql.ts'

// COPY … FROM STDIN of bytes that are in memory already. The data follows the statement at once, without waiting for
// Postgres to ask for it: when the statement fails, Postgres throws the data away.
type CopyConnection = Connection & {
  sendCopyFromChunk(chunk: Buffer): void
  endCopyFrom(): void
}

const binaryHeader = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1')
const binaryEnd = Buffer.from([0xff, 0xff])

/** Postgres did not complain, and yet some rows are not in the table: somebody added a trigger that drops them. */
class RowsLeftOut extends Error {
  override readonly name = 'RowsLeftOut'

  /** Empty: not known yet. */
  readonly keys: ReadonlySet<string>

  constructor({ stream }: TableSchema, keys: readonly string[] = []) {
    super(`left out by a trigger on ${tableName(stream.name)}`)
    this.keys = new Set(keys)
  }
}

/** What stands around a COPY in its message. */
type Around = {
  /** Begins a transaction, or is empty. */
  readonly before?: string
  /** Which rows it takes. */
  readonly condition?: string
  /** What follows when all rows are copied. */
  readonly after?: string
}

/** Returns how many rows Postgres took; with `after`, how many that statement wrote. */
async function copyIn(
  client: ClientBase,
  copySql: string,
  { binary, text }: Copies,
  { before = '', condition = '', after = '' }: Around,
): Promise<number> {
  const copies: (readonly [string, readonly Buffer[]])[] = []
  if (binary.length > 0)
    copies.push([`${copySql} with (format binary)`, [binaryHeader, ...binary, binaryEnd]])
  if (text.length > 0 || binary.length === 0) copies.push([copySql, text])
  let taken = 0
  for (const [index, [statement, chunks]] of copies.entries()) {
    const last = index === copies.length - 1 ? after : ''
    const count = await copyChunks(
      client,
      `${index === 0 ? before : ''}${statement} ${condition}; ${last}`,
      chunks,
    )
    taken = last === '' ? taken + count : count
  }
  return taken
}

function copyChunks(client: ClientBase, statements: string, chunks: readonly Buffer[]): Promise<number> {
  return new Promise((resolve, reject) => {
    let taken = 0
    const query: Submittable & CopyEvents = {
      submit(connection) {
        const { stream } = connection
        stream.cork()
        connection.query(statements)
        for (const chunk of chunks) {
          stream.write(copyDataHeader(chunk.length))
          stream.write(chunk)
        }
        ;(connection as CopyConnection).endCopyFrom()
        stream.uncork()
      },
      handleCopyInResponse() {},
      handleRowDescription() {},
      handleDataRow() {},
      handleCommandComplete({ text }) {
        const [, count] = /^(?:COPY|INSERT 0) (\d+)$/.exec(text) ?? []
        if (count !== undefined) taken = Number(count)
      },
      handleReadyForQuery: () => resolve(taken),
      handleError: reject,
    }
    client.query(query)
  })
}

/** What the driver calls on a query of our own. */
type CopyEvents = {
  handleCopyInResponse(): void
  handleRowDescription(): void
  handleDataRow(): void
  handleCommandComplete(done: { readonly text: string }): void
  handleReadyForQuery(): void
  handleError(error: Error): void
}

function copyDataHeader(length: number): Buffer {
  const header = Buffer.allocUnsafe(5)
  header.writeUInt8(0x64, 0)
  header.writeUInt32BE(length + 4, 1)
  return header
}

export type Merged = {
  readonly inserted: number
  readonly updated: number
  readonly arrivals: readonly Arrival[]
}
export const nothingMerged: Merged = { inserted: 0, updated: 0, arrivals: [] }

/** The staging tables of a connection, the one that was used last behind the others. */
const stagingOf = new WeakMap<ClientBase, Set<string>>()
/** Each commit that used a temporary table empties all of them. */
const mostStaging = 4

/** `before` begins the transaction, or is empty. */
export async function stageRows(
  client: ClientBase,
  tableSchema: TableSchema,
  copies: Copies,
  before: string,
): Promise<void> {
  await copyIn(client, stageSql(tableSchema), copies, { before })
}

/** Begins the transaction. Date-times without an offset are read in `timeZone`. */
export async function stagePage(
  client: ClientBase,
  tableSchema: TableSchema,
  copies: Copies,
  timeZone: string,
): Promise<void> {
  await prepareStaging(client, tableSchema)
  await stageRows(client, tableSchema, copies, `${beginSql(timeZone)}; `)
}

/**
 * Instead of staging and merging, for rows that are all new, as it seems. `begin` begins the transaction; null: one has begun, and found them
 * to be new. Then they are staged and inserted in one message, without an error where another writer brings one of them meanwhile.
 */
export async function insertRows(
  client: ClientBase,
  tableSchema: TableSchema,
  { copies, rows }: { readonly copies: Copies; readonly rows: readonly Row[] },
  begin: string | null,
): Promise<void> {
  const keys = rows.map(({ key }) => key)
  const taken =
    begin === null
      ? await copyIn(client, stageSql(tableSchema), copies, { after: insertStagedSql(tableSchema) })
      : await copyIn(client, insertSql(tableSchema), copies, {
          before: `${begin}${expectNewSql(tableSchema, keys)}`,
          condition: insertConditionSql,
        })
  if (taken < keys.length) throw new RowsLeftOut(tableSchema)
}

// A program that is frozen in the middle of a page holds its rows, and the row of its lease, no longer than this. A page that waits
// for the one before it waits for locks at most.
const frozenSql = `set local idle_in_transaction_session_timeout = '60s'`

export const beginSql = (timeZone: string): string =>
  `begin; ${writerSql}; set local timezone = ${pg.escapeLiteral(timeZone)}; ${frozenSql}; ${mergeSettings}`

/**
 * The table stays for later pages of this shape, because with each one that is made or dropped all sessions of Postgres look through their
 * plans. `isLasting` false: within a transaction, which may be rolled back; then it goes with that transaction.
 */
export async function prepareStaging(
  client: ClientBase,
  tableSchema: TableSchema,
  isLasting = true,
): Promise<void> {
  const made = stagingOf.get(client) ?? new Set()
  const table = stagingTable(tableSchema)
  if (made.delete(table)) {
    made.add(table)
    return
  }
  if (!isLasting) {
    await client.query(stagingSql(tableSchema, 'drop'))
    return
  }
  const [unused] = made
  if (unused !== undefined && made.size === mostStaging) {
    await client.query(`drop table if exists ${unused}`)
    made.delete(unused)
  }
  await client.query(stagingSql(tableSchema, 'delete rows'))
  stagingOf.set(client, made.add(table))
}

type Merging = {
  readonly returns: MergeReturns
  /** How many rows were staged. */
  readonly staged: number
  /** As in Records: what was proven gone since then stays so. */
  readonly readAtMs: number
}

export async function mergePage(
  client: ClientBase,
  tableSchema: TableSchema,
  merging: Merging,
): Promise<Merged> {
  const { merged, unwritten } = await merge(client, tableSchema, merging)
  if (unwritten > 0) await expectNoneLeftOut(client, tableSchema, merging)
  return merged
}

/** `unwritten`: how many rows were left as they are although they may differ. Most often none. */
async function merge(
  client: ClientBase,
  tableSchema: TableSchema,
  merging: Merging,
): Promise<{ readonly merged: Merged; readonly unwritten: number }> {
  const text = mergeSql(tableSchema, merging.returns)
  const ageMs = performance.now() - merging.readAtMs
  const statement = { name: statementName(client, 'merge', text), text, values: [ageMs] }
  if (merging.returns === 'counts') {
    const { rows } = await client.query<MergedCounts>(statement)
    const [inserted, updated] = [Number(rows[0]?.inserted ?? 0), Number(rows[0]?.updated ?? 0)]
    return { merged: { inserted, updated, arrivals: [] }, unwritten: merging.staged - inserted - updated }
  }
  const { rows } = await client.query<MergedArrival>(statement)
  const written = rows.filter((row) => row.is_written).length
  const inserted = rows.filter((row) => row.is_new).length
  const merged = { inserted, updated: written - inserted, arrivals: rows.map(toArrival) }
  return { merged, unwritten: rows.length - written }
}

async function expectNoneLeftOut(
  client: ClientBase,
  tableSchema: TableSchema,
  { readAtMs }: Merging,
): Promise<void> {
  const { rows } = await client.query<{ key: string }>(leftOutSql(tableSchema), [
    performance.now() - readAtMs,
  ])
  if (rows.length > 0)
    throw new RowsLeftOut(
      tableSchema,
      rows.map(({ key }) => key),
    )
}

const toArrival = (found: MergedArrival): Arrival => ({
  ...toDifference(found),
  isWritten: found.is_written,
})

export type Separated = Merged & { readonly refused: readonly Rejected[] }
type Into = {
  readonly tableSchema: TableSchema
  readonly encode: EncodePage
  readonly returns: MergeReturns
  readonly readAtMs: number
}

/**
 * Merges rows of which Postgres may refuse some for their content. Those are found and set apart, and the rest is written (P5): the rows that
 * a trigger left out are taken out, and otherwise the rows are halved until those that are refused stand alone. Within a transaction that has
 * begun. `encoded`: the rows in that form, which is tried first; null: as text, of which Postgres says best what it refuses.
 */
export async function mergeApart(
  client: ClientBase,
  into: Into,
  rows: readonly Row[],
  encoded: EncodedPage | null,
): Promise<Separated> {
  if (rows.length === 0) return { ...nothingMerged, refused: [] }
  const page = encoded ?? (await into.encode(rows, { isAllText: true }))
  const { merged, refusal } = await mergeIfTaken(client, into, page)
  if (merged) return merged
  if (encoded) return await mergeApart(client, into, rows, null)
  const isLeftOut = ({ key }: Row) => refusal instanceof RowsLeftOut && refusal.keys.has(key)
  const leftOut = rows.filter(isLeftOut)
  if (leftOut.length > 0) {
    const left = rows.filter((row) => !isLeftOut(row))
    const others = await mergeApart(client, into, left, null)
    const refused = leftOut.map(({ record }) => ({ record, reason: refusal.message }))
    return { ...others, refused: [...others.refused, ...refused] }
  }
  const [only] = rows
  if (only && rows.length === 1)
    return {
      ...nothingMerged,
      refused: [{ record: only.record, reason: `Postgres refused it: ${refusal.message}` }],
    }
  const middle = rows.length >> 1
  const first = await mergeApart(client, into, rows.slice(0, middle), null)
  const second = await mergeApart(client, into, rows.slice(middle), null)
  return {
    inserted: first.inserted + second.inserted,
    updated: first.updated + second.updated,
    arrivals: [...first.arrivals, ...second.arrivals],
    refused: [...first.refused, ...second.refused],
  }
}

type Attempt =
  | { readonly merged: Separated; readonly refusal: null }
  | { readonly merged: null; readonly refusal: Refusal }

/** Merges the rows, or leaves nothing of them behind if Postgres refuses. */
async function mergeIfTaken(client: ClientBase, into: Into, page: EncodedPage): Promise<Attempt> {
  const { tableSchema, returns, readAtMs } = into
  await client.query(`savepoint part; ${emptyStagingSql(tableSchema)}`)
  try {
    await stageRows(client, tableSchema, page.encoded.all, '')
    const merged = await mergePage(client, tableSchema, {
      returns,
      readAtMs,
      staged: page.encoded.rows.length,
    })
    await client.query('release savepoint part')
    return { merged: { ...merged, refused: page.rejected }, refusal: null }
  } catch (error) {
    if (!isAboutContent(error)) throw error
    await client.query('rollback to savepoint part; release savepoint part')
    return { merged: null, refusal: error }
  }
}

type Refusal = pg.DatabaseError | RowsLeftOut

/** Bad data, a constraint or trigger that somebody added, or a row that is too large: errors that another attempt would meet again. */
export const isAboutContent = (error: unknown): error is Refusal =>
  error instanceof RowsLeftOut ||
  (error instanceof pg.DatabaseError && /^(?:22|23|54)/.test(error.code ?? ''))

export const isDeadlock = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && error.code === '40P01'

/** A row is there already, two writers waited for each other, or row security forbids COPY: a merge may succeed all the same. */
export const isAboutInserting = (error: unknown): boolean =>
  isAboutContent(error) || (error instanceof pg.DatabaseError && /^(?:0A|40)/.test(error.code ?? ''))
