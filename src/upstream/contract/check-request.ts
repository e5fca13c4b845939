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
  /** Of the path and of the query. */
  readonly parameters: Readonly<Record<string, unknown>>
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
    ...parameterComplaints(validatorOf(document, true), at, request.parameters),
  ]
}

function validatorOf(document: Node, coerceTypes: boolean): Ajv2020 {
  const common = { strict: false, allErrors: true, validateSchema: false, logger: false } as const
  const validator = new Ajv2020({ ...common, coerceTypes, formats })
  validator.addSchema({ ...document, $id: 'contract:' })
  return validator
}

type Place = { readonly operation: Node; readonly pointer: string }

const escaped = (text: string): string => text.replaceAll('~', '~0').replaceAll('/', '~1')

function operationPlace(document: Node, { method, path }: CheckedRequest): Place | null {
  const paths = isNode(document.paths) ? document.paths : {}
  const item = paths[path]
  const operation = isNode(item) ? item[method.toLowerCase()] : null
  if (!isNode(operation)) return null
  return {
    operation,
    pointer: `contract:#/paths/${encodeURIComponent(escaped(path))}/${method.toLowerCase()}`,
  }
}

function bodyComplaints(
  ajv: Ajv2020,
  document: Node,
  { operation, pointer }: Place,
  body: Json | undefined,
): readonly string[] {
  const content =
    isNode(operation.requestBody) && isNode(operation.requestBody.content)
      ? operation.requestBody.content
      : {}
  const type = Object.keys(content).find((name) => /^application\/json\b/i.test(name))
  if (type === undefined || body === undefined) return []
  const schema = `${pointer}/requestBody/content/${encodeURIComponent(escaped(type))}/schema`
  const known = fieldNames(document, content[type])
  // What counts is how the upstream reads it, and that is without regard to case. Exact numbers are told apart by nobody here.
  const plain = respelt(JSON.parse(JSON.stringify(body)), known)
  const validate = ajv.compile({ $ref: schema })
  const complaints = validate(plain) ? [] : (validate.errors ?? []).map(complaintOf)
  return [...new Set(complaints), ...unknownFields(plain, known)]
}

/** The fields of the body, through the references of the description. */
function fieldNames(document: Node, media: unknown): readonly string[] {
  let schema = isNode(media) ? media.schema : null
  for (let steps = 0; isNode(schema) && typeof schema.$ref === 'string' && steps < 10; steps++)
    schema = pointed(document, schema.$ref)
  return isNode(schema) && isNode(schema.properties) ? Object.keys(schema.properties) : []
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
    .map((name) => {
      const [near] = nearest(name, known)
      return `${name} is no field that the upstream describes${near ? `: did you mean ${near}?` : ''}`
    })
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

function parameterComplaints(
  ajv: Ajv2020,
  { operation, pointer }: Place,
  given: CheckedRequest['parameters'],
): readonly string[] {
  const parameters = Array.isArray(operation.parameters) ? operation.parameters : []
  return parameters.flatMap((parameter, index) => {
    if (
      !isNode(parameter) ||
      typeof parameter.name !== 'string' ||
      !['path', 'query'].includes(String(parameter.in))
    )
      return []
    const { name } = parameter
    const value = given[name]
    if (value === undefined) return parameter.required === true ? [`${name} is required`] : []
    if (!isNode(parameter.schema)) return []
    const validate = ajv.compile({
      type: 'object',
      properties: { [name]: { $ref: `${pointer}/parameters/${index}/schema` } },
    })
    const text = String(value)
    return validate({ [name]: wholeNumber.test(text) ? Number(text) : text })
      ? []
      : [...new Set((validate.errors ?? []).map(complaintOf))]
  })
}
