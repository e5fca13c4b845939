// Asks Postgres which rows of a page would change the table, by key, row version and hash alone: unchanged rows need not be sent. The
// merge checks the rows that it writes once more (P3).

import type { ClientBase } from 'pg'
import type { Row } from '../../streams/record.ts'
import { type EncodedRows, hashBytes } from '../encoding/copy-rows.ts'
import type { TableSchema } from '../schema/table-schema.ts'
import { statementName } from '../server/session.ts'
import { probeSql } from './merge-sql.ts'

/** Within a transaction that has begun. `readAtMs` is as in Records. */
export async function probeRows(
  client: ClientBase,
  tableSchema: TableSchema,
  { rows, hashes, deletions }: EncodedRows,
  readAtMs: number,
) {
  const text = probeSql(tableSchema)
  const isNumber = tableSchema.key.type === 'bigint'
  const { rows: found } = await client.query<{ place: number; is_new: boolean }>({
    name: statementName(client, 'probe', text),
    text,
    values: [
      performance.now() - readAtMs,
      isNumber ? int64Array(rows, ({ key }) => key) : rows.map(({ key }) => key),
      int64Array(rows, ({ version }) => version ?? 0n),
      fixedArray(rows.length, byteaOid, hashBytes, (place, row, to) => {
        hashes.copy(to, place, row * hashBytes, (row + 1) * hashBytes)
      }),
      fixedArray(rows.length, booleanOid, 1, (place, row, to) => {
        to[place] = deletions[row] ?? 0
      }),
    ],
  })
  return {
    /** Of the rows that would change the table, in their order. */
    indexes: found.map(({ place }) => place - 1),
    /** The table has none of them. */
    areAllNew: found.every((row) => row.is_new),
  }
}

// Arrays as Postgres reads them in the binary format, which a Buffer among the values of a query is taken for.
const booleanOid = 16
const byteaOid = 17
const int64Oid = 20
const arrayHeaderBytes = 20

function fixedArray(
  length: number,
  elementOid: number,
  elementBytes: number,
  write: (place: number, index: number, to: Buffer) => void,
): Buffer {
  const array = Buffer.allocUnsafe(arrayHeaderBytes + length * (4 + elementBytes))
  // One dimension, no nulls, counted from 1.
  for (const [index, value] of [1, 0, elementOid, length, 1].entries()) array.writeInt32BE(value, 4 * index)
  for (let index = 0; index < length; index++) {
    const place = arrayHeaderBytes + index * (4 + elementBytes)
    array.writeInt32BE(elementBytes, place)
    write(place + 4, index, array)
  }
  return array
}

const two32 = 4_294_967_296

const int64Array = (rows: readonly Row[], numberOf: (row: Row) => string | bigint): Buffer =>
  fixedArray(rows.length, int64Oid, 8, (place, index, to) => {
    const value = numberOf(rows[index] as Row)
    const number = Number(value)
    if (Number.isSafeInteger(number)) {
      const high = Math.floor(number / two32)
      to.writeInt32BE(high, place)
      to.writeUInt32BE(number - high * two32, place + 4)
    } else to.writeBigInt64BE(BigInt(value), place)
  })
