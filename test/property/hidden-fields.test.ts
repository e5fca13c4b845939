// Fields hidden in the bytes of an answer, against the same done to what was parsed of it (P20).

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openPrivateFields } from '../../src/streams/private-fields.ts'
import { hideFields } from '../../src/wire/hidden-fields.ts'
import { dictionaryOf } from '../support/private-fields.ts'

const dictionary = dictionaryOf({
  assignment: { phone: 'omit', Name: 'null', size: 'first 2' },
  customer: { phone: 'null' },
})
const resources = [
  { stream: 'assignment', resource: 'Assignment' },
  { stream: 'customer', resource: 'Customer' },
]
const hiding = openPrivateFields({
  dictionary: () => dictionary,
  resources,
  maskKey: null,
  secret: 's',
}).answers('/api/Assignment')

type Plain = null | boolean | number | string | readonly Plain[] | { readonly [name: string]: Plain }
const isObject = (value: Plain): value is { readonly [name: string]: Plain } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function hidden(value: Plain, of: 'assignment' | 'customer'): Plain {
  if (Array.isArray(value)) return value.map((one) => hidden(one, of))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]): (readonly [string, Plain])[] => {
      const folded = name.toLowerCase().replaceAll('_', '')
      if (folded === 'phone') return of === 'assignment' ? [] : [[name, null]]
      if (folded === 'name' && of === 'assignment') return [[name, null]]
      if (folded === 'size' && of === 'assignment')
        return [[name, typeof inner === 'object' ? null : [...String(inner)].slice(0, 2).join('')]]
      const within = folded.startsWith('customer') ? 'customer' : folded === 'assignment' ? 'assignment' : of
      return [[name, hidden(inner, within)]]
    }),
  )
}

const name = fc.constantFrom(
  ...[
    'phone',
    'PHONE',
    'pho_ne',
    'name',
    'Size',
    'customer',
    'Customers',
    'other',
    'ø"\\',
    'é',
    'Assignment',
  ],
)
const { record } = fc.letrec<{ value: Plain; record: Plain }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    ...[fc.string({ unit: 'binary' }), fc.integer(), fc.boolean(), fc.constant(null)],
    ...[fc.array(tie('value'), { maxLength: 3 }), tie('record')],
  ),
  record: fc.dictionary(name, tie('value'), { maxKeys: 5 }),
}))

describe('hidden fields', () => {
  it('are gone from every object of a page, and all else stays as it is (P20)', () => {
    expect(hiding).toBeDefined()
    fc.assert(
      fc.property(fc.array(record, { maxLength: 4 }), fc.constantFrom(0, 2), (records, space) => {
        const bytes = Buffer.from(JSON.stringify(records, null, space))
        const seen = hiding && hideFields(bytes, hiding, true)
        expect(JSON.parse(String(seen))).toEqual(records.map((one) => hidden(one, 'assignment')))
      }),
      { numRuns: 1_000 },
    )
  })

  it('pass on nothing of what is cut off or has one byte more or less, unless it is JSON still (P20)', () => {
    fc.assert(
      fc.property(
        fc.array(record, { minLength: 1, maxLength: 3 }),
        fc.nat(),
        fc.string(),
        (records, at, more) => {
          const text = JSON.stringify(records)
          const place = at % text.length
          const spoilt = `${text.slice(0, place)}${more}${text.slice(place + 1)}`
          const seen = hiding && hideFields(Buffer.from(spoilt), hiding, true)
          if (seen !== null) expect(() => JSON.parse(String(seen))).not.toThrow()
        },
      ),
      { numRuns: 1_000 },
    )
  })
})
