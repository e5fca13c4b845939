// Who goes first: what people wait for is read at once, and what can wait does so meanwhile, though never for long.

import { setTimeout as pause } from 'node:timers/promises'

export type RightOfWay = {
  /** Has the right of way as long as it takes. */
  goFirst<Result>(work: () => Promise<Result>): Promise<Result>
  /** Waits until nobody has it, but no longer than the bound. */
  giveWay(signal: AbortSignal): Promise<void>
}

export function openRightOfWay({ longestMs }: { readonly longestMs: number }): RightOfWay {
  let underWay = 0
  let free = Promise.withResolvers<void>()
  return {
    async goFirst(work) {
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
    async giveWay(signal) {
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
