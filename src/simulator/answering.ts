// What becomes of one request: hooks, faults, sign-in and rights, then the operation. Pure of HTTP; http.ts delivers.

import { type Answer, type Incoming, jsonText, problem, type Service, wholeBody } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import type { Delivery } from './deliveries.ts'
import type { Fault, FaultSchedule } from './faults.ts'
import type { Exchange, Outcome } from './http.ts'
import type { Stock } from './operations.ts'
import type { RecordingLog } from './request-log.ts'
import { findRoute } from './routes.ts'
import type { Tokens } from './tokens.ts'

// How each fault looks to the client: another answer, or the right answer delivered wrongly.
/** Of the faults that need no right answer. */
export function faultAnswer(fault: Fault): Answer | null {
  if (typeof fault.kind === 'number') {
    const seconds = fault.retryAfterSeconds
    const answer = problem(fault.kind, 'The stand-in was told to fail this request.')
    if (seconds === undefined) return answer
    const date = new Date(Math.ceil((Date.now() + seconds * 1000) / 1000) * 1000)
    const value = fault.retryAfterAs === 'date' ? date.toUTCString() : String(seconds)
    return { ...answer, headers: { 'retry-after': value } }
  }
  if (fault.kind === 'html') {
    const page = '<!DOCTYPE html><html><head><title>Maintenance</title></head><body>Back soon.</body></html>'
    return { ...jsonText(200, page), contentType: 'text/html; charset=utf-8' }
  }
  return null
}

/** Of the faults that spoil a right answer. Every answer that is not a list passes through the last two as it is. */
export function spoil(fault: Fault, answer: Answer, previousPage: Answer | undefined): Answer {
  switch (fault.kind) {
    case 'truncated': {
      const whole = wholeBody(answer)
      return { ...answer, body: [whole.subarray(0, Math.floor(whole.length / 2))] }
    }
    case 'content-type':
      return { ...answer, contentType: 'application/octet-stream' }
    case 'duplicate-page':
      return previousPage ?? answer
    case 'empty-page':
      return answer.ifEmpty ? { ...answer, body: [answer.ifEmpty], rows: [] } : answer
    default:
      return answer
  }
}

export function deliveryOf(fault: Fault | null): Delivery {
  if (fault?.kind === 'hang') return 'never'
  if (fault?.kind === 'reset') return 'reset'
  if (fault?.kind === 'slow-drip') return { bytesPerSecond: fault.bytesPerSecond ?? 1_000 }
  return 'whole'
}

/** Which list a page belongs to: the same one, whatever row version or page it was asked from. */
export const streamOf = (request: Incoming): string =>
  `${request.service} ${request.path.toLowerCase().replace(/\/-?\d+$/, '')}`

/** Called before a request is worked on; the request waits for it. */
export type Hook = (request: {
  readonly method: string
  readonly service: Service
  readonly path: string
  readonly query: Readonly<Record<string, string>>
}) => void | Promise<void>

export function answering(parts: {
  readonly stock: Stock
  readonly behaviour: Behaviour
  readonly faults: FaultSchedule
  readonly tokens: Tokens
  readonly log: RecordingLog
  readonly hooks: ReadonlySet<Hook>
  readonly clientGuid: string
}): (exchange: Exchange) => Promise<Outcome> {
  const { stock, behaviour, faults, tokens, log, hooks, clientGuid } = parts
  const previousPages = new Map<string, Answer>()

  return async ({ request, query }) => {
    const entry = log.received(request, query)
    for (const hook of hooks)
      await hook({
        method: request.method,
        service: request.service,
        path: request.path,
        query: Object.fromEntries(query),
      })
    let fault: Fault | null = faults.strike(request)
    let answer = (fault && faultAnswer(fault)) ?? rightAnswer(request)
    if (!fault) {
      fault = faults.strikeRows(request, answer.rows ?? [])
      if (fault) answer = faultAnswer(fault) ?? answer
    }
    if (fault) answer = spoil(fault, answer, previousPages.get(streamOf(request)))
    if (faults.needsPreviousPage && answer.ifEmpty) previousPages.set(streamOf(request), answer)
    const delivery = deliveryOf(fault)
    if (delivery !== 'never' && delivery !== 'reset') entry.answered(answer.status)
    return { answer, delivery, isCompressed: behaviour.gzip }
  }

  function rightAnswer(request: Incoming): Answer {
    if (request.service === 'auth') return signIn(request)
    const refusal = tokens.refusal(request)
    if (refusal) return refusal
    const found = findRoute(request.service, request.method, request.path)
    if (!found) return problem(404, `There is no ${request.path} here.`)
    if ('allowed' in found)
      return {
        ...problem(405, `${request.method} is not allowed here.`),
        headers: { allow: found.allowed.join(', ') },
      }
    const { route, parameters } = found
    if (request.service === 'assignment') {
      const client = request.headers.clientid
      if (client === undefined)
        return problem(400, 'The header clientId is missing.', {
          clientId: ['The clientId field is required.'],
        })
      // A client without data: lists are empty, and no record is there.
      if (String(client).toLowerCase() !== clientGuid.toLowerCase())
        return route.isList ? stock.lists.empty() : problem(404, 'This client has no such record.')
    }
    return route.operation(stock, request, parameters)
  }

  function signIn(request: Incoming): Answer {
    if (request.path.toLowerCase() !== '/token/generateaccesstokenfromcache')
      return problem(404, 'The sign-in is at /Token/GenerateAccessTokenFromCache.')
    if (request.method !== 'POST') return problem(405, 'The sign-in is a POST.')
    return tokens.signIn(request)
  }
}
