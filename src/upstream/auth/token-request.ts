// Asks the identity provider for a token: the request, its repetition, and what a refusal means.

import { keepToken, type Logger } from '../../log.ts'
import type { ServiceName } from '../../streams/catalog.ts'
import { type RetryPolicy, retry } from '../../util/backoff.ts'
import type { Clock } from '../../util/waiting.ts'
import { statusError } from '../http/answer.ts'
import { errorOf, retryDelay, UpstreamError, type UpstreamErrorDetails } from '../http/errors.ts'
import type { HttpRequest, Transport, UpstreamObserver } from '../http/transport.ts'
import type { SharedTokens } from './shared-tokens.ts'
import { readTokenAnswer, type TokenAnswer } from './token-answer.ts'

export type SignInOptions = {
  readonly service: ServiceName
  /** What people call it. */
  readonly name: string
  /** Null: nobody shares them. */
  readonly tokens: SharedTokens | null
  readonly authUrl: string
  readonly subjectId: string
  readonly apiKey: () => string
  readonly send: Transport['send']
  readonly clock: Clock
  readonly random: () => number
  readonly policy: RetryPolicy
  readonly observer: UpstreamObserver
  readonly log: Logger
  /** Ends with the client, not with one of the requests that wait. */
  readonly closed: AbortSignal
}
/** Not the header of the same name: that one is the customer's GUID. */
const clientIds = { assignment: 3, tracking: 13 } as const satisfies Record<ServiceName, number>

export const tokenUrl = (authUrl: string): URL => new URL(`${authUrl}/Token/GenerateAccessTokenFromCache`)

/** Asks until there is an answer; asking twice does no harm here. */
export async function requestToken(options: SignInOptions): Promise<TokenAnswer> {
  const { service, clock, policy, random, closed } = options
  try {
    return await retry(() => ask(options), {
      delayMs: (failure, attempt) =>
        retryDelay({ policy, failure, attempt, isWrite: false, nowMs: clock.now(), random: random() }),
      wait: (delayMs) => clock.waitUntil(clock.now() + delayMs, closed),
    })
  } catch (error) {
    throw error instanceof UpstreamError && error.retryable ? passingError(service, error) : error
  }
}

async function ask(options: SignInOptions): Promise<TokenAnswer> {
  const { service, authUrl, subjectId, apiKey, send, closed } = options
  const request: HttpRequest = {
    method: 'POST',
    url: tokenUrl(authUrl),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ clientId: clientIds[service], subjectId, apiKey: apiKey() }),
    largestBytes: mostAnswerBytes,
  }
  const answer = await send(request, closed).catch((error) => {
    throw error instanceof UpstreamError && error.code === 'UPSTREAM_TOO_LARGE'
      ? tooLong(service, request, 'an answer', mostAnswerBytes)
      : error
  })
  const { status, bytes, headers, receivedAtMs } = answer
  if (status < 200 || status >= 300) throw refusedOrPassing(service, request, statusError(request, answer))
  const found = readTokenAnswer({ bytes, date: headers.date, receivedAtMs })
  if ('noToken' in found)
    throw signInError(request, {
      status,
      problem: `the identity provider answered the sign-in of the ${service} service, but with no token in it: ${found.noToken}. Check AUTH_URL.`,
    })
  if (found.token.length > mostTokenBytes) throw tooLong(service, request, 'a token', mostTokenBytes)
  keepToken(found.token)
  return found
}

// Real ones have one or two kB, and few services take a header of more than 8 kB.
const mostTokenBytes = 8 * 1024
const mostAnswerBytes = 64 * 1024

/** Says nothing of what came: it is most likely the token (P9). */
const tooLong = (service: ServiceName, request: HttpRequest, what: string, mostBytes: number) =>
  signInError(request, {
    problem: `the identity provider answered the sign-in of the ${service} service with ${what} of more than ${mostBytes / 1024} kB, which Tidemark does not take. Check AUTH_URL, and what a proxy before it answers.`,
  })

function refusedOrPassing(service: ServiceName, request: HttpRequest, error: UpstreamError): UpstreamError {
  if (error.retryable || error.code === 'UPSTREAM_REDIRECT') return error
  const prefix = service === 'tracking' ? 'TRACKING_' : ''
  return signInError(request, {
    ...{ status: error.status, excerpt: error.excerpt, said: error.said, body: error.body },
    problem: `the identity provider refuses the sign-in of the ${service} service (status ${error.status}). Check ${prefix}SUBJECT_ID, ${prefix}API_KEY and ${prefix}AUTH_URL. Production and stage have different ones.`,
  })
}

/** Everything was tried; the cause says what. */
const passingError = (service: ServiceName, cause: UpstreamError): UpstreamError =>
  new UpstreamError({
    code: cause.code === 'UPSTREAM_ASKS_LATER' ? 'UPSTREAM_SIGN_IN_ASKS_LATER' : 'UPSTREAM_SIGN_IN_AWAY',
    ...{ method: cause.method, path: cause.path, status: cause.status, notBefore: cause.notBefore },
    ...{ retryable: true, mayHaveArrived: false },
    problem: `the sign-in of the ${service} service failed: ${cause.problem}`,
    cause,
  })

const signInError = (
  request: HttpRequest,
  details: Pick<UpstreamErrorDetails, 'status' | 'problem' | 'excerpt' | 'said' | 'body'>,
): UpstreamError => errorOf(request, { ...details, code: 'UPSTREAM_SIGN_IN', retryable: false })
