// Tells webhook subscribers what was written, with real POST requests: fire and forget, a few at a time, and never
// more of them waiting than a bounded number.

import { webhookEvents } from './other-fields.ts'
import type { Rendering } from './rendering.ts'
import type { Row } from './row.ts'
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

type Delivery = { readonly url: string; readonly body: string }

export function startDeliveries(parts: {
  readonly tables: Tables
  readonly writes: Writes
  readonly rendering: Rendering
  readonly clientGuid: string
}): Deliveries {
  const { tables, writes, rendering, clientGuid } = parts
  const waiting: Delivery[] = []
  const underWay = new Set<Promise<void>>()
  const ending = new AbortController()
  const counts = { sent: 0, failed: 0, dropped: 0 }
  const stopListening = writes.onWrite(announce)

  function announce({ kind, resource, row }: WriteEvent): void {
    if (resource !== 'assignment' && resource !== 'assignment_note') return
    if (tables.webhook_subscription.byId.size === 0) return
    const event = `${resource === 'assignment' ? 'Assignment' : 'AssignmentNote'}${kind}` as const
    const definitionId = 1 + webhookEvents.indexOf(event)
    for (const subscription of tables.webhook_subscription.byId.slice(0, Number.POSITIVE_INFINITY)) {
      const url = callbackUrl(subscription, definitionId)
      if (url === null) continue
      if (waiting.length >= mostWaiting) counts.dropped++
      else waiting.push({ url, body: payload(event, resource, row) })
    }
    work()
  }

  function callbackUrl(subscription: Row, definitionId: number): string | null {
    const fields = rendering.fields(tables.webhook_subscription.resource, subscription)
    if (fields.IsActive === false || Number(fields.WebhookDefinitionId) !== definitionId) return null
    const url = Object.values(fields).find(
      (value) => typeof value === 'string' && /^https?:\/\//i.test(value),
    )
    return typeof url === 'string' && URL.canParse(url) ? url : null
  }

  function payload(event: string, resource: 'assignment' | 'assignment_note', row: Row): string {
    const { keyField, externalField } = tables[resource].resource
    const fields = rendering.fields(tables[resource].resource, row)
    const named = externalField === null ? {} : { [externalField]: fields[externalField] }
    return rendering.stringify({
      EventName: event,
      ClientGuid: clientGuid,
      OccurredDateUTC: new Date(row.changedAtMs).toISOString(),
      [keyField]: row.id,
      ...named,
      RowVersion: fields.RowVersion,
    })
  }

  function work(): void {
    while (underWay.size < mostAtOnce && !ending.signal.aborted) {
      const delivery = waiting.shift()
      if (!delivery) return
      const attempt = deliver(delivery).finally(() => {
        underWay.delete(attempt)
        work()
      })
      underWay.add(attempt)
    }
  }

  async function deliver({ url, body }: Delivery): Promise<void> {
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json; charset=utf-8' },
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
    while (underWay.size > 0) await Promise.all(underWay)
  }

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
    settled,
    async close() {
      stopListening()
      waiting.length = 0
      ending.abort()
      await settled()
    },
  }
}
