// Reads back what COPY would be sent: lines of text, and rows of the binary format, each as texts that can be compared.

import type { Copies } from '../../src/store/encoding/copy-rows.ts'
import type { ColumnType } from '../../src/store/types/table.ts'

/** The cells of one row; null: null. What comes before the columns is told as well. */
export type CopiedRow = {
  readonly hash: string
  readonly isDeleted: boolean
  readonly cells: readonly (string | null)[]
}

/** Of one row, in either format. Date-times become microseconds since 2000, decimals keep their digits. */
export function readCopied({ binary, text }: Copies, types: readonly ColumnType[], zone: 'UTC'): CopiedRow {
  const [row] = binary
  return row ? readBinary(row, types) : readLine(Buffer.concat(text).toString(), types, zone)
}

function readBinary(row: Buffer, types: readonly ColumnType[]): CopiedRow {
  if (row.readInt16BE(0) !== types.length + 4) throw new Error('the row has another number of cells')
  let at = 2
  const cells: (Buffer | null)[] = []
  for (let cell = 0; cell < types.length + 4; cell++) {
    const length = row.readInt32BE(at)
    cells.push(length < 0 ? null : row.subarray(at + 4, at + 4 + length))
    at += 4 + Math.max(0, length)
  }
  if (at !== row.length) throw new Error('the row is longer than its cells')
  const [hash, deletedAt, reason, rescued, ...own] = cells
  if (!hash || deletedAt || reason) throw new Error('a row begins in another way')
  return {
    hash: hash.toString('hex'),
    isDeleted: false,
    cells: [
      rescued ? fromBinary(rescued, 'jsonb') : null,
      ...own.map((cell, index) => cell && fromBinary(cell, types[index] ?? 'text')),
    ],
  }
}

function fromBinary(cell: Buffer, type: ColumnType): string {
  switch (type) {
    case 'bigint':
    case 'timestamptz':
      if (cell.length !== 8) throw new Error('no 64-bit integer')
      return String(cell.readBigInt64BE())
    case 'boolean':
      return cell.equals(Buffer.from([1])) ? 't' : 'f'
    case 'uuid':
      return cell.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
    case 'numeric':
      return decimalFrom(cell)
    case 'jsonb':
      if (cell[0] !== 1) throw new Error('no version of jsonb that Postgres reads')
      return cell.toString('utf8', 1)
    default:
      return cell.toString()
  }
}

function decimalFrom(cell: Buffer): string {
  const [count, weight, sign, scale] = [
    cell.readUInt16BE(0),
    cell.readInt16BE(2),
    cell.readUInt16BE(4),
    cell.readUInt16BE(6),
  ]
  if (cell.length !== 8 + 2 * count) throw new Error('the decimal has another number of digits')
  const group = (place: number) => {
    const index = weight - place
    const value = index >= 0 && index < count ? cell.readUInt16BE(8 + 2 * index) : 0
    if (value > 9_999) throw new Error('no group of four digits')
    return String(value).padStart(4, '0')
  }
  let whole = ''
  for (let place = Math.max(weight, 0); place >= 0; place--) whole += group(place)
  let fraction = ''
  for (let place = -1; fraction.length < scale; place--) fraction += group(place)
  const digits = `${whole.replace(/^0+(?=.)/, '')}${scale > 0 ? `.${fraction.slice(0, scale)}` : ''}`
  return sign === 0x4000 ? `-${digits}` : digits
}

const unescapes: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', '\\': '\\' }

function readLine(line: string, types: readonly ColumnType[], zone: 'UTC'): CopiedRow {
  if (!line.endsWith('\n')) throw new Error('the line does not end')
  const [hash = '', deletedAt, , rescued, ...own] = line.slice(0, -1).split('\t')
  const value = (cell: string | undefined) =>
    cell === undefined || cell === '\\N'
      ? null
      : cell.replace(/\\(.)/g, (_all, kind: string) => unescapes[kind] ?? kind)
  return {
    hash: hash.replace(/^\\\\x/, ''),
    isDeleted: deletedAt === 'now',
    cells: [value(rescued), ...own.map((cell, index) => fromText(value(cell), types[index] ?? 'text', zone))],
  }
}

function fromText(cell: string | null, type: ColumnType, zone: 'UTC'): string | null {
  if (cell === null) return null
  if (type === 'uuid') return cell.toLowerCase()
  if (type === 'numeric') return /^-[0.]*$/.test(cell) ? cell.slice(1) : cell
  return type === 'timestamptz' ? String(microsOf(cell, zone)) : cell
}

/** As this program never computes it: by the engine's own dates. */
function microsOf(instant: string, _zone: 'UTC'): bigint {
  const [, start = '', seconds = ':00', fraction = '', offset = 'Z'] =
    /^(.{16})(:\d\d)?(?:\.(\d+))?(Z|[+-]\d\d:?\d\d)?$/.exec(instant) ?? []
  const zoned = offset.length === 5 ? `${offset.slice(0, 3)}:${offset.slice(3)}` : offset
  const wholeMs = Date.parse(`${start}${seconds}Z`) - Date.UTC(2000, 0, 1)
  const shiftMs =
    zoned === 'Z'
      ? 0
      : (zoned[0] === '-' ? -1 : 1) * (Number(zoned.slice(1, 3)) * 60 + Number(zoned.slice(4))) * 60_000
  return BigInt(wholeMs - shiftMs) * 1_000n + BigInt(fraction.slice(0, 6).padEnd(6, '0'))
}
