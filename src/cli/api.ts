// `tidemark api`: any operation of the upstream, as a person writes it: a method and a path, a query, a body or a form.

import { ownValue } from '../json/json.ts'
import { type Found, findOperation } from '../upstream/operations/find.ts'
import type { AnyRequest } from '../upstream/operations/request.ts'
import { allOperations } from '../upstream/operations/table.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, flag, option } from './command.ts'
import { checkAsDescribed, describedOperation, readDescriptions, unchecked } from './described.ts'
import { callUpstream, readFormFields, readJsonFile } from './upstream-call.ts'

export const api: Command = {
  name: 'api',
  summary: 'call any operation of the upstream, signed in',
  usage:
    '<METHOD> <path> [--query NAME=VALUE]… [--body FILE] [--form FILE | --form NAME=VALUE]… [--merge] [--dry-run] [--unchecked]',
  options: {
    query: option('NAME=VALUE', 'a query parameter', { multiple: true }),
    body: option('FILE', 'the JSON to send; - reads it from standard input'),
    form: option(
      'FILE|NAME=VALUE',
      'fields of the attachment form: a JSON file, or one by one; FileData=@FILE reads a file, its name and its size',
      { multiple: true },
    ),
    merge: flag('with PUT of a record: read it first, and change only the fields that are given'),
    'dry-run': flag('write nothing; print what would be sent, and what it would change'),
    unchecked,
  },
  examples: [
    'tidemark api GET /api/Assignment --query Page=1 --query PageSize=5',
    'tidemark api GET /api/Assignment/Id/5',
    'tidemark api PUT /api/Assignment --body change.json --merge --dry-run',
    'tidemark api POST /api/Assignment/Id/5/attachment --form FileData=@photo.jpg',
  ],
  async run(call) {
    const { found, query } = await whatIsAsked(call)
    const request = await requestOf(call, found, query)
    await checkAsDescribed(call, found.operation, request)
    return await callUpstream(call, found.operation, request)
  },
}

type Asked = { readonly found: Found; readonly query: URLSearchParams }

async function whatIsAsked(call: Call): Promise<Asked> {
  const { positionals } = call
  const [method, target, ...rest] = positionals
  if (!method || !target || rest.length > 0)
    throw new UsageError(
      '`tidemark api` takes a method and a path, e.g. `tidemark api GET /api/Assignment/Id/5`.',
    )
  if (/^[a-z]+:\/\//i.test(target))
    throw new UsageError(
      'Write the path only, beginning with /api. The base URL comes from the configuration.',
    )
  const [path = '', ...more] = target.split('?')
  // A value of the query may hold further question marks.
  const query = more.join('?')
  const whole = path.startsWith('/') ? path : `/${path}`
  const found = findOperation(method.toUpperCase(), whole)
  if ('nearest' in found) {
    // Not in our table of operations, but perhaps in the upstream's description.
    const [described] = (await readDescriptions(call)).flatMap(
      (description) => describedOperation(description, method.toUpperCase(), whole) ?? [],
    )
    if (described) return { found: described, query: new URLSearchParams(query) }
    const advice =
      found.nearest.length > 0
        ? ` The nearest are ${found.nearest.join(', ')}.`
        : ' Paths begin with /api, e.g. /api/Assignment.'
    const slash = /\/IdExt\/[^/]+\/./i.test(whole) ? ' Write a slash inside an id as %2F.' : ''
    throw new UsageError(`The upstream has no operation ${method.toUpperCase()} ${path}.${advice}${slash}`)
  }
  return { found, query: new URLSearchParams(query) }
}

async function requestOf(call: Call, found: Found, query: URLSearchParams): Promise<AnyRequest> {
  const { body, form, query: options } = call.values
  for (const option of texts(options)) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(option) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--query takes NAME=VALUE, not "${option}".`)
    query.append(name, value)
  }
  const known = Object.keys(found.operation.query)
  const common = { path: found.path, query: valuesOf(query, known) }
  for (const [name, value] of Object.entries(common.query))
    if (Array.isArray(value) && isOfTable(found))
      throw new UsageError(`${name} is given ${value.length} times, and takes one value.`)
  if (body !== undefined && form !== undefined) throw new UsageError('Use either --body or --form, not both.')
  if (typeof body === 'string') return { ...common, body: await readJsonFile('--body', body) }
  if (form !== undefined) return { ...common, body: await readFormFields(texts(form)) }
  const { method, path, body: takes } = found.operation
  if (takes === 'json')
    throw new UsageError(
      `${method} ${path} needs a body that is a JSON object. Write it to a file and name that: --body FILE.`,
    )
  return common
}

const texts = (value: Call['values'][string]): readonly string[] =>
  Array.isArray(value) ? value : typeof value === 'string' ? [value] : []

const isOfTable = ({ operation }: Found): boolean => allOperations.includes(operation)

/** The values of a query by name. A name that is there several times has a list. */
function valuesOf(query: URLSearchParams, known: readonly string[]): Record<string, string | string[]> {
  const values: Record<string, string | string[]> = {}
  for (const [given, value] of query) {
    const name = spelling(given, known)
    const before = ownValue(values, name)
    values[name] = before === undefined ? value : [before, value].flat()
  }
  return values
}

const spelling = (name: string, known: readonly string[]): string =>
  known.find((candidate) => candidate.toLowerCase() === name.toLowerCase()) ?? name
