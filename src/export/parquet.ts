// Writes a table as a Parquet file, from rows as Postgres sends them in the binary form of COPY: every digit and microsecond stays. Values are
// written plainly, compressed by Zstandard, in groups of rows, so that memory does not grow with the table (P10).

import { zstdCompressSync } from 'node:zlib'
import type { ColumnType } from '../store/types/table.ts'

// ── the compact protocol of Thrift, in which a Parquet file describes itself: as much of it as such a file needs, and only written ──

type Value = { readonly type: number; readonly bytes: Buffer }
/** The number of a field, which rises, and its value. */
type Field = readonly [id: number, value: Value]

function varint(value: number | bigint): Buffer {
  const bytes: number[] = []
  let left = BigInt(value)
  while (left > 0x7fn) {
    bytes.push(Number(left & 0x7fn) | 0x80)
    left >>= 7n
  }
  bytes.push(Number(left))
  return Buffer.from(bytes)
}

const zigzag = (value: number | bigint): Buffer => {
  const whole = BigInt(value)
  return varint(whole < 0n ? -2n * whole - 1n : 2n * whole)
}
const types = { yes: 1, no: 2, i32: 5, i64: 6, binary: 8, list: 9, struct: 12 } as const

const bool = (value: boolean): Value => ({
  type: value ? types.yes : types.no,
  bytes: Buffer.alloc(0),
})
const i32 = (value: number): Value => ({ type: types.i32, bytes: zigzag(value) })
const i64 = (value: number): Value => ({ type: types.i64, bytes: zigzag(value) })

function text(value: string): Value {
  const bytes = Buffer.from(value)
  return { type: types.binary, bytes: Buffer.concat([varint(bytes.length), bytes]) }
}

/** Of values of one type. */
function list(values: readonly Value[]): Value {
  const type = values[0]?.type ?? types.struct
  const head =
    values.length < 15
      ? Buffer.from([(values.length << 4) | type])
      : Buffer.concat([Buffer.from([0xf0 | type]), varint(values.length)])
  return { type: types.list, bytes: Buffer.concat([head, ...values.map(({ bytes }) => bytes)]) }
}

/** No two of its numbers are further apart than 15. */
function struct(...fields: readonly Field[]): Value {
  let last = 0
  const parts = fields.flatMap(([id, { type, bytes }]) => {
    const head = Buffer.from([((id - last) << 4) | type])
    last = id
    return [head, bytes]
  })
  return { type: types.struct, bytes: Buffer.concat([...parts, Buffer.from([0])]) }
}

// ── the columns ──────────────────────────────────────────────────────────────────────────────────────────────

export type ParquetColumn = {
  readonly name: string
  readonly type: ColumnType
  /** Of a key: there is a value in every row. */
  readonly isRequired: boolean
  /** Of a decimal: how many digits behind the point. Null: its digits do not fit a decimal, so it is written as text. */
  readonly scale: number | null
}

/** The most digits that a decimal can have. */
export const mostDigits = 38
const decimalBytes = 16
const physical = { boolean: 0, int32: 1, int64: 2, bytes: 6, fixed: 7 } as const
const zstd = 6
const [plain, runLength] = [0, 3]
const mostGroupBytes = 16_000_000
const mostGroupRows = 100_000
const magic = Buffer.from('PAR1')

type Growing = { bytes: Buffer; end: number }
type Kind = {
  readonly physical: number
  /** Of fixed values: how many bytes each has. */
  readonly length?: number
  /** What a value means, as fields of a SchemaElement: the older way to say it, and the newer one. */
  readonly meaning: (column: ParquetColumn) => readonly Field[]
  /** Returns false for what the file cannot say: an infinite time. */
  readonly put: (to: Growing, cell: Buffer, column: ParquetColumn) => boolean
}

const bytesKind = (meaning: readonly Field[], skip = 0): Kind => ({
  physical: physical.bytes,
  meaning: () => meaning,
  put(to, cell) {
    const length = cell.length - skip
    const at = reserve(to, 4 + length)
    to.bytes.writeUInt32LE(length, at)
    cell.copy(to.bytes, at + 4, skip)
    return true
  },
})
const asText: readonly Field[] = [
  [6, i32(0)],
  [10, struct([1, struct()])],
]
/** Moves a number from the end that Postgres puts first to the other. */
const putReversed = (to: Growing, cell: Buffer): boolean => {
  const at = reserve(to, cell.length)
  for (let index = 0; index < cell.length; index++) to.bytes[at + cell.length - 1 - index] = cell[index] ?? 0
  return true
}
const epoch = { days: 10_957, micros: 946_684_800_000_000n } as const
const micros = struct([2, struct()])

const kinds: Readonly<Record<ColumnType, Kind>> = {
  bigint: { physical: physical.int64, meaning: () => [], put: putReversed },
  boolean: { physical: physical.boolean, meaning: () => [], put: putReversed },
  numeric: {
    physical: physical.fixed,
    length: decimalBytes,
    meaning: ({ scale }) => [
      [6, i32(5)],
      [7, i32(scale ?? 0)],
      [8, i32(mostDigits)],
      [10, struct([5, struct([1, i32(scale ?? 0)], [2, i32(mostDigits)])])],
    ],
    put(to, cell, { scale }) {
      const value = decimalOf(cell, scale ?? 0)
      const at = reserve(to, decimalBytes)
      to.bytes.writeBigInt64BE(value >> 64n, at)
      to.bytes.writeBigUInt64BE(BigInt.asUintN(64, value), at + 8)
      return true
    },
  },
  uuid: {
    physical: physical.fixed,
    length: 16,
    meaning: () => [[10, struct([14, struct()])]],
    put(to, cell) {
      const at = reserve(to, cell.length)
      cell.copy(to.bytes, at)
      return true
    },
  },
  timestamptz: {
    physical: physical.int64,
    meaning: () => [
      [6, i32(10)],
      [10, struct([8, struct([1, bool(true)], [2, micros])])],
    ],
    put(to, cell) {
      const value = cell.readBigInt64BE() + epoch.micros
      if (value !== BigInt.asIntN(64, value) || value < -(2n ** 62n)) return false
      const at = reserve(to, 8)
      to.bytes.writeBigInt64LE(value, at)
      return true
    },
  },
  date: {
    physical: physical.int32,
    meaning: () => [
      [6, i32(6)],
      [10, struct([6, struct()])],
    ],
    put(to, cell) {
      const day = cell.readInt32BE() + epoch.days
      if (day !== (day | 0) || day < -(2 ** 30)) return false
      const at = reserve(to, 4)
      to.bytes.writeInt32LE(day, at)
      return true
    },
  },
  time: {
    physical: physical.int64,
    meaning: () => [
      [6, i32(8)],
      [10, struct([7, struct([1, bool(false)], [2, micros])])],
    ],
    put: putReversed,
  },
  text: bytesKind(asText),
  // Postgres puts the number of the format in front.
  jsonb: bytesKind(
    [
      [6, i32(19)],
      [10, struct([12, struct()])],
    ],
    1,
  ),
}
const kindOf = ({ type, scale }: ParquetColumn): Kind =>
  type === 'numeric' && scale === null ? kinds.text : kinds[type]

/** The digits of a number without its point: Postgres sends it in digits of ten thousand. */
function decimalOf(cell: Buffer, scale: number): bigint {
  const count = cell.readUInt16BE(0)
  let digits = 0n
  for (let index = 0; index < count; index++)
    digits = digits * 10_000n + BigInt(cell.readUInt16BE(8 + 2 * index))
  const power = 4 * (cell.readInt16BE(2) - count + 1) + scale
  const whole = power >= 0 ? digits * 10n ** BigInt(power) : digits / 10n ** BigInt(-power)
  return cell.readUInt16BE(4) === 0x4000 ? -whole : whole
}

/** Where so many bytes go. Its memory may be another after this. */
function reserve(to: Growing, bytes: number): number {
  const at = to.end
  to.end += bytes
  if (to.end > to.bytes.length) {
    const larger = Buffer.allocUnsafe(Math.max(2 * to.bytes.length, to.end))
    to.bytes.copy(larger, 0, 0, at)
    to.bytes = larger
  }
  return at
}

type Filled = {
  readonly column: ParquetColumn
  readonly kind: Kind
  readonly values: Growing
  /** A byte for each row: whether it has a value. */
  readonly present: Growing
}

export type ParquetWriter = {
  /** The cells of one row as COPY sends them; null: no value. */
  add(cells: readonly (Buffer | null)[]): Promise<void>
  end(): Promise<void>
}

export async function openParquet(
  columns: readonly ParquetColumn[],
  write: (bytes: Buffer) => Promise<unknown>,
): Promise<ParquetWriter> {
  const filled = columns.map(
    (column): Filled => ({
      column,
      kind: kindOf(column),
      values: { bytes: Buffer.allocUnsafe(1 << 16), end: 0 },
      present: { bytes: Buffer.allocUnsafe(1 << 12), end: 0 },
    }),
  )
  const groups: ReturnType<typeof struct>[] = []
  let [place, rows, rowsOfGroup] = [0, 0, 0]
  const send = async (bytes: Buffer) => {
    await write(bytes)
    place += bytes.length
  }
  const endGroup = async () => {
    if (rowsOfGroup === 0) return
    const start = place
    const chunks: ReturnType<typeof struct>[] = []
    for (const one of filled) {
      const page = pageOf(one, rowsOfGroup)
      chunks.push(chunkOf(one, { place, rows: rowsOfGroup, ...page }))
      await send(page.header)
      await send(page.body)
      one.values.end = 0
      one.present.end = 0
    }
    groups.push(struct([1, list(chunks)], [2, i64(place - start)], [3, i64(rowsOfGroup)]))
    rows += rowsOfGroup
    rowsOfGroup = 0
  }
  await send(magic)
  return {
    async add(cells) {
      let bytes = 0
      for (const [index, one] of filled.entries()) {
        const cell = cells[index] ?? null
        const isThere = cell !== null && one.kind.put(one.values, cell, one.column)
        const at = reserve(one.present, 1)
        one.present.bytes[at] = isThere ? 1 : 0
        bytes += one.values.end
      }
      rowsOfGroup++
      if (bytes >= mostGroupBytes || rowsOfGroup >= mostGroupRows) await endGroup()
    },
    async end() {
      await endGroup()
      const footer = struct(
        [1, i32(2)],
        [2, list([rootOf(columns), ...columns.map(elementOf)])],
        [3, i64(rows)],
        [4, list(groups)],
        [6, text('tidemark')],
      ).bytes
      const length = Buffer.alloc(4)
      length.writeUInt32LE(footer.length)
      await send(Buffer.concat([footer, length, magic]))
    },
  }
}

const rootOf = (columns: readonly ParquetColumn[]) => struct([4, text('row')], [5, i32(columns.length)])

function elementOf(column: ParquetColumn) {
  const kind = kindOf(column)
  return struct(
    [1, i32(kind.physical)],
    ...(kind.length === undefined ? [] : [[2, i32(kind.length)] as const]),
    [3, i32(column.isRequired ? 0 : 1)],
    [4, text(column.name)],
    ...kind.meaning(column),
  )
}

type Page = { readonly header: Buffer; readonly body: Buffer; readonly uncompressed: number }

function pageOf({ column, kind, values, present }: Filled, rows: number): Page {
  const levels = column.isRequired ? [] : levelsOf(present, rows)
  const content = values.bytes.subarray(0, values.end)
  const whole = Buffer.concat([...levels, kind.physical === physical.boolean ? packed(content) : content])
  const body = zstdCompressSync(whole)
  const header = struct(
    [1, i32(0)],
    [2, i32(whole.length)],
    [3, i32(body.length)],
    [5, struct([1, i32(rows)], [2, i32(plain)], [3, i32(runLength)], [4, i32(runLength)])],
  ).bytes
  return { header, body, uncompressed: header.length + whole.length }
}

/** Which rows have a value: one run of bits, behind its length. */
function levelsOf(present: Growing, rows: number): readonly Buffer[] {
  const bits = packed(present.bytes.subarray(0, rows))
  const run = varint((bits.length << 1) | 1)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(run.length + bits.length)
  return [length, run, bits]
}

/** Eight bytes of 0 or 1 as one. */
function packed(flags: Buffer): Buffer {
  const bits = Buffer.alloc((flags.length + 7) >> 3)
  for (let index = 0; index < flags.length; index++)
    bits[index >> 3] = (bits[index >> 3] ?? 0) | ((flags[index] ?? 0) << (index & 7))
  return bits
}

const chunkOf = (
  { column, kind }: Filled,
  { place, rows, header, body, uncompressed }: Page & { readonly place: number; readonly rows: number },
) =>
  struct(
    [2, i64(place)],
    [
      3,
      struct(
        [1, i32(kind.physical)],
        [2, list([i32(plain), i32(runLength)])],
        [3, list([text(column.name)])],
        [4, i32(zstd)],
        [5, i64(rows)],
        [6, i64(uncompressed)],
        [7, i64(header.length + body.length)],
        [9, i64(place)],
      ),
    ],
  )
