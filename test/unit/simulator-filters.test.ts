// The filter and sort expressions the stand-in understands: those of Sieve.

import { describe, expect, it } from 'vitest'
import { defineFields } from '../../src/simulator/fields.ts'
import {
  compareValues,
  type FilterContext,
  meets,
  NotApplicable,
  parseFilters,
  parseSorts,
} from '../../src/simulator/filters.ts'

const fields = defineFields(`
Status int32?
City string(60)?
ActualEnd dateTime?
SysUpdatedDateUTC dateTime?
RowVersion int64
Price decimal?
IsInvoiced boolean?
UID uuid
Signature bytes?`)
const find = (name: string) => fields.find((field) => field.name.toLowerCase() === name.toLowerCase())
const context: FilterContext = { find, timeZone: 'Europe/Oslo', skipsUnknown: false }
const record: Record<string, unknown> = {
  Status: 3,
  City: 'Oslo, north|west',
  ActualEnd: null,
  SysUpdatedDateUTC: '2024-06-01T02:00:00.5',
  RowVersion: '9007199254740993',
  Price: JSON.rawJSON('12.5000'),
  IsInvoiced: true,
  UID: '016ce57e-f2c4-4352-97e1-590931aeea24',
}
const holds = (text: string, given = context) =>
  parseFilters(text, given).every((filter) =>
    filter.some((condition) => meets(condition, record[condition.field.name])),
  )

describe('parseFilters', () => {
  it.each([
    'Status==3',
    'status >= 3',
    'Status<4',
    'Status==0x3',
    'Status==1|3',
    'IsInvoiced!=null',
    '(Status|RowVersion)==3',
    'City@=slo',
    'City@=*SLO',
    'City_=Oslo',
    'City_-=west',
    'City!@=bergen',
    String.raw`City==Oslo\, north\|west`,
    'ActualEnd==null',
    'IsInvoiced==TRUE',
    'Price>12.4',
    'Price==12.5',
    'UID==016CE57E-F2C4-4352-97E1-590931AEEA24',
    'SysUpdatedDateUTC>=2024-06-01',
    'SysUpdatedDateUTC>=2024-06-01T02:00:00.4',
    // A time with a Z is taken for the local time of that moment.
    'SysUpdatedDateUTC>=2024-06-01T00:00:00Z',
    'Status',
    'Status==3,,',
  ])('holds for %s', (text) => {
    expect(holds(text)).toBe(true)
  })

  it.each([
    'Status!=3',
    'Status>3',
    'Status<=2',
    'City==oslo',
    'City@=SLO',
    'City@=bergen',
    'City!@=slo',
    'ActualEnd!=null',
    'ActualEnd!=2024-01-01',
    'Status>=null',
    'City_=null',
    'SysUpdatedDateUTC>2024-06-01T00:00:01Z',
    'Status==3,City==X',
  ])('does not hold for %s', (text) => {
    expect(holds(text)).toBe(false)
  })

  it('compares long integers by their digits', () => {
    expect(holds('RowVersion>9007199254740992')).toBe(true)
    expect(holds('RowVersion==9007199254740992')).toBe(false)
  })

  it.each([
    'Nonsense==1',
    'Status==3,Nonsense==1',
    'Status>abc',
    'Status>1.5',
    'Status>2147483648',
    'RowVersion>99999999999999999999',
    'City>a',
    'City>null',
    'Status@=null',
    'Status==*null',
    'UID!=null',
    'IsInvoiced>false',
    'IsInvoiced==1',
    'Status@=1',
    'Signature==null2',
    'ActualEnd>yesterday',
    'UID==1',
  ])('cannot be carried out: %s', (text) => {
    expect(() => parseFilters(text, context)).toThrow(NotApplicable)
    expect(holds(text, { ...context, skipsUnknown: true })).toBe(true)
  })
})

describe('parseSorts', () => {
  const sorts = (text: string, skipsUnknown = false) =>
    parseSorts(text, { find, skipsUnknown }).map(({ field, isDescending }) => [field.name, isDescending])

  it('takes names in any case, with a minus for falling, and blanks after a comma', () => {
    expect(sorts('status,-CITY, -rowVersion')).toEqual([
      ['Status', false],
      ['City', true],
      ['RowVersion', true],
    ])
  })

  it.each([' Status', '+Status', 'Status asc', 'Nonsense', 'Status,Nonsense'])('knows no %j', (text) => {
    expect(() => sorts(text)).toThrow(NotApplicable)
  })

  it('leaves out what nothing is known by, when that is ignored', () => {
    expect(sorts('Nonsense, Status', true)).toEqual([['Status', false]])
  })
})

describe('compareValues', () => {
  it('orders nulls first, numbers by value, digits by value, decimals by value and texts by letter', () => {
    expect([3, null, 10].sort(compareValues)).toEqual([null, 3, 10])
    expect(['9', '10', '-1'].sort(compareValues)).toEqual(['-1', '9', '10'])
    expect(['b', 'a'].sort(compareValues)).toEqual(['a', 'b'])
    const decimals = ['9.5000', '10.2500'].map((text) => JSON.rawJSON(text))
    expect([...decimals].reverse().sort(compareValues)).toEqual(decimals)
  })
})
