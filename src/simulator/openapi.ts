// The description that the service serves of itself, in the form that ASP.NET generates: OpenAPI 3.1, written from the
// tables of routes and fields that requests are answered from.

import { type Answer, json } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import { camelCase, type Field, type Schema } from './fields.ts'
import type { Parameter } from './parameters.ts'
import { servedVersionFields } from './rendering.ts'
import type { ResourceName } from './resources.ts'
import { type Route, routes } from './routes.ts'
import type { Tables } from './writes.ts'

type Json = { readonly [name: string]: unknown }

/** The others do not describe themselves. */
type DescribedService = 'assignment' | 'tracking'

export function openApi(
  service: DescribedService,
  tables: Tables,
  behaviour: Behaviour,
  baseUrl: string,
): Answer {
  const described = routes.filter(
    (route) => route.service === service && (!route.isExtra || behaviour.moreLists),
  )
  const paths: Record<string, Record<string, Json>> = {}
  for (const route of described) {
    const operations = paths[route.path] ?? {}
    operations[route.method.toLowerCase()] = operation(route, tables)
    paths[route.path] = operations
  }
  const document = {
    openapi: '3.1.1',
    info: { title: `${titles[service]} | v1`, version: '1.0.0' },
    servers: [{ url: `${baseUrl}/` }],
    paths,
    components: { schemas: schemas(service, tables, behaviour) },
    tags: [...new Set(described.map(tagOf))].map((name) => ({ name })),
  }
  return { ...json(200, document), contentType: 'application/json;charset=utf-8' }
}

const titles: Readonly<Record<DescribedService, string>> = {
  assignment: 'AssignmentService',
  tracking: 'TrackingService',
}

const tagOf = ({ segments }: Route) => segments[1] ?? ''
const inParts = (value: unknown) => ({
  'text/plain': { schema: value },
  'application/json': { schema: value },
  'text/json': { schema: value },
})
const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` })

const reasons: Readonly<Record<number, string>> = { 200: 'OK', 201: 'Created', 204: 'No Content' }

function operation(route: Route, tables: Tables): Json {
  const { service, summary, parameters, body, isForm, answers, isArray, status } = route
  const schema =
    answers && reference(answers === 'extended' ? 'AssignmentExtended' : tables[answers].resource.schema.name)
  const answer = isArray ? { type: 'array', items: schema } : schema
  return {
    tags: [tagOf(route)],
    summary,
    parameters: [...parameters.map(parameter), ...(service === 'assignment' ? [clientHeader] : [])],
    ...(body && { requestBody: isForm ? formBody(tables[body].resource.schema) : jsonBody(body, tables) }),
    responses: { [status]: { description: reasons[status], ...(schema && { content: inParts(answer) }) } },
  }
}

const clientHeader = { name: 'clientId', in: 'header', schema: { type: 'string', format: 'uuid' } }

function jsonBody(name: ResourceName, tables: Tables): Json {
  const schema = reference(tables[name].resource.schema.name)
  const types = ['application/json', 'text/json', 'application/*+json']
  return { content: Object.fromEntries(types.map((type) => [type, { schema }])), required: true }
}

/** ASP.NET describes the body of a form by the last field it saw. */
function formBody({ fields }: Schema): Json {
  const properties = fields.map((field) => {
    const { type, description: _, ...rest } = fieldSchema({ ...field, isNullable: false })
    // In a form the types of the owner's and the registrar's ids are known, their lengths are not.
    const { maxLength, minLength, ...unbounded } = rest as Json
    const isBound = maxLength !== undefined && !/^(?:Reg|Owner)/.test(field.name)
    return [field.name, { type, ...unbounded, ...(isBound && { maxLength, minLength }) }]
  })
  const last = fields.at(-1)?.describe
  const schema = {
    type: 'object',
    properties: { ...Object.fromEntries(properties), ClientUid: { type: 'string', format: 'uuid' } },
  }
  return {
    ...(last && { description: last }),
    content: { 'application/x-www-form-urlencoded': { schema } },
    required: true,
  }
}

const integerPattern = '^-?(?:0|[1-9]\\d*)$'
const decimalPattern = '^-?(?:0|[1-9]\\d*)(?:\\.\\d+)?$'
const doublePattern = '^-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?$'
const greatest = 2_147_483_647

function parameter({ name, in: where, type, describe, minimum, default: initial }: Parameter): Json {
  const number = { pattern: integerPattern, type: ['integer', 'string'], format: type }
  const bounds = minimum === undefined ? {} : { maximum: greatest, minimum }
  const schema =
    type === 'string' || type === 'boolean'
      ? { type, ...(initial !== undefined && { default: initial }) }
      : { ...bounds, ...number }
  return {
    name,
    in: where,
    ...(describe && { description: describe }),
    ...(where === 'path' && { required: true }),
    schema,
  }
}

const formats: Partial<Record<Field['type'], Json>> = {
  uint8: { pattern: integerPattern, types: ['integer', 'string'], format: 'uint8' },
  int16: { pattern: integerPattern, types: ['integer', 'string'], format: 'int16' },
  int32: { pattern: integerPattern, types: ['integer', 'string'], format: 'int32' },
  int64: { pattern: integerPattern, types: ['integer', 'string'], format: 'int64' },
  double: { pattern: doublePattern, types: ['number', 'string'], format: 'double' },
  decimal: { pattern: decimalPattern, types: ['number', 'string'], format: 'double' },
  boolean: { types: ['boolean'] },
  dateTime: { types: ['string'], format: 'date-time' },
  uuid: { types: ['string'], format: 'uuid' },
  bytes: { types: ['string'], format: 'byte' },
  url: { types: ['string'], format: 'uri' },
}

function fieldSchema({ type, isNullable, maxLength, describe }: Field): Json {
  if (type === 'any') return {}
  if (type === 'record') return { oneOf: [{ type: 'null' }, reference('TblEmployee')] }
  const { types = ['string'], ...format } = formats[type] ?? {}
  const all = [...(isNullable ? ['null'] : []), ...(types as string[])]
  return {
    ...(maxLength !== null && { maxLength, minLength: 0 }),
    type: all.length === 1 ? all[0] : all,
    ...format,
    ...(describe && { description: describe }),
  }
}

const groups: readonly (readonly [name: string, schema: string, describe: string])[] = [
  ['employee', 'TblEmployee', 'Participants of the assignment.'],
  ['assignmentProduct', 'TblAssignmentProduct', 'Products.'],
  ['assignmentService', 'TblAssignmentService', 'Services.'],
  ['assignmentQualityControl', 'TblAssignmentQualityControl', 'Quality controls.'],
  ['attachment', 'TblAttachment', 'Attachments.'],
  ['assignmentNote', 'TblAssignmentNote', 'Notes.'],
  ['assignmentObject', 'TblAssignmentObject', 'Objects.'],
]

const extendedSchema: Json = {
  type: 'object',
  properties: {
    assignment: { description: 'The assignment.', ...reference('TblAssignment') },
    customer: {
      oneOf: [{ type: 'null' }, { description: 'Customer of the assignment.', ...reference('TblCustomer') }],
    },
    ...Object.fromEntries(
      groups.map(([name, schema, description]) => [
        name,
        { type: ['null', 'array'], items: reference(schema), description },
      ]),
    ),
  },
  description: 'An assignment with its related records.',
}

/** What the constructor or an attribute demands of a record type. */
const requiredFields: Readonly<Record<string, readonly string[]>> = {
  WebhookDefinition: ['webhookDefinitionId', 'name', 'description'],
  WebhookSubscription: ['url'],
}

function schemas(service: DescribedService, tables: Tables, behaviour: Behaviour): Json {
  const { counters, legacy } = servedVersionFields(behaviour)
  const served = [...counters, legacy]
  const isServed = ({ name }: Field) => !/^(?:Sys)?RowVersion$/.test(name) || served.includes(name)
  const cased = (name: string) => (behaviour.casing === 'camel' ? camelCase(name) : name)
  const described = Object.values(tables)
    .filter(({ resource }) => (resource.name === 'tracker_object') === (service === 'tracking'))
    .map(({ resource: { schema } }) => {
      const properties = schema.fields
        .filter(isServed)
        .map((field) => [cased(field.name), fieldSchema(field)])
      const required = requiredFields[schema.name]
      return [
        schema.name,
        {
          ...(required && { required: required.map((name) => name) }),
          type: 'object',
          properties: Object.fromEntries(properties),
          ...(schema.describe && { description: schema.describe }),
        },
      ] as const
    })
  const extended = service === 'assignment' ? [['AssignmentExtended', extendedSchema] as const] : []
  return Object.fromEntries([...extended, ...described].sort(byName))
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) => (a < b ? -1 : 1)
