// When a service may be asked: within its budget, and not before the end of the latest `Retry-After`, which holds for
// every request of the service, not only for the one that got it (P10).

import type { ServiceName } from '../streams.ts'
import type { Clock } from './clock.ts'
import type { UpstreamObserver } from './observer.ts'
import { openRateLimit } from './rate-limit.ts'
import type { HttpRequest } from './transport.ts'
import { UpstreamError } from './upstream-error.ts'

export type PacingOptions = {
  readonly service: ServiceName
  readonly requestsPerSecond: number | null
  /** Whoever would have to wait longer fails instead. */
  readonly patienceMs: number
  readonly clock: Clock
  readonly observer: UpstreamObserver
}
export type Pacing = {
  turn(request: Pick<HttpRequest, 'method' | 'url'>, signal: AbortSignal): Promise<void>
  holdUntil(time: Date, status: number | null): void
}

export function openPacing(options: PacingOptions): Pacing {
  const { service, requestsPerSecond, patienceMs, clock, observer } = options
  const limit = openRateLimit({ requestsPerSecond, clock })
  let held: { readonly until: Date; readonly status: number | null } = { until: new Date(0), status: null }
  return {
    async turn(request, signal) {
      for (;;) {
        const waitedMs = await limit.take(signal)
        if (waitedMs > 0) observer.waited?.({ service, reason: 'budget', waitedMs })
        const leftMs = held.until.getTime() - clock.now()
        if (leftMs <= 0) return
        if (leftMs > patienceMs) throw heldError(request, held.until, held.status)
        await clock.waitUntil(held.until.getTime(), signal)
        observer.waited?.({ service, reason: 'retry-after', waitedMs: leftMs })
      }
    },
    holdUntil(until, status) {
      if (until > held.until) held = { until, status }
    },
  }
}

const heldError = (
  { method, url }: Pick<HttpRequest, 'method' | 'url'>,
  notBefore: Date,
  status: number | null,
): UpstreamError =>
  new UpstreamError({
    code: 'UPSTREAM_STATUS',
    method,
    path: url.pathname,
    status,
    retryable: true,
    mayHaveArrived: false,
    notBefore,
    problem: `not asked, as the service wants to be left alone until ${notBefore.toISOString()} (status ${status} with Retry-After).`,
  })
