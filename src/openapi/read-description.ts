// Reads an OpenAPI description (3.0, 3.1). What cannot be understood is left to the data, with a remark.

import { holdsComplaints } from '../streams/record.ts'
import { messageOf } from '../util/errors.ts'
import type {
  DescribedField,
  DescribedOperation,
  DescribedParameter,
  Description,
  RecordType,
} from './description.ts'
import { openFieldReader } from './field-says.ts'
import {
  compositions,
  isSchema,
  openReferences,
  partOf,
  partsOf,
  placeOf,
  type Schema,
  schemasIn,
  shortened,
  textOf,
} from './schema.ts'

/** It is no description that can be used. */
export class DescriptionError extends Error {
  override readonly name = 'DescriptionError'
}

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const
// More than any service has; what goes beyond is not read (P10).
const mostOperations = 5_000
const mostTypes = 5_000
const mostFields = 1_000
const mostParameters = 1_000
const mostRemarks = 100

/** Throws a `DescriptionError`. Paths count below the base URL, whatever servers the description names. */
export function readDescription(document: unknown): Description {
  const { openApi, paths } = expectDescription(document)
  try {
    const reader = openReader(document)
    const schemas = partOf(partOf(document, 'components'), 'schemas')
    for (const name of Object.keys(schemas).slice(0, mostTypes))
      typeNamed(reader, { $ref: `#/components/schemas/${escaped(name)}` }, name)
    const operations = Object.entries(paths)
      .slice(0, mostOperations)
      .flatMap(([path, item]) => operationsAt(reader, path, item))
    const named = Math.max(operations.length, Object.keys(paths).length)
    if (named > mostOperations)
      reader.remark(`It names ${named} operations; those above ${mostOperations} are left out.`)
    const info = partOf(document, 'info')
    return {
      title: textOf(info.title) ?? 'without a title',
      version: textOf(info.version) ?? 'without a version',
      openApi,
      operations: operations.slice(0, mostOperations),
      types: Object.fromEntries(reader.types),
      remarks: [...reader.remarks].slice(0, mostRemarks),
    }
  } catch (cause) {
    throw new DescriptionError(`it cannot be read (${messageOf(cause).slice(0, 200)})`, { cause })
  }
}

/** Escapes a name as a part of a JSON pointer. */
const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

function expectDescription(document: unknown): { readonly openApi: string; readonly paths: Schema } {
  if (!isSchema(document)) throw new DescriptionError('it is not a JSON object')
  const openApi = textOf(document.openapi)
  if (textOf(document.swagger) !== null)
    throw new DescriptionError(`it is of Swagger ${document.swagger}; OpenAPI 3.0 or 3.1 is needed`)
  if (openApi === null) throw new DescriptionError('it does not say which OpenAPI it is of (`openapi`)')
  if (!/^3\.[01]\./.test(`${openApi}.`))
    throw new DescriptionError(`it is of OpenAPI ${openApi.slice(0, 20)}; 3.0 or 3.1 is needed`)
  if (!isSchema(document.paths) || Object.keys(document.paths).length === 0)
    throw new DescriptionError('it names no operations (`paths`)')
  return { openApi, paths: document.paths }
}

type Reader = ReturnType<typeof openReader>

function openReader(document: unknown) {
  const remarks = new Set<string>()
  const remark = (text: string) => {
    remarks.add(text)
  }
  const follow = openReferences(document, remark)
  return {
    follow,
    fieldSays: openFieldReader(follow),
    /** The name of the component that a reference means; null: it means none, or is none. */
    nameOf(schema: unknown): string | null {
      const $ref = isSchema(schema) ? schema.$ref : null
      const [, name] = typeof $ref === 'string' ? (/^#\/components\/schemas\/([^/]+)$/.exec($ref) ?? []) : []
      return name ?? null
    },
    types: new Map<string, RecordType>(),
    /** The fields of each schema that was looked at; null also for one that is being looked at. */
    fields: new Map<unknown, readonly DescribedField[] | null>(),
    remarks,
    remark,
  }
}

function operationsAt(reader: Reader, path: string, given: unknown): readonly DescribedOperation[] {
  const item = reader.follow(given)
  if (item === null || !path.startsWith('/')) return []
  return methods.flatMap((method) => {
    const operation = item[method]
    if (!isSchema(operation)) return []
    const name = `${method.toUpperCase()} ${path}`
    const body = reader.follow(operation.requestBody ?? {})
    const bodyIs = bodyKind(body)
    return [
      {
        method: method.toUpperCase(),
        path,
        summary: textOf(operation.summary) ?? textOf(operation.description),
        parameters: parametersOf(reader, [...schemasIn(item.parameters), ...schemasIn(operation.parameters)]),
        takes: bodyOf(reader, name, body),
        ...(bodyIs !== null && { bodyIs }),
        answers: answerOf(reader, name, operation),
      },
    ]
  })
}

function parametersOf(reader: Reader, given: readonly unknown[]): readonly DescribedParameter[] {
  const parameters = given.slice(0, mostParameters).flatMap((one): readonly DescribedParameter[] => {
    const parameter = reader.follow(one)
    const [name, where] = [textOf(parameter?.name), textOf(parameter?.in)]
    if (parameter === null || name === null || where === null) return []
    const { says, bounds } = reader.fieldSays(parameter.schema ?? {})
    return [{ name, in: where, says, bounds, isRequired: parameter.required === true || where === 'path' }]
  })
  // A parameter of the operation replaces the one of its path.
  return [...new Map(parameters.map((one) => [`${one.in} ${one.name}`, one])).values()]
}

function bodyOf(reader: Reader, name: string, body: Schema | null): string | null {
  const schema = schemaIn(body)
  return schema === null ? null : typeNamed(reader, schema, `${name} (body)`)
}

function answerOf(reader: Reader, name: string, { responses }: Schema): DescribedOperation['answers'] {
  const success = Object.entries(isSchema(responses) ? responses : {}).find(([status]) =>
    /^2(?:\d\d|XX)$/i.test(status),
  )
  const schema = schemaIn(reader.follow(success?.[1] ?? {}))
  if (schema === null) return null
  const items = itemsOf(reader, schema)
  const type = typeNamed(reader, items ?? schema, name)
  return type === null ? null : { type, isList: items !== null }
}

/** A list, or an object with one list in it besides complaints, as the records of an answer are read. */
function itemsOf(reader: Reader, schema: unknown): unknown {
  const parts = partsOf(reader.follow, schema, onlyOne)
  const items = listedIn(parts)
  if (items !== undefined) return items
  const properties = new Map(parts.flatMap((part) => Object.entries(partOf(part, 'properties'))))
  const lists = [...properties].flatMap(([name, property]) => {
    const listed = holdsComplaints(name) ? undefined : listedIn(partsOf(reader.follow, property, onlyOne))
    return listed === undefined ? [] : [listed]
  })
  // A record may have lists in it; what wraps one has little else.
  return lists.length === 1 && properties.size <= mostWrapperFields ? lists[0] : null
}
const mostWrapperFields = 8

const listedIn = (parts: readonly Schema[]): unknown => parts.find(({ items }) => items !== undefined)?.items

/** Of alternatives the only one besides null. */
const onlyOne = (schemas: readonly unknown[]): readonly unknown[] => {
  const others = schemas.filter((one) => !isSchema(one) || one.type !== 'null')
  return others.length === 1 ? others : []
}

/** JSON first, then a form, then whatever there is. */
function bestIn(holder: Schema | null): readonly [string, unknown] | null {
  const content = Object.entries(partOf(holder, 'content'))
  const [best] = [/^application\/json\b/i, /json\b/i, urlEncoded, /./].flatMap((wanted) =>
    content.filter(([type]) => wanted.test(type)),
  )
  return best ?? null
}
const urlEncoded = /^application\/x-www-form-urlencoded\b/i

function schemaIn(holder: Schema | null): unknown {
  const [, media] = bestIn(holder) ?? []
  return isSchema(media) ? (media.schema ?? null) : null
}

function bodyKind(body: Schema | null): NonNullable<DescribedOperation['bodyIs']> | null {
  const [type] = bestIn(body) ?? []
  if (type === undefined) return null
  if (urlEncoded.test(type)) return 'form'
  return /^multipart\//i.test(type) ? 'multipart' : 'json'
}

/** The name under which the type is kept; null for what has no fields. */
function typeNamed(reader: Reader, schema: unknown, otherwise: string): string | null {
  const name = reader.nameOf(schema) ?? otherwise
  if (reader.types.has(name)) return name
  const fields = fieldsOf(reader, schema, name)
  if (fields === null) return null
  const describe = textOf(reader.follow(schema)?.description)
  reader.types.set(name, { name, describe, fields })
  return name
}

/** The fields of all parts that the schema is composed of; null when it has none. */
function fieldsOf(reader: Reader, given: unknown, type: string): readonly DescribedField[] | null {
  const place = placeOf(given)
  const known = reader.fields.get(place)
  if (known !== undefined) return known
  reader.fields.set(place, null)
  const fields = composedFields(reader, reader.follow(given), type)
  reader.fields.set(place, fields)
  return fields
}

function composedFields(
  reader: Reader,
  schema: Schema | null,
  type: string,
): readonly DescribedField[] | null {
  if (schema === null) return null
  const parts = schemasIn(schema.allOf).flatMap((part) => fieldsOf(reader, part, type) ?? [])
  const own = isSchema(schema.properties) ? schema.properties : null
  if (own === null && parts.length === 0) return null
  const required = new Set(schemasIn(schema.required))
  const entries = Object.entries(own ?? {}).slice(0, mostFields)
  const fields = entries.map(([name, property]): DescribedField => {
    const { conflict, ...said } = reader.fieldSays(property)
    if (conflict !== null) reader.remark(`${type}.${shortened(name)}: ${conflict}. The data decide.`)
    return { name, ...said, isRequired: required.has(name), holds: heldType(reader, property) }
  })
  return withoutRepetition(reader, type, [...parts, ...fields]).slice(0, mostFields)
}

/** The named type behind a field: its own, that of its items, or that of the one part that has a name. */
function heldType(reader: Reader, property: unknown): string | null {
  const own = reader.nameOf(property)
  if (own !== null || !isSchema(property)) return own
  const parts = [property.items, ...compositions.flatMap((how) => schemasIn(property[how]))]
  const names = parts.flatMap((part) => reader.nameOf(part) ?? [])
  return names.length === 1 ? (names[0] ?? null) : null
}

/** Fields whose names differ only in case are one field, and can only be of one kind. */
function withoutRepetition(
  reader: Reader,
  type: string,
  fields: readonly DescribedField[],
): readonly DescribedField[] {
  const known = new Map<string, DescribedField>()
  for (const field of fields) {
    const folded = field.name.toLowerCase()
    const other = known.get(folded)
    if (other && other.kind !== field.kind) {
      reader.remark(`${type}.${field.name}: it is ${other.says} and ${field.says}. The data decide.`)
      known.set(folded, { ...field, kind: null })
    } else known.set(folded, field)
  }
  return [...known.values()]
}
