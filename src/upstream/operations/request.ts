// Makes the request of an operation out of its parameters, or says which parameter is out of its bounds: an error names the parameter and
// its bound. Pure: nothing is sent here.

import type { Json, JsonObject } from '../../json/json.ts'
import { int64, isObject } from '../../streams/record.ts'
import { type Operation, type ParameterKind, pathParameters } from './table.ts'

export class ParameterError extends Error {
  override readonly name = 'ParameterError'
}

/** What an operation is given: its parameters and its body. They are checked before anything is sent. */
export type AnyRequest = {
  readonly path?: Readonly<Record<string, unknown>> | undefined
  readonly query?: Readonly<Record<string, unknown>> | undefined
  readonly body?: unknown
}

/** `target`: path and query, to be appended to the base URL. */
export function prepareRequest(operation: Operation, request: AnyRequest) {
  const query = queryText(operation, request.query ?? {})
  const target = `${pathText(operation, request.path ?? {})}${query === '' ? '' : `?${query}`}`
  switch (operation.body) {
    case 'none':
      if (request.body !== undefined)
        throw new ParameterError(`${operation.method} ${operation.path} takes no body`)
      return { target, contentType: null, body: null }
    case 'json':
      if (!isObject(request.body as Json | undefined))
        throw new ParameterError(
          `${operation.method} ${operation.path} needs a body that is a JSON object, ${request.body === undefined ? 'and has none' : `not ${shown(request.body)}`}`,
        )
      return { target, contentType: 'application/json', body: JSON.stringify(request.body) }
    case 'any json':
      if (request.body === undefined)
        throw new ParameterError(`${operation.method} ${operation.path} needs a body`)
      return { target, contentType: 'application/json', body: JSON.stringify(request.body) }
    case 'form': {
      const contentType = 'application/x-www-form-urlencoded'
      return { target, contentType, body: formText(operation, request.body) }
    }
    case 'multipart':
      throw new ParameterError(
        `${operation.method} ${operation.path} takes its body in parts (multipart), which is not sent from here`,
      )
  }
}

/** Without fields that are null. A list is a field that is there several times. */
function formText({ method, path }: Operation, body: unknown): string {
  if (!isObject(body as Json | undefined))
    throw new ParameterError(`${method} ${path} needs the fields of a form, not ${shown(body)}`)
  const form = new URLSearchParams()
  for (const [name, value] of Object.entries(body as JsonObject))
    for (const one of [value].flat())
      if (one !== null)
        form.append(name, parameterText(name, 'text', typeof one === 'string' ? one : JSON.stringify(one)))
  if (form.size === 0) throw new ParameterError(`${method} ${path} needs at least one field of its form`)
  return form.toString()
}

export const pathParameterNames = (path: string): readonly string[] =>
  [...path.matchAll(/\{([^{}]+)\}/g)].flatMap(([, name]) => name ?? [])

function pathText(operation: Operation, values: Readonly<Record<string, unknown>>): string {
  const kinds: Readonly<Record<string, ParameterKind>> = pathParameters
  refuseUnknown(operation, values, pathParameterNames(operation.path))
  return operation.path.replaceAll(/\{([^{}]+)\}/g, (_, name: string) => {
    // For a list that only the settings name, nobody knows of which type its ids are.
    const kind = kinds[name] ?? 'segment'
    return encodeURIComponent(parameterText(name, kind, values[name]))
  })
}

function queryText(operation: Operation, values: Readonly<Record<string, unknown>>): string {
  refuseUnknown(operation, values, Object.keys(operation.query))
  const query = new URLSearchParams()
  for (const [name, kind] of Object.entries(operation.query)) {
    const given = values[name]
    // Only a text may be given more than once.
    for (const value of kind === 'text' && Array.isArray(given) ? given : [given])
      if (value !== undefined && value !== null) query.append(name, parameterText(name, kind, value))
  }
  if (query.get('IncludeAttachmentFileData') === 'true' && query.get('IncludeAttachment') === 'false')
    throw new ParameterError('IncludeAttachmentFileData is only valid when IncludeAttachment is true')
  // Both `+` and `%20` mean a space in a query, but only one of them does everywhere.
  return query.toString().replaceAll('+', '%20')
}

function refuseUnknown(
  operation: Operation,
  values: Readonly<Record<string, unknown>>,
  known: readonly string[],
): void {
  for (const name of Object.keys(values)) {
    if (known.includes(name)) continue
    const takes = known.length === 0 ? 'takes none' : `takes ${known.join(', ')}`
    throw new ParameterError(`${operation.method} ${operation.path} has no parameter ${name}: it ${takes}`)
  }
}

const integers = {
  int32: { min: -(2n ** 31n), max: 2n ** 31n - 1n },
  int64,
  pageNumber: { min: 1n, max: 2n ** 31n - 1n },
}

const digits = /^-?(?:0|[1-9]\d*)$/

/** The parameter as it is sent. */
function parameterText(name: string, kind: ParameterKind, value: unknown): string {
  if (kind === 'boolean') return booleanText(name, value)
  if (kind === 'text') return plainText(name, value)
  if (kind === 'segment') return segmentText(name, value)
  return integerText(name, kind, value)
}

function integerText(name: string, kind: keyof typeof integers, value: unknown): string {
  const { min, max } = integers[kind]
  const text = integerSource(value)
  if (text === null || BigInt(text) < min || BigInt(text) > max)
    throw new ParameterError(`${name} must be a whole number from ${min} to ${max}, not ${shown(value)}`)
  return text
}

function integerSource(value: unknown): string | null {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) return null
  const text = JSON.isRawJSON(value) ? value.rawJSON : String(value)
  const isText = typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint'
  return (isText || JSON.isRawJSON(value)) && digits.test(text) && text.length <= 20 ? text : null
}

function booleanText(name: string, value: unknown): string {
  if (value === true || value === 'true') return 'true'
  if (value === false || value === 'false') return 'false'
  throw new ParameterError(`${name} must be true or false, not ${shown(value)}`)
}

function plainText(name: string, value: unknown): string {
  if (typeof value !== 'string') throw new ParameterError(`${name} must be a text, not ${shown(value)}`)
  if (!value.isWellFormed())
    throw new ParameterError(`${name} holds half a character (a lone surrogate) and cannot be sent`)
  return value
}

/** A part of a path. An empty one, or dots, would lead to another path, for example that of the whole list. */
function segmentText(name: string, value: unknown): string {
  const text = plainText(name, value)
  if (text === '' || text === '.' || text === '..')
    throw new ParameterError(`${name} must be a text other than "", "." and "..", not ${shown(value)}`)
  return text
}

function shown(value: unknown): string {
  if (JSON.isRawJSON(value)) return value.rawJSON.slice(0, 40)
  const text = typeof value === 'bigint' ? `${value}` : (JSON.stringify(value) ?? String(value))
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`
}
