// The canonical text of an object or a list, written from its bytes without parsing it: no space, fields sorted at every level, strings as
// JSON.stringify writes them, numbers as they stand. What is rare is left to jsonb.ts, which parses it.

import { backslash, nine, quote } from './cells.ts'
import { escapedCharacter, writeUtf8 } from './escapes.ts'

const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d]
const [comma, colon, slash, letterU] = [0x2c, 0x3a, 0x2f, 0x75]
// Longer numbers, and those with an exponent, may be more than a numeric holds.
const longestNumber = 100

/** Where the next byte is read and written; `isOdd`: the value has to be parsed. */
type Writing = {
  readonly bytes: Buffer
  readonly to: Buffer
  at: number
  end: number
  isOdd: boolean
}

/** The bytes were found to be JSON. Returns where the text ends; -1: the value has to be parsed. */
export function writeCanonical(bytes: Buffer, start: number, to: Buffer, toStart: number): number {
  const writing = { bytes, to, at: start, end: toStart, isOdd: false }
  writeValue(writing)
  return writing.isOdd ? -1 : writing.end
}

function writeValue(writing: Writing): void {
  const { bytes } = writing
  const byte = bytes[writing.at] as number
  if (byte === quote) writeString(writing)
  else if (byte === openBrace) writeMembers(writing, closeBrace)
  else if (byte === openBracket) writeMembers(writing, closeBracket)
  else writePlain(writing)
}

/** A number, or a word such as `true`. */
function writePlain(writing: Writing): void {
  const { bytes, to } = writing
  let { at, end } = writing
  const isNumber = (bytes[at] as number) <= nine
  const longest = at + longestNumber
  for (;;) {
    const byte = bytes[at] as number
    if (byte <= 0x20 || byte === comma || byte === closeBracket || byte === closeBrace) break
    if (isNumber && ((byte | 0x20) === 0x65 || at > longest)) writing.isOdd = true
    to[end++] = byte
    at++
  }
  writing.at = at
  writing.end = end
}

function writeString(writing: Writing): void {
  const { bytes, to } = writing
  let { at, end } = writing
  to[end++] = quote
  for (at++; ; ) {
    const byte = bytes[at++] as number
    if (byte !== backslash) {
      to[end++] = byte
      if (byte === quote) break
      continue
    }
    const kind = bytes[at] as number
    if (kind === slash) to[end++] = bytes[at++] as number
    else if (kind !== letterU) {
      to[end++] = byte
      to[end++] = bytes[at++] as number
    } else {
      const character = escapedCharacter(bytes, at - 1)
      // Some of these are escaped again, and some no jsonb holds.
      if (character < 0x80) writing.isOdd = true
      else end += writeUtf8(to, end, character)
      at += character > 0xffff ? 11 : 5
    }
  }
  writing.at = at
  writing.end = end
}

/** Of an object or a list. */
function writeMembers(writing: Writing, last: number): void {
  const { bytes, to } = writing
  const starts: number[] = []
  to[writing.end++] = bytes[writing.at++] as number
  skipSpace(writing)
  while (bytes[writing.at] !== last && !writing.isOdd) {
    if (last === closeBrace) {
      starts.push(writing.end)
      writeName(writing)
    }
    writeValue(writing)
    skipSpace(writing)
    if (bytes[writing.at] !== comma) break
    to[writing.end++] = comma
    writing.at++
    skipSpace(writing)
  }
  writing.at++
  if (starts.length > 1 && !writing.isOdd) sortMembers(writing, starts)
  to[writing.end++] = last
}

function writeName(writing: Writing): void {
  const { bytes, to } = writing
  for (let at = writing.at + 1; bytes[at] !== quote; at++) {
    const byte = bytes[at] as number
    // Other letters may sort in another way than their bytes.
    if (byte === backslash || byte > 0x7f) {
      writing.isOdd = true
      return
    }
  }
  writeString(writing)
  skipSpace(writing)
  to[writing.end++] = colon
  writing.at++
  skipSpace(writing)
}

function skipSpace(writing: Writing): void {
  while ((writing.bytes[writing.at] as number) <= 0x20) writing.at++
}

/** `starts`: where each member of the object that ends here begins. */
function sortMembers(writing: Writing, starts: readonly number[]): void {
  const { to, end } = writing
  let isSorted = true
  for (let index = 1; index < starts.length && isSorted; index++)
    isSorted = compareNames(to, starts[index - 1] as number, starts[index] as number) < 0
  if (isSorted) return
  const first = starts[0] as number
  const copy = Buffer.from(to.subarray(first, end))
  const order = Array.from(starts.keys())
  order.sort((one, other) =>
    compareNames(copy, (starts[one] as number) - first, (starts[other] as number) - first),
  )
  let at = first
  for (let place = 0; place < order.length; place++) {
    const index = order[place] as number
    const start = (starts[index] as number) - first
    const before = place > 0 ? (starts[order[place - 1] as number] as number) - first : -1
    // A field that comes twice.
    if (before >= 0 && compareNames(copy, before, start) === 0) writing.isOdd = true
    if (place > 0) to[at++] = comma
    at += copy.copy(
      to,
      at,
      start,
      index + 1 < starts.length ? (starts[index + 1] as number) - first - 1 : end - first,
    )
  }
}

/** Of names in quotes, without escapes. */
function compareNames(bytes: Buffer, one: number, other: number): number {
  for (let at = 1; ; at++) {
    const left = bytes[one + at] as number
    const right = bytes[other + at] as number
    if (left === right && left !== quote) continue
    if (left === quote) return right === quote ? 0 : -1
    return right === quote ? 1 : left - right
  }
}
