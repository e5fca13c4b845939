// Makes the request of an operation out of its parameters, or says which parameter is out of its bounds. Pure: nothing
// is sent here.

import type { Json, JsonObject } from '../../json/json.ts'
import { isObject } from '../../streams/record.ts'
import { ParameterError, type ParameterKind, parameterText, shown } from './parameters.ts'
import { type Operation, pathParameters } from './table.ts'

/** What an operation is given: its parameters and its body. They are checked before anything is sent. */
export type AnyRequest = {
  readonly path?: Readonly<Record<string, unknown>> | undefined
  readonly query?: Readonly<Record<string, unknown>> | undefined
  readonly body?: unknown
}

export type PreparedRequest = {
  /** Path and query, to be appended to the base URL. */
  readonly target: string
  readonly contentType: string | null
  readonly body: string | null
}

export function prepareRequest(operation: Operation, request: AnyRequest): PreparedRequest {
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
