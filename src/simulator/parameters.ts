// The parameters of the operations, in path and query: their types and bounds, and what is said of a value that does
// not fit.

import { badValue, badValueFor, type Errors, type Query } from './answer.ts'
import { readInteger } from './filters.ts'

export type Parameter = {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly type: 'int32' | 'int64' | 'string' | 'boolean'
  readonly describe?: string
  readonly minimum?: number
  readonly default?: boolean
  /** Bound by itself and not as part of a class: a message about it does not name it. */
  readonly isAlone?: boolean
}

const greatest = 2_147_483_647
const page = { in: 'query', type: 'int32', minimum: 1 } as const

export const listParameters: readonly Parameter[] = [
  { name: 'Filters', in: 'query', type: 'string' },
  { name: 'Sorts', in: 'query', type: 'string' },
  { name: 'Page', ...page },
  { name: 'PageSize', ...page },
]

export const trackerParameters: readonly Parameter[] = ['page', 'pagesize'].map((name) => ({
  name,
  in: 'query',
  type: 'int32',
  isAlone: true,
}))

const include = (name: string, what: string, isOn = true): Parameter => ({
  name: `Include${name}`,
  in: 'query',
  type: 'boolean',
  describe: `Include the ${what}.`,
  default: isOn,
})

export const includeParameters: readonly Parameter[] = [
  include('Customer', 'customer'),
  include('Employee', 'employees'),
  include('AssignmentProduct', 'products'),
  include('AssignmentService', 'services'),
  include('AssignmentQualityControl', 'quality controls'),
  include('Attachment', 'attachments'),
  include(
    'AttachmentFileData',
    'file data of the attachments, only valid when IncludeAttachment is true',
    false,
  ),
  include('AssignmentNote', 'notes'),
  include('AssignmentObject', 'objects'),
]

const idTypes: Readonly<Record<string, Parameter['type']>> = {
  assignmentId: 'int32',
  assignmentNoteId: 'int32',
  employeeId: 'int32',
  rowVersion: 'int64',
}

export const pathParameters = (path: string, rowVersion?: string): Parameter[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({
    name,
    in: 'path' as const,
    type: idTypes[name] ?? 'string',
    isAlone: true,
    ...(name === 'rowVersion' && rowVersion !== undefined && { describe: rowVersion }),
  }))

/** What is wrong with the values of a request, by parameter. */
export function parameterErrors(
  parameters: readonly Parameter[],
  path: Readonly<Record<string, string>>,
  query: Query,
): Errors {
  const errors: Record<string, readonly string[]> = {}
  for (const parameter of parameters) {
    const { name } = parameter
    const text = (parameter.in === 'path' ? path[name] : query.get(name.toLowerCase()))?.trim() ?? ''
    const wrong = text === '' ? null : valueError(parameter, text)
    if (wrong !== null) errors[name] = [wrong]
  }
  return errors
}

function valueError({ name, type, minimum, isAlone }: Parameter, text: string): string | null {
  const bad = isAlone ? badValue(text) : badValueFor(text, name)
  if (type === 'string') return null
  if (type === 'boolean') return /^(?:true|false)$/i.test(text) ? null : bad
  const value = readInteger(type, text)
  if (value === undefined) return bad
  return minimum !== undefined && value < minimum
    ? `The field ${name} must be between ${minimum} and ${greatest}.`
    : null
}

/** A whole number of the query that was found right before. */
export function wholeNumber(query: Query, name: string): number | null {
  const text = query.get(name.toLowerCase())?.trim() ?? ''
  return text === '' ? null : Number(text)
}
