// Names and types of columns, as they follow from the data.

import { describe, expect, it } from 'vitest'
import { columnName, foldName } from '../../src/store/schema/column-names.ts'
import { fitsInt64 } from '../../src/store/types/bigint.ts'
import { fitsNumeric } from '../../src/store/types/numeric.ts'
import { commonType, typeOf } from '../../src/store/types/table.ts'
import { cutToMicroseconds, isInstant } from '../../src/store/types/timestamptz.ts'

describe('a column name', () => {
  it.each([
    ['AssignmentIdExt', 'assignment_id_ext'],
    ['assignmentIdExt', 'assignment_id_ext'],
    ['UID', 'uid'],
    ['OwnerUID', 'owner_uid'],
    ['SysUpdatedDateUTC', 'sys_updated_date_utc'],
    ['UTCDate', 'utc_date'],
    ['Line2Text', 'line2_text'],
    ['already_snake_case', 'already_snake_case'],
    ['Straße Nr.', 'straße_nr'],
    ['Ærø', 'ærø'],
    ['名前', '名前'],
    ['order', 'order'],
    ['2ndPhone', 'field_2nd_phone'],
    ['_hash', 'hash'],
    ['ctid', 'ctid_field'],
    ['nul\0', 'nul'],
  ])('of %j is %s', (field, name) => {
    expect(columnName(field)).toBe(name)
  })

  it('is made for fields without a letter, and differs for different ones', () => {
    const names = ['', '!', '!!', '\ud800'].map(columnName)
    expect(new Set(names).size).toBe(4)
    for (const name of names) expect(name).toMatch(/^field_[0-9a-f]{8}$/)
  })

  it('has at most 63 bytes, whole characters, and tells long fields apart', () => {
    const fields = [`${'x'.repeat(80)}a`, `${'x'.repeat(80)}b`, 'Ø'.repeat(60), '😀'.repeat(40)]
    const names = fields.map(columnName)
    expect(new Set(names).size).toBe(4)
    for (const name of names) {
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63)
      expect(name.isWellFormed()).toBe(true)
    }
  })

  it('is found at once for a field of a million capitals (P10)', () => {
    const startedAtMs = performance.now()
    expect(columnName(`${'A'.repeat(1_000_000)}bC`)).toMatch(/^a+/)
    expect(performance.now() - startedAtMs).toBeLessThan(2_000)
  })

  it('is the same for fields that differ only in case', () => {
    expect(foldName('AssignmentId')).toBe(foldName('ASSIGNMENTID'))
    expect(columnName(`${'X'.repeat(80)}`)).toBe(columnName('x'.repeat(80)))
  })
})

describe('a type', () => {
  it.each([
    [1, 'bigint'],
    [-5, 'bigint'],
    [1.5, 'numeric'],
    [1e21, 'numeric'],
    [JSON.rawJSON('9223372036854775807'), 'bigint'],
    [JSON.rawJSON('9223372036854775808'), 'numeric'],
    [JSON.rawJSON('1.0'), 'numeric'],
    [true, 'boolean'],
    ['3F2504E0-4F89-41D3-9A0C-0305E82C3301', 'uuid'],
    ['3F2504E04F8941D39A0C0305E82C3301', 'text'],
    ['2024-01-01T00:00:00', 'timestamptz'],
    ['2024-01-01', 'text'],
    ['12', 'text'],
    ['', 'text'],
    [[], 'jsonb'],
    [{}, 'jsonb'],
    [null, null],
  ] as const)('for %j is %s', (value, type) => {
    expect(typeOf(value)).toBe(type)
  })

  it('for two values is that of the first, or the one of its kind that holds both', () => {
    expect(commonType('bigint', 'numeric')).toBe('numeric')
    expect(commonType('numeric', 'bigint')).toBe('numeric')
    expect(commonType('uuid', 'text')).toBe('text')
    expect(commonType('timestamptz', 'uuid')).toBe('text')
    expect(commonType('bigint', 'text')).toBe('bigint')
    expect(commonType('text', 'jsonb')).toBe('text')
  })
})

describe('a number', () => {
  it.each(['0', '-0', '9223372036854775807', '-9223372036854775808'])('%s has 64 bits', (text) => {
    expect(fitsInt64(text)).toBe(true)
  })
  it.each(['9223372036854775808', '-9223372036854775809', '1.0', '1e3', '', '-'])(
    '%s is no 64-bit integer',
    (text) => {
      expect(fitsInt64(text)).toBe(false)
    },
  )
  it.each(['1e308', '-1.5E-300', '0.1', '123456789012345678901234567890.5'])(
    '%s is one that others can read',
    (text) => {
      expect(fitsNumeric(text)).toBe(true)
    },
  )
  it.each(['1e400', '-1E+400', '1e-2000', '1e99999999999999999999', '9'.repeat(1001)])(
    '%s is not',
    (text) => {
      expect(fitsNumeric(text)).toBe(false)
    },
  )
})

describe('a date-time (P4)', () => {
  it.each([
    ['2024-02-29T01:02:03.1234567+02:00', '2024-02-29T01:02:03.123456+02:00'],
    ['9999-12-31T23:59:59.9999999', '9999-12-31T23:59:59.999999'],
    ['2024-01-01T10:00:00.123456789Z', '2024-01-01T10:00:00.123456Z'],
    ['2024-01-01T10:00:00.123456-0330', '2024-01-01T10:00:00.123456-0330'],
    ['2024-01-01T10:00:00.12+14:00', '2024-01-01T10:00:00.12+14:00'],
    ['0001-01-01T00:00', '0001-01-01T00:00'],
  ])('%s is cut to %s', (text, cut) => {
    expect(isInstant(text)).toBe(true)
    expect(cutToMicroseconds(text)).toBe(cut)
  })

  it.each([
    '2023-02-29T00:00:00Z',
    '1900-02-29T00:00:00Z',
    '0000-01-01T00:00:00Z',
    '2024-13-01T00:00:00Z',
    '2024-00-10T00:00:00Z',
    '2024-01-32T00:00:00Z',
    '2024-01-01T24:00:00Z',
    '2024-01-01T23:60:00Z',
    '2024-01-01T23:59:60Z',
    '2024-01-01T23:59:59+15:30',
    '2024-01-01T23:59:59+1:30',
    '2024-01-01 23:59:59',
    '2024-01-01T23:59:59.Z',
    '10000-01-01T00:00:00Z',
    '2024-01-01T23:59:59Z ',
  ])('%j is none that Postgres would keep as it is', (text) => {
    expect(isInstant(text)).toBe(false)
  })
})
