// Reads JSON without losing a digit (P4) or a repeated field (P5). JSON.parse does the work, several times as fast as if it called back for
// each value. Numbers that it would round are handed to it as strings with a mark. It keeps only the last value of a field that comes twice:
// such a text is read once more, with a number behind each name.

import { randomBytes } from 'node:crypto'
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

/** A number that JSON.stringify may write in another way: `-0`, 16 digits, an exponent, `1.50`, `0.0000001`. */
const mayBeInexact = /(?:^|[:[,])\s*(?:-0(?!\.)|-?(?:[\d.]{16}|\d+(?:\.\d*)?[eE]|\d+\.\d*0(?!\d)|0\.0{6}))/

type Walk = {
  readonly strings: Strings
  /** Some of the strings are numbers, or stand for long strings. */
  readonly hasMarks: boolean
  /** How many long strings and fields were met. */
  found: number
  fieldCount: number
}

function readExactly(text: string, strings: Strings): { readonly value: Json; readonly found: number } {
  const isInexact = mayBeInexact.test(text)
  const { nameCount, hasTrickyName, inexact } = findPlaces(text, isInexact ? 'numbers' : null)
  const marked = withMarks(text, inexact)
  const newWalk = (): Walk => ({ strings, hasMarks: isInexact || strings.size > 0, found: 0, fieldCount: 0 })
  const walk = newWalk()
  const value = exact(parse(marked, text), walk)
  if (walk.fieldCount === nameCount && !hasTrickyName) return { value, found: walk.found }
  const again = newWalk()
  const numbered = parse(withNumbers(marked, findPlaces(marked, 'names').names), text)
  return { value: restore(numbered, again, [], { bytes: 0 }), found: again.found }
}

/** Nobody knows it, so no text holds it. */
const mark = randomBytes(12).toString('base64')

/** Puts numbers and long strings in place of the strings that stand for them. */
function exact(value: Json, walk: Walk): Json {
  if (typeof value === 'string') return walk.hasMarks ? unmarked(value, walk) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) {
      const other = exact(item, walk)
      if (other !== item) (value as Json[])[index] = other
    }
    return value
  }
  const object = value as { [name: string]: Json }
  for (const name in object) {
    walk.fieldCount++
    const inside = object[name] as Json
    const other = exact(inside, walk)
    // The field is the object's own, `__proto__` too, so that this does not reach the prototype.
    if (other !== inside) object[name] = other
  }
  return value
}

function unmarked(string: string, walk: Walk): Json {
  if (string.length > mark.length && string.startsWith(mark)) return JSON.rawJSON(string.slice(mark.length))
  // A look into a map, even an empty one, reads the whole string.
  const long = walk.strings.size > 0 ? walk.strings.get(string) : undefined
  if (long === undefined) return string
  walk.found++
  return long
}

/** `original` is the text that `text` was made from. */
function parse(text: string, original: string): Json {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (text !== original) return parse(original, original)
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

const quote = 0x22
const minus = 0x2d
const zero = 0x30
const nine = 0x39
const colon = 0x3a
const backslash = 0x5c

type Places = {
  nameCount: number
  /** Where each name ends. */
  readonly names: number[]
  /** One ends in an escaped quote: V8 13's JSON.parse may take it for one that ends in a backslash. */
  hasTrickyName: boolean
  /** Where each number that would be rounded begins and ends, one after the other. */
  readonly inexact: number[]
}

/** Counts the names, and notes the places of what is wanted. */
function findPlaces(text: string, wanted: 'numbers' | 'names' | null): Places {
  const places: Places = { nameCount: 0, names: [], hasTrickyName: false, inexact: [] }
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at)
    if (code === quote) at = noteString(text, at, places, wanted === 'names')
    else if (wanted === 'numbers' && isDigitOrMinus(code)) at = noteNumber(text, at, places.inexact)
    else at++
  }
  return places
}

/** Returns where the string ends, or the colon behind it. */
function noteString(text: string, start: number, places: Places, wantsNames: boolean): number {
  const end = endOfString(text, start)
  const next = skipSpace(text, end + 1)
  if (text.charCodeAt(next) !== colon) return next
  places.nameCount++
  if (wantsNames) places.names.push(end)
  if (text.charCodeAt(end - 1) === quote && end - 1 > start) places.hasTrickyName = true
  return next
}

/** Also where no JSON is: the end of the text then. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === backslash) backslashes++
    if (backslashes % 2 === 0) return end
  }
  return text.length
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (text.charCodeAt(at) <= 0x20) at++
  return at
}

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Returns where the number ends. */
function noteNumber(text: string, start: number, inexact: number[]): number {
  let end = start
  while (isDigit(text.charCodeAt(end))) end++
  const isShort = end - start < 16 && end > start && (end - start === 1 || text.charCodeAt(start) !== zero)
  if (isShort && !isOfNumber(text.charCodeAt(end))) return end
  while (isOfNumber(text.charCodeAt(end))) end++
  const source = text.slice(start, end)
  // What is no number, or stands where a name should, is left for JSON.parse to refuse.
  const isMeant = String(Number(source)) !== source && number.test(source)
  if (isMeant && text.charCodeAt(skipSpace(text, end)) !== colon) inexact.push(start, end)
  return end
}

const isDigit = (code: number): boolean => code >= zero && code <= nine
const isDigitOrMinus = (code: number): boolean => isDigit(code) || code === minus

/** A digit, or one of `+ - . E e`. */
const isOfNumber = (code: number): boolean =>
  code <= nine ? code >= 0x2b && code !== 0x2c && code !== 0x2f : code === 0x45 || code === 0x65

function withMarks(text: string, places: readonly number[]): string {
  let [marked, kept] = ['', 0]
  for (let at = 0; at < places.length; at += 2) {
    const [start = 0, end = 0] = [places[at], places[at + 1]]
    marked += `${text.slice(kept, start)}"${mark}${text.slice(start, end)}"`
    kept = end
  }
  return marked + text.slice(kept)
}

/** Each name ends with a number of its own then. */
const withNumbers = (text: string, names: readonly number[]): string =>
  names.map((end, index) => `${text.slice(names[index - 1] ?? 0, end)}#${index}`).join('') +
  text.slice(names.at(-1) ?? 0)

/** An earlier value of a field, with the path to it. */
type Repeat = { readonly path: string; readonly value: Json }

/** Each object notes the repeated fields of those inside it once more. */
const mostRepeatBytes = 48 * 1024 * 1024
const bytesOfRepeat = 100

/**
 * Takes the numbers off the names again. Adds to `repeats` what is repeated inside the value; `noted` counts about how many bytes that takes.
 */
function restore(value: Json, walk: Walk, repeats: Repeat[], noted: { bytes: number }): Json {
  if (typeof value === 'string') return unmarked(value, walk)
  if (typeof value !== 'object' || value === null) return value
  const add = (path: string, earlier: Json) => {
    noted.bytes += bytesOfRepeat + path.length
    if (noted.bytes > mostRepeatBytes) throw new JsonError('too large', 'the JSON repeats too many fields')
    repeats.push({ path, value: earlier })
  }
  const restoreAt = (place: string, inside: Json): Json => {
    const inner: Repeat[] = []
    const restored = restore(inside, walk, inner, noted)
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
