// Room for so many bytes that several take at the same time (P10).

import { untilAborted } from './waiting.ts'

export type Room = {
  /** Waits until there is room for as much as is expected. One always has room, however much it takes. */
  take(expectedBytes: number, signal: AbortSignal): Promise<Place>
}
export type Place = {
  /** How much it was in the end. */
  holds(bytes: number): void
  leave(): void
}

/** JSON of answers that were asked for and are not written: what they become takes a few times as much. Twelve pages of 1,000 long records. */
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
