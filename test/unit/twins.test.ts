import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { readRecords } from '../../src/streams/record.ts'
import { chooseKeyField, withoutTwins } from '../../src/streams/twins.ts'

describe('withoutTwins', () => {
  it('P5: keeps one of two records with one key as the row, and the other whole, with a field that tells them apart', () => {
    const records = [
      { id: 1, v: 9, uid: 'a', updated: 'x' },
      { id: 1, v: 7, uid: 'b', updated: 'y' },
      { id: 2, v: 8, uid: 'c', updated: 'z' },
      { id: 2, v: 8, uid: 'c', updated: 'z' },
    ]
    const { rows, rejected } = withoutTwins(readRecords(records, ['id'], ['v']))
    expect(rows.map(({ key, version }) => [key, version])).toEqual([
      ['1', 9n],
      ['2', 8n],
    ])
    expect(rejected).toEqual([
      { record: records[1], reason: 'another record of the same answer has its key; uid tells them apart' },
    ])
    const alike = withoutTwins(
      readRecords(
        [
          { id: 1, n: { a: 1 } },
          { id: 1, n: { a: 2 } },
        ],
        ['id'],
        null,
      ),
    )
    expect(alike.rows.map(({ record }) => record)).toEqual([{ id: 1, n: { a: 2 } }])
    expect(alike.rejected).toMatchObject([{ reason: 'another record of the same answer has its key' }])
  })
})

describe('what is said of twins', () => {
  const told = (records: JsonObject[]) =>
    withoutTwins(readRecords(records, ['Id'], null), { variable: 'KEY_VAN', keyField: 'Id' }).rejected.map(
      ({ reason }) => reason,
    )
  const reason = (fields: string) =>
    `another record of the same answer has its key; KEY_VAN=Id,${fields} tells them apart`

  it('P5: is the setting that would tell all of them apart, with a field that every record has', () => {
    const sometimes = { Id: 3, Kind: 'c' }
    const twins = [
      { Id: 1, Uid: 'a', Kind: 'x' },
      { Id: 1, Uid: 'b', Kind: 'y' },
    ]
    expect(told(twins)).toEqual([reason('Uid')])
    expect(told([...twins, sometimes])).toEqual([reason('Kind')])
  })

  it('P5: names several fields where none does so alone, and none where all of them do not', () => {
    const vans = [
      { Id: 1, Client: 1, Kind: 'a' },
      { Id: 1, Client: 2, Kind: 'a' },
      { Id: 2, Client: 1, Kind: 'a' },
      { Id: 2, Client: 1, Kind: 'b' },
    ]
    expect(told(vans)).toEqual([reason('Client,Kind'), reason('Client,Kind')])
    expect(
      told([
        { Id: 1, Flag: true, Updated: 'x' },
        { Id: 1, Flag: false, Updated: 'y' },
      ]),
    ).toEqual(['another record of the same answer has its key'])
  })
})

describe('chooseKeyField', () => {
  it('takes the first candidate that every record has, as the records spell it', () => {
    expect(chooseKeyField([{ uid: 'a', id: 1 }, { uid: 'b' }], ['Id', 'UID'])).toBe('uid')
    expect(chooseKeyField([{ uid: 'a', id: 1 }], ['Id', 'UID'])).toBe('id')
  })

  it('P5: takes none that different records of one answer share; the same record may come twice', () => {
    const vans = [
      { id: 0, uid: 'a' },
      { id: 0, uid: 'b' },
      { id: 0, uid: 'b' },
    ]
    expect(chooseKeyField(vans, ['Id', 'UID'], true)).toBe('uid')
    expect(chooseKeyField(vans, ['Id'], true)).toBeNull()
    expect(chooseKeyField(vans, ['Id', 'UID'])).toBe('id')
  })

  it('takes several fields together, spelt as in the records', () => {
    const vans = [
      { id: 0, kind: 'a' },
      { id: 0, kind: 'b' },
    ]
    expect(chooseKeyField(vans, ['ID,Kind'], true)).toBe('id,kind')
    expect(chooseKeyField([...vans, { id: 1 }], ['ID,Kind'], true)).toBeNull()
    expect(chooseKeyField([...vans, { id: 0, kind: 'b', x: 1 }], ['ID,Kind'], true)).toBeNull()
  })

  it('knows none when there is none, or no record', () => {
    expect(chooseKeyField([{ name: 'a' }], ['Id'])).toBeNull()
    expect(chooseKeyField([], ['Id'])).toBeNull()
    expect(chooseKeyField([1, null], ['Id'])).toBeNull()
  })
})
