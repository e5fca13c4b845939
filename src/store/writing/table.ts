// The table of a stream as one run writes it: its shape and the encoder for that shape. Makes the table of a list stream
// when the first rows come.

import type { ClientBase, Pool } from 'pg'
import type { Json } from '../../json/json.ts'
import type { Logger } from '../../log.ts'
import type { MirroredStream } from '../../streams/catalog.ts'
import { tableName } from '../../streams/names.ts'
import { isComposite, isUuid, type Row } from '../../streams/record.ts'
import { createPageEncoder, type EncodePage } from '../encoding/page.ts'
import type { LocalTimes } from '../encoding/plain-row.ts'
import { foldName } from '../schema/column-names.ts'
import { createTable, type KeyColumn } from '../schema/create-table.ts'
import { numberVersions } from '../schema/grow-table.ts'
import { rekeyTable, suitsKey } from '../schema/rekey-table.ts'
import { prepareHistory } from '../schema/row-history.ts'
import { readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { withConnection } from '../server/session.ts'
import { fitsInt64 } from '../types/bigint.ts'
import { readLocalTimes } from './local-times.ts'

export type Table = {
  readonly tableSchema: TableSchema
  readonly localTimes: LocalTimes
  readonly encode: EncodePage
}

type Source = {
  readonly pool: Pool
  readonly stream: MirroredStream
  readonly keyField: string | null
  /** The run that writes the table. */
  readonly runId: string
  /** In which date-times without an offset are read. */
  readonly timeZone: string
  readonly log: Logger
}

/** Reads the table's shape; makes the table when there is none. `settled` is as for createPageEncoder. */
export async function openTable(
  source: Source,
  rows: readonly Row[],
  settled: ReadonlySet<string>,
): Promise<Table> {
  const { pool, stream, timeZone } = source
  const localTimes = await readLocalTimes(pool, stream, timeZone)
  return await withConnection(pool, async (client) => {
    const existing = await readTableSchema(client, stream)
    if (existing) {
      const suited = await withSuitingKey(client, await numberVersions(client, existing), source, rows)
      return tableOf(await prepareHistory(client, suited, source), settled, localTimes)
    }
    await createTable(client, stream, keyColumn(source, rows), source.log)
    const made = await readTableSchema(client, stream)
    if (!made)
      throw new Error(
        `${tableName(stream.name)} has no primary key of one column, so Tidemark did not make it. Rename or drop it, and the next run makes the right one.`,
      )
    return tableOf(await prepareHistory(client, made, source), settled, localTimes)
  })
}

/** Changes the key where it does not suit: a table made before its first rows may have the wrong one, and an operator may name another. */
async function withSuitingKey(
  client: ClientBase,
  tableSchema: TableSchema,
  source: Source,
  rows: readonly Row[],
): Promise<TableSchema> {
  if (source.stream.kind === 'changes' || source.keyField === null) return tableSchema
  const wanted = keyColumn(source, rows)
  const keys = rows.map(({ key }) => key)
  return suitsKey(tableSchema, wanted, keys)
    ? tableSchema
    : await rekeyTable(client, tableSchema, wanted, source.log)
}

export const tableOf = (
  tableSchema: TableSchema,
  settled: ReadonlySet<string>,
  localTimes: LocalTimes,
): Table => ({
  tableSchema,
  localTimes,
  encode: createPageEncoder(tableSchema, settled, localTimes),
})

function keyColumn({ stream, keyField }: Source, rows: readonly Row[]): KeyColumn {
  if (stream.kind === 'changes') return { field: stream.keyFields[0] ?? '', type: 'bigint' }
  if (keyField === null)
    throw new Error(`The key of ${stream.name} is not known yet, so its table cannot be made.`)
  if (isComposite(keyField)) return { field: keyField, type: 'text' }
  // Digits in quotes count as text, because the next key may have letters.
  if (rows.every((row) => fitsInt64(row.key) && typeof fieldOf(row, keyField) !== 'string'))
    return { field: keyField, type: 'bigint' }
  return { field: keyField, type: rows.every((row) => isUuid(row.key)) ? 'uuid' : 'text' }
}

const fieldOf = ({ record }: Row, field: string): Json | undefined =>
  record[Object.keys(record).find((name) => foldName(name) === foldName(field)) ?? '']
