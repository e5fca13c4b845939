// `tidemark api`: any operation of the upstream, signed in. What it prints is the answer's own JSON, with every digit,
// less what is known to be secret (P9).

import { type Call, type Command, exitCodes, UsageError } from '../cli/command.ts'
import { loadConfig } from '../config.ts'
import { openConfiguredUpstream } from '../configured-upstream.ts'
import { type Json, repeatedFields, type WithRepeatedFields } from '../json.ts'
import { redact } from '../log.ts'
import { isObject } from '../record.ts'
import { type Found, findOperation } from '../upstream/find-operation.ts'
import type { OperationName } from '../upstream/operations.ts'
import { ParameterError } from '../upstream/parameters.ts'
import { type AnyRequest, prepareRequest, type RequestOf } from '../upstream/request.ts'
import { readFormFields, readJsonFile } from './request-input.ts'

export const api: Command = {
  name: 'api',
  summary: 'call any operation of the upstream, signed in',
  usage: '<METHOD> <path> [--query NAME=VALUE]… [--body FILE] [--form FILE | --form NAME=VALUE]…',
  options: {
    query: {
      type: 'string',
      multiple: true,
      value: 'NAME=VALUE',
      describe: 'a parameter of the query; again for more',
    },
    body: { type: 'string', value: 'FILE', describe: 'the JSON to send; - reads it from standard input' },
    form: {
      type: 'string',
      multiple: true,
      value: 'FILE|NAME=VALUE',
      describe: 'fields of the attachment form: a JSON file, or one by one; FileData=@FILE encodes a file',
    },
  },
  examples: [
    'tidemark api GET /api/Assignment --query Page=1 --query PageSize=5',
    'tidemark api GET /api/Assignment/Id/5',
    'tidemark api PUT /api/Assignment --body assignment.json',
    'tidemark api POST /api/Assignment/Id/5/attachment --form FileName=a.jpg --form FileData=@a.jpg',
  ],
  async run(call) {
    const { found, query } = whatIsAsked(call)
    const request = await requestOf(call, found, query)
    checkBeforeSending(found, request)
    const { log, signal } = call
    const config = loadConfig(call.environment)
    const upstream = openConfiguredUpstream({ config, log }, found.operation.service)
    if (!upstream) throw new UsageError(`${found.operation.path} needs TRACKING_BASE_URL, which is not set`)
    try {
      const { body, status } = await upstream.call(found.name, request as RequestOf<OperationName>, signal)
      if (body === null) log.info({ status }, 'done; the answer has no body')
      else print(call, body)
      return exitCodes.done
    } finally {
      upstream.close()
    }
  },
}

function print({ log, stdout }: Call, body: Json): void {
  stdout.write(`${redact(JSON.stringify(body, null, 2))}\n`)
  for (const record of Array.isArray(body) ? body : [body]) {
    const earlier = isObject(record) ? (record as WithRepeatedFields)[repeatedFields] : undefined
    if (earlier) log.warn({ earlier }, 'fields that the answer has twice: the last value is printed')
  }
}

type Asked = { readonly found: Found; readonly query: URLSearchParams }

function whatIsAsked({ positionals }: Call): Asked {
  const [method, target, ...rest] = positionals
  if (!method || !target || rest.length > 0)
    throw new UsageError(
      '`tidemark api` needs a method and a path, e.g. `tidemark api GET /api/Assignment/Id/5`',
    )
  if (/^[a-z]+:\/\//i.test(target))
    throw new UsageError(
      `write the path only, beginning with /api: the base URL comes from the configuration`,
    )
  const [path = '', query = ''] = target.split('?')
  const found = findOperation(method.toUpperCase(), path.startsWith('/') ? path : `/${path}`)
  if ('nearest' in found) {
    const advice = found.nearest.length > 0 ? `; the nearest are ${found.nearest.join(', ')}` : ''
    throw new UsageError(`the upstream has no ${method.toUpperCase()} ${path}${advice}`)
  }
  return { found, query: new URLSearchParams(query) }
}

async function requestOf(call: Call, found: Found, query: URLSearchParams): Promise<AnyRequest> {
  const { body, form, query: options } = call.values
  for (const option of texts(options)) {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(option) ?? []
    if (name === undefined || value === undefined)
      throw new UsageError(`--query takes NAME=VALUE, not ${option}`)
    query.append(name, value)
  }
  const known = Object.keys(found.operation.query)
  const named = [...query].map(([name, value]) => [spelling(name, known), value])
  const common = { path: found.path, query: Object.fromEntries(named) }
  if (body !== undefined && form !== undefined) throw new UsageError('use either --body or --form')
  if (typeof body === 'string') return { ...common, body: await readJsonFile('--body', body) }
  return form === undefined ? common : { ...common, body: await readFormFields(texts(form)) }
}

const texts = (value: Call['values'][string]): readonly string[] =>
  Array.isArray(value) ? value : typeof value === 'string' ? [value] : []

const spelling = (name: string, known: readonly string[]): string =>
  known.find((candidate) => candidate.toLowerCase() === name.toLowerCase()) ?? name

function checkBeforeSending({ operation }: Found, request: AnyRequest): void {
  try {
    prepareRequest(operation, request)
  } catch (cause) {
    throw cause instanceof ParameterError ? new UsageError(cause.message, { cause }) : cause
  }
}
