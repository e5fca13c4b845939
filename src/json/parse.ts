// A JSON parser of our own, several times slower than JSON.parse: it keeps every number exactly (P4) and the earlier
// values of repeated fields (P5). It reads only texts that JSON.parse has read before, so it checks nothing.

import { deepest, expectBounded, JsonError, nestedTooDeep } from './bounds.ts'
import { type Json, type JsonArray, repeatedFields } from './json.ts'
import { type Cut, cutLongStrings } from './long-strings.ts'
import { findFields, inexactSource, isExact } from './scan.ts'

/** An earlier value of a field, with the path to it from the value that was just read. */
type Repeat = { readonly path: string; readonly value: Json }
type Reader = {
  readonly bytes: Buffer
  at: number
  /** Repeated fields inside the value that was read last. */
  repeats: readonly Repeat[]
  /** About how many bytes all noted repeats take: each object notes those of the objects inside it once more. */
  repeatBytes: number
}

const none: readonly Repeat[] = []
const bytesOfRepeat = 100
const mostRepeatBytes = 48 * 1024 * 1024

function parseCarefully(bytes: Uint8Array): Json {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const hasByteOrderMark = buffer[0] === 0xef
  return readValue({ bytes: buffer, at: hasByteOrderMark ? 3 : 0, repeats: none, repeatBytes: 0 })
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
    if (Object.hasOwn(object, field)) {
      repeats ??= []
      addRepeat(reader, repeats, field, object[field] ?? null)
    }
    if (reader.repeats.length > 0) {
      repeats ??= []
      addInside(reader, repeats, `${field}${joint(value)}`)
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
  let repeats: Repeat[] | null = null
  reader.at++
  while (nextToken(reader) !== ']') {
    const value = readValue(reader)
    const index = array.push(value) - 1
    if (reader.repeats.length > 0) {
      repeats ??= []
      addInside(reader, repeats, `[${index}]${joint(value)}`)
    }
    if (nextToken(reader) === ',') reader.at++
  }
  reader.at++
  reader.repeats = repeats ?? none
  return array
}

function addInside(reader: Reader, repeats: Repeat[], place: string): void {
  for (const { path, value } of reader.repeats) addRepeat(reader, repeats, `${place}${path}`, value)
}

function addRepeat(reader: Reader, repeats: Repeat[], path: string, value: Json): void {
  reader.repeatBytes += bytesOfRepeat + path.length
  if (reader.repeatBytes > mostRepeatBytes)
    throw new JsonError('too large', 'the JSON repeats too many fields')
  repeats.push({ path, value })
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

// Reads JSON without losing a digit (P4) or a repeated field (P5). JSON.parse does the work; a scan of the text finds
// what it would lose, and only a text with repeated fields or numbers in arrays is read by the parser of our own.
const utf8 = new TextDecoder('utf-8', { fatal: true })

export function parseJson(bytes: Uint8Array): Json {
  expectBounded(bytes)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const cut = cutLongStrings(buffer)
  const short = cut && parseCut(cut)
  if (short) return short.value
  return parseQuickly(buffer, noStrings)?.value ?? parseCarefully(buffer)
}

/** Null: it has to be read whole. */
function parseCut({ bytes, strings }: Cut): Parsed | null {
  try {
    return parseQuickly(bytes, strings)
  } catch (error) {
    // The whole text is parsed again, so that the error names the right place.
    if (error instanceof JsonError) return null
    throw error
  }
}

type Parsed = { readonly value: Json }
type Strings = Cut['strings']
const noStrings: Strings = new Map()

/** Null: only the careful parser can tell. */
function parseQuickly(buffer: Buffer, strings: Strings): Parsed | null {
  // Not toString: of more than a megabyte it makes strings outside the heap, which pile up until the next full collection.
  const text = decodeUtf8(buffer)
  const value = parsePlainly(text)
  const { fieldCount, colons, hasTrickyName } = findFields(text)
  const walk: Walk = {
    text,
    colons,
    strings,
    fieldCount: 0,
    inexact: [],
    cut: [],
    isUncertain: hasTrickyName || typeof value === 'number',
  }
  walkValue(value, walk, 0)
  // More fields in the text than in the value: one was repeated, or a string holds something that looks like a field.
  if (walk.fieldCount !== fieldCount || walk.isUncertain || walk.cut.length < strings.size) return null
  // Each field is the object's own by now, `__proto__` too, so that plain assignment does not reach the prototype.
  for (const { object, field, source } of walk.inexact) object[field] = JSON.rawJSON(source)
  for (const { object, field, string } of walk.cut) object[field] = string
  return { value }
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new JsonError('not UTF-8', 'the text is not valid UTF-8', { cause })
  }
}

function parsePlainly(text: string): Json {
  try {
    return JSON.parse(text)
  } catch (error) {
    // The engine's own message quotes the text, which may hold a secret (P9): only the place is told.
    const [, place] = /at position (\d+)/.exec(String(error)) ?? []
    const isCut = /end of JSON input|Unterminated/.test(String(error)) || Number(place) >= text.length
    const where = isCut ? ': it is cut off' : place === undefined ? '' : ` at position ${place}`
    throw new JsonError('not JSON', `the text is not JSON${where}`)
  }
}

type MutableObject = { [field: string]: Json }

type Walk = {
  readonly text: string
  readonly colons: Int32Array
  /** Fields met so far, in the order of the text: a field comes before the fields inside it. */
  fieldCount: number
  readonly strings: Strings
  readonly inexact: { readonly object: MutableObject; readonly field: string; readonly source: string }[]
  /** Where long strings were taken out of the text. */
  readonly cut: { readonly object: MutableObject; readonly field: string; readonly string: string }[]
  isUncertain: boolean
}

function walkValue(value: Json, walk: Walk, depth: number): void {
  if (typeof value !== 'object' || value === null) return
  if (depth > deepest) throw nestedTooDeep()
  if (Array.isArray(value)) walkArray(value, walk, depth)
  else walkObject(value as MutableObject, walk, depth)
}

function walkArray(array: JsonArray, walk: Walk, depth: number): void {
  for (const item of array) {
    if (typeof item === 'object') walkValue(item, walk, depth + 1)
    else if (typeof item === 'number') walk.isUncertain = true
  }
}

function walkObject(object: MutableObject, walk: Walk, depth: number): void {
  const first = walk.fieldCount
  for (const field in object) {
    // JavaScript moves fields named like an index to the front: the order is not that of the text.
    if (walk.fieldCount === first && startsWithDigit(field)) walk.isUncertain = true
    const colonAt = walk.colons[walk.fieldCount++]
    const value = object[field]
    if (typeof value === 'number') {
      const source = inexactSource(walk.text, colonAt ?? 0)
      if (source !== null) walk.inexact.push({ object, field, source })
    } else if (typeof value === 'object' && value !== null) walkValue(value, walk, depth + 1)
    else if (walk.strings.size > 0 && typeof value === 'string') {
      const string = walk.strings.get(value)
      if (string !== undefined) walk.cut.push({ object, field, string })
    }
  }
}

function startsWithDigit(field: string): boolean {
  const first = field.charCodeAt(0)
  return first >= 0x30 && first <= 0x39
}
