// A reading in ranges of versions: how much of them is left, and where idle readers take over a part. Pure.
//
// No filter is needed: the path gives the lower bound, and a range is whole when a sorted page shows a version above its end. Where a part
// begins is looked up: the record of a rank, asked for by a page of one record, has the version behind which so many pages hold just what
// is below. Ranks only save requests. Nothing is taken for read because of one.

import type { Unread, VersionRange } from '../ports/store.ts'
import { highest } from '../versions.ts'

export const uncounted = {
  /** The rank of its last row; null: not counted. */
  endRank: null as number | null,
  /** The rank of its last row is lower than this. */
  belowRank: Number.POSITIVE_INFINITY,
}

/** A range as one reader reads it. */
export const rangeOf = ({ above, upTo }: VersionRange) => ({
  above,
  /** Its end; becomes lower when other readers take over what is above. */
  upTo,
  /** The highest version that came. */
  reach: above,
  /** Everything up to here is written, and committed with the next commit at the latest. */
  written: above,
  /** How many rows there are up to `above` and up to `reach`, counted from where this reading began. */
  rankAbove: 0,
  rank: 0,
  ...uncounted,
  /** Rows per version in the place that is being read; null: nothing came yet. */
  density: null as number | null,
  /** Its reader is in the middle of something, such as rows that share a version, and much may be behind that. */
  isWhole: false,
  /** Versions are being looked up at which it can be split. */
  isProbed: false,
  /** No reader goes on with it: it is read to its end, or given up. */
  isOver: false,
})
export type Range = Readonly<ReturnType<typeof rangeOf>>

/** After a page of it. */
export function sawRows(range: Range, versions: readonly bigint[]): Range {
  const { reach, upTo, rank, density } = range
  const came = versions.filter((version) => version > reach && version <= upTo)
  return {
    ...range,
    reach: highest(came, reach),
    rank: rank + came.length,
    density: densityOf(versions) ?? density,
  }
}

/** Ranks were looked up that are not those of the rows that came, as where `Page` is ignored. */
export const isMiscounted = (
  { rank, endRank, belowRank }: Range,
  isAtEnd: boolean,
  pageRows: number,
): boolean => rank >= belowRank || (isAtEnd && endRank !== null && endRank - rank > pageRows)

/** What is left above a position: reading from below has covered the rest meanwhile. */
export const unreadAbove = ({ upTo, ranges }: Unread, position: bigint): Unread => ({
  upTo,
  ranges: ranges
    .filter((range) => range.upTo > position)
    .map((range) => (range.above < position ? { ...range, above: position } : range)),
})

/** Everything up to this version is read. */
export const readThrough = ({ upTo, ranges }: Unread): bigint => ranges[0]?.above ?? upTo

/** What the readers have not written yet. `ranges`: the lowest first; in the result, ranges that touch are joined. */
export function unreadOf(ranges: readonly Range[], upTo: bigint): Unread {
  const left: VersionRange[] = []
  for (const { written, upTo: end } of ranges) {
    if (written >= end) continue
    const last = left.at(-1)
    if (last?.upTo === written) left[left.length - 1] = { ...last, upTo: end }
    else left.push({ above: written, upTo: end })
  }
  return { upTo, ranges: left }
}

/** How much of what was left is read by now. By versions, because nobody knows how many rows there are. */
export function shareRead(now: Unread, before: Unread): number {
  const all = widthOf(before.ranges)
  return all === 0n ? 1 : 1 - Number(widthOf(now.ranges)) / Number(all)
}

const widthOf = (ranges: readonly VersionRange[]): bigint =>
  ranges.reduce((sum, { above, upTo }) => sum + (upTo - above), 0n)

// ── density ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Rows per version in the upper half of a sorted page: a gap in the lower half says nothing of what follows. Null: too few to tell. */
export function densityOf(versions: readonly bigint[]): number | null {
  const middle = versions.length >> 1
  const [from, to] = [versions[middle], versions.at(-1)]
  if (versions.length < 4 || from === undefined || to === undefined || to < from) return null
  return (versions.length - 1 - middle) / Math.max(1, Number(to - from))
}

const rowsBetween = (above: bigint, upTo: bigint, density: number): number =>
  Math.max(0, Number(upTo - above)) * density

export type Far = { readonly upTo: bigint; readonly density: number }

/** How far and how dense it is above a page, if so much is there that reading in ranges pays; null: it does not. */
export function isFar(versions: readonly bigint[], upTo: bigint, leastRows: number): Far | null {
  const density = densityOf(versions)
  const last = highest(versions, 0n)
  if (density === null || upTo <= last) return null
  return rowsBetween(last, upTo, density) < leastRows ? null : { upTo, density }
}

// ── sharing out ──────────────────────────────────────────────────────────────────────────────────────────────

export type Paging = {
  /** Rows of a page: the most that one answer held. */
  readonly pageRows: number
  /** Rows per version, assumed for a range of which nothing came yet. */
  readonly density: number
  /** The version of a rank can be looked up. */
  readonly hasRanks: boolean
}

/** A page shows the last row of the one before, and where `since` is inclusive perhaps one more. */
const rowsOfPage = ({ pageRows }: Paging): number => Math.max(1, pageRows - 2)

/** How many pages hold what is left of a range, as far as is known. */
export function pagesLeft({ reach, upTo, rank, endRank, belowRank, density }: Range, paging: Paging): number {
  const estimated = Math.min(belowRank - rank, rowsBetween(reach, upTo, density ?? paging.density))
  return Math.max(0, endRank === null ? estimated : endRank - rank) / rowsOfPage(paging)
}

export type Plan = {
  readonly index: number
  /** How many rows above its reach each new part begins. The lowest is the farthest from the part of its own reader. */
  readonly offsets: readonly number[]
}

/** With so many pages left, nobody is sooner done if another reader takes one of them over: it first has to look where. */
const worthAlone = 2

/**
 * Which range idle readers share with its own, and where. All parts but the last are whole pages, so that no page shows rows of two
 * parts. Its own reader gets one page more, because it goes on while the others look where their parts begin. Null: nothing is worth that.
 */
export function planOf(ranges: readonly Range[], paging: Paging, idle: number): Plan | null {
  let best: { readonly index: number; readonly pages: number } | null = null
  for (const [index, range] of ranges.entries()) {
    if (range.isOver || range.isProbed) continue
    const pages = pagesLeft(range, paging)
    if (pages > (best?.pages ?? worthAlone)) best = { index, pages }
  }
  if (!best) return idle > 0 && paging.hasRanks ? lookAhead(ranges, paging) : null
  const parts = Math.min(idle, Math.ceil(best.pages) - worthAlone)
  if (parts < 1) return null
  const own = (best.pages + parts) / (parts + 1)
  const begins = (part: number) => Math.ceil(own + part * (own - 1)) * rowsOfPage(paging)
  return { index: best.index, offsets: Array.from({ length: parts }, (_, part) => begins(part)) }
}

/** Of a range that seems to be read soon, and whose rows nobody has counted, as much may follow as came: rows may lie closer there. */
function lookAhead(ranges: readonly Range[], paging: Paging): Plan | null {
  const came = ({ rank, rankAbove }: Range) => rank - rankAbove
  const index = ranges.findIndex(
    (range) =>
      !range.isOver &&
      !range.isProbed &&
      range.endRank === null &&
      range.belowRank === Number.POSITIVE_INFINITY &&
      came(range) > worthAlone * rowsOfPage(paging),
  )
  const range = ranges[index]
  return range ? { index, offsets: [came(range)] } : null
}

/** A version at which a range can be split, and its rank. */
export type Border = { readonly at: bigint; readonly rank: number; readonly isCounted: boolean }

/** Where parts begin if rows lie as close everywhere as they do where the range is being read. */
export function bordersByDensity(
  { reach, upTo, rank, density }: Range,
  offsets: readonly number[],
  paging: Paging,
): readonly Border[] {
  const perRow = 1 / (density ?? paging.density)
  return offsets.flatMap((offset) => {
    const at = reach + BigInt(Math.min(2 ** 62, Math.ceil(offset * perRow)))
    return at < upTo ? { at, rank: rank + offset, isCounted: false } : []
  })
}

/** The lower part goes on as it is; the upper one is new. */
export function splitRange(range: Range, { at, rank, isCounted }: Border): readonly [Range, Range] {
  const { upTo, reach, endRank, belowRank } = range
  const density = (rank - range.rank) / Number(at - reach)
  const upper = {
    ...rangeOf({ above: at, upTo }),
    rankAbove: rank,
    rank,
    density,
    ...(isCounted && { endRank, belowRank }),
  }
  return [{ ...range, upTo: at, endRank: isCounted ? rank : null }, upper]
}
