// What is passed on of an answer whose records have private fields (P20).

import { describe, expect, it } from 'vitest'
import { openPrivateFields } from '../../src/streams/private-fields.ts'
import { operationNamed } from '../../src/upstream/operations/table.ts'
import { withoutPrivate } from '../../src/upstream/private-answer.ts'
import { dictionaryOf } from '../support/private-fields.ts'

const { answers } = openPrivateFields({
  dictionary: () => dictionaryOf({ assignment: { phone: 'omit' } }),
  resources: [{ stream: 'assignment', resource: 'Assignment' }],
  ...{ maskKey: null, secret: 's' },
})

function passedOn(name: string, status: number, text: string): string {
  const operation = operationNamed(name)
  const bytes = Buffer.from(text)
  const answer = { status, bytes, headers: {}, receivedAtMs: 0, release() {}, discard() {} }
  return String(withoutPrivate(answers(operation.path), operation, answer).bytes)
}

describe('an answer with private fields', () => {
  it('is passed on without them, as a list, as a record and as what came of a write', () => {
    expect(passedOn('listAssignments', 200, '{"items":[{"a":1,"phone":2}]}')).toBe('{"items":[{"a":1}]}')
    expect(passedOn('listChangedAssignments', 200, '[{"phone":2}]')).toBe('[{}]')
    expect(passedOn('getAssignment', 200, '{"phone":2}')).toBe('{}')
    expect(passedOn('createAssignment', 201, '{"phone":2}')).toBe('{}')
    expect(passedOn('createAssignment', 201, '4711')).toBe('4711')
    expect(passedOn('deleteAssignment', 204, '')).toBe('')
  })

  it('is not passed on when it is no JSON, or an error, which may quote a record', () => {
    expect(passedOn('listAssignments', 200, '[{"phone":2')).toMatch(/^left out/)
    expect(passedOn('listAssignments', 200, '<html>phone 2')).toMatch(/^<left out/)
    expect(passedOn('getAssignment', 500, '{"title":"phone 2"}')).toMatch(/^left out/)
    expect(passedOn('createAssignment', 400, 'phone 2 is no phone')).toMatch(/^left out/)
    expect(passedOn('createAssignment', 400, '{"errors":{"Status":["is required"]}}')).toContain(
      'is required',
    )
  })
})
