// Texts of any length.

import { backslash, type Cells, copyText, hexValues, quote, tab, writeTextRange } from './cells.ts'
import { type FromJson, typeRules } from './column-type.ts'
import { isInt64Sql } from './numeric.ts'
import { uuidPattern } from './uuid.ts'

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

export const escapeCopy = (text: string): string =>
  text.replace(/[\\\t\n\r]/g, (character) => escapes[character] ?? '')

// Backslash and separators, which COPY reads as its own, and what Postgres cannot hold.
const special = /[\\\t\n\r\0\ud800-\udfff]/

const fromJson: FromJson = (value) => {
  if (typeof value !== 'string') return null
  if (!special.test(value)) return value
  return value.includes('\0') || !value.isWellFormed() ? null : escapeCopy(value)
}

function fromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
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

function textFromBytes(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] !== quote || end < 0) return fromBytes(cells, bytes, start, end)
  writeTextRange(cells, start + 1, end - 1)
  return true
}

export const text = typeRules({
  isString: true,
  fromJson,
  fromBytes,
  textFromBytes,
  takesEscapes: true,
  fitsKey: () => true,
  keySql(column, quoted) {
    const other = quoted(`case when ${column} ~* '${uuidPattern}' then lower(${column}) else ${column} end`)
    return `(case when ${column} = '' then null when ${isInt64Sql(column)} then (${column}::numeric)::text else ${other} end)`
  },
})
