// A search for what pages call things.

import { describe, expect, it } from 'vitest'
import { namedIn, unquoted } from '../../src/web/named.ts'

const streams = ['assignment', 'assignment_note', 'tracker_object']

describe('a search', () => {
  it.each([
    ['assignment 14', { what: 'record', stream: 'assignment', key: '14' }],
    ['Assignments #14', { what: 'record', stream: 'assignment', key: '14' }],
    ['assignment note 7', { what: 'record', stream: 'assignment_note', key: '7' }],
    ['assignment_note 7', { what: 'record', stream: 'assignment_note', key: '7' }],
    ['tracker-object a b', { what: 'record', stream: 'tracker_object', key: 'a b' }],
    ['run 443', { what: 'run', id: '443' }],
    ['Run #443', { what: 'run', id: '443' }],
    ['checkpoint 12', { what: 'checkpoint', id: '12' }],
    ['quarantine entry 3', { what: 'entry', id: '3' }],
    ['backfill 3', { what: 'backfill', id: '3' }],
  ])('for %s', (text, named) => expect(namedIn(text, streams)).toEqual(named))

  it.each([
    'assignment',
    'run',
    'run fast',
    'run 1e9',
    'boiler 14',
    '14',
    '',
    'note 7',
    `run ${'9'.repeat(19)}`,
  ])('for %j names nothing', (text) => expect(namedIn(text, streams)).toBeNull())

  it('for what stands in quotes is for these words', () => {
    expect(['"run 443"', '“run 443”', 'run 443', '""'].map(unquoted)).toEqual([
      'run 443',
      'run 443',
      null,
      null,
    ])
  })
})
