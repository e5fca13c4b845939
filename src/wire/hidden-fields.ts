// Takes fields out of an answer, or puts other values in their place, in its bytes and before anything is read from them (P20): in every
// object, however deep, and each time where a name comes twice. What is not JSON is not passed on.

import { type FieldOrder, fieldAt, isNameAt, newFieldOrder, numberOf } from './field-order.ts'
import {
  bad,
  closeBrace,
  closeBracket,
  colon,
  comma,
  endOfPlainValue,
  openBrace,
  openBracket,
  quote,
  skipName,
  skipSpace,
  skipString,
} from './skip.ts'

/** What stands in place of a value, as JSON; null: the field goes with it. */
export type Hide = ((value: Buffer) => string) | null
/** Which fields are hidden in an object. */
type Rules = {
  /** Whether any is, apart from those of objects inside. */
  readonly hidesOwn: boolean
  /** Undefined: the field stays as it is. */
  of(name: string): Hide | undefined
  /** Those of the objects that stand under a name. */
  inside(name: string): Hiding
  /** What stands in place of a record that is no object: nobody can tell what it holds. */
  readonly other: (value: Buffer) => string
}
export type Hiding = Rules & {
  /** The names that were met, and what becomes of each by its number. */
  readonly order: FieldOrder
  readonly hides: (Hide | undefined)[]
}

export const openHiding = (rules: Rules): Hiding => ({ ...rules, order: newFieldOrder(), hides: [] })

/** The parser takes no deeper ones either. */
const deepest = 500

type Walk = {
  readonly bytes: Buffer
  readonly view: DataView
  /** Where what is replaced begins and ends, in pairs. */
  readonly places: number[]
  readonly texts: string[]
}

/** `isList`: an object around a list is no record itself. Null: it is not JSON. */
export function hideFields(bytes: Buffer, hiding: Hiding, isList: boolean): Buffer | null {
  if (!hiding.hidesOwn && !hasNested(bytes)) return bytes
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const walk: Walk = { bytes, view, places: [], texts: [] }
  const first = skipSpace(bytes, hasByteOrderMark(bytes) ? 3 : 0)
  const end =
    bytes[first] === openBrace
      ? hideInObject(walk, first, hiding, { depth: 1, around: isList ? mostAround : 0 })
      : bytes[first] === openBracket
        ? hideInRecords(walk, first, hiding, 1)
        : bytes[first] === quote && hiding.hidesOwn
          ? hideWhole(walk, first, hiding)
          : endOfPlainValue(bytes, first)
  return end === bad || skipSpace(bytes, end) < bytes.length ? null : rewritten(walk)
}

/** Whether anything may stand inside the records; most have only plain values, and are passed on at once. */
function hasNested(bytes: Buffer): boolean {
  for (const open of [openBrace, openBracket])
    for (let at = bytes.indexOf(open); at >= 0; at = bytes.indexOf(open, at + 1)) {
      let before = at - 1
      while (before >= 0 && (bytes[before] as number) <= 0x20) before--
      if (bytes[before] === colon) return true
    }
  return false
}

const hasByteOrderMark = (bytes: Buffer): boolean =>
  bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf

function rewritten({ bytes, places, texts }: Walk): Buffer {
  if (texts.length === 0) return bytes
  let length = bytes.length
  for (const [index, text] of texts.entries())
    length += Buffer.byteLength(text) - (places[2 * index + 1] as number) + (places[2 * index] as number)
  const out = Buffer.allocUnsafeSlow(length)
  let from = 0
  let at = 0
  for (const [index, text] of texts.entries()) {
    at += bytes.copy(out, at, from, places[2 * index])
    at += out.write(text, at)
    from = places[2 * index + 1] as number
  }
  bytes.copy(out, at, from)
  return out
}

function replace({ places, texts }: Walk, start: number, end: number, text: string): void {
  places.push(start, end)
  texts.push(text)
}

/** Each of these returns where the value ends, or `bad`. */
function hideInValue(walk: Walk, at: number, hiding: Hiding, depth: number): number {
  const { bytes } = walk
  if (depth > deepest) return bad
  if (bytes[at] === openBrace) return hideInObject(walk, at, hiding, { depth, around: 0 })
  if (bytes[at] === openBracket)
    return hideInList(walk, at, (item) => hideInValue(walk, item, hiding, depth + 1))
  return endOfPlainValue(bytes, at)
}

/** A list of records: what is no object in it is hidden whole. */
const hideInRecords = (walk: Walk, start: number, hiding: Hiding, depth: number): number =>
  hideInList(walk, start, (at) => {
    const first = walk.bytes[at]
    const isKept = !hiding.hidesOwn || first === openBrace || first === firstOfNull
    return isKept ? hideInValue(walk, at, hiding, depth + 1) : hideWhole(walk, at, hiding)
  })

const firstOfNull = 0x6e

const hideWhole = (walk: Walk, at: number, hiding: Hiding): number =>
  hideMember(walk, at, { name: '', hiding, hide: hiding.other, where: { depth: 1, around: 0 } })

function hideInList({ bytes }: Walk, start: number, hideItem: (at: number) => number): number {
  let at = skipSpace(bytes, start + 1)
  if (bytes[at] === closeBracket) return at + 1
  for (;;) {
    const end = hideItem(at)
    if (end === bad) return bad
    at = skipSpace(bytes, end)
    if (bytes[at] === closeBracket) return at + 1
    if (bytes[at] !== comma) return bad
    at = skipSpace(bytes, at + 1)
  }
}

/** `around`: the object is no record, and at most so many levels below it stand a list of them, whose name is none of their fields. */
type Where = { readonly depth: number; readonly around: number }
/** As deep as a list is looked for: in an object, or in one inside it. */
const mostAround = 2

const mayHoldRecords = (first: number | undefined, { around }: Where): boolean =>
  first === openBracket ? around > 0 : first === openBrace && around > 1

function hideInObject(walk: Walk, start: number, hiding: Hiding, where: Where): number {
  const { bytes, view } = walk
  const { order, hides } = hiding
  let at = skipSpace(bytes, start + 1)
  if (bytes[at] === closeBrace) return at + 1
  let before = 0
  /** The comma before this member, if one before it stays. */
  let commaAt = -1
  for (;;) {
    const isSafe = at < bytes.length - order.longest
    let field = isSafe ? (order.next[before] as number) : 0
    if (field === 0 || !isNameAt(order, field, view, at)) field = isSafe ? fieldAt(order, bytes, view, at) : 0
    let valueAt = at + (order.lengths[field] as number)
    let name = order.names[field] as string
    if (field === 0) {
      valueAt = skipName(bytes, at)
      if (valueAt === bad) return bad
      name = nameIn(bytes, at)
      field = Math.max(0, numberOf(order, name))
      if (field > 0) hides[field] = hiding.of(name)
    }
    order.next[before] = field
    before = field
    valueAt = skipSpace(bytes, valueAt)
    let hide = field === 0 ? hiding.of(name) : hides[field]
    if (mayHoldRecords(bytes[valueAt], where)) hide = undefined
    const end =
      hide === undefined && !isNested(bytes[valueAt])
        ? endOfPlainValue(bytes, valueAt)
        : hideMember(walk, valueAt, { name, hiding, hide, where })
    if (end === bad) return bad
    const next = skipSpace(bytes, end)
    const isLast = bytes[next] === closeBrace
    if (!isLast && bytes[next] !== comma) return bad
    const nextAt = isLast ? next : skipSpace(bytes, next + 1)
    if (hide === null) replace(walk, commaAt < 0 ? at : commaAt, commaAt < 0 ? nextAt : end, '')
    if (hide !== null || commaAt >= 0) commaAt = next
    if (isLast) return next + 1
    at = nextAt
  }
}

const isNested = (byte: number | undefined): boolean => byte === openBrace || byte === openBracket

function nameIn(bytes: Buffer, start: number): string {
  const end = skipString(bytes, start)
  return end < 0
    ? JSON.parse(bytes.toString('utf8', start, ~end))
    : bytes.toString('utf8', start + 1, end - 1)
}

type Member = {
  readonly name: string
  readonly hiding: Hiding
  readonly hide: Hide | undefined
  readonly where: Where
}

function hideMember(walk: Walk, at: number, { name, hiding, hide, where }: Member): number {
  const { bytes } = walk
  if (hide !== undefined) {
    const end = hideInValue({ ...walk, places: [], texts: [] }, at, hiding, where.depth + 1)
    if (hide !== null && end !== bad) replace(walk, at, end, hide(bytes.subarray(at, end)))
    return end
  }
  const within = hiding.inside(name)
  if (!mayHoldRecords(bytes[at], where)) return hideInValue(walk, at, within, where.depth + 1)
  return bytes[at] === openBracket
    ? hideInRecords(walk, at, within, where.depth)
    : hideInObject(walk, at, within, { depth: where.depth + 1, around: where.around - 1 })
}
