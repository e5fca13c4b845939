// A description larger than any service has, or with patterns that take for ever, holds nothing up (P10).

import { describe, expect, it } from 'vitest'
import { checkRequest } from '../../src/openapi/check-request.ts'
import { readDescription } from '../../src/openapi/read-description.ts'

const many = <Value>(count: number, one: (index: number) => readonly [string, Value]) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => one(index)))
const described = (more: object) => ({
  ...{
    openapi: '3.0.3',
    info: { title: 'Large', version: '1' },
    paths: { '/a': { get: { responses: {} } } },
  },
  ...more,
})
const text = { type: 'string' }
const names = Array.from({ length: 60_000 }, (_, index) => `n${index}`)

describe('a description', { timeout: 60_000 }, () => {
  it.each([
    ['paths', { paths: many(60_000, (at) => [`/p${at}`, { get: { responses: {} } }]) }],
    ['types', { components: { schemas: many(60_000, (at) => [`T${at}`, { properties: { a: text } }]) } }],
    ['fields', { components: { schemas: { T: { properties: many(60_000, (at) => [`f${at}`, text]) } } } }],
    [
      'required fields',
      {
        components: {
          schemas: { T: { required: names, properties: many(60_000, (at) => [`n${at}`, text]) } },
        },
      },
    ],
    [
      'references in a row',
      {
        components: {
          schemas: many(60_000, (at) => [`T${at}`, { $ref: `#/components/schemas/T${at + 1}` }]),
        },
      },
    ],
    [
      'ways through types that each have ten of the next',
      {
        components: {
          schemas: many(60, (at) => [
            `T${at}`,
            { properties: many(10, (n) => [`f${n}`, { $ref: `#/components/schemas/T${at + 1}` }]) },
          ]),
        },
      },
    ],
    ['tags', { tags: names.map((name) => ({ name })) }],
    [
      'parameters',
      {
        paths: { '/a': { parameters: names.map((name) => ({ name, in: 'query', schema: text })), get: {} } },
      },
    ],
  ])('with 60,000 %s is read within seconds', async (_, more) => {
    const began = performance.now()
    const { operations, types } = readDescription(described(more))
    // It takes less than 1 s; before, half a minute and more.
    expect(performance.now() - began).toBeLessThan(15_000)
    expect(operations.length).toBeLessThanOrEqual(5_000)
    expect(Object.keys(types).length).toBeLessThanOrEqual(5_000)
  })

  it.each([
    ['^(a+)+$', []],
    ['^(\\d+)+$', ['a must be a number']],
    ['(x+x+)+y', []],
  ])('with the pattern %s checks a request at once', (pattern, complaints) => {
    const schema = { type: 'object', properties: { a: { type: 'string', pattern } } }
    const content = { 'application/json': { schema } }
    const document = described({ paths: { '/x': { post: { requestBody: { content } } } } })
    const ask = (a: string) => checkRequest(document, { method: 'POST', path: '/x', body: { a } })
    const began = performance.now()
    for (const letter of ['a', '1', 'x']) ask(`${letter.repeat(40)}!`)
    expect(performance.now() - began).toBeLessThan(10_000)
    expect(ask('?')).toEqual(complaints)
  })
})
