// What a reading in ranges has left above a position, as it is kept beside that position: versions are text, because numbers of
// JSON are not exact in every program that reads them.

import type { Unread } from '../../sync/ports/store.ts'

/** Where a run begins. */
export type StartingPoint = { readonly position: bigint; readonly unread: Unread | null }

type Kept = { readonly up_to: string; readonly ranges: readonly (readonly [string, string])[] }

export const readUnread = (kept: unknown): Unread | null => {
  if (kept === null) return null
  const { up_to, ranges } = kept as Kept
  return {
    upTo: BigInt(up_to),
    ranges: ranges.map(([above, upTo]) => ({ above: BigInt(above), upTo: BigInt(upTo) })),
  }
}

/** An empty text: nothing is left. Null: what is stored stays as it is. */
export function unreadText(unread: Unread | null): string | null {
  if (unread === null) return null
  if (unread.ranges.length === 0) return ''
  const kept: Kept = {
    up_to: unread.upTo.toString(),
    ranges: unread.ranges.map(({ above, upTo }) => [above.toString(), upTo.toString()]),
  }
  return JSON.stringify(kept)
}

/** The column after a commit; `text` is a parameter with what `unreadText` says. */
export const unreadSql = (text: string): string =>
  `case when ${text}::text is null then unread else nullif(${text}::text, '')::jsonb end`
