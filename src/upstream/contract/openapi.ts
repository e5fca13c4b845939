// Reads an OpenAPI description (3.0, 3.1) into a contract. References lead inside the document only: nothing is fetched for one. What
// cannot be understood is left to the data, with a remark.

import { $RefParser } from '@apidevtools/json-schema-ref-parser'
import { ownValue } from '../../json/json.ts'
import type {
  Contract,
  ContractField,
  ContractOperation,
  ContractParameter,
  RecordType,
} from '../../streams/contract.ts'
import { holdsComplaints } from '../../streams/record.ts'
import { messageOf } from '../../util/errors.ts'
import { sentence } from '../../util/text.ts'
import { type Follow, openFieldReader, placeOf, type Said, type Schema, schemasIn } from './field-says.ts'

/** It is no description that can be used. */
export class ContractError extends Error {
  override readonly name = 'ContractError'
}

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const textOf = (value: unknown): string | null =>
  typeof value === 'string' && value.trim() !== '' ? value.trim() : null

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const
// More than any service has; what goes beyond is not read (P10).
const mostOperations = 5_000
const mostTypes = 5_000
const mostFields = 1_000
const mostParameters = 1_000
const mostSteps = 50
const mostRemarks = 100

/** Rejects with `ContractError`. `basePath` is the path of the base URL, below which everything is asked for. */
export async function readContract(document: unknown, basePath = ''): Promise<Contract> {
  const { openApi, paths } = expectDescription(document)
  try {
    const reader = await openReader(document)
    await checkRules(reader, document)
    const components = isObject(document) && isObject(document.components) ? document.components.schemas : {}
    for (const name of Object.keys(isObject(components) ? components : {}).slice(0, mostTypes))
      typeNamed(reader, { $ref: `#/components/schemas/${escaped(name)}` }, name)
    const prefix = serverPath(document, basePath)
    const operations = Object.entries(paths)
      .slice(0, mostOperations)
      .flatMap(([path, item]) => operationsAt(reader, path, item))
      .map((one) => (prefix === '' ? one : { ...one, path: `${prefix}${one.path}`, describedPath: one.path }))
    const named = Math.max(operations.length, Object.keys(paths).length)
    if (named > mostOperations)
      reader.remark(`It names ${named} operations; those above ${mostOperations} are left out.`)
    return {
      title: textOf(infoOf(document).title) ?? 'without a title',
      version: textOf(infoOf(document).version) ?? 'without a version',
      openApi,
      operations: operations.slice(0, mostOperations),
      types: Object.fromEntries(reader.types),
      remarks: [...reader.remarks].slice(0, mostRemarks),
    }
  } catch (cause) {
    throw new ContractError(`it cannot be read (${messageOf(cause).slice(0, 200)})`, { cause })
  }
}

/** Escapes a name as a part of a JSON pointer. */
const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1')

const infoOf = (document: unknown): Schema =>
  isObject(document) && isObject(document.info) ? document.info : {}

/** The beginning of each path that the description's first server adds and the base URL lacks, e.g. `/api`. */
function serverPath(document: unknown, basePath: string): string {
  const [server] = schemasIn(isObject(document) ? document.servers : null)
  const url = isObject(server) ? textOf(server.url) : null
  if (!isObject(server) || url === null) return ''
  const variables = isObject(server.variables) ? server.variables : {}
  const filled = url.replaceAll(/\{([^{}]+)\}/g, (_, name: string) => {
    const variable = variables[name]
    return (isObject(variable) ? textOf(variable.default) : null) ?? ''
  })
  if (!URL.canParse(filled, 'http://localhost/')) return ''
  const path = new URL(filled, 'http://localhost/').pathname.replace(/(?<!\/)\/+$/, '')
  const base = basePath.replace(/(?<!\/)\/+$/, '')
  const isBelow = path.toLowerCase().startsWith(base.toLowerCase())
  return isBelow ? path.slice(base.length) : ''
}

function expectDescription(document: unknown): { readonly openApi: string; readonly paths: Schema } {
  if (!isObject(document)) throw new ContractError('it is not a JSON object')
  const openApi = textOf(document.openapi)
  if (textOf(document.swagger) !== null)
    throw new ContractError(`it is of Swagger ${document.swagger}; OpenAPI 3.0 or 3.1 is needed`)
  if (openApi === null) throw new ContractError('it does not say which OpenAPI it is of (`openapi`)')
  if (!/^3\.[01]\./.test(`${openApi}.`))
    throw new ContractError(`it is of OpenAPI ${openApi.slice(0, 20)}; 3.0 or 3.1 is needed`)
  if (!isObject(document.paths) || Object.keys(document.paths).length === 0)
    throw new ContractError('it names no operations (`paths`)')
  return { openApi, paths: document.paths }
}

type Reader = {
  readonly follow: Follow
  readonly fieldSays: (schema: unknown) => Said
  /** The name of the component that a reference means; null: it means none, or is none. */
  readonly nameOf: (schema: unknown) => string | null
  readonly types: Map<string, RecordType>
  /** The fields of each schema that was looked at; null also for one that is being looked at. */
  readonly fields: Map<unknown, readonly ContractField[] | null>
  readonly remarks: Set<string>
  remark(text: string): void
}

async function openReader(document: unknown): Promise<Reader> {
  const parser = new $RefParser()
  await parser.resolve(document as object, { resolve: { external: false, file: false, http: false } })
  const refs = parser.$refs
  const remarks = new Set<string>()
  const remark = (text: string) => {
    remarks.add(text)
  }
  const follow: Follow = (given) => {
    let schema = given
    const beside: Schema[] = []
    const seen = new Set<string>()
    while (isObject(schema) && typeof schema.$ref === 'string') {
      const { $ref, ...rest } = schema
      const isEndless = seen.has($ref) || seen.size >= mostSteps
      if (!$ref.startsWith('#') || isEndless) {
        remark(
          isEndless
            ? `The reference ${shortened($ref)} leads in a circle, or over more than ${mostSteps} others.`
            : `The reference ${shortened($ref)} leads out of the description and is not followed.`,
        )
        return null
      }
      seen.add($ref)
      beside.push(rest)
      schema = directTarget(document, $ref) ?? targetOf(refs, $ref, remark)
    }
    return isObject(schema)
      ? Object.fromEntries([schema, ...beside.toReversed()].flatMap(Object.entries))
      : null
  }
  return {
    follow,
    fieldSays: openFieldReader(follow),
    nameOf(schema) {
      const $ref = isObject(schema) ? schema.$ref : null
      const [, name] = typeof $ref === 'string' ? (/^#\/components\/schemas\/([^/]+)$/.exec($ref) ?? []) : []
      return name ?? null
    },
    types: new Map(),
    fields: new Map(),
    remarks,
    remark,
  }
}

const shortened = (text: string): string => (text.length > 100 ? `${text.slice(0, 99)}…` : text)

/** The usual reference, to a component by its name. */
function directTarget(document: unknown, $ref: string): unknown {
  const [, kind = '', name = ''] = /^#\/components\/(\w+)\/([\w.-]+)$/.exec($ref) ?? []
  const components = isObject(document) && isObject(document.components) ? document.components : {}
  const named = ownValue(components, kind)
  return isObject(named) ? ownValue(named, name) : undefined
}

/** Decodes what JSON pointers escape; does not follow where the target is a reference again. */
function targetOf(refs: $RefParser['$refs'], $ref: string, remark: Reader['remark']): unknown {
  try {
    return refs.get($ref)
  } catch {
    remark(`The reference ${shortened($ref)} leads nowhere.`)
    return null
  }
}

/** Notes where the description breaks the rules of OpenAPI. It is used all the same. */
async function checkRules(reader: Reader, document: unknown): Promise<void> {
  if (isTooLarge(document)) return
  // Only here: it compiles the rules, and most programs never need them.
  const { Validator } = await import('@seriousme/openapi-schema-validator')
  const { valid, errors } = await new Validator().validate({
    ...(document as Readonly<Record<string, unknown>>),
  })
  if (valid) return
  const [first] = Array.isArray(errors) ? errors : []
  const where = first ? `${first.instancePath || 'at its top'} ${first.message ?? ''}` : String(errors ?? '')
  reader.remark(`It breaks the rules of OpenAPI: ${sentence(shortened(where.trim()))}`)
}

// The rules compare each item of a list with all others, and take a minute for what is larger (P10).
const mostChecked = 50_000
const longestChecked = 1_000

function isTooLarge(document: unknown): boolean {
  const left = [document]
  for (let looked = 0; left.length > 0; looked++) {
    const value = left.pop()
    if (typeof value !== 'object' || value === null) continue
    const inside = Object.values(value)
    if (left.length + looked + inside.length > mostChecked) return true
    if (Array.isArray(value) && inside.length > longestChecked) return true
    for (const one of inside) left.push(one)
  }
  return false
}

function operationsAt(reader: Reader, path: string, given: unknown): readonly ContractOperation[] {
  const item = reader.follow(given)
  if (item === null || !path.startsWith('/')) return []
  return methods.flatMap((method) => {
    const operation = item[method]
    if (!isObject(operation)) return []
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

function parametersOf(reader: Reader, given: readonly unknown[]): readonly ContractParameter[] {
  const parameters = given.slice(0, mostParameters).flatMap((one): readonly ContractParameter[] => {
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

function answerOf(reader: Reader, name: string, { responses }: Schema): ContractOperation['answers'] {
  const success = Object.entries(isObject(responses) ? responses : {}).find(([status]) =>
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
  const parts = partsOf(reader, schema)
  const items = listedIn(parts)
  if (items !== undefined) return items
  const properties = new Map(
    parts.flatMap((part) => Object.entries(isObject(part.properties) ? part.properties : {})),
  )
  const lists = [...properties].flatMap(([name, property]) => {
    const listed = holdsComplaints(name) ? undefined : listedIn(partsOf(reader, property))
    return listed === undefined ? [] : [listed]
  })
  // A record may have lists in it; what wraps one has little else.
  return lists.length === 1 && properties.size <= mostWrapperFields ? lists[0] : null
}
const mostWrapperFields = 8

const listedIn = (parts: readonly Schema[]): unknown => parts.find(({ items }) => items !== undefined)?.items

/** A schema and what it is composed of; of alternatives the only one besides null. */
function partsOf(reader: Reader, given: unknown): readonly Schema[] {
  const parts: Schema[] = []
  const seen = new Set<unknown>()
  const add = (one: unknown) => {
    if (seen.has(placeOf(one))) return
    seen.add(placeOf(one))
    const schema = reader.follow(one)
    if (schema === null) return
    parts.push(schema)
    for (const part of schemasIn(schema.allOf)) add(part)
    for (const how of ['oneOf', 'anyOf']) {
      const others = schemasIn(schema[how]).filter((part) => !isObject(part) || part.type !== 'null')
      if (others.length === 1) add(others[0])
    }
  }
  add(given)
  return parts
}

/** JSON first, then a form, then whatever there is. */
function bestIn(holder: Schema | null): readonly [string, unknown] | null {
  const content = Object.entries(isObject(holder?.content) ? holder.content : {})
  const [best] = [/^application\/json\b/i, /json\b/i, urlEncoded, /./].flatMap((wanted) =>
    content.filter(([type]) => wanted.test(type)),
  )
  return best ?? null
}
const urlEncoded = /^application\/x-www-form-urlencoded\b/i

function schemaIn(holder: Schema | null): unknown {
  const [, media] = bestIn(holder) ?? []
  return isObject(media) ? (media.schema ?? null) : null
}

function bodyKind(body: Schema | null): NonNullable<ContractOperation['bodyIs']> | null {
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
function fieldsOf(reader: Reader, given: unknown, type: string): readonly ContractField[] | null {
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
): readonly ContractField[] | null {
  if (schema === null) return null
  const parts = schemasIn(schema.allOf).flatMap((part) => fieldsOf(reader, part, type) ?? [])
  const own = isObject(schema.properties) ? schema.properties : null
  if (own === null && parts.length === 0) return null
  const required = new Set(schemasIn(schema.required))
  const entries = Object.entries(own ?? {}).slice(0, mostFields)
  const fields = entries.map(([name, property]): ContractField => {
    const { conflict, ...said } = reader.fieldSays(property)
    if (conflict !== null) reader.remark(`${type}.${shortened(name)}: ${conflict}. The data decide.`)
    return { name, ...said, isRequired: required.has(name), holds: heldType(reader, property) }
  })
  return withoutRepetition(reader, type, [...parts, ...fields]).slice(0, mostFields)
}

/** The named type behind a field: its own, that of its items, or that of the one part that has a name. */
function heldType(reader: Reader, property: unknown): string | null {
  const own = reader.nameOf(property)
  if (own !== null || !isObject(property)) return own
  const parts = [property.items, ...['oneOf', 'anyOf', 'allOf'].flatMap((how) => schemasIn(property[how]))]
  const names = parts.flatMap((part) => reader.nameOf(part) ?? [])
  return names.length === 1 ? (names[0] ?? null) : null
}

/** Fields whose names differ only in case are one field, and can only be of one kind. */
function withoutRepetition(
  reader: Reader,
  type: string,
  fields: readonly ContractField[],
): readonly ContractField[] {
  const known = new Map<string, ContractField>()
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
