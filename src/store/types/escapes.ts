// The escapes of JSON's strings, as they stand in bytes.

import { backslash, hexValues } from './cells.ts'

export const bytesOf = (pairs: string): Uint8Array => {
  const bytes = new Uint8Array(256)
  for (let at = 0; at < pairs.length; at += 2) bytes[pairs.charCodeAt(at)] = pairs.charCodeAt(at + 1)
  return bytes
}
/** What a byte behind a backslash stands for. */
export const unescaped = bytesOf('""\\\\//b\bf\fn\nr\rt\t')

/** What `\uXXXX`, or two of them, stand for; -1 for half a pair. */
export function escapedCharacter(bytes: Buffer, at: number): number {
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
export function writeUtf8(bytes: Buffer, at: number, character: number): number {
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
