// The cells of one row, written from the bytes of an answer in both forms at once: as COPY's binary format, which Postgres takes, and as
// its text format, of which the hash of the row is taken. A value that is not of the plainest form for its column is not written here:
// then the record is parsed, and src/store/encoding/row.ts decides.

import { int64 } from '../../streams/record.ts'

/** A row that is being written. The caller makes sure that there is room for it. */
export type Cells = {
  /** The bytes that the values stand in. */
  source: DataView
  /** As text: what `text` and `textEnd` say. */
  text: Buffer
  textView: DataView
  textEnd: number
  /** As binary. */
  binary: Buffer
  view: DataView
  binaryEnd: number
  /** A value can only be told as text. */
  isTextOnly: boolean
  /** The day that was looked up last, and its number. */
  day: number
  dayNumber: number
}

/** At most so many bytes does a cell take, in either form, besides those that it is made from. */
export const mostCellBytes = 80

export const newCells = (): Cells => {
  const binary = Buffer.alloc(0)
  return {
    source: viewOf(binary),
    text: binary,
    textView: viewOf(binary),
    textEnd: 0,
    binary,
    view: viewOf(binary),
    binaryEnd: 0,
    isTextOnly: false,
    day: -1,
    dayNumber: 0,
  }
}

export const viewOf = ({ buffer, byteOffset, length }: Buffer): DataView =>
  new DataView(buffer, byteOffset, length)

const tab = 0x09
export const quote = 0x22
export const minus = 0x2d
export const dot = 0x2e
export const zero = 0x30
const nine = 0x39
const backslash = 0x5c

/** A tab, a backslash and an N, and what the next cell begins with. */
const nullText = 0x095c4e09

export function writeNull(cells: Cells): void {
  cells.textView.setInt32(cells.textEnd, nullText)
  cells.textEnd += 3
  cells.view.setInt32(cells.binaryEnd, -1)
  cells.binaryEnd += 4
}

export function writeBoolean(cells: Cells, bytes: Buffer, start: number): boolean {
  const first = bytes[start]
  if (first !== 0x74 && first !== 0x66) return false
  writeTextByte(cells, first)
  cells.view.setInt32(cells.binaryEnd, 1)
  cells.binary[cells.binaryEnd + 4] = first === 0x74 ? 1 : 0
  cells.binaryEnd += 5
  return true
}

function writeTextByte(cells: Cells, byte: number): void {
  cells.text[cells.textEnd] = tab
  cells.text[cells.textEnd + 1] = byte
  cells.textEnd += 2
}

/** Copies the value as it stands in the bytes. */
export function writeTextRange(cells: Cells, start: number, end: number): void {
  const at = cells.textEnd + 1
  cells.text[cells.textEnd] = tab
  copyText(cells.source, start, end, cells.textView, at)
  cells.textEnd = at + end - start
}

/**
 * Copies eight bytes at a time, as floats. A float is copied exactly unless it is NaN, and the bytes of a NaN cannot be UTF-8: they hold
 * 0xff, or 0x7f behind the first byte of a long character. The last eight bytes overlap those before them.
 */
function copyText(source: DataView, start: number, end: number, to: DataView, toStart: number): void {
  if (end - start >= 8) {
    const shift = toStart - start
    for (let from = start; from < end - 8; from += 8)
      to.setFloat64(from + shift, source.getFloat64(from, true), true)
    to.setFloat64(end - 8 + shift, source.getFloat64(end - 8, true), true)
  } else if (end - start >= 4) {
    to.setInt32(toStart, source.getInt32(start, true), true)
    to.setInt32(toStart + end - start - 4, source.getInt32(end - 4, true), true)
  } else for (let from = start; from < end; from++) to.setUint8(toStart + from - start, source.getUint8(from))
}

/** Writes an integer of 32 bits into a cell of 64. */
function writeInt32(cells: Cells, number: number): void {
  cells.view.setInt32(cells.binaryEnd, 8)
  cells.view.setInt32(cells.binaryEnd + 4, number < 0 ? -1 : 0)
  cells.view.setInt32(cells.binaryEnd + 8, number)
  cells.binaryEnd += 12
}

const two32 = 4_294_967_296

export function writeInt64(cells: Cells, number: number): void {
  const high = Math.floor(number / two32)
  cells.view.setInt32(cells.binaryEnd, 8)
  cells.view.setInt32(cells.binaryEnd + 4, high)
  cells.view.setUint32(cells.binaryEnd + 8, number - high * two32)
  cells.binaryEnd += 12
}

export function writeLargeInt64(cells: Cells, number: bigint): void {
  cells.view.setInt32(cells.binaryEnd, 8)
  cells.view.setBigInt64(cells.binaryEnd + 4, number)
  cells.binaryEnd += 12
}

export function writeBigint(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const isNegative = bytes[start] === minus
  const first = isNegative ? start + 1 : start
  // `-0` is written by Postgres as another text than it was read from.
  if (end - first > 19 || (isNegative && bytes[first] === zero)) return false
  let number = 0
  for (let at = first; at < end; at++) {
    const digit = (bytes[at] as number) - zero
    if (digit < 0 || digit > 9) return false
    number = number * 10 + digit
  }
  if (end - first <= 9) writeInt32(cells, isNegative ? -number : number)
  else if (end - first <= 15) writeInt64(cells, isNegative ? -number : number)
  else {
    const exact = BigInt(bytes.toString('latin1', start, end))
    if (exact < int64.min || exact > int64.max) return false
    writeLargeInt64(cells, exact)
  }
  writeTextRange(cells, start, end)
  return true
}

// More digits might not fit into a cell.
const mostDigits = 100

/** Writes a decimal without exponent as Postgres holds it: groups of four digits from the point on, and how many stood behind the point. */
export function writeNumeric(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const isNegative = bytes[start] === minus
  const first = isNegative ? start + 1 : start
  if (end - first > mostDigits) return false
  let point = first
  for (; point < end; point++) {
    const byte = bytes[point] as number
    if (byte < zero || byte > nine) break
  }
  if (point === first || (point < end && bytes[point] !== dot)) return false
  const { view, binaryEnd } = cells
  const fraction = point < end ? end - point - 1 : 0
  let at = binaryEnd + 12
  let groups = 0
  let weight = ((point - first + 3) >> 2) - 1
  for (let from = first; from < point; ) {
    // Fewer than four only in the first group.
    const groupEnd = from + ((point - from) & 3 || 4)
    let group = 0
    for (; from < groupEnd; from++) group = group * 10 + (bytes[from] as number) - zero
    if (groups === 0 && group === 0) weight--
    else {
      view.setUint16(at, group)
      at += 2
      groups++
    }
  }
  for (let from = point + 1; from < end; from += 4) {
    let group = 0
    for (let digit = from; digit < from + 4; digit++) {
      const value = digit < end ? (bytes[digit] as number) - zero : 0
      // An exponent.
      if (value < 0 || value > 9) return false
      group = group * 10 + value
    }
    if (groups === 0 && group === 0) weight--
    else {
      view.setUint16(at, group)
      at += 2
      groups++
    }
  }
  while (groups > 0 && view.getUint16(at - 2) === 0) {
    at -= 2
    groups--
  }
  view.setInt32(binaryEnd, at - binaryEnd - 4)
  view.setUint16(binaryEnd + 4, groups)
  view.setInt16(binaryEnd + 6, groups === 0 ? 0 : weight)
  view.setUint16(binaryEnd + 8, isNegative && groups > 0 ? 0x4000 : 0)
  view.setUint16(binaryEnd + 10, fraction)
  cells.binaryEnd = at
  writeTextRange(cells, start, end)
  return true
}

const hexValues = new Uint8Array(256).fill(255)
for (const digit of '0123456789abcdefABCDEF') hexValues[digit.charCodeAt(0)] = Number.parseInt(digit, 16)

const dashes = [9, 14, 19, 24] as const

export function writeUuid(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  if (end - start !== 38 || bytes[start] !== quote) return false
  for (const dash of dashes) if (bytes[start + dash] !== minus) return false
  const { binary, binaryEnd } = cells
  let seen = 0
  let from = start + 1
  for (let at = binaryEnd + 4; at < binaryEnd + 20; at++) {
    if (bytes[from] === minus) from++
    const high = hexValues[bytes[from] as number] as number
    const low = hexValues[bytes[from + 1] as number] as number
    seen |= high | low
    binary[at] = (high << 4) | low
    from += 2
  }
  if (seen > 15) return false
  cells.view.setInt32(binaryEnd, 16)
  cells.binaryEnd = binaryEnd + 20
  writeTextRange(cells, start + 1, end - 1)
  return true
}

/** `end` is that of a value in a RecordPage: less than 0 where the string has escapes. */
export function writeText(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] !== quote) return false
  if (end < 0) return writeEscapedText(cells, bytes, start + 1, ~end - 1)
  const { source, view, binaryEnd } = cells
  const length = end - start - 2
  writeTextRange(cells, start + 1, end - 1)
  copyText(source, start + 1, end - 1, view, binaryEnd + 4)
  view.setInt32(binaryEnd, length)
  cells.binaryEnd = binaryEnd + 4 + length
  return true
}

const bytesOf = (pairs: string): Uint8Array => {
  const bytes = new Uint8Array(256)
  for (let at = 0; at < pairs.length; at += 2) bytes[pairs.charCodeAt(at)] = pairs.charCodeAt(at + 1)
  return bytes
}
/** What a byte behind a backslash stands for. */
const unescaped = bytesOf('""\\\\//b\bf\fn\nr\rt\t')
/** What COPY's text format writes behind a backslash for what it reads as its own; 0: it writes the byte as it is. */
const copyEscapes = bytesOf('\\\\\tt\nn\rr')

function writeEscapedText(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const { text, textView, binary, binaryEnd, source, view } = cells
  let at = cells.textEnd
  let to = binaryEnd + 4
  text[at++] = tab
  for (let from = start; from < end; ) {
    let runEnd = from
    while (runEnd < end && bytes[runEnd] !== backslash) runEnd++
    if (runEnd > from) {
      copyText(source, from, runEnd, textView, at)
      copyText(source, from, runEnd, view, to)
      at += runEnd - from
      to += runEnd - from
      from = runEnd
      continue
    }
    const kind = bytes[from + 1] as number
    let byte: number
    if (kind !== 0x75) {
      byte = unescaped[kind] as number
      from += 2
    } else {
      const character = escapedCharacter(bytes, from)
      // NUL, or half a pair of surrogates: no text of Postgres holds it.
      if (character <= 0) return false
      from += character > 0xffff ? 12 : 6
      if (character > 0x7f) {
        const written = writeUtf8(binary, to, character)
        for (let copied = 0; copied < written; copied++) text[at++] = binary[to++] as number
        continue
      }
      byte = character
    }
    const escaping = copyEscapes[byte] as number
    if (escaping !== 0) {
      text[at++] = backslash
      text[at++] = escaping
    } else text[at++] = byte
    binary[to++] = byte
  }
  cells.textEnd = at
  cells.view.setInt32(binaryEnd, to - binaryEnd - 4)
  cells.binaryEnd = to
  return true
}

/** What `\uXXXX`, or two of them, stand for; -1 for half a pair. */
function escapedCharacter(bytes: Buffer, at: number): number {
  const unit = hexUnit(bytes, at + 2)
  if (unit < 0xd800 || unit > 0xdfff) return unit
  if (unit > 0xdbff || bytes[at + 6] !== backslash || bytes[at + 7] !== 0x75) return -1
  const next = hexUnit(bytes, at + 8)
  return next >= 0xdc00 && next <= 0xdfff ? 0x10000 + ((unit - 0xd800) << 10) + next - 0xdc00 : -1
}

const hexUnit = (bytes: Buffer, at: number): number =>
  ((hexValues[bytes[at] as number] as number) << 12) |
  ((hexValues[bytes[at + 1] as number] as number) << 8) |
  ((hexValues[bytes[at + 2] as number] as number) << 4) |
  (hexValues[bytes[at + 3] as number] as number)

/** Returns how many bytes it takes. */
function writeUtf8(bytes: Buffer, at: number, character: number): number {
  if (character < 0x800) {
    bytes[at] = 0xc0 | (character >> 6)
    bytes[at + 1] = 0x80 | (character & 0x3f)
    return 2
  }
  if (character < 0x10000) {
    bytes[at] = 0xe0 | (character >> 12)
    bytes[at + 1] = 0x80 | ((character >> 6) & 0x3f)
    bytes[at + 2] = 0x80 | (character & 0x3f)
    return 3
  }
  bytes[at] = 0xf0 | (character >> 18)
  bytes[at + 1] = 0x80 | ((character >> 12) & 0x3f)
  bytes[at + 2] = 0x80 | ((character >> 6) & 0x3f)
  bytes[at + 3] = 0x80 | (character & 0x3f)
  return 4
}
