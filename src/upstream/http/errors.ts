// The one error of this layer: what was asked, what came instead, whether trying again can help and what to do. It never
// carries the HTTP library's own error, which holds the request's headers (P9).

import { redact } from '../../log.ts'
import { delayAfter, type RetryPolicy } from '../../util/backoff.ts'
import { type ProblemDetails, problemText } from './problem-details.ts'

export type UpstreamErrorCode =
  /** No connection, or it broke before an answer was there. */
  | 'UPSTREAM_UNREACHABLE'
  | 'UPSTREAM_TIMEOUT'
  /** The body ended too early. */
  | 'UPSTREAM_TRUNCATED'
  | 'UPSTREAM_TOO_LARGE'
  /** It came while other answers took the memory that there is for them. */
  | 'UPSTREAM_NO_ROOM'
  /** Far more came than was asked for, as if everything there is. */
  | 'UPSTREAM_UNPAGED'
  | 'UPSTREAM_STATUS'
  /** It asks to be left alone for longer than is believed. */
  | 'UPSTREAM_ASKS_LATER'
  /** Not sent: it failed again and again, and somebody else may be trying it. */
  | 'UPSTREAM_LEFT_ALONE'
  /** It sends us to another address; the token does not follow. */
  | 'UPSTREAM_REDIRECT'
  /** The token is rejected, and so is a new one. */
  | 'UPSTREAM_UNAUTHORIZED'
  /** The token is rejected, and the identity provider hands out the same one again. */
  | 'UPSTREAM_TOKEN_REPEATED'
  | 'UPSTREAM_SIGN_IN'
  /** The identity provider does not answer as it should; nothing is said about the credentials. */
  | 'UPSTREAM_SIGN_IN_AWAY'
  /** The identity provider asks to be left alone for longer than is believed. */
  | 'UPSTREAM_SIGN_IN_ASKS_LATER'
  | 'UPSTREAM_HTML'
  | 'UPSTREAM_CONTENT_TYPE'
  | 'UPSTREAM_JSON'
  /** An operation of the interface that this service does not have, or has switched off. */
  | 'UPSTREAM_NOT_OFFERED'
  /** JSON, but not what this operation answers. */
  | 'UPSTREAM_SHAPE'

export type UpstreamErrorDetails = {
  readonly code: UpstreamErrorCode
  readonly method: string
  /** Path without the query, as it was asked. */
  readonly path: string
  readonly status?: number | null
  readonly retryable: boolean
  /** What happened and what to do, as sentences that go on after `GET /api/…: `. */
  readonly problem: string
  /** The answer's first bytes. */
  readonly excerpt?: string | null
  /** What the answer says went wrong; if it says that, the message leaves out its first bytes. */
  readonly said?: ProblemDetails | null
  /** The whole answer. */
  readonly body?: Buffer | null
  /** What was answered, such as `status 404`, if that may also mean that there is no such page. */
  readonly noPage?: string | null
  /** Not to be asked again before. */
  readonly notBefore?: Date | null
  /** False only when the request cannot have reached the upstream. */
  readonly mayHaveArrived?: boolean
  readonly cause?: unknown
}

export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  readonly code: UpstreamErrorCode
  readonly method: string
  readonly path: string
  /** The message without method and path. */
  readonly problem: string
  readonly status: number | null
  readonly retryable: boolean
  readonly excerpt: string | null
  readonly notBefore: Date | null
  readonly mayHaveArrived: boolean
  readonly noPage: string | null
  // Not to be seen by whoever logs the fields of an error.
  readonly #body: Buffer | null
  readonly #said: ProblemDetails | null

  constructor(details: UpstreamErrorDetails) {
    const { excerpt = null, said = null, cause } = details
    const begins = excerpt === null ? '' : ` It begins: ${excerpt}`
    const problem = redact(`${details.problem}${said === null ? begins : ` It says: ${problemText(said)}`}`)
    super(`${details.method} ${redact(details.path)}: ${problem}`, cause === undefined ? {} : { cause })
    this.code = details.code
    this.method = details.method
    this.path = redact(details.path)
    this.problem = problem
    this.status = details.status ?? null
    this.retryable = details.retryable
    this.excerpt = excerpt
    this.notBefore = details.notBefore ?? null
    this.mayHaveArrived = details.mayHaveArrived ?? true
    this.noPage = details.noPage ?? null
    this.#body = details.body ?? null
    this.#said = said
  }

  /** What the service says went wrong, if it says so in a form that is known. */
  get said(): ProblemDetails | null {
    return this.#said
  }

  /** The whole answer, with what may be secret in it; null: there is none. */
  get body(): Buffer | null {
    return this.#body
  }
}

type Asked = { readonly method: string; readonly url: URL }

const statusesOfServices: ReadonlySet<number | null> = new Set([429, 502, 503, 504])
const codesOfServices: ReadonlySet<UpstreamErrorCode> = new Set(['UPSTREAM_UNREACHABLE', 'UPSTREAM_TIMEOUT'])

export const isStatusOfService = (status: number | null): boolean => statusesOfServices.has(status)
/** Whether it says that the service does not work, rather than that this request does not. */
export const isAboutService = ({ code, status }: Pick<UpstreamError, 'code' | 'status'>): boolean =>
  codesOfServices.has(code) || isStatusOfService(status)

/** It was not sent, or its sign-in was not. */
export const isLeftAlone = (error: unknown): boolean =>
  error instanceof UpstreamError && (error.code === 'UPSTREAM_LEFT_ALONE' || isLeftAlone(error.cause))

/** What went wrong with a request. */
export const errorOf = (
  { method, url }: Asked,
  details: Omit<UpstreamErrorDetails, 'method' | 'path'>,
): UpstreamError => new UpstreamError({ ...details, method, path: url.pathname })

const window = 65_536
const longest = 200

/** The first bytes of a body as one line, cut, with secrets taken out before the cut. */
export function excerptOf(bytes: Uint8Array): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, window)).toString('utf8')
  const clean = redact(text)
  // So much was taken out that a secret which the end of the window cuts could show.
  if (bytes.length > window && clean.length < window / 2) return '[secret]'
  const line = clean.replaceAll(/[\s\p{Cc}]+/gu, ' ').trim()
  if (line === '') return '(nothing)'
  return line.length <= longest ? line : `${line.slice(0, longest)}…`
}

// When to ask again after a failed request: the whole decision, as one pure function.
export type RetryQuestion = {
  readonly policy: RetryPolicy
  readonly failure: unknown
  /** How many requests were made so far. */
  readonly attempt: number
  /** A request that changes something is repeated only when it cannot have arrived. */
  readonly isWrite: boolean
  readonly nowMs: number
  /** From 0 to 1. */
  readonly random: number
}

/** Worth trying again later, but not now. */
const isSettled: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_LEFT_ALONE',
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_SIGN_IN_AWAY',
  'UPSTREAM_SIGN_IN_ASKS_LATER',
  'UPSTREAM_UNAUTHORIZED',
])

/** Milliseconds to wait before asking again, or null: do not. */
export function retryDelay(question: RetryQuestion): number | null {
  const { policy, failure, attempt, isWrite, nowMs, random } = question
  if (!(failure instanceof UpstreamError)) return null
  if (!failure.retryable || isSettled.has(failure.code) || attempt >= policy.attempts) return null
  if (isWrite && failure.mayHaveArrived) return null
  const askedMs = failure.notBefore ? failure.notBefore.getTime() - nowMs : 0
  // The caller may try again later.
  if (askedMs > policy.deadlineMs) return null
  return Math.max(delayAfter(policy, attempt, random), askedMs)
}
