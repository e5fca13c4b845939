// A reading in ranges of versions: where it is cut, where an idle reader takes over a part, and what of it is left to read. Pure.
//
// No filter is needed: the path gives the lower bound, and a range is whole when a sorted page shows a version above its end.

import type { Unread, VersionRange } from '../ports/store.ts'
import { highest } from '../versions.ts'

/** A range as one reader reads it. */
export type Range = {
  readonly above: bigint
  /** Its end; becomes lower when another reader takes over the upper part. */
  readonly upTo: bigint
  /** Everything up to here has been received. */
  readonly cursor: bigint
  /** Everything up to here is written, and committed with the next commit at the latest. */
  readonly written: bigint
  /** Rows per version in the place that is being read; null: nothing came yet. */
  readonly density: number | null
  /** Its reader is in the middle of something, such as rows that share a version, and the range must not be split. */
  readonly isWhole: boolean
  /** No reader goes on with it: it is read to its end, or given up. */
  readonly isOver: boolean
}

export const rangeOf = ({ above, upTo }: VersionRange): Range => ({
  above,
  upTo,
  cursor: above,
  written: above,
  density: null,
  isWhole: false,
  isOver: false,
})

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
  if (versions.length < 4 || from === undefined || to === undefined) return null
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

// ── cutting ──────────────────────────────────────────────────────────────────────────────────────────────────

export type Paging = {
  /** Rows of a page: the most that one answer held. */
  readonly pageRows: number
  /** Rows per version, assumed for a range of which nothing came yet. */
  readonly density: number
}

/** Smaller parts do not pay: one page of theirs would mostly show what lies in the parts of other readers. */
const pagesOfPart = 2

export function partsFor({ ranges }: Unread, { pageRows, density }: Paging): number {
  return Math.max(1, Math.floor((Number(widthOf(ranges)) * density) / (pagesOfPart * pageRows)))
}

/** Cuts the ranges into so many parts, or a few more, of nearly the same width. */
export function cut(ranges: readonly VersionRange[], parts: number): readonly VersionRange[] {
  const all = widthOf(ranges)
  if (all === 0n) return []
  const width = (all + BigInt(parts) - 1n) / BigInt(parts)
  return ranges.flatMap(({ above, upTo }) => {
    const pieces = (upTo - above + width - 1n) / width
    const border = (piece: bigint) => above + ((upTo - above) * piece) / pieces
    return Array.from({ length: Number(pieces) }, (_, piece) => ({
      above: border(BigInt(piece)),
      upTo: border(BigInt(piece) + 1n),
    }))
  })
}

export type Split = { readonly index: number; readonly at: bigint }

/** Taking over a part has to win at least this much of a page. */
const leastShare = 0.6

/** Where to split the range of which most is left, so that an idle reader takes its upper part; null: no split is worth a request. */
export function splitOf(ranges: readonly Range[], paging: Paging): Split | null {
  let best: Split | null = null
  let mostRows = leastShare * paging.pageRows
  for (const [index, { cursor, upTo, density: known, isWhole, isOver }] of ranges.entries()) {
    if (isOver || isWhole) continue
    const density = known ?? paging.density
    // The page that its reader is asking for now stays with the lower part.
    const ahead = density > 0 ? BigInt(Math.ceil(Math.min(paging.pageRows / density, 2 ** 62))) : 0n
    const from = cursor + (ahead < upTo - cursor ? ahead : 0n)
    const at = from + (upTo - from) / 2n
    const rows = rowsBetween(from, upTo, density)
    if (rows <= mostRows || at <= cursor || at >= upTo) continue
    mostRows = rows
    best = { index, at }
  }
  return best
}

/** The lower part goes on as it is; the upper one is new. */
export function splitRange(range: Range, at: bigint): readonly [Range, Range] {
  const upper = { ...rangeOf({ above: at, upTo: range.upTo }), density: range.density }
  return [{ ...range, upTo: at }, upper]
}
