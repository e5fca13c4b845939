// One page in one transaction on one connection, step by step: stage, merge, quarantine, end. The order of pages and what
// to do when a step fails is page-writer.ts.

import pg, { type ClientBase, type Connection } from 'pg'
import { tableName } from '../../streams/names.ts'
import type { Rejected, Row } from '../../streams/record.ts'
import type { Arrival } from '../../sync/ports/audits.ts'
import type { Copies } from '../encoding/copy-rows.ts'
import type { EncodedPage, EncodePage } from '../encoding/page.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { queryRow } from '../server/query.ts'
import { hasCode, statementName, unlessRefused, writerSql } from '../server/session.ts'
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
    const query = {
      submit(connection: Connection) {
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
      handleCommandComplete({ text }: { readonly text: string }) {
        const [, count] = /^(?:COPY|INSERT 0) (\d+)$/.exec(text) ?? []
        if (count !== undefined) taken = Number(count)
      },
      handleReadyForQuery: () => resolve(taken),
      handleError: reject,
    }
    // The driver calls these.
    client.query(query)
  })
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
export const stageRows = (client: ClientBase, tableSchema: TableSchema, copies: Copies, before: string) =>
  copyIn(client, stageSql(tableSchema), copies, { before })

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
export async function prepareStaging(client: ClientBase, tableSchema: TableSchema, isLasting = true) {
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

/** Some rows may be left as they are although they differ: most often none. */
export async function mergePage(
  client: ClientBase,
  tableSchema: TableSchema,
  merging: Merging,
): Promise<Merged> {
  const text = mergeSql(tableSchema, merging.returns)
  const ageMs = performance.now() - merging.readAtMs
  const statement = { name: statementName(client, 'merge', text), text, values: [ageMs] }
  if (merging.returns === 'counts') {
    const counts = await queryRow<MergedCounts>(client, statement)
    const [inserted, updated] = [Number(counts?.inserted ?? 0), Number(counts?.updated ?? 0)]
    if (inserted + updated < merging.staged) await expectNoneLeftOut(client, tableSchema, merging)
    return { inserted, updated, arrivals: [] }
  }
  const { rows } = await client.query<MergedArrival>(statement)
  const written = rows.filter((row) => row.is_written).length
  if (written < rows.length) await expectNoneLeftOut(client, tableSchema, merging)
  const inserted = rows.filter((row) => row.is_new).length
  return { inserted, updated: written - inserted, arrivals: rows.map(toArrival) }
}

async function expectNoneLeftOut(client: ClientBase, tableSchema: TableSchema, { readAtMs }: Merging) {
  const ageMs = performance.now() - readAtMs
  const { rows } = await client.query<{ key: string }>(leftOutSql(tableSchema), [ageMs])
  const keys = rows.map(({ key }) => key)
  if (keys.length > 0) throw new RowsLeftOut(tableSchema, keys)
}

const toArrival = (found: MergedArrival): Arrival => ({
  ...toDifference(found),
  isWritten: found.is_written,
})

export type Separated = Merged & { readonly refused: readonly Rejected[] }
type Into = Omit<Merging, 'staged'> & { readonly tableSchema: TableSchema; readonly encode: EncodePage }

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
  let merged = nothingMerged
  const merge = async () => {
    await client.query(emptyStagingSql(into.tableSchema))
    await stageRows(client, into.tableSchema, page.encoded.all, '')
    merged = await mergePage(client, into.tableSchema, { ...into, staged: page.encoded.rows.length })
  }
  const refusal = await unlessRefused(client, 'part', merge, isAboutContent)
  if (refusal === null) return { ...merged, refused: page.rejected }
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
  if (only && rows.length === 1) {
    const refused = [{ record: only.record, reason: `Postgres refused it: ${refusal.message}` }]
    return { ...nothingMerged, refused }
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

type Refusal = pg.DatabaseError | RowsLeftOut

/** Bad data, a constraint or trigger that somebody added, or a row that is too large: errors that another attempt would meet again. */
export const isAboutContent = (error: unknown): error is Refusal =>
  error instanceof RowsLeftOut || hasCode(error, /^(?:22|23|54)/)

export const isDeadlock = (error: unknown): boolean => hasCode(error, /^40P01$/)

/** A row is there already, two writers waited for each other, or row security forbids COPY: a merge may succeed all the same. */
export const isAboutInserting = (error: unknown): boolean =>
  isAboutContent(error) || hasCode(error, /^(?:0A|40)/)
