// Webhook subscribers are really called, and never more of them are kept waiting than a bounded number.

import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'
import { type Caller, openCaller } from '../support/simulator-caller.ts'

let simulator: Simulator
let caller: Caller
let subscriber: Server
type Event = { readonly event: string; readonly clientId: string; readonly data: Record<string, unknown> }
let received: {
  readonly path: string
  readonly event: Event
  readonly headers: IncomingHttpHeaders
  readonly body: string
}[]
let answerWith: number | null

beforeEach(async () => {
  received = []
  answerWith = 204
  subscriber = createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    received.push({
      path: `${request.method} ${request.url}`,
      event: JSON.parse(body),
      headers: request.headers,
      body,
    })
    if (answerWith !== null) response.writeHead(answerWith).end()
  })
  await new Promise<void>((resolve) => subscriber.listen(0, '127.0.0.1', () => resolve()))
  simulator = await startSimulator({ assignments: 3, notes: 3 })
  caller = await openCaller(simulator)
})
afterEach(async () => {
  await simulator.close()
  subscriber.closeAllConnections()
  subscriber.close()
})

const callbackUrl = (path: string) => `http://127.0.0.1:${(subscriber.address() as AddressInfo).port}${path}`
const subscribe = (event: string, path: string) =>
  caller.assignment('POST /api/Webhooks/subscription', {
    body: { WebhookDefinitionId: definitionOf(event), CallbackUrl: callbackUrl(path) },
  })
const definitionOf = (event: string) =>
  simulator.source.records('webhook_definition').find(({ Name }) => Name === event)?.WebhookDefinitionId

describe('subscribers', () => {
  it('are told of what they subscribed to, and of nothing else', async () => {
    await subscribe('AssignmentChanged', '/changed')
    await subscribe('AssignmentNoteCreated', '/noted')
    await caller.assignment('PUT /api/Assignment', { body: { AssignmentId: 2, Subject: 'x' } })
    await caller.assignment('POST /api/AssignmentNote', { body: { Text: 'x' } })
    await caller.assignment('DELETE /api/Assignment/Id/3')
    simulator.source.change('assignment', 1)
    await simulator.deliveries.settled()
    const told = received.map(({ path, event }) => [
      path,
      event.event,
      event.data.AssignmentNoteId ?? event.data.AssignmentId,
    ])
    expect(told.sort()).toEqual([
      ['POST /changed', 'AssignmentChanged', 1],
      ['POST /changed', 'AssignmentChanged', 2],
      ['POST /noted', 'AssignmentNoteCreated', 4],
    ])
    expect(received[0]?.event.clientId).toBe(simulator.credentials.clientGuid)
    expect(simulator.deliveries).toMatchObject({ sent: 3, failed: 0, dropped: 0 })
  })

  it('are not told any more when they are not active or gone', async () => {
    const { WebhookSubscriptionId: id } = (await subscribe('AssignmentChanged', '/a')).json() as Record<
      string,
      string
    >
    await caller.assignment('PUT /api/Webhooks/subscription', {
      body: { WebhookSubscriptionId: id, IsActive: false },
    })
    simulator.source.change('assignment', 1)
    await caller.assignment('PUT /api/Webhooks/subscription', {
      body: { WebhookSubscriptionId: id, IsActive: true },
    })
    await caller.assignment(`DELETE /api/Webhooks/Id/${id}`)
    simulator.source.change('assignment', 1)
    await simulator.deliveries.settled()
    expect(received).toEqual([])
  })

  it('that fail are counted and not asked again', async () => {
    answerWith = 500
    await subscribe('AssignmentChanged', '/broken')
    simulator.source.change('assignment', 1)
    await simulator.deliveries.settled()
    expect(received.length).toBe(1)
    expect(simulator.deliveries).toMatchObject({ sent: 0, failed: 1 })
  })

  it('that do not answer hold up nobody, and not more than a thousand deliveries wait for them', async () => {
    answerWith = null
    await subscribe('AssignmentChanged', '/silent')
    for (let change = 0; change < 1_500; change++) simulator.source.change('assignment', 1)
    await expect.poll(() => received.length).toBe(8)
    expect(simulator.deliveries.dropped).toBe(1_500 - 1_000 - 8)
    expect((await caller.assignment('GET /api/Assignment/Id/1')).status).toBe(200)
  })
})

describe('in the recorded look', () => {
  const other = () => startSimulator({ look: 'recorded', assignments: 3 })
  const url = () => callbackUrl('/hook')

  it('a subscription has a Url, and a delivery is named, and signed with the secret that nobody is shown', async () => {
    await using recorded = await other()
    const its = await openCaller(recorded)
    const body = { webhookDefinitionId: 2, url: url(), secret: 'abc' }
    const reply = await its.assignment('POST /api/Webhooks/subscription', { body })
    const { webhookSubscriptionId: id, ...rest } = reply.json() as Record<string, unknown>
    expect(rest).toEqual({ ...body, secret: null, active: true, description: null })
    recorded.source.change('assignment', 2)
    await recorded.deliveries.settled()
    const [delivery] = received
    expect(delivery?.headers).toMatchObject({
      'x-webhook-event': 'AssignmentChanged',
      'x-webhook-subscription': id,
      'x-webhook-signature': `sha256=${createHmac('sha256', 'abc')
        .update(delivery?.body ?? '')
        .digest('hex')}`,
    })
    const { assignmentIdext } = recorded.source.record('assignment', 2) ?? {}
    expect(delivery?.event).toEqual({
      event: 'AssignmentChanged',
      eventTimeUTC: expect.stringMatching(/Z$/),
      clientId: recorded.credentials.clientGuid,
      data: { assignmentId: 2, assignmentIdext, sysRowVersion: expect.any(Number) },
    })
  })

  it('a subscription without a secret is delivered to without a signature, one without a Url is refused', async () => {
    await using recorded = await other()
    const its = await openCaller(recorded)
    const subscribeTo = (body: object) => its.assignment('POST /api/Webhooks/subscription', { body })
    expect((await subscribeTo({ webhookDefinitionId: 2, url: url() })).status).toBe(201)
    expect((await subscribeTo({ webhookDefinitionId: 2, callbackUrl: url() })).json()).toMatchObject({
      status: 400,
      errors: { Url: ['The Url field is required.'] },
    })
    expect((await subscribeTo({ webhookDefinitionId: 2, url: 'nowhere' })).json()).toMatchObject({
      errors: { Url: ['The Url field is not a valid fully-qualified http, https, or ftp URL.'] },
    })
    recorded.source.change('assignment', 2)
    await recorded.deliveries.settled()
    expect(received.map(({ headers }) => headers['x-webhook-signature'])).toEqual([undefined])
  })
})
