// The budget of requests a second of one service (P10): a token bucket that holds one token, so that there is always the
// same time at least from one request to the next.

import type { Clock } from './clock.ts'

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

  async function takeTurn(signal: AbortSignal): Promise<void> {
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
      const turn = queue.then(() => takeTurn(signal))
      // Whoever gives up must not hold up those behind.
      queue = turn.catch(() => undefined)
      await turn
      return clock.now() - askedMs
    },
  }
}
