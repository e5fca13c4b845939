// One pass over the bytes of an answer: checks that they are a list in JSON, and notes where its records and the values of their fields
// are. Strict: what it takes, JSON.parse takes as well. What it does not take is read by the parser of src/json/, which says why.

import { isUtf8 } from 'node:buffer'
import { expectBounded, JsonError } from '../json/bounds.ts'
import { type FieldOrder, fieldAt, isNameAt, noField, numberOf } from './field-order.ts'
import { isNull, type Places, type RecordPage, recordPage } from './record-page.ts'
import {
  backslash,
  bad,
  closeBrace,
  closeBracket,
  colon,
  comma,
  openBrace,
  openBracket,
  quote,
  skipPlainValue,
  skipSpace,
  skipString,
  skipValue,
} from './skip.ts'

/** If an answer held more records, the list of them alone would take all memory (P10). */
const mostRecords = 300_000
// Places of fields take eight bytes each, and together no more than twice the bytes of the answer. A record that gets none is parsed.
const placesOfByte = 1 / 4
const enoughPlaces = 100_000
const mostPlaces = ({ length }: Buffer): number => enoughPlaces + Math.ceil(length * placesOfByte)

const ordinary = new Uint8Array(256).fill(1, 0x20)
ordinary[quote] = 0
ordinary[backslash] = 0
/** `null` */
const nullWord = 0x6e756c6c

type Scan = ReturnType<typeof startScan>

/**
 * Null: it is no list, or none that this scan reads. `order` learns what the records show. Throws a JsonError when there are too many
 * records, or values in one. `onRelease` is called when the bytes are of no use to the page any more.
 */
export function scanRecords(
  bytes: Buffer,
  order: FieldOrder,
  onRelease: () => void = () => {},
): RecordPage | null {
  const first = skipSpace(bytes, 0)
  if (bytes[first] !== openBracket || !isUtf8(bytes)) return null
  const scan = startScan(bytes, order)
  const end = scanList(scan, first)
  if (end === bad || skipSpace(bytes, end) !== bytes.length) return null
  if (scan.recordCount >= fewRecords) order.recordBytes = bytes.length / scan.recordCount
  return recordPage(
    { bytes, view: scan.view, order, places: placesOf(scan), length: scan.recordCount },
    () => {
      order.spare.giveBack(scan.memory)
      onRelease()
    },
  )
}

const fewRecords = 16

function startScan(bytes: Buffer, order: FieldOrder) {
  // Room for as many records as there are if they are as long as those of the list before.
  const likely = fewRecords + Math.ceil((1.1 * bytes.length) / order.recordBytes)
  const records = Math.min(mostRecords, likely)
  const fields = Math.min(records * order.names.length, mostPlaces(bytes))
  const memory = order.spare.take(4 * (3 * records + 1 + 2 * fields))
  let end = memory.byteOffset
  const part = (length: number) => {
    const places = new Int32Array(memory.buffer, end, length)
    end += places.byteLength
    return places
  }
  return {
    bytes,
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.length),
    order,
    /** Where the name ended that was read last. */
    nameEnd: 0,
    /** The record in hand holds objects or lists. */
    isNested: false,
    recordCount: 0,
    /** How many places of fields are taken. */
    fieldEnd: 0,
    recordStarts: part(records),
    recordEnds: part(records),
    firstFields: part(records + 1).fill(0, 0, 1),
    valueStarts: part(fields).fill(0),
    valueEnds: part(fields),
    /** In which these arrays are made, until they have to grow. */
    memory,
  }
}

const placesOf = ({ recordStarts, recordEnds, firstFields, valueStarts, valueEnds }: Scan): Places => ({
  recordStarts,
  recordEnds,
  firstFields,
  valueStarts,
  valueEnds,
})

function scanList(scan: Scan, start: number): number {
  const { bytes } = scan
  const first = skipSpace(bytes, start + 1)
  if (bytes[first] === closeBracket) return first + 1
  let at = first
  while (at > 0) at = scanSome(scan, start, at)
  return ~at
}

const someRecords = 50

/**
 * Scans some records, from the first byte of one on. Returns where the next one begins, or the complement of where the list ends, or of
 * `bad`. Not all records in one loop: the engine compiles a function that is called often once, but one that stays in its loop again
 * and again.
 */
function scanSome(scan: Scan, start: number, from: number): number {
  const { bytes } = scan
  let at = from
  for (let count = 0; count < someRecords; count++) {
    if (scan.recordCount === mostRecords)
      throw new JsonError('too large', `the answer holds more than ${mostRecords} records`)
    makeRoom(scan, at - start)
    const end = scanRecord(scan, at)
    if (end === bad) return ~bad
    at = skipSpace(bytes, end)
    if (bytes[at] === closeBracket) return ~(at + 1)
    if (bytes[at] !== comma) return ~bad
    at = skipSpace(bytes, at + 1)
  }
  return at
}

/** Makes room for one more record, and for the rest, which is estimated by the `scanned` bytes that held those before it. */
function makeRoom(scan: Scan, scanned: number): void {
  const { recordCount, fieldEnd, order, bytes } = scan
  const share = recordCount === 0 ? 1 : (1.05 * bytes.length) / scanned
  if (recordCount === scan.recordStarts.length) {
    const most = Math.min(mostRecords, Math.max(2 * recordCount, Math.ceil(recordCount * share)))
    scan.recordStarts = grown(scan.recordStarts, most)
    scan.recordEnds = grown(scan.recordEnds, most)
    scan.firstFields = grown(scan.firstFields, most + 1)
  }
  // Fields may become known while the record is read.
  const wanted = fieldEnd + 2 * order.names.length + 64
  if (wanted > scan.valueStarts.length) {
    const most = Math.max(wanted, Math.ceil(fieldEnd * Math.min(share, 2)))
    scan.valueStarts = grown(scan.valueStarts, most)
    scan.valueEnds = grown(scan.valueEnds, most)
  }
}

function grown(places: Int32Array, length: number) {
  const larger = new Int32Array(length)
  larger.set(places)
  return larger
}

function scanRecord(scan: Scan, start: number): number {
  const { recordCount, fieldEnd, bytes } = scan
  const isObject = bytes[start] === openBrace
  const hasPlaces = fieldEnd < mostPlaces(bytes)
  scan.isNested = false
  let end = isObject && hasPlaces ? scanFields(scan, start) : bad
  if (end !== bad) scan.fieldEnd = fieldEnd + scan.order.names.length
  else {
    scan.valueStarts.fill(0, fieldEnd, fieldEnd + scan.order.names.length)
    end = skipValue(scan.bytes, start, 0)
    if (end === bad) return bad
    scan.isNested = true
  }
  // Some of it will have to be parsed. If it holds too much for that, the whole answer is refused, as one that is no list would be.
  if (scan.isNested) expectBounded(bytes.subarray(start, end))
  scan.recordStarts[recordCount] = start
  scan.recordEnds[recordCount] = end
  scan.firstFields[recordCount + 1] = scan.fieldEnd
  scan.recordCount = recordCount + 1
  return end
}

/** Notes where the values of an object are; `bad` when that is not enough to tell what is in it. */
function scanFields(scan: Scan, start: number): number {
  const { bytes, view, order, fieldEnd } = scan
  const { next, lengths } = order
  // While a name fits into what is left, it is compared without looking whether the bytes end.
  let safe = bytes.length - order.longest
  let { valueStarts, valueEnds } = scan
  let before = 0
  let at = start + 1
  for (;;) {
    if ((bytes[at] as number) <= 0x20) at = skipSpace(bytes, at)
    let field = next[before] as number
    if (at < safe && isNameAt(order, field, view, at)) at += lengths[field] as number
    else {
      field = at < safe ? fieldAt(order, bytes, view, at) : 0
      if (field > 0) at += lengths[field] as number
      else {
        field = readName(scan, at)
        if (field === noField) return bad
        at = scan.nameEnd
        safe = bytes.length - order.longest
      }
      next[before] = field
      if (fieldEnd + field >= valueStarts.length) {
        makeRoom(scan, at)
        ;({ valueStarts, valueEnds } = scan)
      }
    }
    const place = fieldEnd + field
    if (valueStarts[place] !== 0) return bad
    let byte = bytes[at] as number
    if (byte <= 0x20) {
      at = skipSpace(bytes, at)
      byte = bytes[at] as number
    }
    let end = at
    if (byte === quote) {
      do byte = bytes[++end] as number
      while (ordinary[byte] === 1)
      end = byte === quote ? end + 1 : skipString(bytes, at)
    } else if (at < safe && view.getInt32(at) === nullWord) end = at + 4
    else if (byte === openBrace || byte === openBracket) {
      end = skipValue(bytes, at, 1)
      scan.isNested = true
    } else end = skipPlainValue(bytes, at)
    if (end === bad) return bad
    valueStarts[place] = byte === 0x6e ? isNull : at
    valueEnds[place] = end
    at = end < 0 ? ~end : end
    byte = bytes[at++] as number
    if (byte <= 0x20) {
      at = skipSpace(bytes, at - 1)
      byte = bytes[at++] as number
    }
    if (byte === closeBrace) return at
    if (byte !== comma) return bad
    before = field
  }
}

/** The number of the field whose name, with its colon, begins here. */
function readName(scan: Scan, from: number): number {
  const { bytes } = scan
  const start = skipSpace(bytes, from)
  if (bytes[start] !== quote) return noField
  const end = skipString(bytes, start)
  // Also a name with escapes.
  if (end <= 0) return noField
  const at = skipSpace(bytes, end)
  if (bytes[at] !== colon) return noField
  scan.nameEnd = at + 1
  return numberOf(scan.order, bytes.toString('utf8', start + 1, end - 1))
}
