// A JSON parser of our own, several times slower than JSON.parse: it keeps every number exactly (P4) and the earlier
// values of repeated fields (P5). It reads only texts that JSON.parse has read before, so it checks nothing.

import { type Json, repeatedFields } from './json.ts'
import { isExact } from './json-scan.ts'

/** An earlier value of a field, with the path to it from the value that was just read. */
type Repeat = { readonly path: string; readonly value: Json }
type Reader = { readonly bytes: Buffer; at: number; repeats: readonly Repeat[] }

const none: readonly Repeat[] = []

export function parseCarefully(bytes: Uint8Array): Json {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const hasByteOrderMark = buffer[0] === 0xef
  return readValue({ bytes: buffer, at: hasByteOrderMark ? 3 : 0, repeats: none })
}

function readValue(reader: Reader): Json {
  reader.repeats = none
  switch (nextToken(reader)) {
    case '{':
      return readObject(reader)
    case '[':
      return readArray(reader)
    case '"':
      return readString(reader)
    case 't':
      reader.at += 4
      return true
    case 'f':
      reader.at += 5
      return false
    case 'n':
      reader.at += 4
      return null
    default:
      return readNumber(reader)
  }
}

function readObject(reader: Reader): Json {
  const object: { [field: string]: Json } = {}
  let repeats: Repeat[] | null = null
  reader.at++
  while (nextToken(reader) !== '}') {
    const field = readString(reader)
    nextToken(reader)
    reader.at++
    const value = readValue(reader)
    const earlier = Object.hasOwn(object, field) ? [{ path: field, value: object[field] ?? null }] : none
    if (earlier.length > 0 || reader.repeats.length > 0) {
      const inside = reader.repeats.map((repeat) => ({
        ...repeat,
        path: `${field}${joint(value)}${repeat.path}`,
      }))
      repeats = [...(repeats ?? none), ...earlier, ...inside]
    }
    set(object, field, value)
    if (nextToken(reader) === ',') reader.at++
  }
  reader.at++
  reader.repeats = repeats ?? none
  if (repeats) Object.assign(object, { [repeatedFields]: byPath(repeats) })
  return object
}

function readArray(reader: Reader): Json {
  const array: Json[] = []
  let repeats: readonly Repeat[] = none
  reader.at++
  while (nextToken(reader) !== ']') {
    const value = readValue(reader)
    const index = array.push(value) - 1
    if (reader.repeats.length > 0) {
      const inside = reader.repeats.map((repeat) => ({
        ...repeat,
        path: `[${index}]${joint(value)}${repeat.path}`,
      }))
      repeats = [...repeats, ...inside]
    }
    if (nextToken(reader) === ',') reader.at++
  }
  reader.at++
  reader.repeats = repeats
  return array
}

/** `Customer.Name`, but `Lines[0].Name`. */
const joint = (inside: Json): string => (Array.isArray(inside) ? '' : '.')

function set(object: { [field: string]: Json }, field: string, value: Json): void {
  // Plain assignment would set the prototype.
  if (field === '__proto__')
    Object.defineProperty(object, field, { value, enumerable: true, configurable: true, writable: true })
  else object[field] = value
}

function byPath(repeats: readonly Repeat[]): { readonly [path: string]: readonly Json[] } {
  const found = Map.groupBy(repeats, (repeat) => repeat.path)
  return Object.fromEntries([...found].map(([path, group]) => [path, group.map((repeat) => repeat.value)]))
}

/** A new string, never a slice: a slice would keep the whole page alive. */
function readString(reader: Reader): string {
  const { bytes } = reader
  const start = reader.at
  let end = start + 1
  let hasEscapes = false
  for (; bytes[end] !== 0x22; end++) {
    if (bytes[end] !== 0x5c) continue
    hasEscapes = true
    end++
  }
  reader.at = end + 1
  return hasEscapes
    ? JSON.parse(bytes.toString('utf8', start, end + 1))
    : bytes.toString('utf8', start + 1, end)
}

function readNumber(reader: Reader): Json {
  const { bytes } = reader
  const start = reader.at
  while (isOfNumber(bytes[reader.at])) reader.at++
  const source = bytes.toString('latin1', start, reader.at)
  return isExact(source) ? Number(source) : JSON.rawJSON(source)
}

const isOfNumber = (byte: number | undefined): boolean =>
  byte !== undefined && (byte <= 0x39 ? byte >= 0x2b && byte !== 0x2c : byte === 0x45 || byte === 0x65)

function nextToken(reader: Reader): string {
  let byte = reader.bytes[reader.at]
  while (byte !== undefined && byte <= 0x20) byte = reader.bytes[++reader.at]
  return byte === undefined ? '' : String.fromCharCode(byte)
}
