// What becomes of one request: hooks, faults, sign-in and rights, then the operation. Pure of HTTP; http.ts delivers.

import { type Answer, type Incoming, problem, type Service } from './answer.ts'
import type { Behaviour } from './behaviour.ts'
import { deliveryOf, faultAnswer, spoiled, streamOf } from './fault-answers.ts'
import type { Fault, FaultSchedule } from './faults.ts'
import type { Exchange, Outcome } from './http.ts'
import type { ServiceState } from './operations.ts'
import type { RecordingLog } from './request-log.ts'
import { findRoute } from './routes.ts'
import type { Tokens } from './tokens.ts'

/** Called before a request is worked on; the request waits for it. */
export type Hook = (request: {
  readonly method: string
  readonly service: Service
  readonly path: string
  readonly query: Readonly<Record<string, string>>
}) => void | Promise<void>

export function answering(parts: {
  readonly state: ServiceState
  readonly behaviour: Behaviour
  readonly faults: FaultSchedule
  readonly tokens: Tokens
  readonly log: RecordingLog
  readonly hooks: ReadonlySet<Hook>
  readonly clientGuid: string
}): (exchange: Exchange) => Promise<Outcome> {
  const { state, behaviour, faults, tokens, log, hooks, clientGuid } = parts
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
    let fault: Fault | null = faults.faultFor(request)
    let answer = (fault && faultAnswer(fault)) ?? rightAnswer(request)
    if (!fault) {
      fault = faults.faultForRows(request, answer.rows ?? [])
      if (fault) answer = faultAnswer(fault) ?? answer
    }
    if (fault) answer = spoiled(fault, answer, previousPages.get(streamOf(request)))
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
        return route.isList ? state.lists.empty() : problem(404, 'This client has no such record.')
    }
    return route.operation(state, request, parameters)
  }

  function signIn(request: Incoming): Answer {
    if (request.path.toLowerCase() !== '/token/generateaccesstokenfromcache')
      return problem(404, 'The sign-in is at /Token/GenerateAccessTokenFromCache.')
    if (request.method !== 'POST') return problem(405, 'The sign-in is a POST.')
    return tokens.signIn(request)
  }
}
