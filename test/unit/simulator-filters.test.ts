// The filter expressions the stand-in understands.

import { describe, expect, it } from 'vitest'
import { compareValues, parseFilters } from '../../src/simulator/filters.ts'

const names = new Map(
  ['Status', 'City', 'ActualEnd', 'RowVersion', 'IsInvoiced'].map((name) => [name.toLowerCase(), name]),
)
const record = {
  Status: 3,
  City: 'Oslo',
  ActualEnd: null,
  RowVersion: '9007199254740993',
  IsInvoiced: true,
}
const holds = (text: string) => parseFilters(text, names).every((filter) => filter(record))

describe('parseFilters', () => {
  it.each([
    'Status==3',
    'status >= 3',
    'Status<4',
    'City==Oslo',
    'City@=SLO',
    'ActualEnd==null',
    'IsInvoiced==true',
  ])('holds for %s', (text) => {
    expect(holds(text)).toBe(true)
  })

  it.each([
    'Status!=3',
    'Status>3',
    'Status<=2',
    'City==oslo',
    'City@=bergen',
    'ActualEnd!=null',
    'Status==3,City==X',
  ])('does not hold for %s', (text) => {
    expect(holds(text)).toBe(false)
  })

  it('compares long integers by their digits', () => {
    expect(holds('RowVersion>9007199254740992')).toBe(true)
    expect(holds('RowVersion==9007199254740992')).toBe(false)
  })

  it('ignores what it cannot read and what names no field', () => {
    expect(parseFilters('Nonsense==1,City,==,', names)).toEqual([])
  })
})

describe('compareValues', () => {
  it('orders nulls first, numbers by value, digits by value and texts by letter', () => {
    expect([3, null, 10].sort(compareValues)).toEqual([null, 3, 10])
    expect(['9', '10', '-1'].sort(compareValues)).toEqual(['-1', '9', '10'])
    expect(['b', 'a'].sort(compareValues)).toEqual(['a', 'b'])
  })
})
