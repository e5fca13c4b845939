// What becomes of the values of fields that the owner leaves out or masks (P20).

import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Dictionary } from '../../src/streams/dictionary.ts'
import { landedKind } from '../../src/streams/dictionary.ts'
import {
  changesOf,
  markOf,
  masked,
  openPrivateFields,
  rulesToNote,
} from '../../src/streams/private-fields.ts'
import { hideFields } from '../../src/wire/hidden-fields.ts'
import { dictionaryOf } from '../support/private-fields.ts'

const key = 'a key of sixteen characters'
const mask = (rule: Parameters<typeof masked>[0], value: string) => masked(rule, Buffer.from(value), key)
const hmac = (text: string) => `"${createHmac('sha256', key).update(text).digest('hex')}"`

describe('masks', () => {
  it('hash equal texts to equal text, whether they are numbers or strings, so that they can be joined', () => {
    expect(mask({ kind: 'hash' }, '"4711"')).toBe(hmac('4711'))
    expect(mask({ kind: 'hash' }, '4711')).toBe(hmac('4711'))
    expect(mask({ kind: 'hash' }, '"\\u00e5"')).toBe(hmac('å'))
    expect(mask({ kind: 'hash' }, 'true')).toBe(hmac('true'))
    expect(mask({ kind: 'hash' }, '{ "a" : [1] }')).toBe(hmac('{"a":[1]}'))
    expect(mask({ kind: 'hash' }, 'null')).toBe('null')
  })

  it('keep whole characters', () => {
    expect(mask({ kind: 'first', characters: 2 }, '"🧡åb"')).toBe('"🧡å"')
    expect(mask({ kind: 'first', characters: 3 }, '471100')).toBe('"471"')
    expect(mask({ kind: 'first', characters: 9 }, '"ab"')).toBe('"ab"')
    expect(mask({ kind: 'first', characters: 2 }, '["abc"]')).toBe('null')
  })

  it('keep the year of a date, and nothing of what is none', () => {
    const years = ['"1984-02-29"', '"1984-02-29T10:00:00+01:00"', '"0984-12"'].map((one) =>
      mask({ kind: 'year' }, one),
    )
    expect(years).toEqual(['1984', '1984', '984'])
    for (const other of [
      '"1984"',
      '19840229',
      '"1984-13-01"',
      '"by 1984-02-29"',
      '"1984-02-29x"',
      'null',
      '[]',
    ])
      expect(mask({ kind: 'year' }, other)).toBe('null')
  })

  it('empty', () => expect(mask({ kind: 'null' }, '"x"')).toBe('null'))

  it('tell keys apart without telling them', () => {
    expect(markOf(key)).not.toBe(markOf(`${key}2`))
    expect(markOf(key)).toMatch(/^[0-9a-f]{16}$/)
  })
})

describe('the type of a masked field', () => {
  it('is that of what lands, and a field that is left out has none', () => {
    const fields = dictionaryOf({ a: { x: 'omit', y: 'year', z: 'hash', n: 'null' } }).get('a')?.fields
    const kinds = ['x', 'y', 'z', 'n', 'other'].map((name) => landedKind(fields?.get(name), 'int64'))
    expect(kinds).toEqual([undefined, 'int32', 'text', 'int64', 'int64'])
    expect(landedKind(fields?.get('z'), null)).toBe('text')
  })
})

describe('private answers', () => {
  const dictionary = dictionaryOf({ assignment: { phone: 'omit' }, customer: { name: 'null' } })
  const resources = [
    { stream: 'assignment', resource: 'Assignment' },
    { stream: 'note', resource: 'AssignmentNote' },
    { stream: 'customer', resource: 'Customer' },
  ]
  const answersOf = (said: Dictionary) =>
    openPrivateFields({ dictionary: () => said, resources, maskKey: null, secret: 's' }).answers
  const answers = answersOf(dictionary)
  const hide = (path: string, text: string, isList = false) => {
    const hiding = answers(path)
    return hiding ? (hideFields(Buffer.from(text), hiding, isList)?.toString() ?? null) : text
  }

  it('follow the path, and the names of groups inside an answer', () => {
    const text = '{"phone":1,"name":"a","Customer":[{"phone":2,"name":"b"}]}'
    expect(hide('/api/Assignment/Id/{assignmentId}', text)).toBe(
      '{"name":"a","Customer":[{"phone":2,"name":null}]}',
    )
    expect(hide('/api/AssignmentNote', text)).toBe(
      '{"phone":1,"name":"a","Customer":[{"phone":2,"name":null}]}',
    )
    expect(hide('/api/Customer', text)).toBe('{"phone":1,"name":null,"Customer":[{"phone":2,"name":null}]}')
  })

  it('find a field each time it comes, in any case and spelling, also escaped', () => {
    expect(hide('/api/Assignment', '[{"Phone":1,"a":2,"PHONE":3,"\\u0070hone":4,"pho_ne":5}]', true)).toBe(
      '[{"a":2}]',
    )
    expect(hide('/api/Assignment', '\ufeff [ { "phone" : 1 } ] ', true)).toBe('\ufeff [ { } ] ')
  })

  it('leave a list its name, also when a field is called so', () => {
    const hiding = answersOf(dictionaryOf({ assignment: { data: 'omit' } }))('/api/Assignment')
    const seen = hiding && hideFields(Buffer.from('{"data":[{"data":1,"id":2}],"total":1}'), hiding, true)
    expect(String(seen)).toBe('{"data":[{"id":2}],"total":1}')
  })

  it('keep nothing of a record that is no object but a fingerprint', () => {
    const seen = hide('/api/Assignment', '["phone 555-0199",[{"phone":"555-0199"}],null,{"id":1},555]', true)
    expect(seen).not.toContain('555')
    expect(JSON.parse(seen ?? '')).toEqual([
      ...[expect.stringMatching(/^left out: /), expect.stringMatching(/^left out: /), null, { id: 1 }],
      expect.stringMatching(/^left out: /),
    ])
    expect(hide('/api/Assignment', '"phone 555-0199"')).not.toContain('555')
    // Wherever a list is looked for.
    for (const [before, after] of [
      ['{"total":1,"items":', '}'],
      ['{"data":{"items":', ',"total":1}}'],
    ])
      expect(hide('/api/Assignment', `${before}["phone 555-0199",{"phone":555}]${after}`, true)).toMatch(
        /"items":\["left out: [^"]*",\{\}\]/,
      )
    expect(hide('/api/Assignment', '{"data":{"phone":1,"a":{"b":["c"]}}}', true)).toBe(
      '{"data":{"a":{"b":["c"]}}}',
    )
  })

  it('leave the records of others as they are', () => {
    for (const text of ['["a text",1,[{"phone":1}],{"phone":1,"name":2}]', '"a text"', '[{"a":"{"}]'])
      expect(hide('/api/AssignmentNote', text, true)).toBe(text)
    expect(hide('/api/AssignmentNote', '[{"a": {"Customer":{"name":1}}}]', true)).toBe(
      '[{"a": {"Customer":{"name":null}}}]',
    )
  })

  it('keep nothing of what is no JSON', () => {
    for (const text of ['[{"phone":1', '[{"a":1 "phone":2}]', 'phone 1', '{"a":1}{"phone":2}', ''])
      expect(hide('/api/Assignment', text, true)).toBeNull()
  })

  it('cost nothing where nothing is private', () => {
    expect(answersOf(dictionaryOf({ assignment: {} }))('/api/Assignment')).toBeNull()
  })

  it('follow a dictionary that changes, but hide no less before that is in force', () => {
    let said = dictionaryOf({ assignment: { phone: 'omit', name: 'null' } })
    const fields = openPrivateFields({ dictionary: () => said, resources, maskKey: null, secret: 's' })
    const seen = () => {
      const hiding = fields.answers('/api/Assignment')
      const text = Buffer.from('[{"phone":1,"name":2,"size":3}]')
      return String(hiding ? hideFields(text, hiding, true) : text)
    }
    expect(seen()).toBe('[{"name":null,"size":3}]')
    said = dictionaryOf({ assignment: { phone: 'null', size: 'omit' } })
    expect(seen()).toBe('[{"name":null}]')
    fields.takeUp('assignment')
    expect(seen()).toBe('[{"phone":null,"name":2}]')
  })
})

describe('rules as they are noted', () => {
  it('are those of all streams that come in the same group', () => {
    const fields = openPrivateFields({
      dictionary: () => dictionaryOf({ attachment: { FileData: 'omit' } }),
      resources: ['attachment', 'attachment_data'].map((stream) => ({ stream, resource: 'Attachment' })),
      ...{ maskKey: null, secret: 's' },
    })
    expect(fields.namesOf('attachment_data')).toEqual(['attachment', 'attachments'])
    const omitted = [{ field: 'filedata', rule: 'omit', keyMark: null }]
    expect(fields.wanted('attachment_data')).toEqual(omitted)
    expect(fields.wanted('attachment')).toEqual(omitted)
    expect(fields.wanted('assignment')).toEqual([])
  })

  const noted = (rules: Record<string, string>, maskKey = key) =>
    rulesToNote(dictionaryOf({ a: rules }), 'a', maskKey)

  it('differ by field, by rule, and a hash by its key', () => {
    const before = noted({ x: 'omit', y: 'hash', z: 'first 2', w: 'null' })
    expect(changesOf(before, before)).toEqual([])
    const after = noted({ y: 'hash', z: 'first 3', w: 'null', v: 'year' }, `${key}2`)
    expect(changesOf(before, after).map((one) => [one.field, one.before?.rule, one.after?.rule])).toEqual([
      ...[
        ['x', 'omit', undefined],
        ['y', 'hash', 'hash'],
        ['z', 'first 2', 'first 3'],
      ],
      ['v', undefined, 'year'],
    ])
  })
})
