// What the client tells while it works, for metrics and ledgers. It keeps no counts itself.

import type { ServiceName } from '../streams.ts'
import type { OperationName } from './operations.ts'

export type RequestDone = {
  readonly service: ServiceName
  readonly operation: OperationName
  /** Null when no answer came. */
  readonly status: number | null
  readonly durationMs: number
  readonly bytes: number
}
export type RetryPlanned = {
  readonly service: ServiceName
  readonly operation: OperationName
  /** How many requests were made so far. */
  readonly attempt: number
  readonly delayMs: number
  readonly reason: string
}
export type Waited = {
  readonly service: ServiceName
  readonly reason: 'budget' | 'retry-after'
  readonly waitedMs: number
}
export type SignInDone = {
  readonly service: ServiceName
  readonly outcome: 'new token' | 'same token' | 'failed'
  readonly durationMs: number
}

export type UpstreamObserver = {
  requestDone?(request: RequestDone): void
  retryPlanned?(retry: RetryPlanned): void
  waited?(wait: Waited): void
  signInDone?(signIn: SignInDone): void
}
