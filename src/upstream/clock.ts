// Time as this layer sees it: passed in, so that waiting can be tested without waiting.

import { setTimeout as sleep } from 'node:timers/promises'

export type Clock = {
  now(): number
  /** Comes back at that time or later, never earlier. Rejects with the signal's reason. */
  waitUntil(timeMs: number, signal: AbortSignal): Promise<void>
}

// Beyond it a timer fires at once.
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  async waitUntil(timeMs, signal) {
    signal.throwIfAborted()
    // Measured by the clock that nobody sets: one put back an hour must not make this an hour longer.
    const endsAtMs = performance.now() + timeMs - Date.now()
    // A timer may fire a millisecond early.
    for (let left = endsAtMs - performance.now(); left > 0; left = endsAtMs - performance.now()) {
      await sleep(Math.min(Math.ceil(left), longestTimerMs), undefined, { signal }).catch((cause) => {
        throw signal.aborted ? signal.reason : cause
      })
    }
  },
}
