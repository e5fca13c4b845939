// A memory budget in bytes that several users share (P10).

import { untilAborted } from './waiting.ts'

export type Room = {
  /** Waits until there is room for as much as is expected. If nobody else holds room, it is given however much that is. */
  take(expectedBytes: number, signal: AbortSignal): Promise<Place>
}
export type Place = {
  /** Says how many bytes it was in the end. */
  holds(bytes: number): void
  leave(): void
}

/** For the JSON of answers that are not written yet, which takes a few times as much as rows: about twelve pages of 1,000 long records. */
const mostBytes = 20 * 1024 * 1024

export function openRoom(most = mostBytes): Room {
  let held = 0
  let left = Promise.withResolvers<void>()
  return {
    async take(expectedBytes, signal) {
      while (held > 0 && held + expectedBytes > most) await untilAborted(left.promise, signal)
      let mine = expectedBytes
      held += mine
      return {
        holds(bytes) {
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
