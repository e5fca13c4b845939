// Whether a request is one that the upstream describes: its body and its parameters, checked against the description before anything is
// sent. Each complaint names the field and the rule.

import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'
import type { Json } from '../../json/json.ts'
import { isUuid } from '../../streams/record.ts'
import { nearest } from '../../util/text.ts'

type Node = { readonly [name: string]: unknown }
const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export type CheckedRequest = {
  readonly method: string
  /** As the description spells it. */
  readonly path: string
  readonly body?: Json
  /** By the names of the description. */
  readonly inPath?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
}

const bounds = { uint8: [0, 255], int16: [-32_768, 32_767], int32: [-2_147_483_648, 2_147_483_647] } as const

/** Formats that a mistake shows by; all others are what the upstream says of them. */
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

/** Nothing when all is as described, or nothing is described. */
export function checkRequest(document: unknown, request: CheckedRequest): readonly string[] {
  if (!isNode(document)) return []
  const at = operationPlace(document, request)
  if (at === null) return []
  return [
    ...bodyComplaints(validatorOf(document, false), document, at, request.body),
    // What is written in an address is text, and meant as what it looks like.
    ...parameterComplaints(validatorOf(document, true), parametersAt(document, at), request),
  ]
}

function validatorOf(document: Node, coerceTypes: boolean): Ajv2020 {
  const common = { strict: false, allErrors: true, validateSchema: false, logger: false } as const
  const validator = new Ajv2020({ ...common, coerceTypes, formats })
  validator.addSchema({ ...document, $id: 'contract:' })
  return validator
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

/** What it refers to, if it is a reference. */
function followed(document: Node, { node, pointer }: At): At | null {
  const { $ref } = node
  if (typeof $ref !== 'string') return { node, pointer }
  const target = pointed(document, $ref)
  return isNode(target) ? { node: target, pointer: `contract:${$ref}` } : null
}

function bodyComplaints(
  ajv: Ajv2020,
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
  if (!described || type === undefined || body === undefined) return []
  const schema = `${described.pointer}/content/${encodeURIComponent(escaped(type))}/schema`
  const known = fieldNames(document, content[type])
  // What counts is how the upstream reads it, and that is without regard to case. Exact numbers are told apart by nobody here.
  const plain = respelt(JSON.parse(JSON.stringify(body)), known)
  const validate = ajv.compile({ $ref: schema })
  const complaints = validate(plain) ? [] : (validate.errors ?? []).map(complaintOf)
  return [...new Set(complaints), ...unknownFields(plain, known)]
}

/** The fields of the body, through the references of the description; none where it may have others. */
function fieldNames(document: Node, media: unknown): readonly string[] {
  let schema = isNode(media) ? media.schema : null
  for (let steps = 0; isNode(schema) && typeof schema.$ref === 'string' && steps < 10; steps++)
    schema = pointed(document, schema.$ref)
  if (!isNode(schema) || ['allOf', 'anyOf', 'oneOf'].some((name) => name in Object(schema))) return []
  return isNode(schema.properties) ? Object.keys(schema.properties) : []
}

function pointed(document: Node, $ref: string): unknown {
  if (!$ref.startsWith('#/')) return null
  let at: unknown = document
  for (const part of $ref.slice(2).split('/'))
    at = isNode(at) ? at[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')] : null
  return at
}

function respelt(body: unknown, known: readonly string[]): unknown {
  if (!isNode(body) || known.length === 0) return body
  const spelling = new Map(known.map((name) => [name.toLowerCase(), name]))
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [spelling.get(name.toLowerCase()) ?? name, value]),
  )
}

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

function complaintOf({
  instancePath,
  keyword,
  message = 'is not as described',
  params,
}: ErrorObject): string {
  const field =
    instancePath.replace(/^\//, '').replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~') ||
    'the body'
  if (keyword === 'required') return `${String(params.missingProperty)} is required`
  if (keyword === 'enum')
    return `${field} must be one of ${(params.allowedValues as readonly unknown[]).map(String).join(', ')}`
  return `${field} ${message}`
}

const wholeNumber = /^-?(?:0|[1-9]\d{0,14})$/

type Parameter = {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required: boolean
  /** Empty: nothing is said of its values. */
  readonly schema: string | null
}

/** Those of all operations of the path, and of this one. */
function parametersAt(document: Node, { item, operation }: Place): readonly Parameter[] {
  return [item, operation].flatMap(({ node: { parameters }, pointer }) =>
    (Array.isArray(parameters) ? parameters : []).flatMap((one: unknown, index): Parameter[] => {
      const found =
        isNode(one) && followed(document, { node: one, pointer: `${pointer}/parameters/${index}` })
      if (!found) return []
      const { name, in: place, required, schema } = found.node
      if (typeof name !== 'string' || (place !== 'path' && place !== 'query')) return []
      const schemaAt = isNode(schema) ? `${found.pointer}/schema` : null
      return [{ name, in: place, required: required === true, schema: schemaAt }]
    }),
  )
}

function parameterComplaints(
  ajv: Ajv2020,
  described: readonly Parameter[],
  { inPath = {}, query = {} }: CheckedRequest,
): readonly string[] {
  const given = { path: anyCase(inPath), query: anyCase(query) }
  const complaints = described.flatMap(({ name, in: place, required, schema }) => {
    const value = given[place].get(name.toLowerCase())
    if (value === undefined) return required ? [`${name} is required`] : []
    if (schema === null) return []
    const validate = ajv.compile({ type: 'object', properties: { [name]: { $ref: schema } } })
    const text = String(value)
    return validate({ [name]: wholeNumber.test(text) ? Number(text) : text })
      ? []
      : [...new Set((validate.errors ?? []).map(complaintOf))]
  })
  return [...complaints, ...unknownParameters(Object.keys(query), described)]
}

const anyCase = (values: Readonly<Record<string, unknown>>): ReadonlyMap<string, unknown> =>
  new Map(Object.entries(values).map(([name, value]) => [name.toLowerCase(), value]))

/** An upstream leaves out what it does not know, and then answers with everything. */
function unknownParameters(names: readonly string[], described: readonly Parameter[]): readonly string[] {
  const known = described.filter((one) => one.in === 'query').map(({ name }) => name)
  const spelt = new Set(known.map((name) => name.toLowerCase()))
  return names
    .filter((name) => !spelt.has(name.toLowerCase()))
    .map((name) => noSuch(name, 'parameter', known))
}
