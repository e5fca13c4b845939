// Reads a Parquet file as far as Tidemark writes them, by the format's own description and with no code of the writer.

import { zstdDecompressSync } from 'node:zlib'

type Thrift = bigint | boolean | Buffer | readonly Thrift[] | ThriftStruct
type ThriftStruct = { readonly [field: number]: Thrift }

function thriftAt(bytes: Buffer, start: number): { readonly value: ThriftStruct; readonly end: number } {
  let at = start
  const byte = () => bytes.readUInt8(at++)
  const varint = () => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const next = byte()
      value |= BigInt(next & 0x7f) << shift
      if (next < 0x80) return value
    }
  }
  const integer = () => {
    const value = varint()
    return (value & 1n) === 1n ? -(value >> 1n) - 1n : value >> 1n
  }
  const read = (type: number): Thrift => {
    if (type === 5 || type === 6) return integer()
    if (type === 8) {
      const length = Number(varint())
      at += length
      return bytes.subarray(at - length, at)
    }
    if (type === 9) {
      const head = byte()
      const length = head >> 4 === 15 ? Number(varint()) : head >> 4
      return Array.from({ length }, () => read(head & 15))
    }
    if (type === 12) return struct()
    throw new Error(`a Thrift type that is not expected: ${type}`)
  }
  const struct = (): ThriftStruct => {
    const fields: Record<number, Thrift> = {}
    for (let id = 0, head = byte(); head !== 0; head = byte()) {
      id += head >> 4
      fields[id] = (head & 15) <= 2 ? (head & 15) === 1 : read(head & 15)
    }
    return fields
  }
  return { value: struct(), end: at }
}

const bits = (bytes: Buffer, count: number): readonly boolean[] =>
  Array.from({ length: count }, (_, index) => (((bytes[index >> 3] ?? 0) >> (index & 7)) & 1) === 1)

export type ParquetFile = {
  /** The older name of what each column means (ConvertedType), its scale, and the newer one (LogicalType). */
  readonly columns: readonly {
    readonly name: string
    readonly physical: number
    readonly meaning: readonly (number | null)[]
  }[]
  readonly groups: number
  readonly rows: readonly Readonly<Record<string, bigint | boolean | Buffer | null>>[]
}

export function readParquet(file: Buffer): ParquetFile {
  if (`${file.subarray(0, 4)}${file.subarray(-4)}` !== 'PAR1PAR1') throw new Error('it is no Parquet file')
  const footer = file.subarray(file.length - 8 - file.readUInt32LE(file.length - 8), -8)
  const { value } = thriftAt(footer, 0)
  const [, ...elements] = value[2] as readonly ThriftStruct[]
  const groups = value[4] as readonly ThriftStruct[]
  const rows: Record<string, bigint | boolean | Buffer | null>[] = []
  for (const group of groups) {
    const from = rows.length
    for (const [index, chunk] of (group[1] as readonly ThriftStruct[]).entries()) {
      const [element, about] = [elements[index] ?? {}, chunk[3] as ThriftStruct]
      const { value: head, end } = thriftAt(file, Number(about[9]))
      const page = zstdDecompressSync(file.subarray(end, end + Number(head[3])))
      if (page.length !== Number(head[2])) throw new Error('a page is not as long as it says')
      const count = Number((head[5] as ThriftStruct)[1])
      const cells = cellsOf(page, element, count)
      for (const [row, cell] of cells.entries())
        rows[from + row] = { ...rows[from + row], [String(element[4])]: cell }
    }
    if (rows.length - from !== Number(group[3])) throw new Error('a group has other rows than it says')
  }
  if (rows.length !== Number(value[3])) throw new Error('it has other rows than it says')
  const number = (one: Thrift | undefined) => (typeof one === 'bigint' ? Number(one) : null)
  return {
    columns: elements.map((element) => ({
      name: String(element[4]),
      physical: Number(element[1]),
      meaning: [number(element[6]), number(element[7]), Number(Object.keys(element[10] ?? {})[0] ?? -1)],
    })),
    groups: groups.length,
    rows,
  }
}

function cellsOf(page: Buffer, element: ThriftStruct, count: number) {
  let at = 0
  let present: readonly boolean[] = Array.from({ length: count }, () => true)
  if (element[3] === 1n) {
    const length = page.readUInt32LE(0)
    const { groups, head } = runHead(page.subarray(4))
    present = bits(page.subarray(4 + head, 4 + head + groups), count)
    at = 4 + length
  }
  const flags = bits(page.subarray(at), present.filter(Boolean).length)
  let flag = 0
  const take = (bytes: number) => {
    at += bytes
    return page.subarray(at - bytes, at)
  }
  const one = () => {
    switch (Number(element[1])) {
      case 0:
        return flags[flag++] ?? false
      case 1:
        return BigInt(take(4).readInt32LE())
      case 2:
        return take(8).readBigInt64LE()
      case 6:
        return take(take(4).readUInt32LE())
      default:
        return take(Number(element[2]))
    }
  }
  return present.map((isThere) => (isThere ? one() : null))
}

/** One run of bits: how many groups of eight, behind a varint. */
function runHead(run: Buffer): { readonly groups: number; readonly head: number } {
  let [value, head] = [0, 0]
  for (;;) {
    const next = run.readUInt8(head)
    value += (next & 0x7f) * 2 ** (7 * head++)
    if (next < 0x80) return { groups: Math.floor(value / 2), head }
  }
}
