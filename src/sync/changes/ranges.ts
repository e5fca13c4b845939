// A reading in ranges of versions: where it is cut, where an idle reader takes over a part, and what of it is left to read. Pure.
//
// No filter is needed: the path gives the lower bound, and a range is whole when a sorted page shows a version above its end.

import type { Unread, VersionRange } from '../ports/store.ts'
import { highest } from './state.ts'

/** A range as one reader reads it. */
export type Range = {
  readonly above: bigint
  /** It ends here; becomes less when another reader takes its upper part. */
  readonly upTo: bigint
  /** All up to here has come. */
  readonly cursor: bigint
  /** All up to here is written, and committed with the next commit at the latest. */
  readonly written: bigint
  /** Rows a version where it is being read now; null: nothing came yet. */
  readonly density: number | null
  /** Its reader is in the middle of something that cannot be cut. */
  readonly isWhole: boolean
  /** No reader goes on with it, whether it came to its end or not. */
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

/** Everything that is left, without what was read meanwhile from below. */
export const unreadAbove = ({ upTo, ranges }: Unread, position: bigint): Unread => ({
  upTo,
  ranges: ranges
    .filter((range) => range.upTo > position)
    .map((range) => (range.above < position ? { ...range, above: position } : range)),
})

/** Up to there nothing is left. */
export const readThrough = ({ upTo, ranges }: Unread): bigint => ranges[0]?.above ?? upTo

/** Ranges, the lowest first. */
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

/** Rows a version in the upper half of a sorted page: a gap before it says nothing of what comes. Null: too few to tell. */
export function densityOf(versions: readonly bigint[]): number | null {
  const middle = versions.length >> 1
  const [from, to] = [versions[middle], versions.at(-1)]
  if (versions.length < 4 || from === undefined || to === undefined) return null
  return (versions.length - 1 - middle) / Math.max(1, Number(to - from))
}

const rowsBetween = (above: bigint, upTo: bigint, density: number): number =>
  Math.max(0, Number(upTo - above)) * density

export type Far = { readonly upTo: bigint; readonly density: number }

/** Whether so much is above a page that reading it in ranges pays; null: it is not. */
export function isFar(versions: readonly bigint[], upTo: bigint, leastRows: number): Far | null {
  const density = densityOf(versions)
  const last = highest(versions, 0n)
  if (density === null || upTo <= last) return null
  return rowsBetween(last, upTo, density) < leastRows ? null : { upTo, density }
}

// ── cutting ──────────────────────────────────────────────────────────────────────────────────────────────────

export type Paging = {
  /** Rows of one page, as many as came at most. */
  readonly pageRows: number
  /** Where nothing came yet, it is taken for this. */
  readonly density: number
}

/** Where parts are smaller, their readers are done with one page, most of which others read as well. */
const pagesOfPart = 2

export function partsFor({ ranges }: Unread, { pageRows, density }: Paging): number {
  return Math.max(1, Math.floor((Number(widthOf(ranges)) * density) / (pagesOfPart * pageRows)))
}

/** Into so many parts or a few more, of much the same width. */
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

/** So much of a page is to be won by it at least. */
const leastShare = 0.6

/** Where an idle reader takes over the upper part of the range of which most is left; null: not worth a question of its own. */
export function splitOf(ranges: readonly Range[], paging: Paging): Split | null {
  let best: Split | null = null
  let mostRows = leastShare * paging.pageRows
  for (const [index, { cursor, upTo, density: known, isWhole, isOver }] of ranges.entries()) {
    if (isOver || isWhole) continue
    const density = known ?? paging.density
    // The page that is being asked for stays with it.
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
