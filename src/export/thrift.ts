// The compact protocol of Thrift, in which a Parquet file describes itself: as much of it as such a file needs, and only written.

export type Value = { readonly type: number; readonly bytes: Buffer }
/** The number of a field, which rises, and its value. */
export type Field = readonly [id: number, value: Value]

export function varint(value: number | bigint): Buffer {
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

export const bool = (value: boolean): Value => ({
  type: value ? types.yes : types.no,
  bytes: Buffer.alloc(0),
})
export const i32 = (value: number): Value => ({ type: types.i32, bytes: zigzag(value) })
export const i64 = (value: number): Value => ({ type: types.i64, bytes: zigzag(value) })

export function text(value: string): Value {
  const bytes = Buffer.from(value)
  return { type: types.binary, bytes: Buffer.concat([varint(bytes.length), bytes]) }
}

/** Of values of one type. */
export function list(values: readonly Value[]): Value {
  const type = values[0]?.type ?? types.struct
  const head =
    values.length < 15
      ? Buffer.from([(values.length << 4) | type])
      : Buffer.concat([Buffer.from([0xf0 | type]), varint(values.length)])
  return { type: types.list, bytes: Buffer.concat([head, ...values.map(({ bytes }) => bytes)]) }
}

/** No two of its numbers are further apart than 15. */
export function struct(...fields: readonly Field[]): Value {
  let last = 0
  const parts = fields.flatMap(([id, { type, bytes }]) => {
    const head = Buffer.from([((id - last) << 4) | type])
    last = id
    return [head, bytes]
  })
  return { type: types.struct, bytes: Buffer.concat([...parts, Buffer.from([0])]) }
}
