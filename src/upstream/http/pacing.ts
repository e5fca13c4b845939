// When a service may be asked: within its budget, and not before the end of the latest `Retry-After`, which holds for
// every request of the service, not only for the one that got it (P10).

import type { ServiceName } from '../../streams/catalog.ts'
import type { Clock } from '../../util/waiting.ts'
import { UpstreamError } from './errors.ts'
import type { HttpRequest, UpstreamObserver } from './transport.ts'

// The budget of requests a second of one service (P10): a token bucket that holds one token, so that there is always the
// same time at least from one request to the next.
export type RateLimit = {
  /** Waits for a token and comes back with how long that took. */
  take(signal: AbortSignal): Promise<number>
}

export function openRateLimit(options: {
  readonly requestsPerSecond: number | null
  readonly clock: Clock
}): RateLimit {
  const { requestsPerSecond, clock } = options
  if (requestsPerSecond === null) return { take: async () => 0 }
  const intervalMs = 1000 / requestsPerSecond
  let lastMs = Number.NEGATIVE_INFINITY
  let queue: Promise<unknown> = Promise.resolve()

  async function takeToken(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const nowMs = clock.now()
    // Never longer than one interval, whatever was done to the clock meanwhile.
    const waitMs = Math.min(lastMs + intervalMs - nowMs, intervalMs)
    if (waitMs > 0) await clock.waitUntil(nowMs + waitMs, signal)
    lastMs = clock.now()
  }

  return {
    async take(signal) {
      const askedMs = clock.now()
      const mine = queue.then(() => takeToken(signal))
      // Whoever gives up must not hold up those behind.
      queue = mine.catch(() => undefined)
      await mine
      return clock.now() - askedMs
    },
  }
}

export type PacingOptions = {
  readonly service: ServiceName
  readonly requestsPerSecond: number | null
  /** Whoever would have to wait longer fails instead. */
  readonly longestMs: number
  readonly clock: Clock
  readonly observer: UpstreamObserver
}
export type Pacing = {
  wait(request: Pick<HttpRequest, 'method' | 'url'>, signal: AbortSignal): Promise<void>
  pauseUntil(time: Date, status: number | null): void
}

export function openPacing(options: PacingOptions): Pacing {
  const { service, requestsPerSecond, longestMs, clock, observer } = options
  const limit = openRateLimit({ requestsPerSecond, clock })
  let pause: { readonly until: Date; readonly status: number | null } = { until: new Date(0), status: null }
  return {
    async wait(request, signal) {
      for (;;) {
        const waitedMs = await limit.take(signal)
        if (waitedMs > 0) observer.waited?.({ service, reason: 'budget', waitedMs })
        const leftMs = pause.until.getTime() - clock.now()
        if (leftMs <= 0) return
        if (leftMs > longestMs) throw longWaitError(request, pause.until, pause.status)
        await clock.waitUntil(pause.until.getTime(), signal)
        observer.waited?.({ service, reason: 'retry-after', waitedMs: leftMs })
      }
    },
    pauseUntil(until, status) {
      if (until > pause.until) pause = { until, status }
    },
  }
}

const longWaitError = (
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
    problem: `not sent, because the service asks for no requests before ${notBefore.toISOString()} (status ${status} with Retry-After).`,
  })
