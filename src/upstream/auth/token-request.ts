// Asks the identity provider for a token: the request, its repetition, what its answer holds, and what a refusal means.

import type { Json, JsonObject } from '../../json/json.ts'
import { keepToken, type Logger } from '../../log.ts'
import type { ServiceName } from '../../streams/catalog.ts'
import { isObject } from '../../streams/record.ts'
import { type RetryPolicy, retry } from '../../util/backoff.ts'
import type { Clock } from '../../util/waiting.ts'
import { httpDate, statusError } from '../http/answer.ts'
import { errorOf, retryDelay, UpstreamError, type UpstreamErrorDetails } from '../http/errors.ts'
import type { HttpAnswer, HttpRequest, Transport, UpstreamObserver } from '../http/transport.ts'
import type { SharedTokens } from './shared-tokens.ts'

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
export type TokenAnswer = {
  readonly token: string
  /** When the token ends, by this machine's clock; null: the answer does not say. */
  readonly endsAtMs: number | null
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
  const { status } = answer
  if (status < 200 || status >= 300) throw refusedOrPassing(service, request, statusError(request, answer))
  const found = readTokenAnswer(answer)
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
    status: error.status,
    excerpt: error.excerpt,
    said: error.said,
    body: error.body,
    problem: `the identity provider refuses the sign-in of the ${service} service (status ${error.status}). Check ${prefix}SUBJECT_ID, ${prefix}API_KEY and ${prefix}AUTH_URL. Production and stage have different ones.`,
  })
}

/** Everything was tried; the cause says what. */
const passingError = (service: ServiceName, cause: UpstreamError): UpstreamError =>
  new UpstreamError({
    code: cause.code === 'UPSTREAM_ASKS_LATER' ? 'UPSTREAM_SIGN_IN_ASKS_LATER' : 'UPSTREAM_SIGN_IN_AWAY',
    method: cause.method,
    path: cause.path,
    status: cause.status,
    notBefore: cause.notBefore,
    retryable: true,
    mayHaveArrived: false,
    problem: `the sign-in of the ${service} service failed: ${cause.problem}`,
    cause,
  })

const signInError = (
  request: HttpRequest,
  details: Pick<UpstreamErrorDetails, 'status' | 'problem' | 'excerpt' | 'said' | 'body'>,
): UpstreamError => errorOf(request, { ...details, code: 'UPSTREAM_SIGN_IN', retryable: false })

const tokenFields = [
  ...'accesstoken bearertoken token jwt jwttoken bearer authtoken authenticationtoken'.split(' '),
  ...'authorizationtoken securitytoken sessiontoken apitoken tokenvalue tokenstring idtoken'.split(' '),
]
const endFields = [
  ...'expiresin expiresinseconds expiresat expireson expires expiresutc expiration expirationtime'.split(' '),
  ...'expirationdate expiry expirydate validto validuntil lifetime tokenlifetime ttl exp'.split(' '),
]

/** Finds the token, and how long it is good for, in an answer whose field names are not known. What fails names fields, never their values (P9). */
export function readTokenAnswer({
  bytes,
  headers,
  receivedAtMs,
}: Pick<HttpAnswer, 'bytes' | 'headers' | 'receivedAtMs'>): TokenAnswer | { readonly noToken: string } {
  const text = bytes.toString('utf8').trim()
  if (text === '') return { noToken: 'the answer is empty' }
  if (text.startsWith('<')) return { noToken: 'the answer is a page of HTML or XML' }
  const value = parsedOr(text, text)
  const objects = isObject(value) ? [value, ...Object.values(value).filter(isObject)] : []
  const token = tokenText(typeof value === 'string' ? value : findToken(objects))
  if (token === null) return { noToken: whatWasSeen(value) }
  // Times in the answer are by the provider's clock, and its `Date` header tells how far that is from ours.
  const skewMs = receivedAtMs - (httpDate(headers.date) ?? receivedAtMs)
  const ends = [...objects, claimsOf(token)]
    .flatMap((fields) => endFields.map((name) => endTime(field(fields, name), receivedAtMs, skewMs)))
    .filter((time) => time !== null)
  return { token, endsAtMs: ends.length > 0 ? Math.min(...ends) : null }
}

function parsedOr(text: string, fallback: Json): Json {
  try {
    return JSON.parse(text)
  } catch {
    return fallback
  }
}

function field(fields: JsonObject, name: string): Json | undefined {
  for (const [key, value] of Object.entries(fields))
    if (key.toLowerCase().replaceAll(/[^a-z]/g, '') === name) return value
  return undefined
}

function findToken(objects: readonly JsonObject[]): string | null {
  for (const fields of objects) {
    for (const name of tokenFields) {
      const value = field(fields, name)
      if (tokenText(value) !== null) return value as string
    }
  }
  // The field has a name that nobody thought of, but only one text of the answer is a JWT: that is the token.
  const tokens = objects.flatMap((fields) => Object.values(fields)).filter(isJwt)
  return tokens.length === 1 ? (tokens[0] ?? null) : null
}

const isJwt = (value: unknown): value is string =>
  typeof value === 'string' && /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/.test(value)

/** What can be sent in a header: one word of visible ASCII. */
function tokenText(value: unknown): string | null {
  if (typeof value !== 'string') return null
  const text = value.trim().replace(/^bearer\s+/i, '')
  return /^[\x21-\x7e]{8,}$/.test(text) && !/^[{["]/.test(text) ? text : null
}

function claimsOf(token: string): JsonObject {
  const [, payload] = isJwt(token) ? token.split('.') : []
  const claims = parsedOr(Buffer.from(payload ?? '', 'base64url').toString('utf8'), null)
  return isObject(claims) && claims.exp !== undefined ? { exp: claims.exp } : {}
}

/** Seconds from now, a date, or an epoch in seconds or milliseconds. */
function endTime(value: unknown, receivedAtMs: number, skewMs: number): number | null {
  const isNumber = typeof value === 'number' || (typeof value === 'string' && /^\d+(\.\d+)?$/.test(value))
  if (!isNumber)
    return typeof value === 'string' ? inTheFuture(Date.parse(value) + skewMs, receivedAtMs) : null
  const number = Number(value)
  if (number < 1e9) return inTheFuture(receivedAtMs + number * 1000, receivedAtMs)
  return inTheFuture((number < 1e11 ? number * 1000 : number) + skewMs, receivedAtMs)
}

/** A token that was just handed out has not ended yet: a time in the past means something else. */
const inTheFuture = (time: number, nowMs: number): number | null => (time > nowMs ? time : null)

function whatWasSeen(value: Json): string {
  if (isObject(value)) {
    const names = Object.entries(value).flatMap(([name, inner]) =>
      isObject(inner) ? Object.keys(inner).map((innerName) => `${name}.${innerName}`) : [name],
    )
    const shown = names.slice(0, 20).map((name) => name.slice(0, 60))
    return names.length === 0 ? 'the answer is an empty object' : `the fields are ${shown.join(', ')}`
  }
  if (typeof value === 'string') return 'the answer is a text that cannot be a token'
  return `the answer is ${Array.isArray(value) ? 'a list' : `JSON of type ${value === null ? 'null' : typeof value}`}`
}
