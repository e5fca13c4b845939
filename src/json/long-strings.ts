// The contents of files are taken out of a text before it is parsed. Otherwise they would be in memory three times: in the text, in the
// value, and on the way between the two; and each time at double length, if anything in the text is no Latin letter (P10).

import { randomUUID } from 'node:crypto'

export type Cut = {
  /** The same JSON, with a mark in place of each. */
  readonly bytes: Buffer
  /** The strings that were taken out, by their marks. */
  readonly strings: ReadonlyMap<string, string>
}

/** Shorter texts are left as they are: they take little memory anyway. */
const shortBytes = 1_048_576
const blockBytes = 65_536
const quote = 0x22
// Decodes parts of a text, so a byte order mark is an ordinary character: it is a mark only at the start of a whole text.
const utf8Part = new TextDecoder('utf-8', { ignoreBOM: true })

/**
 * Null: there is nothing to take out. Without reading the whole text it is not certain that a string begins where it seems to. If it
 * does not, what is left is no JSON, and the caller parses the whole text.
 */
export function cutLongStrings(bytes: Buffer): Cut | null {
  if (bytes.length < shortBytes) return null
  const strings = new Map<string, string>()
  const parts: Buffer[] = []
  const marks = randomUUID()
  let [at, kept] = [0, 0]
  while (at + blockBytes <= bytes.length) {
    if (bytes.subarray(at, at + blockBytes).includes(quote)) {
      at += blockBytes
      continue
    }
    const start = bytes.lastIndexOf(quote, at) + 1
    const end = bytes.indexOf(quote, at)
    if (end === -1) break
    const string = start <= kept || !isValueEnd(bytes, end) ? null : plainText(bytes.subarray(start, end))
    if (string !== null) {
      const mark = `${marks}:${strings.size}`
      strings.set(mark, string)
      parts.push(bytes.subarray(kept, start), Buffer.from(mark))
      kept = end
    }
    at = end + 1
  }
  if (strings.size === 0) return null
  return { bytes: Buffer.concat([...parts, bytes.subarray(kept)]), strings }
}

/** Whether the quote ends a value and not a name: no colon follows. */
function isValueEnd(bytes: Buffer, quoteAt: number): boolean {
  let next = quoteAt + 1
  while ((bytes[next] ?? 0x21) <= 0x20) next++
  return [0x2c, 0x5d, 0x7d].includes(bytes[next] ?? 0)
}

/** Base64, of which nothing has to be escaped. */
function plainText(bytes: Buffer): string | null {
  const text = utf8Part.decode(bytes)
  return /^[\w+/=-]*$/.test(text) ? text : null
}
