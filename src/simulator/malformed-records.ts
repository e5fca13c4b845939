// Malformed records: each kind breaks an ordinary record in one way that real systems have been seen to. They are
// bytes, because most of them cannot be written by JSON.stringify.

import type { Fields } from './row.ts'

type Malform = (
  record: Fields,
  keyField: string,
  stringify: (fields: Fields) => string,
) => string | Uint8Array

/** The record with one more member, given as JSON text. */
const plus =
  (member: string): Malform =>
  (record, _keyField, stringify) =>
    `${stringify(record).slice(0, -1)},${member}}`

const without =
  (names: (keyField: string) => readonly string[]): Malform =>
  (record, keyField, stringify) => {
    const gone = names(keyField)
    return stringify(Object.fromEntries(Object.entries(record).filter(([name]) => !gone.includes(name))))
  }

const fiveMegabytes = 5 * 2 ** 20

const malformedRecords = {
  'nul-in-string': plus('"Remark":"before\\u0000after"'),
  'lone-surrogate': plus('"Remark":"half \\ud83d of a smile, and \\udc00"'),
  'astral-text': plus('"Remark":"🛠️ 𠜎 \u202e right to left"'),
  'huge-string': (record, keyField, stringify) =>
    plus(`"Remark":"${'x'.repeat(fiveMegabytes)}"`)(record, keyField, stringify),
  'int64-max': plus('"Counter":9223372036854775807,"Floor":-9223372036854775808'),
  'beyond-int64': plus('"Counter":9223372036854775808'),
  'long-decimal': plus('"Amount":1234567890.12345678901234567890,"Zeros":1.50'),
  'huge-exponent': plus('"Ratio":1e400,"Tiny":-1e-400'),
  'year-0001': plus('"FirstSeen":"0001-01-01T00:00:00.0000001"'),
  'year-9999': plus('"LastSeen":"9999-12-31T23:59:59.9999999Z"'),
  'no-offset': plus('"LocalTime":"2025-03-30T02:30:00.1234567"'),
  'impossible-date': plus('"LocalTime":"2025-02-30T25:61:00"'),
  'repeated-key': plus('"Remark":"first","Remark":"second"'),
  'changed-type': plus('"Subject":{"text":"was a string"},"Price":"not a number"'),
  'new-field': plus('"FieldOfTomorrow":"hello"'),
  'colliding-fields': plus('"GateCode":"one","Gate_Code":"two","gateCODE":"three"'),
  'odd-names': plus('"":1,"__proto__":{"a":1},"constructor":2,"with \\"quote\\"; drop table":3'),
  'nested-value': plus('"Extra":{"list":[1,[2,{"deep":null}]],"n":0.10}'),
  'no-key': without((keyField) => [keyField]),
  'no-row-version': without(() => ['RowVersion', 'SysRowVersion']),
  'bad-row-version': (record, keyField, stringify) =>
    `${without(() => ['RowVersion', 'SysRowVersion'])(record, keyField, stringify).slice(0, -1)},"RowVersion":1.5}`,
  'null-key': (record, keyField, stringify) => stringify({ ...record, [keyField]: null }),
  'not-an-object': () => '"just a string"',
  'a-number': () => '42',
  'an-array': () => '[{"AssignmentId":1}]',
  'a-null': () => 'null',
  'an-empty-object': () => '{}',
} satisfies Record<string, Malform>

/** Bytes that are no UTF-8: no page with one of these can be read, so it is not among the others. */
const invalidUtf8: Malform = (record, keyField, stringify) => {
  const text = plus('"Remark":"?"')(record, keyField, stringify)
  const bytes = Buffer.from(text)
  bytes[bytes.length - 3] = 0xff
  return bytes
}

export type MalformedKind = keyof typeof malformedRecords | 'invalid-utf8'
export const malformedKinds = Object.keys(malformedRecords) as (keyof typeof malformedRecords)[]

export const malformRecord = (kind: MalformedKind): Malform =>
  kind === 'invalid-utf8' ? invalidUtf8 : malformedRecords[kind]
