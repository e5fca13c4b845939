// Reading what an upstream says about itself: OpenAPI 3.0 and 3.1, and what is wrong with some.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { descriptionTold } from '../../src/cli/contract.ts'
import { describedOperation } from '../../src/cli/described.ts'
import { descriptionChanges } from '../../src/openapi/changes.ts'
import { describedStreams } from '../../src/openapi/described-streams.ts'
import { differencesOf } from '../../src/openapi/differences.ts'
import { listsOffered } from '../../src/openapi/lists.ts'
import { readDescription } from '../../src/openapi/read-description.ts'
import { knownStreams } from '../../src/streams/catalog.ts'
import { type AnyRequest, prepareRequest } from '../../src/upstream/operations/request.ts'

const recorded = () =>
  JSON.parse(
    readFileSync(new URL('../fixtures/recorded/openapi-v1.json', import.meta.url), 'utf8'),
  ) as Description
type Description = {
  components: { schemas: Record<string, { properties: Record<string, unknown> }> }
  paths: Record<string, Record<string, unknown>>
}

/** A description with one list of a record with these fields. */
const describing = (properties: object, more: object = {}, openapi = '3.1.0') => ({
  openapi,
  info: { title: 'T', version: '1' },
  paths: {
    '/api/Thing': {
      get: {
        responses: {
          200: {
            description: 'OK',
            content: {
              'application/json': {
                schema: { type: 'array', items: { $ref: '#/components/schemas/Thing' } },
              },
            },
          },
        },
      },
    },
  },
  components: { schemas: { Thing: { type: 'object', properties }, ...more } },
})

async function fieldsOf(document: object) {
  const { types, remarks } = readDescription(document)
  const kinds = Object.fromEntries(
    (types.Thing?.fields ?? []).map(({ name, kind, isNullable }) => [
      name,
      `${kind}${isNullable ? '?' : ''}`,
    ]),
  )
  return { kinds, fields: types.Thing?.fields ?? [], remarks }
}

describe('the contract', () => {
  it('is read whole from what a service of ASP.NET generated', async () => {
    const contract = readDescription(recorded())
    expect(contract.remarks).toEqual([])
    expect(contract.operations).toHaveLength(33)
    const assignment = contract.types.TblAssignment
    expect(assignment?.fields).toHaveLength(61)
    const told = (name: string) => assignment?.fields.find((field) => field.name === name)
    expect(told('assignmentPriority')).toEqual({
      name: 'assignmentPriority',
      says: 'integer uint8',
      kind: 'uint8',
      isNullable: true,
      isRequired: false,
      describe: 'Priority, 1 is highest.',
      values: null,
      texts: null,
      bounds: null,
      holds: null,
    })
    expect(told('price')).toMatchObject({ kind: 'number', says: 'number double' })
    expect(told('signature')).toMatchObject({ kind: 'base64' })
    expect(told('uid')).toMatchObject({ kind: 'uuid', isNullable: false })
    expect(told('city')).toMatchObject({ kind: 'text', bounds: 'at most 60 characters' })
    expect(contract.types.TblAssignmentNote?.fields.at(-1)).toMatchObject({
      name: 'employee',
      kind: 'object',
      isNullable: true,
    })
    const list = contract.operations.find(
      ({ path, method }) => method === 'GET' && path === '/api/Assignment',
    )
    expect(list?.answers).toEqual({ type: 'TblAssignment', isList: true })
    expect(list?.parameters.find(({ name }) => name === 'Page')?.bounds).toBe('1 to 2147483647')
  })

  it('knows the types of OpenAPI 3.0 and 3.1', async () => {
    const { kinds, remarks } = await fieldsOf(
      describing(
        {
          a: { type: 'integer', format: 'int64', nullable: true },
          b: { type: ['integer', 'null'] },
          c: { type: 'integer', format: 'uint64' },
          d: { type: 'string', format: 'date' },
          e: { type: 'string', format: 'time' },
          f: { oneOf: [{ type: 'null' }, { $ref: '#/components/schemas/Kind' }] },
          g: { allOf: [{ $ref: '#/components/schemas/Kind' }], description: 'own words' },
          h: { type: 'array', items: { type: 'string' } },
          i: {},
          j: { anyOf: [{ type: 'integer' }, { type: 'number' }] },
          k: { oneOf: [{ type: 'integer' }, { type: 'string', pattern: '^-?(?:0|[1-9]\\d*)$' }] },
          l: { enum: [1, 2, null] },
          m: { properties: { x: { type: 'string' } } },
        },
        { Kind: { type: 'string', enum: ['new', 'done'] } },
      ),
    )
    expect(kinds).toEqual({
      ...{ a: 'int64?', b: 'int64?', c: 'uint64', d: 'date', e: 'time', f: 'text?', g: 'text', h: 'object' },
      ...{ i: 'null', j: 'number', k: 'int64', l: 'int64?', m: 'object' },
    })
    // `nullable` of 3.0 is no keyword of 3.1, and harms nobody.
    expect(remarks).toEqual([])
  })

  it.each<[string, string]>([
    ['^-?(?:0|[1-9]\\d*)$', 'int64'],
    ['^\\d{1,9}$', 'int64'],
    ['^[-+]?[0-9]+$', 'int64'],
    ['^\\d{3}-\\d{4}$', 'null'],
    ['^-?(\\d+\\.)?\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,7})?$', 'null'],
    ['^[0-9 ]+$', 'null'],
  ])('takes texts for numbers only where they can be nothing else: %s', async (pattern, kind) => {
    const { fields } = await fieldsOf(
      describing({ a: { oneOf: [{ type: 'integer' }, { type: 'string', pattern }] } }),
    )
    expect(String(fields[0]?.kind)).toBe(kind)
  })

  it('knows numbers of .NET that may come as texts, and shows the bounds of 64 bits as they are', async () => {
    const pattern = '^-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?$'
    const { fields } = await fieldsOf(
      describing({
        a: { type: ['number', 'string'], pattern },
        b: { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 },
        c: { type: 'number', minimum: 0.5, maximum: 9.5 },
        d: { type: 'string', pattern: '^-?(\\d+\\.)?\\d{2}:\\d{2}$' },
      }),
    )
    expect(fields.map(({ kind }) => kind)).toEqual(['number', 'int64', 'number', 'text'])
    expect(fields.slice(1).map(({ bounds }) => bounds)).toEqual([
      '-9223372036854775808 to 9223372036854775807',
      '0.5 to 9.5',
      'matches ^-?(\\d+\\.)?\\d{2}:\\d{2}$',
    ])
  })

  it.each([
    ['with a name in which characters are escaped', '#/components/schemas/a~1b%20c'],
    ['into a part of a type', '#/components/schemas/Whole/properties/part'],
    ['through a reference on its way', '#/components/schemas/Other/properties/part'],
    ['into a list', '#/components/schemas/Several/anyOf/1'],
  ])('follows a reference %s', async (_, $ref) => {
    const wanted = { type: 'string', format: 'uuid' }
    const { kinds, remarks } = await fieldsOf(
      describing(
        { a: { $ref } },
        {
          ...{ 'a/b c': wanted, Whole: { properties: { part: wanted } } },
          Other: { $ref: '#/components/schemas/Whole' },
          Several: { anyOf: [{ type: 'integer' }, wanted] },
        },
      ),
    )
    expect([kinds, remarks.join()]).toEqual([{ a: 'uuid' }, expect.not.stringContaining('leads')])
  })

  it('takes values and words from behind a reference, and prefers those beside it', async () => {
    const { fields } = await fieldsOf(
      describing(
        {
          a: { $ref: '#/components/schemas/Kind', description: 'beside' },
          b: { $ref: '#/components/schemas/Kind' },
        },
        { Kind: { type: 'string', enum: ['new', 'done'], description: 'behind' } },
      ),
    )
    expect(fields.map(({ describe: words, values }) => [words, values])).toEqual([
      ['beside', ['new', 'done']],
      ['behind', ['new', 'done']],
    ])
  })

  it('leaves to the data what excludes itself, leads in a circle, or out of it', async () => {
    const { kinds, remarks } = await fieldsOf(
      describing(
        {
          both: { type: ['boolean', 'integer'] },
          clash: { allOf: [{ type: 'string' }, { type: 'integer' }] },
          round: { $ref: '#/components/schemas/A' },
          away: { $ref: 'http://other.example/types.json#/X' },
          file: { $ref: '/etc/passwd' },
          lost: { $ref: '#/components/schemas/Nobody' },
          Fine: { type: 'string' },
          fine: { type: 'integer' },
        },
        { A: { $ref: '#/components/schemas/B' }, B: { $ref: '#/components/schemas/A' } },
      ),
    )
    expect(kinds).toEqual(
      Object.fromEntries(
        ['both', 'clash', 'round', 'away', 'file', 'lost', 'fine'].map((name) => [name, 'null']),
      ),
    )
    const text = remarks.join('\n')
    for (const part of [
      'boolean or integer',
      'string and integer',
      'in a circle',
      'http://other.example/types.json#/X leads out',
      'leads nowhere',
      'Thing.fine: it is string and integer',
    ])
      expect(text).toContain(part)
  })

  it('goes on in a record that holds itself', async () => {
    const { kinds } = await fieldsOf(
      describing({
        parent: { $ref: '#/components/schemas/Thing' },
        children: { type: 'array', items: { $ref: '#/components/schemas/Thing' } },
      }),
    )
    expect(kinds).toEqual({ parent: 'object', children: 'object' })
  })

  it.each([
    ['not a JSON object', [1, 2]],
    ['does not say which OpenAPI', { success: false, data: [] }],
    ['Swagger 2.0', { swagger: '2.0', paths: {} }],
    ['OpenAPI 4.0.0', { openapi: '4.0.0', paths: { '/a': {} } }],
    ['names no operations', { openapi: '3.0.1', info: {} }],
  ])('is refused where there is none: %s', async (words, document) => {
    expect(() => readDescription(document)).toThrow(words)
  })

  it('looks once at what holds itself in many ways', async () => {
    const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
    const kinds = Array.from({ length: 200 }, (_, n) => `D${n}`)
    const schemas = {
      Base: { oneOf: kinds.map(ref) },
      ...Object.fromEntries(
        kinds.map((name) => [name, { allOf: [ref('Base'), { properties: { own: { type: 'integer' } } }] }]),
      ),
      R: { anyOf: [{ type: 'string' }, ...Array.from({ length: 6 }, () => ref('R'))] },
      A: { allOf: [...Array.from({ length: 6 }, () => ref('A')), { properties: { x: { type: 'string' } } }] },
    }
    const startedAt = performance.now()
    const contract = readDescription(describing({ base: ref('Base'), r: ref('R'), a: ref('A') }, schemas))
    expect(performance.now() - startedAt).toBeLessThan(5_000)
    expect(contract.types.Thing?.fields.map(({ kind }) => kind)).toEqual(['object', 'text', 'object'])
    expect(contract.types.D7?.fields.map(({ name }) => name)).toEqual(['own'])
    expect(contract.types.A?.fields.map(({ name }) => name)).toEqual(['x'])
  }, 20_000)

  const record = { $ref: '#/components/schemas/Thing' }
  const list = { type: 'array', items: record }
  const errors = { type: 'array', items: { type: 'string' } }
  it.each<[string, object]>([
    ['beside complaints', { properties: { data: list, errors, total: { type: 'integer' } } }],
    ['composed of parts', { allOf: [{ properties: { total: {} } }, { properties: { data: list, errors } }] }],
    ['that may be null', { properties: { data: { nullable: true, allOf: [list] }, errors } }],
    ['that may be null, in 3.1', { properties: { data: { oneOf: [{ type: 'null' }, list] }, errors } }],
    ['in an answer that may be null', { anyOf: [{ type: 'null' }, { properties: { data: list } }] }],
  ])('knows the records of a list %s', async (_, schema) => {
    const document = describing({ a: { type: 'string' } })
    const content = { 'application/json': { schema } }
    document.paths['/api/Thing'].get.responses[200].content = content as never
    const { operations } = readDescription(document)
    expect(operations[0]?.answers).toEqual({ type: 'Thing', isList: true })
  })

  it('takes an envelope that it cannot see through for no record', async () => {
    const document = describing({ assignmentId: { type: 'integer' } })
    const get = document.paths['/api/Thing'].get
    get.responses[200].content['application/json'].schema = {
      properties: { rows: list, more: list, total: { type: 'integer' } },
    } as never
    const paths = { '/api/Assignment': { get } }
    const schemas = { Assignment: document.components.schemas.Thing }
    const contract = readDescription({ ...document, paths, components: { schemas } })
    const described = describedStreams([{ service: 'assignment', description: contract }], [knownStreams[0]])
    expect(described.get('assignment')?.fields.map(({ name }) => name)).toEqual(['assignmentId'])
  })
})

describe('lists that can be added', () => {
  it('are offered with settings that are taken, each under a name of its own', async () => {
    const { paths } = describing({})
    const named = ['/api/Customer/', '/crm/Customer', '/api/assignment', '/api/Employee', '/api/A(1)']
    const all = Object.fromEntries(named.map((path) => [path, paths['/api/Thing']]))
    const offered = listsOffered(readDescription({ ...describing({}), paths: all }), knownStreams, [
      'employee',
    ])
    expect(offered.map(({ setting }) => setting)).toEqual([
      'customer=/api/Customer',
      'customer_2=/crm/Customer',
      'assignment=/api/assignment',
      'employee_2=/api/Employee',
      null,
    ])
    expect(offered[2]?.stream).toBe('assignment')
  })
})

describe('the streams that are described', () => {
  it.each(['/api/v1/Assignment', '/v2.1/api/Assignment'])('are known below a version: %s', async (path) => {
    const document = describing({ assignmentId: { type: 'integer' } })
    const paths = { [path]: document.paths['/api/Thing'] }
    const contract = readDescription({ ...document, paths })
    const described = describedStreams([{ service: 'assignment', description: contract }], [knownStreams[0]])
    expect(described.get('assignment')?.name).toBe('Thing')
  })
})

describe('operations that are described', () => {
  it('are found by their paths, whatever parameters are called and values are', async () => {
    const { paths } = describing({})
    const named = ['/api/Lookup/{type}', '/api/Lookup/Kinds', '/api/Region/{region-id}']
    const all = Object.fromEntries(named.map((path) => [path, paths['/api/Thing']]))
    const contract = readDescription({ ...describing({}), paths: all })
    const found = (path: string) => describedOperation({ description: contract }, 'GET', path)
    expect(found('/api/Lookup/Assignment')?.path).toEqual({ type: 'Assignment' })
    expect(found('/api/Lookup/kinds')?.operation.path).toBe('/api/Lookup/Kinds')
    expect(found('/api/Lookup/')).toBeNull()
    const region = found('/api/Region/5')
    expect(region?.path).toEqual({ 'region-id': '5' })
    expect(region && prepareRequest(region.operation, { path: region.path }).target).toBe('/api/Region/5')
  })
})

describe('operations with bodies that are described', () => {
  const json = (schema: object) => ({ content: { 'application/json': { schema } } })
  const form = { type: 'object', properties: { a: { type: 'string' } } }
  const operation = (requestBody: object) => ({ requestBody, responses: { 200: { description: 'ok' } } })
  const paths = {
    '/Thing/{id}': { patch: operation(json(form)) },
    '/Thing/several': { post: operation(json({ type: 'array', items: { type: 'integer' } })) },
    '/Thing/form': {
      post: operation({ content: { 'application/x-www-form-urlencoded': { schema: form } } }),
    },
    '/Thing/file': { post: operation({ content: { 'multipart/form-data': { schema: form } } }) },
    '/Thing/find': {
      get: {
        parameters: [{ name: 'status', in: 'query', schema: { type: 'array', items: { type: 'integer' } } }],
        responses: { 200: { description: 'ok' } },
      },
    },
  }
  const document = { ...describing({}), servers: [{ url: 'https://a.example/{base}/' }], paths }
  const send = async (method: string, path: string, request: AnyRequest) => {
    const contract = readDescription(document)
    const found = describedOperation({ description: contract, service: 'tracking' }, method, path)
    if (!found) throw new Error(`${method} ${path} is not described`)
    expect(found.operation.service).toBe('tracking')
    return prepareRequest(found.operation, { path: found.path, ...request })
  }

  it('are sent as they are described: part of a record, a list, a form, a name several times', async () => {
    expect(await send('PATCH', '/thing/5', { body: { a: 'x' } })).toMatchObject({
      target: '/Thing/5',
      body: '{"a":"x"}',
    })
    expect(await send('POST', '/Thing/several', { body: [1, 2] })).toMatchObject({ body: '[1,2]' })
    expect(await send('POST', '/Thing/form', { body: { a: ['x&', 'y'], b: 5, c: null } })).toMatchObject({
      contentType: 'application/x-www-form-urlencoded',
      body: 'a=x%26&a=y&b=5',
    })
    expect(await send('GET', '/Thing/find', { query: { status: ['1', '2'] } })).toMatchObject({
      target: '/Thing/find?status=1&status=2',
    })
  })

  it('in parts are not sent as something else', async () => {
    await expect(send('POST', '/Thing/file', { body: { a: 'x' } })).rejects.toThrow('multipart')
    await expect(send('POST', '/Thing/several', {})).rejects.toThrow('needs a body')
  })
})

describe('what is shown', () => {
  it('is never a blank page: a description that cannot be used is named in Markdown as well', () => {
    const unusable = [
      { service: 'assignment', problem: '/a.json cannot be used: it is no JSON', since: null },
    ]
    const shown = { descriptions: [], unusable, types: new Map(), streams: [], isNamed: false }
    expect(descriptionTold(shown).markdown).toContain(
      '- assignment service: /a.json cannot be used: it is no JSON',
    )
  })
})

describe('two contracts', () => {
  it('show what changed in a type that has another name now', async () => {
    const before = readDescription(describing({ a: { type: 'integer' }, b: { type: 'string' } }))
    const renamed = describing({})
    const { schema } = renamed.paths['/api/Thing'].get.responses[200].content['application/json']
    schema.items.$ref = '#/components/schemas/ThingDto'
    renamed.components.schemas = {
      ThingDto: { type: 'object', properties: { a: { type: 'string' }, c: { type: 'string' } } },
    } as never
    const changes = descriptionChanges(before, readDescription(renamed))
    expect(changes.map(({ subject, change }) => `${subject}: ${change}`)).toEqual([
      'ThingDto.a: type changed',
      'ThingDto.b: field gone',
      'ThingDto.c: new field',
      'GET /api/Thing: bound changed',
    ])
  })

  it('are the same where only the order is another, of parameters and of values', async () => {
    const document = (isTurned: boolean) => {
      const order = <One>(all: readonly One[]) => (isTurned ? all.toReversed() : all)
      const described = describing({ a: { type: 'string', enum: order(['x', 'y']) } })
      const parameters = ['Page', 'Sorts'].map((name) => ({ name, in: 'query', schema: { type: 'string' } }))
      return {
        ...described,
        paths: { '/api/Thing': { ...described.paths['/api/Thing'], parameters: order(parameters) } },
      }
    }
    const [one, other] = [readDescription(document(false)), readDescription(document(true))]
    expect(descriptionChanges(one, other)).toEqual([])
  })
})

describe('what rows differ in from the description', () => {
  const field = { stream: 'assignment', field: 'extra', columnName: 'extra', columnType: 'text', rescued: 0 }

  it('is a field that is not described as soon as a row has a value, and not before', () => {
    const undescribed = { ...field, describedAs: null, rows: 7 }
    expect(differencesOf([{ ...undescribed, values: 0 }], new Map())).toEqual([])
    expect(differencesOf([{ ...undescribed, values: 2 }], new Map())).toMatchObject([
      { field: 'extra', kind: 'not described', count: 2 },
    ])
  })
})
