// Who goes first: what people wait for is read at once, and what can wait does so meanwhile, though never for long.

import { setTimeout as pause, setTimeout as sleep, setTimeout as wait } from 'node:timers/promises'

export type PriorityGate = {
  /** Has the right of way as long as it takes. */
  first<Result>(work: () => Promise<Result>): Promise<Result>
  /** Waits until nobody has it, but no longer than the bound. */
  yieldTo(signal: AbortSignal): Promise<void>
}

export function openPriorityGate({ longestMs }: { readonly longestMs: number }): PriorityGate {
  let underWay = 0
  let free = Promise.withResolvers<void>()
  return {
    async first(work) {
      underWay++
      try {
        return await work()
      } finally {
        if (--underWay === 0) {
          free.resolve()
          free = Promise.withResolvers<void>()
        }
      }
    },
    async yieldTo(signal) {
      if (underWay === 0) return
      const over = new AbortController()
      const bound = pause(longestMs, undefined, { signal: AbortSignal.any([signal, over.signal]) })
      try {
        await Promise.race([free.promise, bound])
      } finally {
        over.abort()
        bound.catch(() => {})
      }
    },
  }
}

// Waiting for what may hang, no longer than is told. The work itself goes on; only nobody waits for it any more.
export async function within<Result>(ms: number, work: PromiseLike<Result>): Promise<Result> {
  const late = new AbortController()
  const timeout = wait(ms, undefined, { signal: late.signal, ref: false }).then(() => {
    throw new Error(`no answer within ${ms} ms`)
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    late.abort()
    timeout.catch(() => {})
  }
}

// Time as this layer sees it: passed in, so that waiting can be tested without waiting.
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
