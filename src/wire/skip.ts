// Where a value of JSON ends: pass over it in the bytes of an answer. Strict: what is passed over, JSON.parse takes as well.

export const quote = 0x22
export const comma = 0x2c
const minus = 0x2d
const dot = 0x2e
const zero = 0x30
export const colon = 0x3a
export const openBracket = 0x5b
export const backslash = 0x5c
export const closeBracket = 0x5d
export const openBrace = 0x7b
export const closeBrace = 0x7d

/** Where something begins that is not what it should be. */
export const bad = 0

export function skipSpace(bytes: Buffer, from: number): number {
  let at = from
  for (;;) {
    const byte = bytes[at]
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return at
    at++
  }
}

/** Where a value ends that is no object and no list; of a string with escapes, the complement of that. */
export function skipPlainValue(bytes: Buffer, at: number): number {
  const byte = bytes[at] as number
  if (byte === quote) return skipString(bytes, at)
  if (byte === minus || (byte >= zero && byte <= 0x39)) return skipNumber(bytes, at)
  return skipWord(bytes, at)
}

/** `true`, `false` or `null`. */
function skipWord(bytes: Buffer, at: number): number {
  switch (bytes[at]) {
    case 0x6e:
      return bytes[at + 1] === 0x75 && bytes[at + 2] === 0x6c && bytes[at + 3] === 0x6c ? at + 4 : bad
    case 0x74:
      return bytes[at + 1] === 0x72 && bytes[at + 2] === 0x75 && bytes[at + 3] === 0x65 ? at + 4 : bad
    case 0x66:
      return bytes[at + 1] === 0x61 &&
        bytes[at + 2] === 0x6c &&
        bytes[at + 3] === 0x73 &&
        bytes[at + 4] === 0x65
        ? at + 5
        : bad
    default:
      return bad
  }
}

/** Where a string ends; when it has escapes, the complement of that. */
export function skipString(bytes: Buffer, start: number): number {
  let at = start + 1
  for (;;) {
    const byte = bytes[at] as number
    if (byte === quote) return at + 1
    if (byte === backslash) return skipEscapedString(bytes, at)
    // Also at the end of the bytes.
    if (!(byte >= 0x20)) return bad
    at++
  }
}

function skipEscapedString(bytes: Buffer, from: number): number {
  let at = from
  for (;;) {
    const byte = bytes[at] as number
    if (byte === quote) return ~(at + 1)
    if (!(byte >= 0x20)) return bad
    if (byte !== backslash) at++
    else if (bytes[at + 1] === 0x75) {
      for (let digit = at + 2; digit < at + 6; digit++) if (!isHexDigit(bytes[digit])) return bad
      at += 6
    } else if (isEscaped(bytes[at + 1])) at += 2
    else return bad
  }
}

const isHexDigit = (byte: number | undefined): boolean =>
  byte !== undefined && ((byte >= 0x30 && byte <= 0x39) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66))

const escaped = new Set([...'"\\/bfnrt'].map((character) => character.charCodeAt(0)))
const isEscaped = (byte: number | undefined): boolean => byte !== undefined && escaped.has(byte)

function skipNumber(bytes: Buffer, start: number): number {
  let at = bytes[start] === minus ? start + 1 : start
  if (bytes[at] === zero) at++
  else {
    const end = skipDigits(bytes, at)
    if (end === at) return bad
    at = end
  }
  if (bytes[at] === dot) {
    const end = skipDigits(bytes, at + 1)
    if (end === at + 1) return bad
    at = end
  }
  return ((bytes[at] as number) | 0x20) === 0x65 ? skipExponent(bytes, at + 1) : at
}

function skipExponent(bytes: Buffer, start: number): number {
  const sign = bytes[start]
  const from = sign === 0x2b || sign === minus ? start + 1 : start
  const end = skipDigits(bytes, from)
  return end === from ? bad : end
}

function skipDigits(bytes: Buffer, from: number): number {
  let at = from
  for (;;) {
    const byte = bytes[at] as number
    if (!(byte >= zero && byte <= 0x39)) return at
    at++
  }
}

/** Deeper ones are left to the parser, which knows how deep is too deep. */
const deepest = 100

export function skipValue(bytes: Buffer, start: number, depth: number): number {
  if (depth > deepest) return bad
  if (bytes[start] === openBrace) return skipMembers(bytes, start, depth, closeBrace)
  if (bytes[start] === openBracket) return skipMembers(bytes, start, depth, closeBracket)
  return endOfPlainValue(bytes, start)
}

/** The same as `skipPlainValue`, whether a string has escapes or not. */
export function endOfPlainValue(bytes: Buffer, at: number): number {
  const end = skipPlainValue(bytes, at)
  return end < 0 ? ~end : end
}

/** Skips the members of an object, or the elements of a list. */
function skipMembers(bytes: Buffer, start: number, depth: number, last: number): number {
  let at = skipSpace(bytes, start + 1)
  if (bytes[at] === last) return at + 1
  for (;;) {
    if (last === closeBrace) {
      at = skipName(bytes, at)
      if (at === bad) return bad
    }
    const end = skipValue(bytes, at, depth + 1)
    if (end === bad) return bad
    at = skipSpace(bytes, end)
    if (bytes[at] === last) return at + 1
    if (bytes[at] !== comma) return bad
    at = skipSpace(bytes, at + 1)
  }
}

/** To the value behind a name. */
export function skipName(bytes: Buffer, start: number): number {
  if (bytes[start] !== quote) return bad
  const end = skipString(bytes, start)
  if (end === bad) return bad
  const at = skipSpace(bytes, end < 0 ? ~end : end)
  return bytes[at] === colon ? skipSpace(bytes, at + 1) : bad
}
