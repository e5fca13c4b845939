// Requests are checked against what the upstream says about itself: each complaint names the field and the rule.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/json/json.ts'
import { checkRequest } from '../../src/openapi/check-request.ts'

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
    [{ price: 'abc' }, 'price must be a number'],
    [{ city: 'x'.repeat(61) }, 'city must have at most 60 characters'],
    [{ assignmentPriority: 256 }, 'assignmentPriority must be from 0 to 255'],
    [{ employeeId: 2 ** 31 }, 'employeeId must be from -2147483648 to 2147483647'],
    [{ uid: 'nope' }, 'uid must be a UUID'],
    [{ sysDeleted: 'yes' }, 'sysDeleted must be true or false'],
    [{ plannedStart: 'tomorrow' }, 'plannedStart must be a date-time such as'],
    [
      { assignmentNam: 'x' },
      'assignmentNam is no field that the upstream describes: did you mean assignmentName?',
    ],
  ])('names the field and the rule: %j', (body, words) => {
    const complaints = check('PUT /api/Assignment', body)
    expect(complaints).toHaveLength(1)
    expect(complaints[0]).toContain(words)
  })

  const attach = 'POST /api/Assignment/Id/{assignmentId}/attachment'
  it.each<[JsonObject, string]>([
    [{ AttachmentIdext: 'x'.repeat(51) }, 'AttachmentIdext must have at most 50 characters'],
    [{ AttachmentType: '256' }, 'AttachmentType must be from 0 to 255'],
    [{ OwnerId: 2 ** 31 }, 'OwnerId must be from -2147483648 to 2147483647'],
    [{ FileSize: '1.0' }, 'FileSize must be a number'],
    [{ FileData: 'a' }, 'FileData must be base64'],
    [{ FileData: 'a-_=' }, 'FileData must be base64'],
    [{ OwnerUID: '123' }, 'OwnerUID must be a UUID'],
    [{ RegTime: 'tomorrow' }, 'RegTime must be a date-time'],
    [{ ShowRecord: 'perhaps' }, 'ShowRecord must be true or false'],
    [{ FileNames: 'a' }, 'FileNames is no field that the upstream describes: did you mean FileName?'],
    [JSON.parse('{"__proto__":"a"}'), '__proto__ is no field'],
  ])('names the field of a form and the rule: %j', (body, words) => {
    const inPath = { assignmentId: '1' }
    const right = { FileName: 'a.txt', FileData: 'aGk+', OwnerId: null, ShowRecord: 'true', FileSize: '3' }
    expect(check(attach, right, {}, inPath)).toEqual([])
    const complaints = check(attach, { ...right, ...body }, {}, inPath)
    expect(complaints).toHaveLength(1)
    expect(complaints[0]).toContain(words)
  })

  it('takes a comma, or a slash, in an external id for part of it', () => {
    const inPath = { assignmentIdExt: 'A/B 7,x' }
    expect(check('GET /api/Assignment/IdExt/{assignmentIdExt}', undefined, {}, inPath)).toEqual([])
  })

  it('names what is required, and parameters', () => {
    expect(check('POST /api/Webhooks/subscription', { webhookDefinitionId: 1 })).toEqual(['url is required'])
    expect(check('GET /api/Assignment', undefined, { Page: '0' })).toEqual(['Page must be at least 1'])
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
    expect(ask('GET', { query: { size: '10' } })).toEqual(['Size must be at most 9'])
    expect(ask('POST', { body: { a: 1 } })).toEqual(['a must be a text'])
    expect(ask('POST', { body: { a: 'x', b: 1 } })).toEqual([
      'b is no field that the upstream describes: did you mean a?',
    ])
  })

  /** A description with one path that takes a body, and a query. */
  const taking = (schema: object, parameter: object = {}, schemas: object = {}) => {
    const content = { 'application/json': { schema } }
    const document = {
      openapi: '3.0.3',
      paths: {
        '/x': {
          post: {
            requestBody: { content },
            parameters: [{ name: 'status', in: 'query', schema: parameter }],
          },
        },
      },
      components: { schemas },
    }
    return (body: JsonObject, query: Values = {}) =>
      checkRequest(document, { method: 'POST', path: '/x', body, query })
  }

  it('takes nothing for a field that every object has', () => {
    const text = { type: 'string' }
    const odd = Object.fromEntries(['constructor', '__proto__', 'toString'].map((name) => [name, text]))
    expect(taking({ type: 'object', properties: odd })({})).toEqual([])
    expect(taking({ type: 'object', properties: odd, required: Object.keys(odd) })({})).toEqual(
      Object.keys(odd).map((name) => `${name} is required`),
    )
  })
  const kind = { type: 'string', enum: ['new', 'done'] }

  it.each<[string, object, JsonObject, JsonObject]>([
    ['null without a type', { properties: { a: { nullable: true } } }, { a: null }, { b: 1 }],
    ['null beside values', { properties: { a: { ...kind, nullable: true } } }, { a: null }, { a: 'x' }],
    [
      'null beside parts',
      { properties: { a: { nullable: true, allOf: [{ $ref: '#/components/schemas/Kind' }] } } },
      { a: null },
      { a: 'x' },
    ],
    [
      'exclusive bounds that are boolean',
      { properties: { a: { type: 'number', minimum: 1, exclusiveMinimum: true } } },
      { a: 2 },
      { a: 1 },
    ],
    ['exact steps', { properties: { a: { multipleOf: 0.01 } } }, { a: 19.99 }, { a: 19.995 }],
    [
      'a field that only the upstream fills',
      { required: ['id', 'a'], properties: { id: { type: 'integer', readOnly: true }, a: {} } },
      { a: 1 },
      { id: 1 },
    ],
    ['a map', { properties: { a: {} }, additionalProperties: { type: 'string' } }, { x: 'y' }, { x: 1 }],
    [
      'fields inside fields in any case',
      { properties: { a: { properties: { b: { type: 'integer' } }, required: ['b'] } } },
      { A: { B: 1 } },
      { A: { B: 'x' } },
    ],
  ])('reads OpenAPI 3.0: %s', (_, schema, right, wrong) => {
    const ask = taking(schema, {}, { Kind: kind })
    expect(ask(right)).toEqual([])
    expect(ask(wrong)).not.toEqual([])
  })

  it.each<[string, object]>([
    ['a reference to another document', { $ref: 'https://x.example/y.json#/Z' }],
    ['references in a circle', { $ref: '#/components/schemas/A' }],
    ['a reference that is no text of an address', { $ref: '#/components/schemas/A%' }],
    ['a pattern that is none here', { type: 'string', pattern: '(?i)^[a-z]+\\z' }],
    ['a required that is boolean', { required: true }],
    ['a type that is none', { type: 'file' }],
    ['a name twice', { anyOf: [{ $id: 'urn:x' }, { $id: 'urn:x', title: 'other' }] }],
  ])('sends what is described so that nobody can read it: %s', (_, field) => {
    const circle = { A: { $ref: '#/components/schemas/B' }, B: { $ref: '#/components/schemas/A' } }
    expect(taking({ properties: { a: field } }, field, circle)({ a: 'x' }, { status: 'x' })).toEqual([])
  })

  it('takes one value of a list in a query, several, and no wrong ones', () => {
    const ask = taking({}, { type: 'array', items: { type: 'integer' } })
    expect(ask({}, { status: '1' })).toEqual([])
    expect(ask({}, { status: ['1', '2'] })).toEqual([])
    expect(ask({}, { status: 'x' })).toEqual(['status.0 must be a whole number'])
  })

  it('knows nothing of what is not described', () => {
    expect(check('PUT /api/Nothing', { a: 1 })).toEqual([])
    expect(checkRequest('no description', { method: 'GET', path: '/' })).toEqual([])
  })
})
