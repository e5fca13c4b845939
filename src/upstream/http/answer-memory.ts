// The memory for answers: one budget for all requests of the process, because several large answers at once take as much as one that is
// several times as large (P10). An answer takes its share while it comes in, and holds it until nobody needs its bytes any more.

import { totalmem } from 'node:os'
import { untilAborted } from '../../util/waiting.ts'

export type AnswerMemory = ReturnType<typeof openAnswerMemory>
export type Share = ReturnType<AnswerMemory['open']>

const megabyte = 1024 * 1024
/** What the program takes besides answers. */
const programBytes = 160 * megabyte
/** What is made of an answer takes about as much once more. */
const share = 1 / 2
/** One page may always be as long as a page may be. */
const leastBytes = 48 * megabyte
const mostBytes = 256 * megabyte

/** Follows the limit of the container, or the size of the machine. */
export function answerBytesFor(memoryBytes: number): number {
  return Math.min(mostBytes, Math.max(leastBytes, Math.floor((memoryBytes - programBytes) * share)))
}

export function openAnswerMemory(most: number) {
  let held = 0
  let holderCount = 0
  let waiterCount = 0
  let changed = Promise.withResolvers<void>()
  function tellWaiters(): void {
    changed.resolve()
    changed = Promise.withResolvers()
  }
  return {
    /** How many bytes all answers may take together. */
    most,
    open() {
      let mine = 0
      let isOver = false
      const take = (bytes: number): boolean => {
        if (isOver) return false
        const more = Math.max(0, bytes - mine)
        // A single answer is bounded by a limit of its own.
        if (held > mine && held + more > most) return false
        if (mine === 0 && more > 0) holderCount++
        mine += more
        held += more
        return true
      }
      return {
        /** Takes so many bytes in all. False: others hold too much at the moment. */
        take,
        /** Takes them as soon as there is room. False: there was none in time, or nobody would make any, because all others wait as well. */
        async wait(bytes: number, longestMs: number, signal: AbortSignal): Promise<boolean> {
          const isHolder = mine > 0
          const late = AbortSignal.timeout(longestMs)
          const isLate = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve()))
          if (isHolder) waiterCount++
          try {
            while (!take(bytes)) {
              if (isOver || late.aborted || (isHolder && waiterCount === holderCount)) return false
              await untilAborted(Promise.race([changed.promise, isLate]), signal)
            }
            return true
          } finally {
            if (isHolder) waiterCount--
          }
        },
        /** Given back, also twice. */
        leave() {
          isOver = true
          if (mine > 0) holderCount--
          held -= mine
          mine = 0
          tellWaiters()
        },
      }
    },
  }
}

export const answerMemory = openAnswerMemory(
  answerBytesFor(Math.min(process.constrainedMemory() || totalmem(), totalmem())),
)
