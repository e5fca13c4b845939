// Waiting: with a time limit, by a clock that tests can replace, and after those who go first.

import { setTimeout as sleep } from 'node:timers/promises'
import { TimedOut } from './errors.ts'

/** Rejects with `TimedOut`. The work itself goes on; only nobody waits for it any more. */
export async function withTimeout<Result>(ms: number, work: PromiseLike<Result>): Promise<Result> {
  const answered = new AbortController()
  const timeout = sleep(ms, undefined, { signal: answered.signal, ref: false }).then(() => {
    throw new TimedOut(`no answer within ${ms} ms`)
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    answered.abort()
    timeout.catch(() => {})
  }
}

/** For `catch`: null when the time is up. */
export function unlessTimedOut(error: unknown): null {
  if (error instanceof TimedOut) return null
  throw error
}

/** Rejects with the signal's reason as soon as it is aborted; the work goes on. */
export function untilAborted<Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(signal.reason)
    if (signal.aborted) giveUp()
    signal.addEventListener('abort', giveUp, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', giveUp))
  })
}

// Time is passed in, so that waiting can be tested without waiting.
export type Clock = {
  now(): number
  /** Comes back at that time or later, never earlier. Rejects with the signal's reason. */
  waitUntil(timeMs: number, signal: AbortSignal): Promise<void>
}

/** A timer that is set for longer fires at once. */
export const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  async waitUntil(timeMs, signal) {
    signal.throwIfAborted()
    // Measured by a clock that nobody can set: if the usual one is put back an hour, this must not wait an hour longer.
    const endsAtMs = performance.now() + timeMs - Date.now()
    // A timer may fire a millisecond early.
    for (let left = endsAtMs - performance.now(); left > 0; left = endsAtMs - performance.now()) {
      await sleep(Math.min(Math.ceil(left), longestTimerMs), undefined, { signal }).catch((cause) => {
        throw signal.aborted ? signal.reason : cause
      })
    }
  },
}

// A gate for two classes of work: what people wait for goes first, and the rest waits meanwhile, though never for long.
export function openPriorityGate({ longestMs }: { readonly longestMs: number }) {
  let underWay = 0
  let free = Promise.withResolvers<void>()
  return {
    /** Goes first as long as it takes. */
    async first<Result>(work: () => Promise<Result>): Promise<Result> {
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
    /** Waits until nobody goes first, but no longer than the bound. */
    async yieldTo(signal: AbortSignal): Promise<void> {
      if (underWay === 0) return
      await withTimeout(longestMs, untilAborted(free.promise, signal)).catch(unlessTimedOut)
    },
  }
}
