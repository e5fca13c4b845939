// `tidemark api`: any operation of the upstream, as a person writes it: a method and a path, a query, a body or a form.

import { isObject } from '../streams/record.ts'
import { type Found, findOperation } from '../upstream/operations/find.ts'
import type { AnyRequest } from '../upstream/operations/request.ts'
import type { OperationName } from '../upstream/operations/table.ts'
import { UsageError } from '../util/errors.ts'
import { nearest } from '../util/text.ts'
import type { Call, Command, ExitCode } from './command.ts'
import { callUpstream, readFormFields, readJsonFile } from './upstream-call.ts'

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
      describe:
        'fields of the attachment form: a JSON file, or one by one; FileData=@FILE reads a file, its name and its size',
    },
  },
  examples: [
    'tidemark api GET /api/Assignment --query Page=1 --query PageSize=5',
    'tidemark api GET /api/Assignment/Id/5',
    'tidemark api PUT /api/Assignment --body assignment.json',
    'tidemark api POST /api/Assignment/Id/5/attachment --form FileData=@photo.jpg',
  ],
  async run(call) {
    const { found, query } = whatIsAsked(call)
    const request = await requestOf(call, found, query)
    return await callUpstream(call, found.name, request)
  },
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
  const [path = '', ...more] = target.split('?')
  // A value of the query may hold more of them.
  const query = more.join('?')
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

// `tidemark webhooks`: the upstream's webhook definitions and subscriptions. What fields a subscription has is the upstream's
// to say, so it is given as JSON and shown as JSON.
type Action = { readonly operation: OperationName; readonly takes: 'nothing' | 'id' | 'file' }

const actions: Readonly<Record<string, Action>> = {
  definitions: { operation: 'listWebhookDefinitions', takes: 'nothing' },
  list: { operation: 'listWebhookSubscriptions', takes: 'nothing' },
  get: { operation: 'getWebhookSubscription', takes: 'id' },
  create: { operation: 'createWebhookSubscription', takes: 'file' },
  update: { operation: 'updateWebhookSubscription', takes: 'file' },
  delete: { operation: 'deleteWebhookSubscription', takes: 'id' },
}

export const webhooks: Command = {
  name: 'webhooks',
  summary: 'the upstream’s webhooks: what can be subscribed to, and the subscriptions',
  usage: '<definitions|list|get ID|create FILE|update FILE|delete ID>',
  options: {},
  examples: [
    'tidemark webhooks definitions',
    'tidemark webhooks list',
    'tidemark webhooks get 5b0d2c9e-7a41-4f0b-9d52-0c4e7a3f1b22',
    'tidemark webhooks create subscription.json',
    'tidemark webhooks update - < subscription.json',
  ],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const [word, argument, ...more] = call.positionals
  const action = word !== undefined && Object.hasOwn(actions, word) ? actions[word] : undefined
  if (word === undefined || !action) throw new UsageError(unknownAction(word))
  const { operation, takes } = action
  if (takes === 'nothing' ? argument !== undefined : argument === undefined || more.length > 0)
    throw new UsageError(`\`tidemark webhooks ${word}\` takes ${needs[takes]}`)
  if (argument === undefined) return await callUpstream(call, operation, {})
  if (takes === 'id')
    return await callUpstream(call, operation, { path: { webhookSubscriptionId: argument } })
  const body = await readJsonFile(`webhooks ${word}`, argument)
  if (!isObject(body))
    throw new UsageError(`webhooks ${word}: ${argument} must hold one subscription as a JSON object`)
  return await callUpstream(call, operation, { body })
}

const needs = {
  nothing: 'nothing more',
  id: 'the id of one subscription; `tidemark webhooks list` shows them',
  file: 'one file with the subscription as JSON; - reads it from standard input',
} as const

function unknownAction(word: string | undefined): string {
  const known = Object.keys(actions)
  if (word === undefined) return `\`tidemark webhooks\` needs one of ${known.join(', ')}`
  const [near] = nearest(word, known)
  const advice = near ? `did you mean \`tidemark webhooks ${near}\`?` : `it has ${known.join(', ')}`
  return `\`tidemark webhooks\` has no "${word}": ${advice}`
}
