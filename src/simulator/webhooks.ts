// Tells webhook subscribers what was written, with real POST requests: fire and forget, a few at a time, and never
// more of them waiting than a bounded number.

import { createHmac } from 'node:crypto'
import { webhookEvents } from './plain-records.ts'
import type { Rendering } from './rendering.ts'
import type { Row } from './row.ts'
import { externalIdOf } from './table.ts'
import { utcClock, writtenTime } from './times.ts'
import type { Tables, WriteEvent, Writes } from './writes.ts'

export type Deliveries = {
  readonly sent: number
  readonly failed: number
  /** Not even tried, because too many were waiting. */
  readonly dropped: number
  /** Resolves when nothing waits and nothing is under way. */
  settled(): Promise<void>
  close(): Promise<void>
}

const mostAtOnce = 8
const mostWaiting = 1_000
const timeoutMs = 5_000

type PlannedDelivery = {
  readonly url: string
  readonly body: string
  readonly headers: Readonly<Record<string, string>>
}

export function startDeliveries(parts: {
  readonly tables: Tables
  readonly writes: Writes
  readonly rendering: Rendering
  readonly clientGuid: string
}): Deliveries {
  const queue = openQueue()
  const stopListening = parts.writes.onWrite((event) => {
    for (const delivery of plannedDeliveries(parts, event)) queue.add(delivery)
  })
  const { counts } = queue
  return {
    get sent() {
      return counts.sent
    },
    get failed() {
      return counts.failed
    },
    get dropped() {
      return counts.dropped
    },
    settled: queue.settled,
    async close() {
      stopListening()
      await queue.close()
    },
  }
}

type Parts = {
  readonly tables: Tables
  readonly rendering: Rendering
  readonly clientGuid: string
}

function plannedDeliveries(parts: Parts, { kind, resource, row }: WriteEvent): PlannedDelivery[] {
  const { tables } = parts
  if (resource !== 'assignment' && resource !== 'assignment_note') return []
  if (tables.webhook_subscription.byId.size === 0) return []
  const event = `${resource === 'assignment' ? 'Assignment' : 'AssignmentNote'}${kind}` as const
  const definitionId = 1 + webhookEvents.indexOf(event)
  const subscriptions = tables.webhook_subscription.byId.slice(0, Number.POSITIVE_INFINITY)
  return subscriptions.flatMap((subscription) => {
    const url = callbackUrl(parts, subscription, definitionId)
    if (url === null) return []
    const body = payload(parts, event, resource, row)
    return [{ url, body, headers: deliveryHeaders(parts, event, subscription, body) }]
  })
}

function callbackUrl({ tables, rendering }: Parts, subscription: Row, definitionId: number): string | null {
  const fields = rendering.fields(tables.webhook_subscription.resource, subscription)
  if (fields.IsActive === false || fields.Active === false) return null
  if (Number(fields.WebhookDefinitionId) !== definitionId) return null
  const url = Object.values(fields).find((value) => typeof value === 'string' && /^https?:\/\//i.test(value))
  return typeof url === 'string' && URL.canParse(url) ? url : null
}

/** Named after the event, and signed when the subscription has a secret. */
function deliveryHeaders({ tables }: Parts, event: string, subscription: Row, body: string) {
  const secret = subscription.own?.Secret
  const id = externalIdOf(subscription, tables.webhook_subscription.resource)
  return {
    'content-type': 'application/json; charset=utf-8',
    'x-webhook-event': event,
    'x-webhook-subscription': String(id),
    ...(typeof secret === 'string' &&
      secret !== '' && {
        'x-webhook-signature': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
      }),
  }
}

function payload(
  { tables, rendering, clientGuid }: Parts,
  event: string,
  resource: 'assignment' | 'assignment_note',
  row: Row,
): string {
  const { keyField, externalField } = tables[resource].resource
  const fields = rendering.fields(tables[resource].resource, row)
  const named = [keyField, externalField ?? keyField, ...(resource === 'assignment' ? [] : ['AssignmentId'])]
  const versions = ['RowVersion', 'SysRowVersion'].filter((name) => (fields[name] ?? null) !== null)
  const data = Object.fromEntries([...named, ...versions].map((name) => [name, fields[name]]))
  const head = JSON.stringify({
    event,
    eventTimeUTC: writtenTime(utcClock(row.changedAtMs), 'UTC'),
    clientId: clientGuid,
  })
  return `${head.slice(0, -1)},"data":${rendering.stringify(data)}}`
}

/** Posts what is added, a few at a time. */
function openQueue() {
  const waiting: PlannedDelivery[] = []
  const running = new Set<Promise<void>>()
  const ending = new AbortController()
  const counts = { sent: 0, failed: 0, dropped: 0 }

  function startNext(): void {
    while (running.size < mostAtOnce && !ending.signal.aborted) {
      const delivery = waiting.shift()
      if (!delivery) return
      const attempt = post(delivery).finally(() => {
        running.delete(attempt)
        startNext()
      })
      running.add(attempt)
    }
  }

  async function post({ url, body, headers }: PlannedDelivery): Promise<void> {
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers,
        body,
        redirect: 'manual',
        signal: AbortSignal.any([ending.signal, AbortSignal.timeout(timeoutMs)]),
      })
      await response.body?.cancel()
      if (response.ok) counts.sent++
      else counts.failed++
    } catch {
      counts.failed++
    }
  }

  async function settled(): Promise<void> {
    while (running.size > 0) await Promise.all(running)
  }

  return {
    counts,
    settled,
    add(delivery: PlannedDelivery): void {
      if (waiting.length >= mostWaiting) counts.dropped++
      else waiting.push(delivery)
      startNext()
    },
    async close(): Promise<void> {
      waiting.length = 0
      ending.abort()
      await settled()
    },
  }
}
