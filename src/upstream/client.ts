// The client of one upstream service: signed in, paced, and repeating what is safe to repeat. What an operation is, how it travels and
// what its answer means are in the files beside it.

import type { Json } from '../json/json.ts'
import { keepSecret, type Logger } from '../log.ts'
import type { ServiceName } from '../streams/catalog.ts'
import { backoff, type RetryPolicy, retry } from '../util/backoff.ts'
import { type Clock, systemClock } from '../util/waiting.ts'
import { openSignIn, type SignIn, type SignInAllowance } from './auth/sign-in.ts'
import { httpDate, readAnswer } from './http/answer.ts'
import { retryDelay, UpstreamError } from './http/errors.ts'
import { openPacing, type Pacing } from './http/pacing.ts'
import {
  type HttpAnswer,
  type HttpRequest,
  openTransport,
  type Transport,
  type UpstreamObserver,
} from './http/transport.ts'
import {
  type AnyRequest,
  type PreparedRequest,
  prepareRequest,
  type RequestOf,
} from './operations/request.ts'
import { type Operation, type OperationName, operations } from './operations/table.ts'

export type UpstreamOptions = {
  readonly service: ServiceName
  readonly baseUrl: string
  readonly authUrl: string
  readonly subjectId: string
  readonly apiKey: string
  /** Header `clientId` of the assignment service; null for the tracking service, which has none. */
  readonly clientGuid: string | null
  readonly requestsPerSecond: number | null
  readonly requestTimeoutMs: number
  readonly maxResponseBytes?: number
  readonly log: Logger
  readonly observer?: UpstreamObserver
  readonly retryPolicy?: RetryPolicy
  readonly clock?: Clock
  readonly random?: () => number
}

export type UpstreamAnswer = {
  readonly status: number
  /** Null when the answer has no body. */
  readonly body: Json | null
  readonly bytes: number
  /** The upstream's own time, from its `Date` header. */
  readonly date: Date | null
}

export type Upstream = {
  readonly service: ServiceName
  call<Name extends OperationName>(
    name: Name,
    request: RequestOf<Name>,
    signal: AbortSignal,
  ): Promise<UpstreamAnswer>
  close(): void
}

const defaultMaxResponseBytes = 256 * 1024 * 1024

export function openUpstream(options: UpstreamOptions): Upstream {
  const { service, requestTimeoutMs, log, observer = {}, clock = systemClock, random = Math.random } = options
  const policy = options.retryPolicy ?? backoff.request
  const baseUrl = plainUrl(options.baseUrl)
  keepSecret(options.apiKey)
  const closing = new AbortController()
  const maxResponseBytes = options.maxResponseBytes ?? defaultMaxResponseBytes
  const transport = openTransport({ requestTimeoutMs, maxResponseBytes, clock })
  const { requestsPerSecond, clientGuid } = options
  const pacing = openPacing({ service, requestsPerSecond, longestMs: policy.deadlineMs, clock, observer })
  const signIn = openSignIn({
    ...{ service, transport, clock, random, policy, observer, log, closed: closing.signal },
    ...{ authUrl: plainUrl(options.authUrl), subjectId: options.subjectId, apiKey: options.apiKey },
  })
  const parts: Parts = { service, baseUrl, clientGuid, transport, pacing, signIn, observer, clock }

  return {
    service,
    async call(name, request, signal) {
      const asked = prepare(service, name, request as AnyRequest)
      const isWrite = asked.operation.method !== 'GET'
      return await retry(() => ask(parts, asked, signal), {
        delayMs(failure, attempt) {
          if (failure instanceof UpstreamError && failure.code === 'UPSTREAM_STATUS' && failure.notBefore)
            pacing.pauseUntil(failure.notBefore, failure.status)
          const delayMs = retryDelay({
            policy,
            failure,
            attempt,
            isWrite,
            nowMs: clock.now(),
            random: random(),
          })
          if (delayMs === null || !(failure instanceof UpstreamError)) return null
          observer.retryPlanned?.({ service, operation: name, attempt, delayMs, reason: failure.code })
          log.debug(
            { service, operation: name, attempt, delayMs, reason: failure.message },
            'sending the request again',
          )
          return delayMs
        },
        wait: (delayMs) => clock.waitUntil(clock.now() + delayMs, signal),
      })
    },
    close() {
      closing.abort(new Error('the client was closed'))
      transport.close()
    },
  }
}

type Parts = {
  readonly service: ServiceName
  readonly baseUrl: string
  readonly clientGuid: string | null
  readonly transport: Transport
  readonly pacing: Pacing
  readonly signIn: SignIn
  readonly observer: UpstreamObserver
  readonly clock: Clock
}

type Asked = {
  readonly name: OperationName
  readonly operation: Operation
  readonly prepared: PreparedRequest
  readonly allowance: SignInAllowance
  wasRejected: boolean
  wasChecked: boolean
}

function prepare(service: ServiceName, name: OperationName, request: AnyRequest): Asked {
  const operation: Operation = operations[name]
  if (operation.service !== service)
    throw new Error(`${name} is an operation of the ${operation.service} service, not of ${service}`)
  const prepared = prepareRequest(operation, request)
  return { name, operation, prepared, allowance: { left: 2 }, wasRejected: false, wasChecked: false }
}

/** One request, repeated once with a new token when its token is rejected. */
async function ask(parts: Parts, asked: Asked, signal: AbortSignal): Promise<UpstreamAnswer> {
  const { service, pacing, signIn } = parts
  const { operation, allowance } = asked
  for (;;) {
    const token = await signIn.token(allowance, signal)
    const request = httpRequest(parts, asked, token)
    await pacing.wait(request, signal)
    const answer = await exchange(parts, asked.name, request, signal)
    if (answer.status === 401) {
      if (asked.wasRejected) throw unauthorized(service, request)
      asked.wasRejected = true
      await signIn.renew(token, allowance, signal)
      continue
    }
    // Some upstreams say so of a token that is over, and of many nobody knows when that is.
    if (answer.status === 403 && !asked.wasChecked && (await signIn.check(token, signal))) {
      asked.wasChecked = true
      continue
    }
    signIn.confirm(token)
    const body = readAnswer(operation, request, answer)
    const sentAtMs = httpDate(answer.headers.date)
    const date = sentAtMs === null ? null : new Date(sentAtMs)
    return { status: answer.status, body, bytes: answer.bytes.length, date }
  }
}

async function exchange(
  { service, transport, observer, clock }: Parts,
  operation: OperationName,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const startedMs = clock.now()
  const observe = (status: number | null, bytes: number) =>
    observer.requestDone?.({ service, operation, status, durationMs: clock.now() - startedMs, bytes })
  try {
    const answer = await transport.send(request, signal)
    observe(answer.status, answer.bytes.length)
    return answer
  } catch (error) {
    observe(null, 0)
    throw error
  }
}

function httpRequest(
  { baseUrl, clientGuid }: Parts,
  { operation, prepared: { contentType, body, target } }: Asked,
  token: string,
): HttpRequest {
  return {
    method: operation.method,
    url: new URL(`${baseUrl}${target}`),
    headers: {
      authorization: `Bearer ${token}`,
      ...(clientGuid !== null && { clientId: clientGuid }),
      ...(contentType !== null && { 'content-type': contentType }),
    },
    body,
  }
}

const unauthorized = (service: ServiceName, { method, url }: HttpRequest): UpstreamError =>
  new UpstreamError({
    code: 'UPSTREAM_UNAUTHORIZED',
    method,
    path: url.pathname,
    status: 401,
    retryable: true,
    mayHaveArrived: false,
    problem: `the ${service} service rejects the token, and also the one of a second sign-in. Check that its base URL and AUTH_URL belong to the same system (production or stage).`,
  })

/** Without a slash at its end. User and password in it would be sent instead of the token. */
function plainUrl(text: string): string {
  const url = new URL(text)
  if (url.username || url.password || url.search || url.hash)
    throw new Error(`the base URL on ${url.host} must have no user, password, query or fragment`)
  return url.href.replace(/\/+$/, '')
}
