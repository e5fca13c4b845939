// parseJson against texts whose meaning is known because they were written from it.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Json, type JsonObject, repeatedFields } from '../../src/json/json.ts'
import { parseJson } from '../../src/json/parse.ts'

/** A JSON text as a tree: unlike a value it can hold a field twice and knows how its numbers are written. */
type Tree =
  | { readonly number: string }
  | { readonly plain: string | boolean | null }
  | { readonly items: readonly Tree[] }
  | { readonly fields: readonly (readonly [string, Tree])[] }

const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: 30 })
const numberText = fc
  .record({
    sign: fc.constantFrom('', '-'),
    integer: fc.oneof(
      fc.constant('0'),
      digits.map((text) => text.replace(/^0+(?=.)/, '')),
    ),
    fraction: fc.oneof(
      fc.constant(''),
      digits.map((text) => `.${text}`),
    ),
    exponent: fc.oneof(
      { weight: 4, arbitrary: fc.constant('') },
      fc
        .tuple(fc.constantFrom('e', 'E'), fc.constantFrom('', '+', '-'), fc.integer({ min: 0, max: 400 }))
        .map((parts) => parts.join('')),
    ),
  })
  .map(({ sign, integer, fraction, exponent }) => `${sign}${integer}${fraction}${exponent}`)
// Few names, so that they repeat; some that JavaScript treats in its own way; some that look like JSON.
const name = fc.oneof(
  fc.constantFrom(
    'a',
    'b',
    'RowVersion',
    '__proto__',
    'constructor',
    'toJSON',
    '7',
    '07',
    '',
    ':',
    '"',
    '\\',
    '":1,',
  ),
  fc.string({ unit: 'grapheme', maxLength: 6 }),
)
const plain = fc.oneof(
  fc.constantFrom(
    true,
    false,
    null,
    ': 5',
    '": 1.50',
    '{"a":1.0}',
    '\\',
    '\\"',
    '\u0000',
    '\ud800',
    '2024-01-01T10:00:00.10',
  ),
  fc.string({ unit: 'binary', maxLength: 20 }),
)
const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    numberText.map((number) => ({ number })),
    plain.map((value) => ({ plain: value })),
    fc.array(tie('tree'), { maxLength: 4 }).map((items) => ({ items })),
    fc.array(fc.tuple(name, tie('tree')), { maxLength: 5 }).map((fields) => ({ fields })),
  ),
}))
const space = fc.constantFrom('', '', '', ' ', '\n', '\t ', '\r\n')

function textOf(node: Tree, gap: string): string {
  if ('number' in node) return node.number
  if ('plain' in node) return JSON.stringify(node.plain)
  const [open, close, parts] =
    'items' in node
      ? ['[', ']', node.items.map((item) => textOf(item, gap))]
      : [
          '{',
          '}',
          node.fields.map(([key, value]) => `${JSON.stringify(key)}${gap}:${gap}${textOf(value, gap)}`),
        ]
  return `${open}${gap}${parts.join(`${gap},${gap}`)}${gap}${close}`
}

function meaningOf(node: Tree): Json {
  if ('number' in node)
    return String(Number(node.number)) === node.number ? Number(node.number) : JSON.rawJSON(node.number)
  if ('plain' in node) return node.plain
  if ('items' in node) return node.items.map(meaningOf)
  return Object.fromEntries(node.fields.map(([key, value]) => [key, meaningOf(value)]))
}

/** All earlier values inside a node, each with the path to it. */
function repeatsOf(node: Tree): { path: string; value: Json }[] {
  if ('items' in node) return node.items.flatMap((item, index) => below(`[${index}]`, item))
  if (!('fields' in node)) return []
  const last = new Map<string, Json>()
  return node.fields.flatMap(([key, value]) => {
    const earlier = last.get(key)
    last.set(key, meaningOf(value))
    return [...(earlier === undefined ? [] : [{ path: key, value: earlier }]), ...below(key, value)]
  })
}

const below = (prefix: string, node: Tree): { path: string; value: Json }[] =>
  repeatsOf(node).map(({ path, value }) => ({ path: `${prefix}${'items' in node ? '' : '.'}${path}`, value }))

describe('parseJson', () => {
  it('P4: writes every text back as it was read, but for spaces', () => {
    fc.assert(
      fc.property(tree, space, (node, gap) => {
        const value = parseJson(Buffer.from(textOf(node, gap)))
        expect(JSON.stringify(value)).toBe(JSON.stringify(meaningOf(node)))
      }),
      { numRuns: 5000 },
    )
  })

  it('P4: keeps every number to the last digit, in a record and in an array', () => {
    fc.assert(
      fc.property(numberText, space, (source, gap) => {
        for (const text of [source, `[${source}]`, `[{"a"${gap}:${gap}${source}${gap}}]`])
          expect(JSON.stringify(parseJson(Buffer.from(text)))).toBe(text.replaceAll(/\s/g, ''))
      }),
      { numRuns: 5000 },
    )
  })

  it('P5: keeps the earlier values of every repeated field, with their paths', () => {
    const object = fc.array(fc.tuple(name, tree), { maxLength: 6 }).map((fields) => ({ fields }))
    fc.assert(
      fc.property(object, space, (node, gap) => {
        const value = parseJson(Buffer.from(textOf(node, gap))) as JsonObject
        const expected = repeatsOf(node)
        const kept = Object.entries(value[repeatedFields] ?? {}).flatMap(([path, values]) =>
          (values as Json[]).map((earlier) => ({ path, value: earlier })),
        )
        const sorted = (list: { path: string; value: Json }[]) =>
          list.map((repeat) => JSON.stringify(repeat)).sort()
        expect(sorted(kept)).toEqual(sorted(expected))
      }),
      { numRuns: 5000 },
    )
  })
})
