// The client of one upstream service: signed in, paced, and repeating what is safe to repeat. What an operation is, how it travels and
// what its answer means are in the files beside it.

import type { Json } from '../json/json.ts'
import { keepSecret, type Logger } from '../log.ts'
import type { ServiceName } from '../streams/catalog.ts'
import type { PrivateAnswers } from '../streams/private-fields.ts'
import { backoff, type RetryPolicy, retry } from '../util/backoff.ts'
import { noProxies, type Proxies } from '../util/proxies.ts'
import { type Clock, systemClock } from '../util/waiting.ts'
import { newFieldOrder } from '../wire/field-order.ts'
import type { RecordPage } from '../wire/record-page.ts'
import type { SharedTokens } from './auth/shared-tokens.ts'
import { openSignIn, type SignIn, type SignInAllowance } from './auth/sign-in.ts'
import type { SignInOptions } from './auth/token-request.ts'
import {
  beginningOf,
  httpDate,
  isAnswered,
  type ReadAnswer,
  readAnswer,
  recordsReader,
} from './http/answer.ts'
import type { AnswerMemory } from './http/answer-memory.ts'
import { type Budget, openBudgets } from './http/budget.ts'
import type { Circuit } from './http/circuit.ts'
import { errorOf, retryDelay, UpstreamError } from './http/errors.ts'
import { type Limit, openCrowd, openPacing, type Pacing, sendWatched } from './http/pacing.ts'
import { challengeText, readProblem } from './http/problem-details.ts'
import {
  type HttpAnswer,
  type HttpRequest,
  openTransport,
  type Transport,
  type UpstreamObserver,
} from './http/transport.ts'
import { type AnyRequest, prepareRequest } from './operations/request.ts'
import { type Operation, operationNamed } from './operations/table.ts'
import { withoutPrivate } from './private-answer.ts'

export type UpstreamOptions = {
  readonly service: ServiceName
  /** What people call it; left out: as it is. */
  readonly name?: string
  readonly baseUrl: string
  readonly authUrl: string
  readonly subjectId: string
  /** As it is when somebody signs in: it may change. */
  readonly apiKey: () => string
  /** Header `clientId` of the assignment service; null for the tracking service, which has none. */
  readonly clientGuid: string | null
  /** As it is when a request is sent: it may change. */
  readonly requestsPerSecond: () => number | null
  /** What other programs got; null: each signs in for itself. */
  readonly tokens?: SharedTokens | null
  /** Left out: nobody else shares it. */
  readonly budget?: Budget
  /** Of all who ask the same host; null: there is none. */
  readonly hostLimit?: Limit | null
  /** When its host is left alone, and that of the sign-in; null: never. */
  readonly circuits?: { readonly api: Circuit; readonly signIn: Circuit } | null
  readonly requestTimeoutMs: number
  readonly proxies?: Proxies
  readonly maxResponseBytes?: number
  /** Left out: that of all clients of this process. */
  readonly answerMemory?: AnswerMemory
  /** Called while a long answer comes in, to free memory that is of no more use. */
  readonly freeChunks?: () => void
  readonly log: Logger
  /** Which fields of its answers are private at the moment (P20). */
  readonly privateAnswers?: PrivateAnswers
  readonly observer?: UpstreamObserver
  readonly retryPolicy?: RetryPolicy
  readonly clock?: Clock
  readonly random?: () => number
}

export type UpstreamAnswer<Body = Json> = {
  readonly status: number
  /** Null when the answer has no body. */
  readonly body: Body | null
  readonly bytes: number
  /** The upstream's own time, from its `Date` header. */
  readonly date: Date | null
  readonly headers: HttpAnswer['headers']
}

export type Upstream = {
  readonly service: ServiceName
  /** The base URL, without a slash at its end. */
  readonly baseUrl: string
  /** One of the table by its name, or any other. */
  call(
    operation: Operation | string,
    request: AnyRequest,
    signal: AbortSignal,
    how?: { readonly largestBytes?: number },
  ): Promise<UpstreamAnswer>
  /** The same, but the records of a list are only found in its bytes, and not parsed. */
  callForRecords(
    operation: Operation | string,
    request: AnyRequest,
    signal: AbortSignal,
    how?: HowToCall,
  ): Promise<UpstreamAnswer<Json | RecordPage>>
  /** Asks an address that is no operation, such as that of a description. Never asks twice, and returns any answer. */
  askOnce(
    url: URL,
    how: { readonly isSigned: boolean; readonly mostBytes: number },
    signal: AbortSignal,
  ): Promise<HttpAnswer>
  /** Breaks off what is under way. Nothing more is sent, and who asks gets an error. */
  close(): void
}
export type HowToCall = {
  /** Left out: only the size of any answer is bounded. */
  readonly mostBytes?: number | undefined
  /** One of many that are asked for together: others go first. */
  readonly lowPriority?: boolean | undefined
}

/** Of answers that are parsed as a whole, which takes several times their bytes (P10). */
const defaultMaxResponseBytes = 32 * 1024 * 1024
// All records of an answer are held until they are written, which takes several times their bytes (P10).
const mostListBytes = 48 * 1024 * 1024

export function openUpstream(options: UpstreamOptions): Upstream {
  const { service, requestTimeoutMs, log, observer = {}, clock = systemClock, random = Math.random } = options
  const policy = options.retryPolicy ?? backoff.request
  const baseUrl = plainUrl(options.baseUrl)
  keepSecret(options.apiKey())
  const closing = new AbortController()
  const maxResponseBytes = options.maxResponseBytes ?? defaultMaxResponseBytes
  const { answerMemory: memory, proxies = noProxies, freeChunks = () => {} } = options
  const { requestsPerSecond, clientGuid, privateAnswers = () => null } = options
  const held = { maxResponseBytes, freeChunks, ...(memory && { memory }) }
  const transport = openTransport({ proxies, requestTimeoutMs, clock, ...held })
  const { budget = openBudgets({ clock }).of(baseUrl), hostLimit = null, circuits = null } = options
  const limits = [{ budget, requestsPerSecond }, ...(hostLimit ? [hostLimit] : [])] as const
  const circuit = circuits?.api ?? null
  const pacing = openPacing({ service, limits, circuit, longestMs: policy.deadlineMs, clock, observer })
  const trying = { transport, clock, random, policy, observer, log, closed: closing.signal }
  const signIn = openSignInOf(options, trying)
  const crowd = openCrowd(clock)
  const fixed = { service, baseUrl, clientGuid, privateAnswers, observer, clock }
  const parts: Parts = { ...fixed, transport, pacing, signIn }

  // Its connections end with it, and what breaks off then is not to be sent again.
  const untilClosed = (signal: AbortSignal) => AbortSignal.any([signal, closing.signal])
  const call = <Body>(asked: Asked, read: ReadAnswer<Body>, signal: AbortSignal) => {
    const { name: operation, method } = asked.operation
    const isWrite = method !== 'GET'
    return retry(() => ask(parts, asked, read, signal), {
      delayMs(failure, attempt) {
        if (isAboutTooMany(failure)) crowd.wereTooMany()
        const now = { nowMs: clock.now(), random: random() }
        const delayMs = retryDelay({ policy, failure, attempt, isWrite, ...now })
        if (delayMs === null || !(failure instanceof UpstreamError)) return null
        const { code: reason, status } = failure
        observer.retryPlanned?.({ service, operation, attempt, delayMs, reason, status })
        log.debug(
          { service, operation, attempt, delayMs, reason: failure.message },
          'sending the request again',
        )
        return delayMs
      },
      wait: (delayMs) => clock.waitUntil(clock.now() + delayMs, signal),
    })
  }
  const recordsOf = openRecordsReaders()

  return {
    service,
    baseUrl,
    askOnce: (url, how, signal) => askOnce(parts, url, how, untilClosed(signal)),
    call: async (operation, request, signal, how = {}) =>
      await call({ ...prepare(service, operation, request), ...how }, readAnswer, untilClosed(signal)),
    async callForRecords(operation, request, signal, how = {}) {
      const largestBytes = options.maxResponseBytes ?? mostListBytes
      const asked = { ...prepare(service, operation, request, how), largestBytes }
      const asking = () => call(asked, recordsOf(asked.operation.name), untilClosed(signal))
      return await (asked.lowPriority ? crowd.add(asking) : asking())
    },
    close() {
      closing.abort(new Error('the client was closed'))
      transport.close()
    },
  }
}

function openSignInOf(
  options: UpstreamOptions,
  {
    transport,
    ...trying
  }: Omit<SignInOptions, keyof UpstreamOptions | 'send'> &
    Pick<SignInOptions, 'clock' | 'random' | 'observer' | 'log'> & { readonly transport: Transport },
): SignIn {
  const { service, name = service, tokens = null, circuits = null, subjectId, apiKey } = options
  const watched: Transport['send'] = (request, signal) =>
    circuits
      ? sendWatched(circuits.signIn, request, signal, (until) => transport.send(request, until))
      : transport.send(request, signal)
  const authUrl = plainUrl(options.authUrl)
  return openSignIn({ ...trying, service, name, tokens, subjectId, apiKey, authUrl, send: watched })
}

/** The records of an operation mostly have the same fields in the same order. */
function openRecordsReaders(): (name: string) => ReadAnswer<Json | RecordPage> {
  const readers = new Map<string, ReadAnswer<Json | RecordPage>>()
  return (name) => {
    const reader = readers.get(name) ?? recordsReader(newFieldOrder())
    readers.set(name, reader)
    return reader
  }
}

const isAboutTooMany = (failure: unknown): boolean =>
  failure instanceof UpstreamError && (failure.status === 429 || failure.status === 503)

type Parts = {
  readonly service: ServiceName
  readonly baseUrl: string
  readonly clientGuid: string | null
  readonly transport: Transport
  readonly pacing: Pacing
  readonly signIn: SignIn
  readonly observer: UpstreamObserver
  readonly clock: Clock
  readonly privateAnswers: PrivateAnswers
}

type Asked = ReturnType<typeof prepare> & { readonly largestBytes?: number }

function prepare(
  service: ServiceName,
  given: Operation | string,
  request: AnyRequest,
  { mostBytes, lowPriority = false }: HowToCall = {},
) {
  const operation = typeof given === 'string' ? operationNamed(given) : given
  if (operation.service !== service)
    throw new Error(
      `${operation.name} is an operation of the ${operation.service} service, not of ${service}`,
    )
  const prepared = prepareRequest(operation, request)
  const allowance: SignInAllowance = { left: 2 }
  return { operation, prepared, allowance, mostBytes, lowPriority, wasRejected: false, wasChecked: false }
}

/** One request, repeated once with a new token when its token is rejected. */
async function ask<Body>(
  parts: Parts,
  asked: Asked,
  read: ReadAnswer<Body>,
  signal: AbortSignal,
): Promise<UpstreamAnswer<Body>> {
  const { service, pacing, signIn } = parts
  const { operation, allowance } = asked
  for (;;) {
    const token = await signIn.token(allowance, signal)
    const request = httpRequest(parts, asked, token)
    const answer = await pacing.send(request, signal, asked.lowPriority, (until) =>
      exchange(parts, asked, request, until),
    )
    const bytes = answer.bytes.length
    let isRead = false
    try {
      if (answer.status === 401) {
        if (asked.wasRejected) throw unauthorized(service, request, answer)
        asked.wasRejected = true
        await signIn.renew(token, allowance, signal)
        continue
      }
      // Some upstreams answer 403 to a token that has ended, and of many tokens nobody knows when they end.
      if (answer.status === 403 && !asked.wasChecked && (await signIn.check(token, signal))) {
        asked.wasChecked = true
        continue
      }
      signIn.confirm(token)
      const body = read(operation, request, answer)
      isRead = true
      const sentAtMs = httpDate(answer.headers.date)
      const date = sentAtMs === null ? null : new Date(sentAtMs)
      return { status: answer.status, body, bytes, date, headers: answer.headers }
    } finally {
      if (!isRead) answer.discard()
    }
  }
}

async function askOnce(
  { baseUrl, transport, pacing, signIn }: Parts,
  url: URL,
  { isSigned, mostBytes }: Parameters<Upstream['askOnce']>[1],
  signal: AbortSignal,
): Promise<HttpAnswer> {
  // The token is nobody else's business (P9).
  if (isSigned && url.origin !== new URL(baseUrl).origin)
    throw new Error(`the token is not sent to ${url.host}`)
  const headers: Record<string, string> = isSigned
    ? { authorization: `Bearer ${await signIn.token({ left: 1 }, signal)}` }
    : {}
  const request: HttpRequest = { method: 'GET', url, headers, body: null, mostBytes }
  return await pacing.send(request, signal, false, (until) => transport.send(request, until))
}

async function exchange(
  { service, transport, observer, clock, privateAnswers }: Parts,
  { operation }: Asked,
  request: HttpRequest,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const startedMs = clock.now()
  const observe = (answer: HttpAnswer | null) =>
    observer.requestDone?.({
      service,
      operation: operation.name,
      status: answer?.status ?? null,
      bytes: answer?.bytes.length ?? 0,
      isAnswered: answer !== null && isAnswered(operation, request, answer),
      durationMs: clock.now() - startedMs,
    })
  try {
    const answer = await transport.send(request, signal)
    observe(answer)
    return withoutPrivate(privateAnswers(operation.path), operation, answer)
  } catch (error) {
    observe(null)
    throw error
  }
}

function httpRequest(
  { baseUrl, clientGuid, privateAnswers }: Parts,
  { operation, mostBytes, largestBytes, prepared: { contentType, body, target } }: Asked,
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
    isTakenApart: privateAnswers(operation.path) !== null,
    ...(mostBytes !== undefined && { mostBytes }),
    ...(largestBytes !== undefined && { largestBytes }),
  }
}

function unauthorized(service: ServiceName, request: HttpRequest, answer: HttpAnswer): UpstreamError {
  const said = readProblem(answer.bytes)
  const reason = challengeText(answer.headers['www-authenticate'])
  return errorOf(request, {
    code: 'UPSTREAM_UNAUTHORIZED',
    status: 401,
    retryable: true,
    mayHaveArrived: false,
    problem: `the ${service} service rejects the token${reason === null ? '' : ` (${reason})`}, and also the one of a second sign-in. Check that its base URL and AUTH_URL belong to the same system (production or stage).`,
    said,
    body: beginningOf(answer.bytes),
  })
}

/** The URL without a slash at its end. One with user and password is refused: they would be sent instead of the token. */
function plainUrl(text: string): string {
  const url = new URL(text)
  if (url.username || url.password || url.search || url.hash)
    throw new Error(`the base URL on ${url.host} must have no user, password, query or fragment`)
  return url.href.replace(/(?<!\/)\/+$/, '')
}
