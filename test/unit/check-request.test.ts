// Requests are checked against what the upstream says about itself: each complaint names the field and the rule.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { checkRequest } from '../../src/upstream/contract/check-request.ts'

const document = JSON.parse(
  readFileSync(new URL('../fixtures/recorded/openapi-v1.json', import.meta.url), 'utf8'),
)
const check = (line: string, body?: JsonObject, parameters: Readonly<Record<string, unknown>> = {}) => {
  const [method = '', path = ''] = line.split(' ')
  return checkRequest(document, { method, path, parameters, ...(body && { body }) })
}

describe('checkRequest', () => {
  it('has nothing to say of what is as described, however fields are spelt', () => {
    const body = { AssignmentId: 5, assignmentname: 'x', price: '12.50', employeeId: 12, city: null }
    expect(check('PUT /api/Assignment', body)).toEqual([])
    expect(check('GET /api/Assignment/Id/{assignmentId}', undefined, { assignmentId: '12' })).toEqual([])
  })

  it.each<[JsonObject, string]>([
    [{ price: 'abc' }, 'price must match pattern'],
    [{ city: 'x'.repeat(61) }, 'city must NOT have more than 60 characters'],
    [{ assignmentPriority: 256 }, 'assignmentPriority must match format "uint8"'],
    [{ employeeId: 2 ** 31 }, 'employeeId must match format "int32"'],
    [{ uid: 'nope' }, 'uid must match format "uuid"'],
    [{ sysDeleted: 'yes' }, 'sysDeleted must be boolean'],
    [{ plannedStart: 'tomorrow' }, 'plannedStart must match format "date-time"'],
    [
      { assignmentNam: 'x' },
      'assignmentNam is no field that the upstream describes: did you mean assignmentName?',
    ],
  ])('names the field and the rule: %j', (body, words) => {
    const complaints = check('PUT /api/Assignment', body)
    expect(complaints).toHaveLength(1)
    expect(complaints[0]).toContain(words)
  })

  it('names what is required, and parameters', () => {
    expect(check('POST /api/Webhooks/subscription', { webhookDefinitionId: 1 })).toEqual(['url is required'])
    expect(check('GET /api/Assignment', undefined, { Page: '0' })).toEqual(['Page must be >= 1'])
    expect(check('GET /api/Assignment/Id/{assignmentId}')).toEqual(['assignmentId is required'])
  })

  it('knows nothing of what is not described', () => {
    expect(check('PUT /api/Nothing', { a: 1 })).toEqual([])
    expect(checkRequest('no description', { method: 'GET', path: '/', parameters: {} })).toEqual([])
  })
})
