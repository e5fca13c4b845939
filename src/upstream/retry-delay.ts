// When to ask again after a failed request: the whole policy, as one pure function.

import type { UpstreamError, UpstreamErrorCode } from './upstream-error.ts'

export type RetryPolicy = {
  /** Requests in all, the first one included. */
  readonly attempts: number
  readonly firstDelayMs: number
  readonly longestDelayMs: number
  /** The longest `Retry-After` that is waited for; beyond it the call fails and whoever called may come back later. */
  readonly patienceMs: number
}

export const defaultRetryPolicy: RetryPolicy = {
  attempts: 4,
  firstDelayMs: 500,
  longestDelayMs: 20_000,
  patienceMs: 120_000,
}

type Failure = Pick<UpstreamError, 'code' | 'retryable' | 'notBefore' | 'mayHaveArrived'>
export type RetryQuestion = {
  readonly policy: RetryPolicy
  readonly failure: Failure
  /** How many requests were made so far. */
  readonly attempt: number
  /** A request that changes something is repeated only when it cannot have arrived. */
  readonly isWrite: boolean
  readonly nowMs: number
  /** From 0 to 1. */
  readonly random: number
}

/** Worth trying again later, but not now: the sign-in has done all it could. */
const isSettled: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_SIGN_IN_AWAY',
  'UPSTREAM_UNAUTHORIZED',
])

/** Milliseconds to wait before asking again, or null: do not. */
export function retryDelay({
  policy,
  failure,
  attempt,
  isWrite,
  nowMs,
  random,
}: RetryQuestion): number | null {
  if (!failure.retryable || isSettled.has(failure.code) || attempt >= policy.attempts) return null
  if (isWrite && failure.mayHaveArrived) return null
  const ceilingMs = Math.min(policy.longestDelayMs, policy.firstDelayMs * 2 ** (attempt - 1))
  // Half of the delay is random, so that many workers do not come back together.
  const backoffMs = ceilingMs / 2 + (ceilingMs / 2) * random
  const askedMs = failure.notBefore ? failure.notBefore.getTime() - nowMs : 0
  if (askedMs > policy.patienceMs) return null
  return Math.max(backoffMs, askedMs)
}
