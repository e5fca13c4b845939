// Looks up at which versions a range can be split. A page of one record shows the record of that rank.

import type { Fetched } from './asking.ts'
import type { Border, Range } from './ranges.ts'
import { type Ask, versionsOf } from './state.ts'
import { ask } from './states/moves.ts'

export type LookedUp = {
  readonly borders: readonly Border[]
  /** The rank of the last row in the range is lower than this. */
  readonly belowRank: number
  /** Such pages are refused, or fail, or one is like the other. */
  readonly isRefused: boolean
}

type Look = bigint | 'behind' | 'unclear' | 'refused'

export async function lookUpBorders(
  fetch: (asked: Ask) => Promise<Fetched>,
  { reach, upTo, rank, belowRank }: Range,
  offsets: readonly number[],
): Promise<LookedUp> {
  const looks = await Promise.all(offsets.map((offset) => versionAt(fetch, reach, offset)))
  if (looks.includes('refused') || isOne(looks)) return { borders: [], belowRank, isRefused: true }
  const borders: Border[] = []
  let last = reach
  for (const [index, at] of looks.entries()) {
    // Rows share this version, or the record cannot be a row.
    if (at === 'unclear' || at === 'refused' || at === last) continue
    const there = rank + (offsets[index] ?? 0)
    // Some upstreams show the first page where there is none.
    if (at === 'behind' || at < last || at >= upTo)
      return { borders, belowRank: Math.min(belowRank, there), isRefused: false }
    borders.push({ at, rank: there, isCounted: true })
    last = at
  }
  return { borders, belowRank, isRefused: false }
}

/** `Page` is ignored, or all of these rows share a version. */
const isOne = (looks: readonly Look[]): boolean =>
  looks.length > 1 && typeof looks[0] === 'bigint' && looks.every((look) => look === looks[0])

async function versionAt(
  fetch: (asked: Ask) => Promise<Fetched>,
  since: bigint,
  rank: number,
): Promise<Look> {
  const asked = ask(
    { since, page: rank, pageSize: 1, sorts: 'ascending' },
    { isOnlyLook: true, mayBeNothing: true },
  )
  // A reader who asks for pages meanwhile fails as well if the upstream is away.
  const { event } = await fetch(asked).catch(() => ({ event: null }))
  if (event?.kind !== 'answer') return 'refused'
  if (event.page.received === 0) return 'behind'
  return versionsOf(event.page)[0] ?? 'unclear'
}
