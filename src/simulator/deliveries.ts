// Tells webhook subscribers what was written, with real POST requests: fire and forget, a few at a time, and never
// more of them waiting than a bounded number.

import type { ServerResponse } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { createGzip, gzip } from 'node:zlib'
import { type Answer, wholeBody } from './answer.ts'
import { webhookEvents } from './child-fields.ts'
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

type PlannedDelivery = { readonly url: string; readonly body: string }

export function startDeliveries(parts: {
  readonly tables: Tables
  readonly writes: Writes
  readonly rendering: Rendering
  readonly clientGuid: string
}): Deliveries {
  const { tables, writes, rendering, clientGuid } = parts
  const waiting: PlannedDelivery[] = []
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

  async function deliver({ url, body }: PlannedDelivery): Promise<void> {
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

// Puts an answer on the wire, rightly or as a fault has it.
export type Delivery = 'whole' | 'never' | 'reset' | { readonly bytesPerSecond: number }

export async function deliver(
  response: ServerResponse,
  answer: Answer,
  delivery: Delivery,
  isCompressed: boolean,
): Promise<void> {
  if (delivery === 'never' || response.destroyed) return
  const { status, body, contentType, headers } = answer
  response.statusCode = status
  for (const [name, value] of Object.entries(headers ?? {})) response.setHeader(name, value)
  if (body !== null) response.setHeader('content-type', contentType)
  if (body !== null && isCompressed) response.setHeader('content-encoding', 'gzip')
  if (delivery === 'whole' && body !== null && !Array.isArray(body))
    return stream(response, body, isCompressed)
  const whole = isCompressed && body !== null ? [await compressed(wholeBody(answer))] : [...(body ?? [])]
  if (status !== 204) response.setHeader('content-length', lengthOf(whole))
  if (delivery === 'whole') return send(response, whole)
  if (delivery === 'reset') return resetHalfway(response, Buffer.concat(whole))
  await drip(response, Buffer.concat(whole), delivery.bytesPerSecond)
}

const lengthOf = (pieces: readonly Buffer[]) => pieces.reduce((sum, piece) => sum + piece.length, 0)

/** Pieces are not joined first: copying a page costs as much as sending it. */
function send(response: ServerResponse, pieces: readonly Buffer[]): void {
  response.cork()
  for (const piece of pieces) response.write(piece)
  response.end()
}

function stream(response: ServerResponse, body: Iterable<Buffer>, isCompressed: boolean): void {
  const pieces = Readable.from(body, { objectMode: false, highWaterMark: 1_000_000 })
  // A client that leaves early is no error of the stand-in.
  if (isCompressed) pipeline(pieces, createGzip({ level: 1 }), response, () => {})
  else pipeline(pieces, response, () => {})
}

const compressed = (bytes: Buffer): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    gzip(bytes, { level: 1 }, (error, result) => (error ? reject(error) : resolve(result)))
  })

function resetHalfway(response: ServerResponse, bytes: Buffer): void {
  const reset = () => response.socket?.resetAndDestroy()
  if (bytes.length === 0) reset()
  else response.write(bytes.subarray(0, Math.floor(bytes.length / 2)), reset)
}

async function drip(response: ServerResponse, bytes: Buffer, bytesPerSecond: number): Promise<void> {
  const pieceBytes = Math.max(1, Math.floor(bytesPerSecond / 10))
  for (let start = 0; start < bytes.length && !response.destroyed; start += pieceBytes) {
    response.write(bytes.subarray(start, start + pieceBytes))
    await delay(100)
  }
  response.end()
}
