// Hands out row versions the way a database does: one counter for all resources, given when a row is written and not
// when its transaction commits.

import type { Behaviour } from './behaviour.ts'

const greatestVersion = 2n ** 63n - 1n

export type Versions = {
  next(): bigint
  /** The highest version that was given so far. */
  current(): bigint
  /** Somebody used this version: later ones are higher, unless there is nothing higher. */
  reach(version: bigint): void
  /** Back to an older counter, as after restoring a backup. */
  reset(version: bigint): void
}

export function countVersions(behaviour: Behaviour, first: bigint): Versions {
  let last = first - BigInt(behaviour.rowVersionStep)
  let sharers = 0
  function endTransaction(): void {
    sharers = 0
  }

  return {
    next() {
      if (sharers > 0 && sharers < behaviour.ties) {
        sharers++
        return last
      }
      // What is written later is another transaction: it never shares a version that somebody may have read already.
      if (sharers === 0) queueMicrotask(endTransaction)
      sharers = 1
      last += BigInt(behaviour.rowVersionStep)
      return last
    },
    current: () => last,
    reach(version) {
      if (version <= last || version === greatestVersion) return
      last = version
      sharers = 0
    },
    reset(version) {
      last = version
      sharers = 0
    },
  }
}
