// Takes the contents of files out of a JSON text before it is read: as text, as part of the value and on their way between the two they
// would be in memory three times, and twice as long where anything beside them is no Latin letter (P10).

import { randomUUID } from 'node:crypto'

export type Cut = {
  /** The same JSON, with a mark in place of each. */
  readonly bytes: Buffer
  /** What stood there, by its mark. */
  readonly strings: ReadonlyMap<string, string>
}

/** Shorter texts take little whatever is done with them. */
const shortBytes = 1_048_576
const blockBytes = 65_536
const quote = 0x22
// A mark of the byte order is one at the start of a whole text only.
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/**
 * Null: there is nothing to take out. Whether a string begins where it seems to is not certain without reading all of the text; where
 * it does not, what is left is no JSON.
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

/** Behind a name there is a colon. */
function isValueEnd(bytes: Buffer, quoteAt: number): boolean {
  let next = quoteAt + 1
  while ((bytes[next] ?? 0x21) <= 0x20) next++
  return [0x2c, 0x5d, 0x7d].includes(bytes[next] ?? 0)
}

/** Base64, of which nothing has to be escaped. */
function plainText(bytes: Buffer): string | null {
  const text = utf8.decode(bytes)
  return /^[\w+/=-]*$/.test(text) ? text : null
}
