// The dictionary: what a file says, and what is told of its mistakes.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { noVariables, parseDictionary } from '../../src/config/dictionary.ts'
import { loadDescriptionConfig } from '../../src/config/load.ts'
import { FileError } from '../../src/config/yaml-file.ts'
import { catalogueOf } from '../../src/streams/catalog.ts'
import { meaningOf } from '../../src/streams/dictionary.ts'

const catalogue = catalogueOf([{ name: 'region', path: '/api/Region' }])
const parsed = (text: string) => parseDictionary('dictionary.yml', Buffer.from(text), noVariables, catalogue)
function mistakes(text: string): readonly string[] {
  try {
    parsed(text)
    return []
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    return error.message.split('\n')
  }
}

describe('a dictionary', () => {
  it('says what streams and fields mean', () => {
    const dictionary = parsed(`
assignment:
  label: Work order
  description: What somebody asked for.
  version: RowVersion
  volatile: [PhotoUrl]
  history: 365d
  fields:
    assignmentStatusId:
      label: Status
      values: { 1: New, 02: Planned, no: Cancelled, 12345678901234567890: Far }
    planned_duration: { unit: min, index: true }
    plannedStart: { timezone: Europe/Oslo, description: 'When: roughly' }
    CustomerId: { refers_to: customer }
    email: { mask: hash }
    phone: { mask: first 3 }
    born: { mask: year }
    remark: { mask: null }
    secret: { omit: true }
region: { key: [Code, Country], history: true }
tracker_object: { history: off }
`)
    const assignment = dictionary.get('assignment')
    expect(assignment).toMatchObject({ label: 'Work order', version: 'RowVersion', volatile: ['photourl'] })
    expect(assignment?.historyMs).toBe(365 * 86_400_000)
    expect(dictionary.get('region')).toMatchObject({
      key: 'Code,Country',
      historyMs: Number.POSITIVE_INFINITY,
    })
    expect(dictionary.get('tracker_object')?.historyMs).toBe(0)
    const of = (name: string) => meaningOf(dictionary, { name: 'assignment' }, name)
    expect(Object.fromEntries(of('assignment_status_id')?.values ?? [])).toEqual({
      1: 'New',
      '02': 'Planned',
      no: 'Cancelled',
      '12345678901234567890': 'Far',
    })
    expect(of('PlannedDuration')).toMatchObject({ unit: 'min', index: true, omit: false, line: 12 })
    expect(of('customerid')?.refersTo).toBe('customer')
    expect(['email', 'phone', 'born', 'remark'].map((name) => of(name)?.mask)).toEqual([
      { kind: 'hash' },
      { kind: 'first', characters: 3 },
      { kind: 'year' },
      { kind: 'null' },
    ])
    expect(of('secret')?.omit).toBe(true)
    expect(of('other')).toBeUndefined()
  })

  it.each(['', '# nothing yet\n', '{}'])('says nothing in %j', (text) => {
    expect(parsed(text).size).toBe(0)
  })

  it('is JSON as well', () => {
    expect(parsed('{"assignment":{"label":"Order"}}').get('assignment')?.label).toBe('Order')
  })
})

describe('the example of the manual', () => {
  const guides = new URL('../../docs/guides/', import.meta.url)
  const text = readFileSync(new URL('dictionary.example.yml', guides), 'utf8')

  it('can be used, and is what the guide shows', () => {
    expect(parsed(text).get('assignment')?.fields.size).toBe(5)
    expect(readFileSync(new URL('dictionary.md', guides), 'utf8')).toContain(text)
  })

  it('is taken by the schema for editors, which refuses what the parser refuses', () => {
    const schema = JSON.parse(readFileSync(new URL('../reference/dictionary.schema.json', guides), 'utf8'))
    const validate = new Ajv2020({ strict: false }).compile(schema)
    const isTaken = (yaml: string) => validate(parse(yaml))
    expect(isTaken(text)).toBe(true)
    expect(isTaken('customer: { key: [A, B] }\nregion: { key: A, history: off, volatile: none }')).toBe(true)
    expect(isTaken(field('a: { mask: null, index: true }\n    b: { mask: first 2, omit: false }'))).toBe(true)
    for (const wrong of ['assignment: { labl: x }', field('a: { mask: shuffle }'), field('a: { index: 3 }')])
      expect([wrong, isTaken(wrong)]).toEqual([wrong, false])
  })
})

const field = (settings: string, stream = 'assignment') => `${stream}:\n  fields:\n    ${settings}\n`

describe('a mistake in a dictionary', () => {
  it.each([
    ['asignment: {}', 'dictionary.yml:1: asignment is no stream: did you mean assignment?'],
    ['assignment:\n  labl: x', 'dictionary.yml:2: assignment.labl is no setting: did you mean label?'],
    [
      field('statusId: { vales: {1: a} }'),
      'dictionary.yml:3: assignment.fields.statusId.vales is no setting: did you mean values?',
    ],
    [
      field('statusId: { values: {1: New, 1: Open} }'),
      'dictionary.yml:3: assignment.fields.statusId.values.1 is there twice: remove one of them',
    ],
    [
      field('statusId: {label: a}\n    status_id: {label: b}'),
      'dictionary.yml:4: assignment.fields.status_id is the same field as statusId: remove one of them',
    ],
    [
      field('AssignmentId: { mask: hash }'),
      'dictionary.yml:3: assignment.fields.AssignmentId.mask cannot be set: the field is, or is part of, the key',
    ],
    [
      field('row_version: { omit: true }'),
      'dictionary.yml:3: assignment.fields.row_version.omit cannot be set: the field holds the row version',
    ],
    [
      field('UID: { omit: true }', 'tracker_object'),
      'dictionary.yml:3: tracker_object.fields.UID.omit cannot be set: the field may be the key: name the key with key',
    ],
    [
      // Without them the answer would say that the assignment has no such records, and they would be marked as deleted.
      field('customer: { omit: true }'),
      'dictionary.yml:3: assignment.fields.customer.omit cannot be set: the field holds the records of customer: set it for the fields of customer',
    ],
    [
      field('assignment_product: { mask: hash }'),
      'dictionary.yml:3: assignment.fields.assignment_product.mask cannot be set: the field holds the records of assignment_product: set it for the fields of assignment_product',
    ],
    [
      field('FileData: { omit: true }', 'attachment'),
      'dictionary.yml:3: attachment.fields.FileData.omit cannot be set: the field holds the bytes of files, which ATTACHMENT_DATA=false leaves out',
    ],
    [
      field('SysDeleted: { omit: true }'),
      'dictionary.yml:3: assignment.fields.SysDeleted.omit cannot be set: the field says whether the record is deleted',
    ],
    [
      field('a: { mask: shuffle }'),
      'dictionary.yml:3: assignment.fields.a.mask must be hash, null, year, or first and a number of characters such as first 2',
    ],
    [
      field('a: { refers_to: custmer }'),
      'dictionary.yml:3: assignment.fields.a.refers_to names custmer, which is no stream: did you mean customer?',
    ],
    [
      field('a: { omit: true, mask: hash }'),
      'dictionary.yml:3: assignment.fields.a.mask has no effect on a field that is left out: remove it, or omit',
    ],
    [
      field('a: { timezone: CET }'),
      'dictionary.yml:3: assignment.fields.a.timezone must be UTC or name a place, such as Europe/Oslo',
    ],
    [field('a: { index: yes }'), 'dictionary.yml:3: assignment.fields.a.index must be true or false'],
    [field('a: { label: }'), 'dictionary.yml:3: assignment.fields.a.label is empty'],
    [field('a: x'), 'dictionary.yml:3: assignment.fields.a must be a list of settings'],
    [
      field('a: { values: [1, 2] }'),
      'dictionary.yml:3: assignment.fields.a.values must be a list of codes, each with its text',
    ],
    ['assignment:\n  key: Id', 'dictionary.yml:2: assignment.key cannot be set: it is always AssignmentId'],
    [
      'customer:\n  version: Id',
      'dictionary.yml:2: customer.version cannot be set: the stream is not read by row version',
    ],
    ['region:\n  key: [a, A]', 'dictionary.yml:2: region.key must name up to 8 different fields'],
    [
      'assignment:\n  history: 2h',
      'dictionary.yml:2: assignment.history must be true, off, or a time of a day or more such as 365d',
    ],
    ['- a', 'dictionary.yml:1: must be a list of streams'],
  ])('%j is told in one line', (text, told) => {
    expect(mistakes(text)).toEqual([told])
  })

  it.each([
    ['assignment:\n  label: "open', /^dictionary\.yml:2: is no YAML: /],
    ['a: {b: c\nd: e', /^dictionary\.yml:\d: is no YAML: /],
    ['['.repeat(5_000), /^dictionary\.yml: is nested too deeply, or holds too much$/],
  ])('of YAML itself is told, too: %#', (text, told) => {
    const [line, ...others] = mistakes(text)
    expect([line, others]).toEqual([expect.stringMatching(told), []])
  })

  it('does not let aliases repeat each other', () => {
    const lines = Array.from({ length: 12 }, (_, at) =>
      at === 0 ? 'a0: &a0 [x, x]' : `a${at}: &a${at} [${`*a${at - 1},`.repeat(9)}]`,
    )
    expect(mistakes(lines.join('\n'))).toEqual(['dictionary.yml: repeats itself too often through aliases'])
  })

  it('does not keep others from being told', () => {
    expect(mistakes('asignment: {}\nassignment: { labl: x, history: 2h }')).toHaveLength(3)
  })
})

describe('what variables say', () => {
  const open = (text: string, variables: Record<string, string> = {}) => {
    const file = join(mkdtempSync(join(tmpdir(), 'dictionary-')), 'dictionary.yml')
    writeFileSync(file, text)
    const { dictionary } = loadDescriptionConfig({ ...variables, DICTIONARY: file })
    return { file, dictionary }
  }
  const told = (text: string, variables: Record<string, string>) => {
    try {
      open(text, variables)
      return ''
    } catch (error) {
      return String(error instanceof Error && error.message).replaceAll(/\S*(?=dictionary\.yml)/g, '')
    }
  }

  it('is the same as what the file says', () => {
    const { dictionary } = open('assignment:\n  label: Work order\n  fields: { planned: { label: Plan } }', {
      KEY_CUSTOMER: 'CustomerId',
      VERSION_ASSIGNMENT: 'RowVersion',
      VOLATILE_ASSIGNMENT: 'PhotoUrl',
      FIELD_TIMEZONES: 'assignment.Planned=Europe/Oslo',
      HISTORY: 'all=30d',
    })
    const now = dictionary.now()
    expect(now.get('assignment')).toMatchObject({
      ...{ label: 'Work order', version: 'RowVersion', volatile: ['photourl'], historyMs: 30 * 86_400_000 },
    })
    expect(meaningOf(now, { name: 'assignment' }, 'planned')).toMatchObject({
      ...{ label: 'Plan', timezone: 'Europe/Oslo' },
    })
    expect(now.get('customer')?.key).toBe('CustomerId')
    expect(now.get('tracker_object')?.historyMs).toBe(90 * 86_400_000)
  })

  it('may not differ from it', () => {
    expect(told('customer:\n  key: Id', { KEY_CUSTOMER: 'CustomerId' })).toBe(
      '  dictionary.yml:2: customer.key differs from KEY_CUSTOMER: remove one of them',
    )
    expect(told('assignment: { history: off }', { HISTORY: 'assignment' })).toContain('differs from HISTORY')
    expect(told('tracker_object: { history: off }', { TRACKER_HISTORY: '5d' })).toContain('differs from')
    expect(told(field('a: {timezone: UTC}'), { FIELD_TIMEZONES: 'assignment.A=Europe/Oslo' })).toContain(
      'dictionary.yml:3: assignment.fields.a.timezone differs from FIELD_TIMEZONES',
    )
    expect(told('customer: { key: Id }\ntracker_object: { history: off }', { KEY_CUSTOMER: 'Id' })).toBe('')
    expect(told('assignment: { history: off }', { HISTORY: 'all' })).toBe('')
  })

  it('names a key that cannot be masked', () => {
    expect(told(field('number: { mask: hash }', 'customer'), { KEY_CUSTOMER: 'Number' })).toBe(
      '  dictionary.yml:3: customer.fields.number.mask cannot be set: the field is, or is part of, the key',
    )
  })

  it('holds on while the file has mistakes, and until it changes', () => {
    const { file, dictionary } = open('assignment: { label: One }')
    const label = () => dictionary.now().get('assignment')?.label
    expect(dictionary.look()).toBeNull()
    writeFileSync(file, 'assignment: { labl: Other }')
    expect(dictionary.look()?.problem).toMatch(/dictionary\.yml:1: assignment\.labl is no setting/)
    expect([label(), dictionary.look()]).toEqual(['One', null])
    rmSync(file)
    expect(dictionary.look()?.problem).toMatch(/cannot be read \(ENOENT\)/)
    writeFileSync(file, 'assignment: { label: Two more }')
    expect([dictionary.look(), label()]).toEqual([{ problem: null }, 'Two more'])
  })
})
