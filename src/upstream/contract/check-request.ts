// Whether a request is one that the upstream describes: its body and its parameters, checked against the description before anything is
// sent. Each complaint names the field and the rule.

import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'
import { type Json, ownValue } from '../../json/json.ts'
import { isUuid } from '../../streams/record.ts'
import { nearest } from '../../util/text.ts'
import { matchesNumbersOnly } from './field-says.ts'
import { asJsonSchema, isNode, patternEngine } from './json-schema.ts'

type Node = { readonly [name: string]: unknown }

export type CheckedRequest = {
  readonly method: string
  /** The path as the description spells it. */
  readonly path: string
  readonly body?: Json
  /** Values by the names that the description uses. */
  readonly inPath?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
}

const bounds = { uint8: [0, 255], int16: [-32_768, 32_767], int32: [-2_147_483_648, 2_147_483_647] } as const

/** Formats that are checked. All others are left to the upstream. */
const formats = {
  ...Object.fromEntries(
    Object.entries(bounds).map(([name, [least, most]]) => [
      name,
      { type: 'number' as const, validate: (value: number) => value >= least && value <= most },
    ]),
  ),
  uuid: isUuid,
  'date-time': (text: string) => !Number.isNaN(Date.parse(text)),
}

/** Returns the complaints. None if all is as described, or nothing is described, or the description cannot be read. */
export function checkRequest(
  document: unknown,
  request: CheckedRequest,
  onUnreadable: (error: unknown) => void = () => {},
): readonly string[] {
  if (!isNode(document)) return []
  const at = operationPlace(document, request)
  if (at === null) return []
  const complaintsBy = (coerceTypes: false | 'array') => complaintsOf(document, coerceTypes, onUnreadable)
  return [
    ...bodyComplaints(complaintsBy(false), document, at, request.body),
    // Values in an address are texts: `complaintsBy('array')` takes them for what they look like.
    ...parameterComplaints(complaintsBy('array'), parametersAt(document, at), request),
  ]
}

/** Says what is wrong with a value, by a schema of the description. */
type ComplaintsOf = (schema: Node, value: unknown) => readonly string[]

function complaintsOf(
  document: Node,
  coerceTypes: false | 'array',
  onUnreadable: (error: unknown) => void,
): ComplaintsOf {
  const common = {
    strict: false,
    ownProperties: true,
    allErrors: true,
    validateSchema: false,
    logger: false,
  } as const
  const reading = { multipleOfPrecision: 6, code: { regExp: patternEngine } }
  let ajv: Ajv2020 | null = null
  const opened = () => {
    const validator = new Ajv2020({ ...common, ...reading, coerceTypes, formats })
    return validator.addSchema({ ...(asJsonSchema(document) as Node), $id: 'contract:' })
  }
  return (schema, value) => {
    try {
      ajv ??= opened()
      const validate = ajv.compile(schema)
      return validate(value) ? [] : [...new Set((validate.errors ?? []).map(complaintOf))]
    } catch (error) {
      onUnreadable(error)
      return []
    }
  }
}

/** Where a part of the description is, for those that follow references. */
type At = { readonly node: Node; readonly pointer: string }
type Place = { readonly item: At; readonly operation: At }

const escaped = (text: string): string => text.replaceAll('~', '~0').replaceAll('/', '~1')

function operationPlace(document: Node, { method, path }: CheckedRequest): Place | null {
  const item = isNode(document.paths) ? document.paths[path] : null
  const operation = isNode(item) ? item[method.toLowerCase()] : null
  if (!isNode(item) || !isNode(operation)) return null
  const pointer = `contract:#/paths/${encodeURIComponent(escaped(path))}`
  return {
    item: { node: item, pointer },
    operation: { node: operation, pointer: `${pointer}/${method.toLowerCase()}` },
  }
}

/** Follows a reference; anything else is returned as it is. */
function followed(document: Node, { node, pointer }: At): At | null {
  const { $ref } = node
  if (typeof $ref !== 'string') return { node, pointer }
  const target = pointed(document, $ref)
  return isNode(target) ? { node: target, pointer: `contract:${$ref}` } : null
}

function bodyComplaints(
  complaints: ComplaintsOf,
  document: Node,
  { operation }: Place,
  body: Json | undefined,
): readonly string[] {
  const { requestBody } = operation.node
  const described = isNode(requestBody)
    ? followed(document, { node: requestBody, pointer: `${operation.pointer}/requestBody` })
    : null
  const content = isNode(described?.node.content) ? described.node.content : {}
  const type = Object.keys(content).find((name) => /^application\/json\b/i.test(name))
  const media = type === undefined ? null : content[type]
  if (!described || type === undefined || !isNode(media) || body === undefined) return []
  const $ref = `${described.pointer}/content/${encodeURIComponent(escaped(type))}/schema`
  // The upstream reads field names without regard to case, so they are respelt first. The checker does not need exact numbers.
  const plain = respelt(document, media.schema, JSON.parse(JSON.stringify(body)))
  return [...complaints({ $ref }, plain), ...unknownFields(plain, fieldNames(document, media.schema))]
}

const compositions = ['allOf', 'anyOf', 'oneOf'] as const

/** The fields of the body, through the references of the description; none where it may have others. */
function fieldNames(document: Node, given: unknown): readonly string[] {
  const schema = meant(document, given)
  if (schema === null || compositions.some((how) => how in schema)) return []
  const { properties, patternProperties, additionalProperties } = schema
  const mayHaveOthers = isNode(additionalProperties) || additionalProperties === true
  if (!isNode(properties) || mayHaveOthers || patternProperties !== undefined) return []
  return Object.keys(properties)
}

/** The schema that references lead to; null: nowhere. */
function meant(document: Node, given: unknown): Node | null {
  let schema = given
  for (let steps = 0; isNode(schema) && typeof schema.$ref === 'string' && steps < 10; steps++)
    schema = pointed(document, schema.$ref)
  return isNode(schema) ? schema : null
}

function pointed(document: Node, $ref: string): unknown {
  if (!$ref.startsWith('#/')) return null
  let at: unknown = document
  for (const part of $ref.slice(2).split('/'))
    at = isNode(at) ? at[decoded(part).replaceAll('~1', '/').replaceAll('~0', '~')] : null
  return at
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

/** With the names of fields as they are described, also of fields inside fields. */
function respelt(document: Node, given: unknown, value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = partsOf(document, given).find((part) => part.items !== undefined)?.items
    return items === undefined ? value : value.map((one) => respelt(document, items, one))
  }
  if (!isNode(value)) return value
  const described = partsOf(document, given).flatMap(({ properties }) =>
    isNode(properties) ? Object.entries(properties) : [],
  )
  const known = new Map(described.map(([name, schema]) => [name.toLowerCase(), { name, schema }]))
  return Object.fromEntries(
    Object.entries(value).map(([name, held]) => {
      const field = known.get(name.toLowerCase())
      return field ? [field.name, respelt(document, field.schema, held)] : [name, held]
    }),
  )
}

/** A schema, and all that it is composed of. */
function partsOf(document: Node, given: unknown): readonly Node[] {
  const parts = new Set<Node>()
  const add = (one: unknown) => {
    const schema = meant(document, one)
    if (schema === null || parts.has(schema)) return
    parts.add(schema)
    for (const how of compositions) for (const part of listOf(schema[how])) add(part)
  }
  add(given)
  return [...parts]
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

function unknownFields(body: unknown, known: readonly string[]): readonly string[] {
  if (!isNode(body) || known.length === 0) return []
  return Object.keys(body)
    .filter((name) => !known.includes(name))
    .map((name) => noSuch(name, 'field', known))
}

function noSuch(name: string, what: string, known: readonly string[]): string {
  const [near] = nearest(name, known)
  return `${name} is no ${what} that the upstream describes${near ? `: did you mean ${near}?` : ''}`
}

function complaintOf(error: ErrorObject): string {
  const { instancePath, keyword, params } = error
  const field =
    instancePath.replace(/^\//, '').replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~') ||
    'the body'
  if (keyword === 'required') return `${String(params.missingProperty)} is required`
  return `${field} ${ruleOf(error)}`
}

/** A rule in words. */
function ruleOf({ keyword, params, message = 'is not as described' }: ErrorObject): string {
  const { limit, type, format, pattern, allowedValues } = params as Readonly<Record<string, unknown>>
  switch (keyword) {
    case 'type':
      return `must be ${[type].flat().map(typeInWords).join(' or ')}`
    case 'enum':
      return `must be one of ${listOf(allowedValues).map(String).join(', ')}`
    case 'minimum':
      return `must be at least ${limit}`
    case 'maximum':
      return `must be at most ${limit}`
    case 'minLength':
      return `must have at least ${limit} characters`
    case 'maxLength':
      return `must have at most ${limit} characters`
    case 'pattern':
      return matchesNumbersOnly(String(pattern)) ? 'must be a number' : message
    case 'format':
      return formatInWords(String(format)) ?? message
    default:
      return message
  }
}

const typesInWords: Readonly<Record<string, string>> = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
}
const typeInWords = (type: unknown): string => ownValue(typesInWords, String(type)) ?? String(type)

function formatInWords(format: string): string | null {
  if (format === 'uuid') return 'must be a UUID such as 123e4567-e89b-12d3-a456-426614174000'
  if (format === 'date-time') return 'must be a date-time such as 2026-01-31T12:00:00Z'
  if (!Object.hasOwn(bounds, format)) return null
  const [least, most] = bounds[format as keyof typeof bounds]
  return `must be from ${least} to ${most}`
}

const wholeNumber = /^-?(?:0|[1-9]\d{0,14})$/

type Parameter = {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required: boolean
  /** Null: nothing is said of its values. */
  readonly schema: string | null
  /** Several values stand in one text, with commas between. */
  readonly isJoined: boolean
}

/** The parameters of the path, which all of its operations have, and those of this operation. */
function parametersAt(document: Node, { item, operation }: Place): readonly Parameter[] {
  return [item, operation].flatMap(({ node: { parameters }, pointer }) =>
    listOf(parameters).flatMap((one, index): Parameter[] => {
      const found =
        isNode(one) && followed(document, { node: one, pointer: `${pointer}/parameters/${index}` })
      if (!found) return []
      const { name, in: place, required, schema, explode } = found.node
      if (typeof name !== 'string' || (place !== 'path' && place !== 'query')) return []
      const schemaAt = isNode(schema) ? `${found.pointer}/schema` : null
      // A comma in a single value, such as an external id, is part of it.
      const takesSeveral = [meant(document, schema)?.type].flat().includes('array')
      const isJoined = takesSeveral && (explode === false || (place === 'path' && explode !== true))
      return [{ name, in: place, required: required === true, schema: schemaAt, isJoined }]
    }),
  )
}

function parameterComplaints(
  complaintsOf: ComplaintsOf,
  described: readonly Parameter[],
  { inPath = {}, query = {} }: CheckedRequest,
): readonly string[] {
  const given = { path: anyCase(inPath), query: anyCase(query) }
  const complaints = described.flatMap(({ name, in: place, required, schema, isJoined }) => {
    const value = given[place].get(name.toLowerCase())
    if (value === undefined) return required ? [`${name} is required`] : []
    if (schema === null) return []
    const values = isJoined ? String(value).split(',') : [value].flat()
    const read = values.map((one) => (wholeNumber.test(String(one)) ? Number(one) : String(one)))
    const holder = { type: 'object', properties: { [name]: { $ref: schema } } }
    return complaintsOf(holder, { [name]: read.length === 1 ? read[0] : read })
  })
  return [...complaints, ...unknownParameters(Object.keys(query), described)]
}

const anyCase = (values: Readonly<Record<string, unknown>>): ReadonlyMap<string, unknown> =>
  new Map(Object.entries(values).map(([name, value]) => [name.toLowerCase(), value]))

/** Complains about parameters that are not described: the upstream would ignore them, and perhaps answer with everything. */
function unknownParameters(names: readonly string[], described: readonly Parameter[]): readonly string[] {
  const known = described.filter((one) => one.in === 'query').map(({ name }) => name)
  const spelt = new Set(known.map((name) => name.toLowerCase()))
  return names
    .filter((name) => !spelt.has(name.toLowerCase()))
    .map((name) => noSuch(name, 'parameter', known))
}
