import { describe, expect, it } from 'vitest'
import type { Json } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'
import { fingerprint, isObject, readRecords, toInt64, typedKey } from '../../src/streams/record.ts'

const parse = (text: string): Json => parseJson(Buffer.from(text))
const read = (
  text: string,
  keyFields = ['Id'],
  versionFields: readonly string[] | null = ['RowVersion', 'SysRowVersion'],
) => readRecords(parse(text) as Json[], keyFields, versionFields)
const keys = (text: string) => read(text, ['Id'], null).rows.map(({ key }) => key)

describe('readRecords', () => {
  it('P5: gives every record a place, as a row or with the reason why it cannot be one', () => {
    const { rows, rejected } = read(
      '[{"Id":1,"RowVersion":7}, 5, null, "x", [1], 1e400, {"RowVersion":7}, {"Id":2}, {"Id":3,"RowVersion":"x"}]',
    )
    expect(rows).toMatchObject([{ key: '1', version: 7n }])
    expect(rejected.map(({ reason }) => reason)).toEqual([
      ...Array(5).fill('not an object'),
      'no usable key in Id',
      'no usable row version in RowVersion, SysRowVersion',
      'no usable row version in RowVersion, SysRowVersion',
    ])
    expect(JSON.stringify(rejected.map(({ record }) => record).slice(0, 5))).toBe('[5,null,"x",[1],1e400]')
  })

  it('P4: reads versions and keys of 64 bits exactly, as numbers and as digits', () => {
    const { rows } = read(
      '[{"Id":9223372036854775807,"RowVersion":"9223372036854775807"},{"Id":"9007199254740993","RowVersion":9007199254740993}]',
    )
    expect(rows).toMatchObject([
      { key: '9223372036854775807', version: 9223372036854775807n },
      { key: '9007199254740993', version: 9007199254740993n },
    ])
  })

  it('takes no version out of 64 bits, and none that is not written as a whole number', () => {
    for (const version of [
      '9223372036854775808',
      '-9223372036854775809',
      '1.5',
      '7.00',
      '1e3',
      '1e400',
      '"1.0x"',
      'true',
      '{}',
    ])
      expect(read(`[{"Id":1,"RowVersion":${version}}]`).rows, version).toEqual([])
  })

  it('writes one key in one way', () => {
    expect(keys('[{"Id":5},{"Id":"5"},{"Id":"-0"}]')).toEqual(['5', '5', '0'])
    const uuid = '9F1E0C52-3A8B-4B7B-9C53-0A4E1B7D2F10'
    expect(keys(`[{"Id":"${uuid}"},{"Id":"${uuid.toLowerCase()}"}]`)).toEqual(
      Array(2).fill(uuid.toLowerCase()),
    )
    expect(keys('[{"Id":"WO-1"},{"Id":"wo-1"},{"Id":"007"}]')).toEqual(['WO-1', 'wo-1', '007'])
  })

  it('P5: takes no key that Postgres could not hold or nobody could tell from another', () => {
    const records = [
      { Id: '' },
      { Id: 'a\0' },
      { Id: '\ud800' },
      { Id: 'x'.repeat(501) },
      { Id: true },
      { Id: 1.5 },
    ]
    expect(readRecords(records, ['Id'], null).rows).toEqual([])
    expect(readRecords(records, ['Id'], null).rejected).toHaveLength(records.length)
  })

  it('matches field names without regard to case, record by record', () => {
    expect(keys('[{"ID":1},{"id":2},{"Id":3},{"iD":null,"id":4}]')).toEqual(['1', '2', '3', '4'])
  })

  it('P3: takes the first of several spellings in a record, however the record before it was spelt', () => {
    const twice = '{"Id":1,"id":2,"RowVersion":3,"rowVersion":4}'
    for (const before of ['{"Id":9,"RowVersion":1}', '{"id":9,"rowVersion":1}'])
      expect(read(`[${before},${twice}]`).rows[1]).toMatchObject({ key: '1', version: 3n })
  })

  it('P6: prefers RowVersion to SysRowVersion in every spelling, whatever the record before it had', () => {
    const { rows } = read(
      '[{"Id":1,"sysRowVersion":5},{"Id":2,"rowVersion":10,"sysRowVersion":6},{"Id":3,"rowVersion":null,"SysRowVersion":7},{"Id":4,"ROWVERSION":11,"sysRowVersion":8}]',
    )
    expect(rows.map(({ version }) => version)).toEqual([5n, 10n, 7n, 11n])
  })

  it('P4: makes one key of several fields, exact and in one way', () => {
    const together = (text: string) => read(text, ['Id,Kind'], null).rows.map(({ key }) => key)
    expect(
      together('[{"Id":5,"Kind":"a,b"},{"id":"5","kind":"a,b"},{"Id":9007199254740993,"Kind":2}]'),
    ).toEqual(['[5,"a,b"]', '[5,"a,b"]', '[9007199254740993,2]'])
    const { rows, rejected } = read('[{"Id":5},{"Id":5,"Kind":null},{"Id":5,"Kind":1.5}]', ['Id,Kind'], null)
    expect(rows).toEqual([])
    expect(rejected.map(({ reason }) => reason)).toEqual(Array(3).fill('no usable key in Id,Kind'))
    const long = { Id: 'x'.repeat(300), Kind: 'y'.repeat(300) }
    expect(readRecords([long], ['Id,Kind'], null).rows).toEqual([])
  })

  it('takes a key of several fields as a person writes it', () => {
    for (const typed of ['5,b', '5, b', '[5,"b"]', '["5", "b"]'])
      expect(typedKey('Id,Kind', typed)).toBe('[5,"b"]')
    for (const typed of ['5', '[5]', '[5', '5,b,c', '[5,null]']) expect(typedKey('Id,Kind', typed)).toBeNull()
    expect(typedKey('Id', '5,b')).toBe('5,b')
  })

  it('does not take what an object inherits for a field', () => {
    expect(readRecords([{}], ['constructor'], null).rows).toEqual([])
  })
})

describe('the small ones', () => {
  it('toInt64 reads integers, and nothing else', () => {
    expect([0, -0, -5, 2 ** 53, '12'].map(toInt64)).toEqual([0n, 0n, -5n, 2n ** 53n, 12n])
    expect([1.5, Number.NaN, '', ' 1', '1 ', '+1', '01', '0x1', true, null, undefined].map(toInt64)).toEqual(
      Array(11).fill(null),
    )
  })

  it('isObject knows records from exact numbers and arrays', () => {
    expect([{}, JSON.rawJSON('1.0'), [], null, 'x', undefined].map(isObject)).toEqual([
      true,
      ...Array(5).fill(false),
    ])
  })

  it('fingerprint tells records apart that differ in one digit', () => {
    expect(fingerprint(parse('{"a":1.10}'))).toBe(fingerprint(parse('{"a": 1.10}')))
    expect(fingerprint(parse('{"a":1.10}'))).not.toBe(fingerprint(parse('{"a":1.1}')))
  })
})
