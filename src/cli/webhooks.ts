// `tidemark webhooks`: the upstream's webhook definitions and subscriptions. What fields a subscription has is the upstream's
// to say, so it is given as JSON and shown as JSON.

import { isObject } from '../streams/record.ts'
import { type OperationName, operations } from '../upstream/operations/table.ts'
import { UsageError } from '../util/errors.ts'
import { type Command, findAction } from './command.ts'
import { checkAsDescribed, unchecked } from './described.ts'
import { callUpstream, readJsonFile } from './upstream-call.ts'

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
  summary: 'list and change the upstream’s webhook subscriptions',
  usage: '<definitions|list|get ID|create FILE|update FILE|delete ID> [--unchecked]',
  options: { unchecked },
  examples: [
    'tidemark webhooks definitions',
    'tidemark webhooks list',
    'tidemark webhooks get 5b0d2c9e-7a41-4f0b-9d52-0c4e7a3f1b22',
    'tidemark webhooks create subscription.json',
    'tidemark webhooks update - < subscription.json',
  ],
  async run(call) {
    const [word, argument, ...more] = call.positionals
    if (word === undefined)
      throw new UsageError(`\`tidemark webhooks\` needs one of ${Object.keys(actions).join(', ')}.`)
    const { operation: name, takes } = findAction('webhooks', actions, word)
    const operation = operations[name]
    if (takes === 'nothing' ? argument !== undefined : argument === undefined || more.length > 0)
      throw new UsageError(`\`tidemark webhooks ${word}\` takes ${needs[takes]}.`)
    if (argument === undefined) return await callUpstream(call, operation, {})
    if (takes === 'id')
      return await callUpstream(call, operation, { path: { webhookSubscriptionId: argument } })
    const body = await readJsonFile(`webhooks ${word}`, argument)
    if (!isObject(body))
      throw new UsageError(`webhooks ${word}: ${argument} must hold one subscription as a JSON object.`)
    await checkAsDescribed(call, operation, { body })
    return await callUpstream(call, operation, { body })
  },
}

const needs = {
  nothing: 'nothing more',
  id: 'the id of one subscription; `tidemark webhooks list` lists them',
  file: 'one file with the subscription as JSON; - reads it from standard input',
} as const
