// A memory budget in bytes that several users share (P10).

import { untilAborted } from './waiting.ts'

export type Room = ReturnType<typeof openRoom>

/** For the JSON of answers that are not written yet, which takes a few times as much as rows: about twelve pages of 1,000 long records. */
const mostBytes = 20 * 1024 * 1024

export function openRoom(most = mostBytes) {
  let held = 0
  let left = Promise.withResolvers<void>()
  return {
    /** Waits until there is room for as much as is expected. If nobody else holds room, it is given however much that is. */
    async take(expectedBytes: number, signal: AbortSignal) {
      while (held > 0 && held + expectedBytes > most) await untilAborted(left.promise, signal)
      let mine = expectedBytes
      held += mine
      return {
        /** Says how many bytes it was in the end. */
        holds(bytes: number) {
          held += bytes - mine
          mine = bytes
        },
        leave() {
          held -= mine
          mine = 0
          left.resolve()
          left = Promise.withResolvers()
        },
      }
    },
  }
}
