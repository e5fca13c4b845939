// What a schema of an OpenAPI description says of one field: its kind, its bounds, whether it may be null. OpenAPI 3.0 (`nullable`) and
// 3.1 (`null` among the types) alike. Pure; references are followed by who asks.

import { ownValue } from '../json/json.ts'
import type { FieldKind } from '../streams/field-types.ts'
import { int64 } from '../streams/record.ts'
import type { DescribedField } from './description.ts'
import { type Follow, isSchema, placeOf, type Schema, schemasIn, textOf } from './schema.ts'

export type Said = Pick<
  DescribedField,
  'says' | 'kind' | 'isNullable' | 'describe' | 'values' | 'texts' | 'bounds'
> & {
  /** Why no kind can be told; null when one is, or nothing is said. */
  readonly conflict: string | null
}

/** Compositions inside each other go no deeper in what people write. */
const mostNesting = 100

/** Looks at each schema once, whatever refers to it. Where a schema holds itself, that says nothing more. */
export function openFieldReader(follow: Follow): (schema: unknown) => Said {
  const known = new Map<unknown, Said>()
  const says = (given: unknown, nesting: number): Said => {
    const place = placeOf(given)
    const earlier = known.get(place)
    if (earlier) return earlier
    known.set(place, nothing)
    const said = schemaSays(follow(given), nesting, says)
    known.set(place, said)
    return said
  }
  return (schema) => says(schema, 0)
}

function schemaSays(
  schema: Schema | null,
  nesting: number,
  says: (schema: unknown, nesting: number) => Said,
): Said {
  if (schema === null || nesting > mostNesting)
    return { ...nothing, conflict: 'its reference leads nowhere, or in a circle' }
  const parts = compositionOf(schema)
  if (parts === null) return plainSays(schema)
  const all = parts.members.map((member) => says(member, nesting + 1))
  const told = all.filter(({ says: words }) => words !== 'null')
  const own = ownSays(schema)
  const joined = joinedSays(told, parts.how)
  return {
    ...joined,
    isNullable: own.isNullable || (parts.how === 'all' ? told : all).some(({ isNullable }) => isNullable),
    describe: own.describe ?? joined.describe,
    bounds: own.bounds ?? joined.bounds,
    values: own.values ?? joined.values,
    texts: own.texts ?? joined.texts ?? null,
  }
}

const nothing: Said = {
  says: 'anything',
  kind: null,
  isNullable: false,
  describe: null,
  values: null,
  bounds: null,
  conflict: null,
}

function compositionOf(
  schema: Schema,
): { readonly members: readonly unknown[]; readonly how: 'all' | 'one' } | null {
  for (const [keyword, how] of [
    ['allOf', 'all'],
    ['oneOf', 'one'],
    ['anyOf', 'one'],
  ] as const) {
    const members = schemasIn(schema[keyword])
    if (members.length === 0) continue
    // What stands beside the keyword counts like one more of its schemas.
    const { [keyword]: _, ...rest } = schema
    const hasType = schema.type !== undefined || schema.properties !== undefined
    return { how, members: how === 'all' && hasType ? [...members, rest] : members }
  }
  return null
}

function joinedSays(told: readonly Said[], how: 'all' | 'one'): Said {
  const [first, ...others] = told
  if (!first) return { ...nothing, says: 'null' }
  const conflict = told.find((one) => one.conflict !== null)?.conflict ?? null
  if (conflict !== null) return { ...first, kind: null, conflict }
  const kinds = [...new Set(told.flatMap(({ kind }) => kind ?? []))]
  const [kind = null] = kinds
  if (kinds.length <= 1) return { ...(told.find((one) => one.kind !== null) ?? first), kind }
  const says = [...new Set(told.map((one) => one.says))].join(how === 'all' ? ' and ' : ' or ')
  const widest = how === 'one' ? widestOf(told) : null
  const merged = { ...first, says, kind: widest, values: null, bounds: null, describe: first.describe }
  return widest === null && others.length > 0
    ? { ...merged, conflict: `it is ${says}, which no column can be` }
    : merged
}

const whole: readonly FieldKind[] = ['uint8', 'int16', 'int32', 'int64']

/** Alternatives that all are numbers are a number, with digits in quotes among them too; of others the data decide. */
function widestOf(told: readonly Said[]): FieldKind | null {
  const isWhole = ({ kind, bounds }: Said) =>
    kind === 'text' ? bounds === digitsOnly : kind !== null && whole.includes(kind)
  if (told.every(isWhole)) return 'int64'
  return told.every((one) => isWhole(one) || one.kind === 'number') ? 'number' : null
}

const digitsOnly = 'digits only'

function plainSays(schema: Schema): Said {
  const own = ownSays(schema)
  const types = typesOf(schema)
  if (types.length === 0)
    return { ...own, says: own.isNullable && schema.type !== undefined ? 'null' : 'anything' }
  const told = types.map((type) => ({ type, kind: kindOf(type, schema) }))
  const format = textOf(schema.format)
  const [first] = told
  if (first && told.length === 1)
    return { ...own, kind: first.kind, says: format === null ? first.type : `${first.type} ${format}` }
  // How .NET describes numbers that it also reads from text: number or string, and a pattern of digits.
  const number = told.find(({ type }) => type === 'integer') ?? told.find(({ type }) => type === 'number')
  const others = told.filter(({ type }) => !['integer', 'number'].includes(type))
  const isPattern = matchesNumbersOnly(textOf(schema.pattern))
  if (number && others.every(({ type }) => type === 'string') && (others.length === 0 || isPattern)) {
    const isWhole = !told.some(({ type }) => type === 'number')
    const kind = isWhole ? number.kind : 'number'
    const name = isWhole ? 'integer' : 'number'
    return { ...own, kind, says: format === null ? name : `${name} ${format}` }
  }
  if (told.every(({ kind }) => kind === 'object')) return { ...own, kind: 'object', says: 'object or array' }
  const says = told.map(({ type }) => type).join(' or ')
  return { ...own, says, conflict: `it is ${says}, which no column can be` }
}

/** Digits with a sign, a point or an exponent at most: no hyphens or colons between them. */
export function matchesNumbersOnly(pattern: string | null): boolean {
  const [, within] = /^\^(.*)\$$/s.exec(pattern ?? '') ?? []
  if (within === undefined || !/\\d|0-9/.test(within)) return false
  const rest = within
    // A sign stands in front, or behind the letter of an exponent.
    .replace(/^(?:\[[-+]{1,2}\]|-|\\-|\\\+)\??/, '')
    .replace(/(?:\[eE\]|\[Ee\]|e|E)(?:\[[-+]{1,2}\]|-|\\-)?\??/g, '')
    .replace(/\(\?:|\\d|\\\.|\[\.\]|\[(?:0-9|1-9|\d)+\]/g, '')
  return /^[0-9(){}?*+|,]*$/.test(rest)
}

/** The types, without null. A schema without a type is known by its other keywords, or by its values. */
function typesOf(schema: Schema): readonly string[] {
  const named = schemasIn(schema.type ?? []).filter((type) => typeof type === 'string')
  const types = typeof schema.type === 'string' ? [schema.type] : named
  if (schema.type !== undefined) return [...new Set(types)].filter((type) => type !== 'null')
  if (isSchema(schema.properties) || schema.additionalProperties !== undefined) return ['object']
  if (schema.items !== undefined) return ['array']
  const values = valuesOf(schema).filter((value) => value !== null)
  return [...new Set(values.map(typeOfValue))]
}

const typeOfValue = (value: unknown): string =>
  typeof value === 'number'
    ? Number.isInteger(value)
      ? 'integer'
      : 'number'
    : typeof value === 'object'
      ? 'object'
      : typeof value

const valuesOf = (schema: Schema): readonly unknown[] =>
  schema.const === undefined ? schemasIn(schema.enum) : [schema.const]

const integerKinds: Readonly<Record<string, FieldKind>> = {
  uint8: 'uint8',
  byte: 'uint8',
  int8: 'int16',
  int16: 'int16',
  uint16: 'int32',
  int32: 'int32',
  uint32: 'int64',
  int64: 'int64',
  uint64: 'uint64',
}
const stringKinds: Readonly<Record<string, FieldKind>> = {
  uuid: 'uuid',
  guid: 'uuid',
  'date-time': 'date-time',
  datetime: 'date-time',
  date: 'date',
  time: 'time',
  byte: 'base64',
  base64: 'base64',
}

function kindOf(type: string, schema: Schema): FieldKind | null {
  const format = textOf(schema.format)?.toLowerCase() ?? ''
  switch (type) {
    case 'integer':
      return ownValue(integerKinds, format) ?? 'int64'
    case 'number':
      return 'number'
    case 'boolean':
      return 'boolean'
    case 'string':
      return textOf(schema.contentEncoding) === 'base64'
        ? 'base64'
        : (ownValue(stringKinds, format) ?? 'text')
    case 'object':
    case 'array':
      return 'object'
    default:
      return null
  }
}

/** What the schema says besides its type. */
function ownSays(schema: Schema): Said {
  const values = valuesOf(schema)
  const shown = values
    .filter((value) => value !== null)
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
  return {
    ...nothing,
    isNullable:
      schema.nullable === true ||
      schema.type === 'null' ||
      schemasIn(schema.type).includes('null') ||
      values.includes(null),
    describe: textOf(schema.description) ?? textOf(schema.title),
    values: shown.length > 0 ? shown.slice(0, mostValues) : null,
    texts: textsOf(schema, shown),
    bounds: boundsOf(schema),
  }
}

const mostValues = 100

/** Where the tools of ASP.NET and others write what the values of an enumeration are called. */
const namesOfValues = ['x-enumNames', 'x-enum-varnames', 'x-enumDescriptions', 'x-enum-descriptions']

/** Null: nobody says, or the names say no more than the values. */
function textsOf(schema: Schema, values: readonly string[]): Readonly<Record<string, string>> | null {
  for (const keyword of namesOfValues) {
    const names = schemasIn(schema[keyword])
    const texts = values.map((value, index) => [value, textOf(names[index])?.trim() ?? ''] as const)
    if (values.length === 0 || names.length !== valuesOf(schema).length) continue
    if (texts.every(([, text]) => text !== '') && texts.some(([value, text]) => value !== text))
      return Object.fromEntries(texts.slice(0, mostValues))
  }
  return null
}

function boundsOf(schema: Schema): string | null {
  const { minLength, maxLength, minimum, maximum } = schema
  const isNumber = (value: unknown): value is number => typeof value === 'number'
  const pattern = textOf(schema.pattern)
  const [least, most] = [boundText(minimum), boundText(maximum)]
  const parts = [
    isNumber(minLength) && minLength > 0 ? `at least ${minLength} characters` : null,
    isNumber(maxLength) ? `at most ${maxLength} characters` : null,
    least !== null && most !== null ? `${least} to ${most}` : null,
    least !== null && most === null ? `at least ${least}` : null,
    most !== null && least === null ? `at most ${most}` : null,
    schema.type === 'string' && pattern !== null
      ? matchesNumbersOnly(pattern)
        ? digitsOnly
        : `matches ${pattern.slice(0, 200)}`
      : null,
  ].filter((part) => part !== null)
  return parts.length > 0 ? parts.join(', ') : null
}

/** JavaScript cannot hold the bounds of 64 bits exactly: a number right beside one of them stands for that bound (P4). */
function boundText(bound: unknown): string | null {
  if (typeof bound !== 'number') return null
  if (bound === 2 ** 63) return `${int64.max}`
  return Number.isInteger(bound) && Math.abs(bound) < 1e21 ? `${BigInt(bound)}` : `${bound}`
}
