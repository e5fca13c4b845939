// What becomes of one request: hooks, faults, sign-in and rights, then the operation. Pure of HTTP; http.ts delivers.

import {
  type Answer,
  badValueFor,
  type Errors,
  empty,
  type Incoming,
  invalid,
  jsonType,
  problem,
  type Service,
  wholeBody,
} from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import type { Control } from './control.ts'
import {
  deliveryOf,
  type Fault,
  type FaultSchedule,
  faultAnswer,
  isBomb,
  spoiled,
  streamOf,
} from './faults.ts'
import type { Exchange, Outcome } from './http.ts'
import { openApi } from './openapi.ts'
import type { ServiceState } from './operations.ts'
import { parameterErrors } from './parameters.ts'
import type { RecordingLog } from './request-log.ts'
import { findRoute, type Route } from './routes.ts'
import type { Tokens } from './tokens.ts'

/** Called before a request is worked on; the request waits for it. */
export type Hook = (request: {
  readonly method: string
  readonly service: Service
  readonly path: string
  readonly query: Readonly<Record<string, string>>
}) => void | Promise<void>

export type AnsweringParts = {
  /** The data of each client, by its GUID in lower case. */
  readonly clients: ReadonlyMap<string, ServiceState>
  /** The client of requests that need not name one. */
  readonly first: ServiceState
  readonly behaviour: Behaviour
  readonly faults: FaultSchedule
  readonly tokens: Tokens
  readonly log: RecordingLog
  readonly hooks: ReadonlySet<Hook>
  readonly control: Control
}

export function answering(parts: AnsweringParts): (exchange: Exchange) => Promise<Outcome> {
  const { behaviour, faults, log, hooks } = parts
  const previousPages = new Map<string, Answer>()
  const cache = openCache(behaviour)

  return async ({ request, query }) => {
    if (request.service === 'control') return plainly(parts.control(request))
    const entry = log.received(request, query)
    for (const hook of hooks)
      await hook({
        method: request.method,
        service: request.service,
        path: request.path,
        query: Object.fromEntries(query),
      })
    let fault: Fault | null = faults.faultFor(request)
    let answer = (fault && faultAnswer(fault)) ?? cache(request, () => rightAnswer(parts, request))
    if (!fault) {
      fault = faults.faultForRows(request, answer.rows ?? [])
      if (fault) answer = faultAnswer(fault) ?? answer
    }
    if (fault) answer = spoiled(fault, answer, previousPages.get(streamOf(request)))
    if (faults.needsPreviousPage && answer.ifEmpty) previousPages.set(streamOf(request), answer)
    const delivery = deliveryOf(fault)
    if (delivery !== 'never' && delivery !== 'reset') entry.answered(answer.status)
    const { gzip: isCompressed, contentLength, latencyMs } = behaviour
    return {
      answer: inWantedType(request, answer),
      delivery,
      isCompressed: isCompressed || isBomb(fault),
      isChunked: !contentLength,
      latencyMs: latencyMs ?? 0,
    }
  }
}

export const plainly = (answer: Answer): Outcome => ({
  answer,
  delivery: 'whole',
  isCompressed: false,
  isChunked: false,
  latencyMs: 0,
})

/** ASP.NET writes the one JSON type that differs from its own when it is asked for. */
function inWantedType({ headers }: Incoming, answer: Answer): Answer {
  const isWanted = answer.contentType === jsonType && /^text\/json\b/i.test(String(headers.accept ?? ''))
  return isWanted ? { ...answer, contentType: 'text/json; charset=utf-8' } : answer
}

const mostCached = 500

/** A proxy in front of the service that gives an older answer again. */
function openCache(behaviour: Behaviour): (request: Incoming, ask: () => Answer) => Answer {
  const cached = new Map<string, { readonly answer: Answer; readonly untilMs: number }>()
  return (request, ask) => {
    const { cachedForMs } = behaviour
    if (cachedForMs === null || request.method !== 'GET') return ask()
    const { service, path, query, headers } = request
    const name = JSON.stringify([service, path.toLowerCase(), [...query], headers.clientid])
    const known = cached.get(name)
    if (known && known.untilMs > Date.now()) return known.answer
    const asked = ask()
    // The body is made now: a body that is made while it is sent would show later changes.
    const answer = asked.body === null ? asked : { ...asked, body: [wholeBody(asked)] }
    cached.delete(name)
    cached.set(name, { answer, untilMs: Date.now() + cachedForMs })
    for (const oldest of cached.keys()) if (cached.size > mostCached) cached.delete(oldest)
    return answer
  }
}

function rightAnswer(parts: AnsweringParts, request: Incoming): Answer {
  const { behaviour, tokens, first } = parts
  const { service, method, path } = request
  if (service === 'auth') return signIn(parts, request)
  const isDescribed = service === 'assignment' || service === 'tracking'
  if (isDescribed && method === 'GET' && /^\/openapi\/v1\.json$/i.test(path))
    return behaviour.openApiOff
      ? empty(404)
      : openApi(service, first.tables, behaviour, request.baseUrl ?? '')
  const found = findRoute(service, method, path, behaviour)
  if (!found) return empty(404)
  if ('allowed' in found) return empty(405, { allow: found.allowed.join(', ') })
  const refusal = tokens.refusal(request)
  if (refusal) return refusal
  const { route, values } = found
  const client = clientGuid(request)
  const errors: Errors = {
    ...parameterErrors(route.parameters, values, request.query),
    ...(service === 'assignment' && client.errors),
  }
  if (Object.keys(errors).length > 0) return invalid(errors)
  const state = service === 'assignment' ? parts.clients.get(client.guid) : first
  if (!state) return withoutData(first, route)
  return lostRights(behaviour, route) ?? route.operation(state, { request, values })
}

/** A client that the service does not know: its lists are empty, no record is there, and it can write none. */
function withoutData({ lists }: ServiceState, { isList, body, path }: Route): Answer {
  if (isList) return lists.empty()
  return body && !path.includes('{') ? problem(400, { detail: 'Unknown client.' }) : problem(404)
}

/** When rights are lost, lists show nothing, and reads of single records answer what `rights` says. */
function lostRights({ rights }: Behaviour, { method, isList }: Route): Answer | null {
  if (method !== 'GET' || isList) return null
  if (rights === 'reads-404') return problem(404)
  return rights === 'reads-403' ? empty(403) : null
}

const guid = /^\{?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}?$/i

function clientGuid({ headers }: Incoming): { readonly guid: string; readonly errors?: Errors } {
  const text = String(headers.clientid ?? '').trim()
  const [, found = ''] = guid.exec(text) ?? []
  if (text === '') return { guid: '', errors: { clientId: ['The ClientId field is required.'] } }
  return found === ''
    ? { guid: '', errors: { clientId: [badValueFor(text, 'ClientId')] } }
    : { guid: found.toLowerCase() }
}

function signIn({ tokens }: AnsweringParts, request: Incoming): Answer {
  if (request.path.toLowerCase() !== '/token/generateaccesstokenfromcache') return empty(404)
  if (request.method !== 'POST') return empty(405, { allow: 'POST' })
  return tokens.signIn(request)
}
