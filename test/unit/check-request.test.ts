// Requests are checked against what the upstream says about itself: each complaint names the field and the rule.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { checkRequest } from '../../src/upstream/contract/check-request.ts'

const document = JSON.parse(
  readFileSync(new URL('../fixtures/recorded/openapi-v1.json', import.meta.url), 'utf8'),
)
type Values = Readonly<Record<string, unknown>>
const check = (line: string, body?: JsonObject, query: Values = {}, inPath: Values = {}) => {
  const [method = '', path = ''] = line.split(' ')
  return checkRequest(document, { method, path, query, inPath, ...(body && { body }) })
}

describe('checkRequest', () => {
  it('has nothing to say of what is as described, however fields are spelt', () => {
    const body = { AssignmentId: 5, assignmentname: 'x', price: '12.50', employeeId: 12, city: null }
    expect(check('PUT /api/Assignment', body)).toEqual([])
    expect(check('GET /api/Assignment/Id/{assignmentId}', undefined, {}, { assignmentId: '12' })).toEqual([])
    expect(check('GET /api/Assignment', undefined, { page: '2', PAGESIZE: '10' })).toEqual([])
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

  it('names a parameter that the upstream would leave out, and answer with everything', () => {
    expect(check('GET /api/Assignment', undefined, { PagSize: '10' })).toEqual([
      'PagSize is no parameter that the upstream describes: did you mean PageSize?',
    ])
  })

  it('follows references, of parameters and bodies, and knows parameters of a whole path', () => {
    const size = { name: 'Size', in: 'query', schema: { type: 'integer', maximum: 9 } }
    const body = { content: { 'application/json': { schema: { properties: { a: { type: 'string' } } } } } }
    const described = {
      paths: {
        '/x': {
          parameters: [{ $ref: '#/components/parameters/Size' }],
          get: {},
          post: { requestBody: { $ref: '#/components/requestBodies/X' } },
        },
      },
      components: { parameters: { Size: size }, requestBodies: { X: body } },
    }
    const ask = (method: string, given: { query?: Values; body?: JsonObject }) =>
      checkRequest(described, { method, path: '/x', ...given })
    expect(ask('GET', { query: { size: '9' } })).toEqual([])
    expect(ask('GET', { query: { size: '10' } })).toEqual(['Size must be <= 9'])
    expect(ask('POST', { body: { a: 1 } })).toEqual(['a must be string'])
    expect(ask('POST', { body: { a: 'x', b: 1 } })).toEqual([
      'b is no field that the upstream describes: did you mean a?',
    ])
  })

  it('knows nothing of what is not described', () => {
    expect(check('PUT /api/Nothing', { a: 1 })).toEqual([])
    expect(checkRequest('no description', { method: 'GET', path: '/' })).toEqual([])
  })
})
