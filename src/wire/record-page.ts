// The records of one answer, found in its bytes but not parsed: where each begins and ends, and where the values of its fields are.
// A record that is needed as a whole is parsed, exactly, by src/json/.

import type { Json } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import type { FieldOrder } from './field-order.ts'

export type RecordPage = {
  readonly bytes: Buffer
  /** The same bytes, for reading several at a time. */
  readonly view: DataView
  readonly length: number
  /** What the numbers of fields mean. */
  readonly order: FieldOrder
  readonly places: Places
  /** Parsed anew at every call. */
  record(index: number): Json
  /** Gives its memory to others: after this no record of it can be asked for. */
  release(): void
  [Symbol.iterator](): Iterator<Json>
}
/** Records that are parsed already, or can be. */
export type RecordList = readonly Json[] | RecordPage

/** Where things are in the bytes. */
export type Places = {
  /** Where each record begins and where it ends. */
  readonly recordStarts: Int32Array
  readonly recordEnds: Int32Array
  /**
   * For each record, and the one behind the last, where its fields begin in the next two arrays. A record without fields there has to be
   * parsed: it is no object, or has a field twice or with escapes in its name.
   */
  readonly firstFields: Int32Array
  /** By the number of the field: where its value begins; 0: it has none. `isNull`: null. */
  readonly valueStarts: Int32Array
  /** Where the value ends. Of a string that has escapes: less than 0, and the complement of that. */
  readonly valueEnds: Int32Array
}
export const isNull = -1

export function recordPage(
  found: Pick<RecordPage, 'bytes' | 'view' | 'order' | 'places' | 'length'>,
  onRelease: () => void,
): RecordPage {
  const record = (index: number): Json => {
    const { bytes, places } = page
    return parseJson(bytes.subarray(places.recordStarts[index], places.recordEnds[index]))
  }
  const page = {
    ...found,
    record,
    release() {
      if (page.bytes === noBytes) return
      // Whoever asks for a record after this meets an error, and not the records of another page.
      Object.assign(page, { bytes: noBytes, view: noView, places: noPlaces })
      onRelease()
    },
    *[Symbol.iterator]() {
      for (let index = 0; index < page.length; index++) yield record(index)
    },
  }
  return page
}

const noBytes = Buffer.alloc(0)
const noView = new DataView(noBytes.buffer, 0, 0)
const none = new Int32Array(0)
const noPlaces: Places = {
  recordStarts: none,
  recordEnds: none,
  firstFields: none,
  valueStarts: none,
  valueEnds: none,
}

/** A page is told from other values by its functions: no value of JSON holds any. */
export const isRecordPage = (records: Json | RecordList): records is RecordPage =>
  typeof records === 'object' &&
  records !== null &&
  'record' in records &&
  typeof records.record === 'function'

/** All of them, parsed. */
export const parsedRecords = (records: RecordList): readonly Json[] =>
  isRecordPage(records) ? [...records] : records

/** Whether the fields of a record are known. */
export function hasFields({ places }: RecordPage, index: number): boolean {
  return (places.firstFields[index + 1] as number) > (places.firstFields[index] as number)
}

/** Where the places of a field's value are; -1 when the record does not have the field, or it is null. */
export function placeOf(
  { places: { firstFields, valueStarts } }: RecordPage,
  index: number,
  field: number,
): number {
  const place = (firstFields[index] as number) + field
  return place < (firstFields[index + 1] as number) && (valueStarts[place] as number) > 0 ? place : -1
}

/** The value at a place that `placeOf` returned. */
export function valueAt({ bytes, places }: RecordPage, place: number): Json {
  const start = places.valueStarts[place] as number
  const end = places.valueEnds[place] as number
  if (bytes[start] === 0x22 && end > 0) return bytes.toString('utf8', start + 1, end - 1)
  return parseJson(bytes.subarray(start, end < 0 ? ~end : end))
}

/** A whole number from 0 of so few digits that nothing can be lost; -1 when the value is another. */
export function smallNumberAt({ bytes, places }: RecordPage, place: number): number {
  const start = places.valueStarts[place] as number
  const end = places.valueEnds[place] as number
  if (end < start || end - start > 15) return -1
  let number = 0
  for (let at = start; at < end; at++) {
    const digit = (bytes[at] as number) - 0x30
    if (digit < 0 || digit > 9) return -1
    number = number * 10 + digit
  }
  return number
}
