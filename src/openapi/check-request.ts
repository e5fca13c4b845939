// Whether a request is one that the upstream describes: its body and its parameters, checked against the description before anything is
// sent. Each complaint names the field and the rule.

import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'
import { type Json, ownValue } from '../json/json.ts'
import { isUuid } from '../streams/record.ts'
import { nearest } from '../util/text.ts'
import { asJsonSchema, documentName } from './json-schema.ts'
import {
  compositions,
  type Follow,
  isSchema,
  openReferences,
  partOf,
  partsOf,
  type Schema,
  schemasIn,
} from './schema.ts'

export type CheckedRequest = {
  readonly method: string
  /** The path as the description spells it. */
  readonly path: string
  readonly body?: Json
  /** Values by the names that the description uses. */
  readonly inPath?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
}

const integer = (least: number, most: number) => ({
  type: 'number' as const,
  validate: (value: number) => value >= least && value <= most,
  says: `from ${least} to ${most}`,
})

/** Formats that are checked. All others are left to the upstream. */
const formats = {
  uint8: integer(0, 255),
  int16: integer(-32_768, 32_767),
  int32: integer(-2_147_483_648, 2_147_483_647),
  uuid: { validate: isUuid, says: 'a UUID such as 123e4567-e89b-12d3-a456-426614174000' },
  'date-time': {
    validate: (text: string) => !Number.isNaN(Date.parse(text)),
    says: 'a date-time such as 2026-01-31T12:00:00Z',
  },
  byte: {
    validate: (text: string) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
    says: 'base64: A–Z, a–z, 0–9, + and / in groups of four, the last filled up with =',
  },
}

/** Returns the complaints. None if all is as described, or nothing is described, or the description cannot be read. */
export function checkRequest(
  document: unknown,
  request: CheckedRequest,
  onUnreadable: (error: unknown) => void = () => {},
): readonly string[] {
  const follow = openReferences(document)
  const item = follow(partOf(partOf(document, 'paths'), request.path)) ?? {}
  const operation = item[request.method.toLowerCase()]
  if (!isSchema(operation)) return []
  // Values in an address or a form are texts: they are taken for what they look like.
  const by = {
    values: complaintsOf(document, false, onUnreadable),
    texts: complaintsOf(document, 'array', onUnreadable),
  }
  const parameters = parametersOf(follow, [item, operation])
  return [
    ...bodyComplaints(by, follow, operation, request.body),
    ...parameterComplaints(by.texts, parameters, request),
  ]
}

/** Says what is wrong with a value, by a schema of the description. */
type ComplaintsOf = (schema: unknown, value: unknown) => readonly string[]
type Checks = { readonly values: ComplaintsOf; readonly texts: ComplaintsOf }

function complaintsOf(
  document: unknown,
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
  let ajv: Ajv2020 | null = null
  const opened = () => {
    const validator = new Ajv2020({ ...common, coerceTypes, formats, multipleOfPrecision: 6 })
    return validator.addSchema({ ...(asJsonSchema(document) as Schema), $id: documentName })
  }
  return (schema, value) => {
    try {
      ajv ??= opened()
      const validate = ajv.compile(asJsonSchema(schema) as Schema)
      return validate(value) ? [] : [...new Set((validate.errors ?? []).map(complaintOf))]
    } catch (error) {
      onUnreadable(error)
      return []
    }
  }
}

const formType = /^application\/x-www-form-urlencoded\b/i

function bodyComplaints(
  by: Checks,
  follow: Follow,
  { requestBody }: Schema,
  body: Json | undefined,
): readonly string[] {
  const content = partOf(follow(requestBody), 'content')
  const [type] = [/^application\/json\b/i, formType].flatMap((wanted) =>
    Object.keys(content).filter((name) => wanted.test(name)),
  )
  if (type === undefined || body === undefined) return []
  const { schema } = partOf(content, type)
  // The upstream reads field names without regard to case, so they are respelt first. The checker does not need exact numbers.
  const plain = respelt(follow, schema, JSON.parse(JSON.stringify(body)))
  const complaints = formType.test(type) ? by.texts(schema, readTexts(plain)) : by.values(schema, plain)
  return [...complaints, ...unknownFields(plain, fieldNames(follow(schema) ?? {}))]
}

/** The fields of the body; none where it may have others. */
function fieldNames(schema: Schema): readonly string[] {
  const { properties, patternProperties, additionalProperties } = schema
  const mayHaveOthers =
    isSchema(additionalProperties) || additionalProperties === true || patternProperties !== undefined
  return mayHaveOthers || compositions.some((how) => how in schema)
    ? []
    : Object.keys(isSchema(properties) ? properties : {})
}

/** With the names of fields as they are described, also of fields inside fields. */
function respelt(follow: Follow, given: unknown, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const parts = partsOf(follow, given)
  if (Array.isArray(value)) {
    const items = parts.find((part) => part.items !== undefined)?.items
    return items === undefined ? value : value.map((one) => respelt(follow, items, one))
  }
  const described = parts.flatMap((part) => Object.entries(partOf(part, 'properties')))
  const known = new Map(described.map(([name, schema]) => [name.toLowerCase(), { name, schema }]))
  return Object.fromEntries(
    Object.entries(value).map(([name, held]) => {
      const field = known.get(name.toLowerCase())
      return field ? [field.name, respelt(follow, field.schema, held)] : [name, held]
    }),
  )
}

function unknownFields(body: unknown, known: readonly string[]): readonly string[] {
  if (!isSchema(body) || known.length === 0) return []
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
  const { limit, type, format, allowedValues } = params as Readonly<Record<string, unknown>>
  const limited = ownValue(limitsInWords, keyword)
  if (limited !== undefined) return `must ${limited.replace('N', String(limit))}`
  if (keyword === 'type') return `must be ${[type].flat().map(typeInWords).join(' or ')}`
  if (keyword === 'enum') return `must be one of ${schemasIn(allowedValues).map(String).join(', ')}`
  if (keyword === 'pattern') return 'must be a number'
  const known = keyword === 'format' && ownValue(formats, String(format))
  return known ? `must be ${known.says}` : message
}

const limitsInWords: Readonly<Record<string, string>> = {
  minimum: 'be at least N',
  maximum: 'be at most N',
  minLength: 'have at least N characters',
  maxLength: 'have at most N characters',
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

const wholeNumber = /^-?(?:0|[1-9]\d{0,14})$/
const readText = (value: unknown): unknown =>
  wholeNumber.test(String(value)) ? Number(value) : String(value)
/** Fields that are null are not sent. */
const readTexts = (form: unknown): unknown =>
  isSchema(form)
    ? Object.fromEntries(
        Object.entries(form)
          .filter(([, value]) => value !== null)
          .map(([name, value]) => [name, Array.isArray(value) ? value.map(readText) : readText(value)]),
      )
    : form

type Parameter = {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required: boolean
  /** Undefined: nothing is said of its values. */
  readonly schema: unknown
}

/** The parameters of the path, which all of its operations have, and those of this operation. */
const parametersOf = (follow: Follow, holders: readonly Schema[]): readonly Parameter[] =>
  holders
    .flatMap(({ parameters }) => schemasIn(parameters))
    .flatMap((one): Parameter[] => {
      const { name, in: place, required, schema } = follow(one) ?? {}
      if (typeof name !== 'string' || (place !== 'path' && place !== 'query')) return []
      return [{ name, in: place, required: required === true, schema }]
    })

function parameterComplaints(
  complaintsOf: ComplaintsOf,
  described: readonly Parameter[],
  { inPath = {}, query = {} }: CheckedRequest,
): readonly string[] {
  const given = { path: anyCase(inPath), query: anyCase(query) }
  const complaints = described.flatMap(({ name, in: place, required, schema }) => {
    const value = given[place].get(name.toLowerCase())
    if (value === undefined) return required ? [`${name} is required`] : []
    if (!isSchema(schema)) return []
    const read = [value].flat().map(readText)
    const holder = { type: 'object', properties: { [name]: schema } }
    return complaintsOf(holder, { [name]: read.length === 1 ? read[0] : read })
  })
  return [...complaints, ...unknownParameters(Object.keys(query), described)]
}

const anyCase = (values: Readonly<Record<string, unknown>>): ReadonlyMap<string, unknown> =>
  new Map(Object.entries(values).map(([name, value]) => [name.toLowerCase(), value]))

/** Complains about parameters that are not described: the upstream would ignore them, and perhaps answer with everything. */
function unknownParameters(names: readonly string[], described: readonly Parameter[]): readonly string[] {
  const known = described.filter((one) => one.in === 'query').map(({ name }) => name)
  const spelt = anyCase(Object.fromEntries(known.map((name) => [name, name])))
  return names
    .filter((name) => !spelt.has(name.toLowerCase()))
    .map((name) => noSuch(name, 'parameter', known))
}
