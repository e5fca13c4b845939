// Texts of any length.

import { backslash, type Cells, copyText, quote, tab, writeTextRange } from './cells.ts'
import { type FromJson, typeRules } from './column-type.ts'
import { bytesOf, escapedCharacter, unescaped, writeUtf8 } from './escapes.ts'
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

/** What COPY's text format writes behind a backslash for what it reads as its own; 0: it writes the byte as it is. */
const copyEscapes = bytesOf('\\\\\tt\nn\rr')

/** Four bytes, of which one is a backslash. */
const holdsBackslash = (four: number): boolean => {
  const others = four ^ 0x5c5c5c5c
  return ((others - 0x01010101) & ~others & 0x80808080) !== 0
}

function writeEscapedText(cells: Cells, bytes: Buffer, start: number, end: number): boolean {
  const { text, textView, binary, binaryEnd, source, view } = cells
  let at = cells.textEnd
  let to = binaryEnd + 4
  text[at++] = tab
  for (let from = start; from < end; ) {
    for (; from + 4 <= end; from += 4, at += 4, to += 4) {
      const four = source.getInt32(from, true)
      if (holdsBackslash(four)) break
      textView.setInt32(at, four, true)
      view.setInt32(to, four, true)
    }
    if (from === end) break
    let byte = bytes[from] as number
    if (byte !== backslash) {
      text[at++] = byte
      binary[to++] = byte
      from++
      continue
    }
    const kind = bytes[from + 1] as number
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
