// The names of the fields that the records of one operation were seen to have, and which mostly follows which: where a record keeps to
// that, its names are compared with a few words of memory instead of being read.

import { openSpareBytes } from './spare-bytes.ts'

/** Each field has a number, from 1 on; 0 is where a record begins. */
export type FieldOrder = ReturnType<typeof newFieldOrder>

// An upstream may make up a field name for every record (P10).
const mostFields = 1_000
const mostBytes = 64 * 1024
/** A worker with a thousand sources has some thousand of these. */
const firstBytes = 2 * 1024
export const noField = -1
const slotCount = 4_096
const longestHashed = 100
// Enough for a few pages.
const mostSpareBytes = 16 * 1024 * 1024

export function newFieldOrder() {
  const bytes = new Uint8Array(firstBytes)
  return {
    names: [''],
    numbers: new Map<string, number>(),
    /** Which field came behind each field the last time. */
    next: new Int32Array(mostFields + 1),
    /** The names as they stand in a compact text, with quotes and colon, one behind the other. */
    bytes,
    words: new DataView(bytes.buffer),
    /** Where each begins, and how long it is. */
    starts: new Int32Array(mostFields + 1),
    lengths: new Int32Array(mostFields + 1),
    end: 0,
    /** How long the longest is, and at least a few bytes. */
    longest: 8,
    /** By the hash of a name, a field whose name has it. */
    slots: new Int16Array(slotCount),
    /** How long a record was in the last list that had some. */
    recordBytes: 1_000,
    /** Memory for the places of the next list. */
    spare: openSpareBytes(mostSpareBytes),
  }
}

/** The number of a field, which becomes known if it was not; `noField` when there are too many. */
export function numberOf(order: FieldOrder, name: string): number {
  const known = order.numbers.get(name)
  const text = Buffer.from(`"${name}":`)
  // Of two names that share a slot, the one that came last is in it.
  if (known !== undefined) {
    order.slots[slotAt(text, 0)] = known
    return known
  }
  const number = order.names.length
  if (number > mostFields || order.end + text.length > mostBytes) return noField
  if (order.end + text.length > order.bytes.length) grow(order, order.end + text.length)
  order.bytes.set(text, order.end)
  order.starts[number] = order.end
  order.lengths[number] = text.length
  order.end += text.length
  order.longest = Math.max(order.longest, text.length)
  order.slots[slotAt(text, 0)] = number
  order.names.push(name)
  order.numbers.set(name, number)
  return number
}

function grow(order: FieldOrder, least: number): void {
  const bytes = new Uint8Array(Math.min(mostBytes, Math.max(least, 2 * order.bytes.length)))
  bytes.set(order.bytes)
  order.bytes = bytes
  order.words = new DataView(bytes.buffer)
}

function slotAt(bytes: Uint8Array, at: number): number {
  const end = at + longestHashed
  let hash = 0
  for (let next = at + 1; next < end && bytes[next] !== 0x22; next++)
    hash = (Math.imul(hash, 31) + (bytes[next] as number)) | 0
  return hash & (slotCount - 1)
}

/** The field whose name stands at a place, however the fields are ordered; 0: this cannot tell. The text must go on as in `isNameAt`. */
export function fieldAt(order: FieldOrder, bytes: Uint8Array, text: DataView, at: number): number {
  const field = order.slots[slotAt(bytes, at)] as number
  return field > 0 && isNameAt(order, field, text, at) ? field : 0
}

/**
 * Whether the name of a field stands at a place of a text, which must go on for `longest` bytes from there. Eight bytes at a time are compared as
 * floats. Floats are equal exactly if their bytes are, except for zeros and NaN, and no eight bytes of a name are one of those.
 */
export function isNameAt(order: FieldOrder, field: number, text: DataView, at: number): boolean {
  const length = order.lengths[field] as number
  const start = order.starts[field] as number
  const { words } = order
  let from = 0
  for (; from + 8 <= length; from += 8)
    if (text.getFloat64(at + from, true) !== words.getFloat64(start + from, true)) return false
  if (from < length)
    return length >= 8
      ? text.getFloat64(at + length - 8, true) === words.getFloat64(start + length - 8, true)
      : isShortNameAt(order, field, text, at)
  return length > 0
}

function isShortNameAt(
  { words, starts, lengths }: FieldOrder,
  field: number,
  text: DataView,
  at: number,
): boolean {
  const length = lengths[field] as number
  const start = starts[field] as number
  for (let from = 0; from < length; from++)
    if (text.getUint8(at + from) !== words.getUint8(start + from)) return false
  return length > 0
}
