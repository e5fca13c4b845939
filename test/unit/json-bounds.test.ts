// How much a text holds is counted while it comes in, wherever it is cut (P10).

import { describe, expect, it } from 'vitest'
import { openBounds } from '../../src/json/bounds.ts'
import { newFieldOrder } from '../../src/wire/field-order.ts'
import { scanRecords } from '../../src/wire/scan.ts'

const bounds = { values: 20, records: 4, recordBytes: 64 * 1024 * 1024, fields: 6 }
/** What is refused when it comes in parts of so many bytes; null: nothing. */
function refusedIn(text: string, partBytes: number): string | null {
  const expectBounded = openBounds(bounds)
  const bytes = Buffer.from(text)
  try {
    for (let at = 0; at < bytes.length; at += partBytes) expectBounded(bytes.subarray(at, at + partBytes))
    return null
  } catch (error) {
    return (error as Error).message
  }
}

describe('P10: a text that comes in parts', () => {
  it.each<[string, string | null]>([
    ['[{"a":1,"b":2},{"a":1,"b":2}]', null],
    ['[{},{},{},{}]', null],
    ['[{},{},{},{},{}]', 'the answer holds more than 4 records'],
    ['{"list":[{},{},{},{},{}]}', null],
    ['{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}', null],
    ['[[{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}]]', 'the answer holds more than 6 fields in one record'],
    ['[{"a":{"x":1,"y":1},"b":1,"c":1,"d":1,"e":1,"f":1}]', null],
    [`{"a":[${Array(30).fill(1).join()}]}`, 'the answer holds more than 20 values'],
    ['[{"a":",,,,,,,\\",,,,,,\\\\"},{"a":"{{{{[[[[,,,,"}]', null],
    ['[{"a":",,,\\\\"},{"b\\\\\\"":",,,"},{},{},{}]', 'the answer holds more than 4 records'],
    ['}}}]]],,', null],
    ['['.repeat(501), 'the JSON is nested deeper than 500 levels'],
  ])('%s', (text, refused) => {
    for (const partBytes of [1, 2, 3, 7, 1_000])
      expect(refusedIn(text, partBytes), `by ${partBytes}`).toBe(refused)
  })

  it('may have many short records, but none that is long', () => {
    const expectShort = (text: string, partBytes: number) => {
      const expectBounded = openBounds({ ...bounds, values: 1_000, records: 1_000, recordBytes: 1024 * 1024 })
      const bytes = Buffer.from(text)
      for (let at = 0; at < bytes.length; at += partBytes) expectBounded(bytes.subarray(at, at + partBytes))
    }
    const record = (length: number) => `{"a":"${'x'.repeat(length)}","b":{"c":[1,2]}}`
    for (const partBytes of [65_536, 10_000_000]) {
      expectShort(`[${Array(10).fill(record(900_000)).join()}]`, partBytes)
      const long = `[${record(10)},${record(1_200_000)},${record(10)}]`
      expect(() => expectShort(long, partBytes)).toThrow('the answer holds one record of more than 1 MB')
    }
    // What is no list has a limit for the whole.
    expectShort(record(2_000_000), 65_536)
  })
})

describe('P10: a list that is not counted while it comes in', () => {
  const record = (fields: number) =>
    `{${Array.from({ length: fields }, (_, index) => `"f${index}":${index}`).join()}}`

  it('is refused when one of its records has too many fields, though none is an object', () => {
    const scan = (fields: number) => scanRecords(Buffer.from(`[${record(fields)},{}]`), newFieldOrder())
    expect(() => scan(100_001)).toThrow('the answer holds more than 100,000 fields in one record')
    expect(scan(99_999)?.length).toBe(2)
  })
})
