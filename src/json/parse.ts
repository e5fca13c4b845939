// Reads JSON without losing a digit (P4) or a repeated field (P5). JSON.parse does the work, and is asked how each number was written where
// that matters. It keeps only the last value of a field that comes twice: such a text is read once more, with a number behind each name.

import { expectBounded, JsonError } from './bounds.ts'
import { type Json, type JsonObject, repeatedFields } from './json.ts'
import { type Cut, cutLongStrings } from './long-strings.ts'

const utf8 = new TextDecoder('utf-8', { fatal: true })

export function parseJson(bytes: Uint8Array): Json {
  expectBounded(bytes)
  const cut = cutLongStrings(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length))
  const read = cut ? readCut(cut) : undefined
  return read === undefined ? readExactly(decodeUtf8(bytes), noStrings).value : read
}

type Strings = Cut['strings']
const noStrings: Strings = new Map()

/** Undefined: it has to be read whole. */
function readCut({ bytes, strings }: Cut): Json | undefined {
  try {
    const { value, found } = readExactly(decodeUtf8(bytes), strings)
    // One that was not found is the end of a longer string.
    return found === strings.size ? value : undefined
  } catch (error) {
    // The whole text is read again, so that the error names the right place.
    if (error instanceof JsonError) return undefined
    throw error
  }
}

type Read = {
  readonly value: Json
  /** How many of the long strings it holds. */
  readonly found: number
}

function readExactly(text: string, strings: Strings): Read {
  const read = parse(text, strings)
  const { fieldCount, hasTrickyName, numbered } = numberNames(text)
  if (fieldCount === read.fieldCount && !hasTrickyName) return read
  const { value, found } = parse(numbered(), strings)
  return { value: restore(value, [], { bytes: 0 }), found }
}

/** A number that JSON.stringify may write in another way: `-0`, 16 digits, an exponent, `1.50`, `0.0000001`. */
const mayBeInexact = /(?:^|[:[,])\s*(?:-0(?!\.)|-?(?:[\d.]{16}|\d+(?:\.\d*)?[eE]|\d+\.\d*0(?!\d)|0\.0{6}))/

function parse(text: string, strings: Strings): Read & { readonly fieldCount: number } {
  // Several times as fast as when it calls back for each value.
  if (strings.size === 0 && !mayBeInexact.test(text)) {
    const value = orJsonError(text, () => JSON.parse(text))
    return { value, found: 0, fieldCount: countFields(value) }
  }
  let [found, fieldCount] = [0, 0]
  // The engine calls it for each value, and at last for the whole, as the only field of an object that nobody sent.
  function exactly(this: unknown, _: string, value: Json, { source }: { readonly source?: string }): Json {
    if (!Array.isArray(this)) fieldCount++
    // Without a source the engine has mistaken one name for another: see below.
    if (typeof value === 'number' && source !== undefined && String(value) !== source)
      return JSON.rawJSON(copyOf(source))
    const long = typeof value === 'string' && strings.size > 0 ? strings.get(value) : undefined
    if (long === undefined) return value
    found++
    return long
  }
  const value = orJsonError(text, () => JSON.parse(text, exactly))
  return { value, found, fieldCount: fieldCount - 1 }
}

function countFields(value: Json): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) for (const item of value) count += countFields(item)
  else for (const name in value) count += 1 + countFields((value as JsonObject)[name] ?? null)
  return count
}

function orJsonError(text: string, read: () => Json): Json {
  try {
    return read()
  } catch (error) {
    // The engine's own message quotes the text, which may hold a secret (P9): only the place is told.
    const [, place] = /at position (\d+)/.exec(String(error)) ?? []
    const isCut = /end of JSON input|Unterminated/.test(String(error)) || Number(place) >= text.length
    const where = isCut ? ': it is cut off' : place === undefined ? '' : ` at position ${place}`
    throw new JsonError('not JSON', `the text is not JSON${where}`)
  }
}

/** Not toString: of more than a megabyte it makes strings outside the heap, which pile up until the next full collection. */
function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new JsonError('not UTF-8', 'the text is not valid UTF-8', { cause })
  }
}

/** A slice of 13 characters or more would keep the whole text alive. */
const copyOf = (slice: string): string =>
  slice.length < 13 ? slice : Buffer.from(slice, 'latin1').toString('latin1')

const quote = 0x22
const colon = 0x3a
const backslash = 0x5c

/** Finds the names in a text that is JSON. */
function numberNames(text: string) {
  const ends: number[] = []
  let hasTrickyName = false
  for (let start = text.indexOf('"'); start !== -1; ) {
    const end = endOfString(text, start)
    let next = end + 1
    while (text.charCodeAt(next) <= 0x20) next++
    if (text.charCodeAt(next) === colon) {
      ends.push(end)
      // One that ends in an escaped quote: V8 13's JSON.parse may take it for one that ends in a backslash.
      if (text.charCodeAt(end - 1) === quote && end - 1 > start) hasTrickyName = true
    }
    start = text.indexOf('"', end + 1)
  }
  /** The same text, in which each name ends with a number of its own. */
  const numbered = () =>
    ends.map((end, index) => `${text.slice(ends[index - 1] ?? 0, end)}#${index}`).join('') +
    text.slice(ends.at(-1) ?? 0)
  return { fieldCount: ends.length, hasTrickyName, numbered }
}

function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === backslash) backslashes++
    if (backslashes % 2 === 0) return end
  }
}

/** An earlier value of a field, with the path to it. */
type Repeat = { readonly path: string; readonly value: Json }

/** Each object notes the repeated fields of those inside it once more. */
const mostRepeatBytes = 48 * 1024 * 1024
const bytesOfRepeat = 100

/** Takes the numbers off the names again. Adds to `repeats` what is repeated inside the value; `noted` counts about how many bytes that takes. */
function restore(value: Json, repeats: Repeat[], noted: { bytes: number }): Json {
  if (typeof value !== 'object' || value === null || JSON.isRawJSON(value)) return value
  const add = (path: string, earlier: Json) => {
    noted.bytes += bytesOfRepeat + path.length
    if (noted.bytes > mostRepeatBytes) throw new JsonError('too large', 'the JSON repeats too many fields')
    repeats.push({ path, value: earlier })
  }
  const restoreAt = (place: string, inside: Json): Json => {
    const inner: Repeat[] = []
    const restored = restore(inside, inner, noted)
    // `Customer.Name`, but `Lines[0].Name`.
    const joint = Array.isArray(inside) ? '' : '.'
    for (const { path, value: earlier } of inner) add(`${place}${joint}${path}`, earlier)
    return restored
  }
  if (Array.isArray(value)) return value.map((item, index) => restoreAt(`[${index}]`, item))
  const fields = new Map<string, Json>()
  for (const [numbered, inside] of Object.entries(value as JsonObject)) {
    const name = numbered.slice(0, numbered.lastIndexOf('#'))
    const earlier = fields.get(name)
    if (earlier !== undefined) add(name, earlier)
    fields.set(name, restoreAt(name, inside))
  }
  // Unlike an assignment, this does not let `__proto__` reach the prototype.
  const object = Object.fromEntries(fields)
  return repeats.length > 0 ? Object.assign(object, { [repeatedFields]: byPath(repeats) }) : object
}

function byPath(repeats: readonly Repeat[]): JsonObject {
  const found = Map.groupBy(repeats, (repeat) => repeat.path)
  return Object.fromEntries([...found].map(([path, group]) => [path, group.map((repeat) => repeat.value)]))
}
