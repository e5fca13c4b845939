// What the stand-in keeps of a record. Rows never change: a change is another row with the same id, so a page that is
// being sent, a backup and a write that is not committed yet can all hold on to theirs.

import type { Behaviour } from './behaviour.ts'

export type Fields = { readonly [name: string]: unknown }

/** Just made, and still to be filled in. */
export type FreshFields = { [name: string]: unknown }

/** Where the bytes of a row are: in a buffer with those of others, for as long as one of them lives. */
export type Span = {
  readonly buffer: { readonly bytes: Buffer; rowCount: number }
  readonly start: number
  readonly end: number
  readonly style: number
}

export type Row = {
  readonly id: number
  readonly version: bigint
  /** How often the record was changed; the generated fields follow from seed, id and revision. */
  readonly revision: number
  readonly createdAtMs: number
  readonly changedAtMs: number
  readonly isDeleted: boolean
  /** Where the database keeps it: rows come in this order when nothing else is asked for. */
  readonly place: number
  /** Fields somebody set; they win over the generated ones. */
  readonly own: Fields | null
  /** Served as it is, instead of everything above. */
  readonly raw: string | Uint8Array | null
  /** Null when there is no room for its bytes; row-bytes.ts owns it. */
  cached: Span | null
}

export const emptyRow: Row = {
  id: 1,
  version: 1n,
  revision: 0,
  createdAtMs: 0,
  changedAtMs: 0,
  isDeleted: false,
  place: 0,
  own: null,
  raw: null,
  cached: null,
}

export const compareVersions = (a: Row, b: Row): number =>
  a.version < b.version ? -1 : a.version > b.version ? 1 : a.id - b.id

export const compareIds = (a: Row, b: Row): number => a.id - b.id

export const comparePlaces = (a: Row, b: Row): number => a.place - b.place || a.id - b.id

/** Midnight before the first record; what is generated lies in the year that follows. */
export const epochMs = Date.UTC(2025, 0, 1)

// Hands out row versions the way a database does: one counter for all resources, given when a row is written and not
// when its transaction commits.
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
