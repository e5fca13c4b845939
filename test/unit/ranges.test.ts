// Ranges of versions that are read side by side: what of them is left, and where idle readers take over a part.

import { describe, expect, it } from 'vitest'
import {
  bordersByDensity,
  densityOf,
  isFar,
  isMiscounted,
  pagesLeft,
  planOf,
  type Range,
  rangeOf,
  readThrough,
  sawRows,
  shareRead,
  splitRange,
  unreadAbove,
  unreadOf,
} from '../../src/sync/changes/ranges.ts'

const range = (above: number, upTo: number, known: Partial<Range> = {}): Range => ({
  ...rangeOf({ above: BigInt(above), upTo: BigInt(upTo) }),
  ...known,
})
const span = (above: number, upTo: number) => ({ above: BigInt(above), upTo: BigInt(upTo) })
const versions = (...numbers: number[]) => numbers.map(BigInt)

describe('what is left', () => {
  it('is all but what was written, with neighbours as one', () => {
    const ranges = [
      range(0, 10, { written: 10n }),
      range(10, 20, { written: 15n }),
      range(20, 30),
      range(30, 40, { written: 40n }),
      range(40, 50, { written: 44n }),
    ]
    expect(unreadOf(ranges, 50n)).toEqual({ upTo: 50n, ranges: [span(15, 30), span(44, 50)] })
    expect(unreadOf([range(0, 10, { written: 10n })], 10n)).toEqual({ upTo: 10n, ranges: [] })
  })

  it('says how far everything is read, from below, and how much of it all', () => {
    const left = { upTo: 50n, ranges: [span(15, 30), span(44, 50)] }
    expect(readThrough(left)).toBe(15n)
    expect(readThrough({ upTo: 50n, ranges: [] })).toBe(50n)
    expect(shareRead(left, { upTo: 50n, ranges: [span(0, 50)] })).toBeCloseTo(0.58)
    expect(shareRead(left, { upTo: 50n, ranges: [] })).toBe(1)
  })

  it('leaves out what was read from below meanwhile', () => {
    const left = { upTo: 50n, ranges: [span(15, 30), span(44, 50)] }
    expect(unreadAbove(left, 20n).ranges).toEqual([span(20, 30), span(44, 50)])
    expect(unreadAbove(left, 30n).ranges).toEqual([span(44, 50)])
    expect(unreadAbove(left, 60n).ranges).toEqual([])
  })
})

describe('how dense versions lie', () => {
  it('is measured in the upper half of a page, because a gap says nothing of what comes', () => {
    expect(densityOf(versions(1, 100_000, 100_001, 100_002, 100_003, 100_004))).toBeGreaterThan(0.9)
    expect(densityOf(versions(10, 20, 30, 40))).toBeCloseTo(0.1)
    expect(densityOf(versions(7, 7, 7, 7, 7, 7))).toBe(2)
    expect(densityOf(versions(1, 2))).toBe(null)
  })

  it('tells whether much is above a page', () => {
    const page = versions(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
    expect(isFar(page, 200n, 100)).toMatchObject({ upTo: 200n })
    expect(isFar(page, 90n, 100)).toBe(null)
    // Nothing is above what the page itself shows.
    expect(isFar(page, 10n, 0)).toBe(null)
    expect(isFar(page, 4n, 0)).toBe(null)
  })
})

describe('sharing out', () => {
  // A page of 12 brings ten rows or eleven.
  const paging = { pageRows: 12, density: 1, hasRanks: true }

  it('gives whole pages of the range with most left to idle readers, and its own reader one more', () => {
    const ranges = [range(0, 100, { density: 0.1 }), range(100, 200, { rank: 20, endRank: 115 })]
    expect(planOf(ranges, paging, 1)).toEqual({ index: 1, offsets: [60] })
    expect(planOf(ranges, paging, 3)).toEqual({ index: 1, offsets: [40, 60, 80] })
    expect(planOf(ranges, paging, 11)?.offsets).toEqual([20, 30, 40, 50, 60, 70, 80, 90])
    expect(planOf(ranges, paging, 0)).toBe(null)
  })

  it('leaves alone what is over, what is being looked at, and what its reader has as soon', () => {
    for (const known of [{ isOver: true }, { isProbed: true }, { density: 0.001 }, { belowRank: 20 }])
      expect(planOf([range(0, 1_000, known)], paging, 11)).toBe(null)
    expect(planOf([range(0, 1_000, { endRank: 20 })], paging, 11)).toBe(null)
    expect(planOf([range(0, 1_000, { endRank: 21 })], paging, 11)).toEqual({ index: 0, offsets: [20] })
  })

  it('looks once as far ahead as it came, where nobody has counted what follows', () => {
    const closer = range(0, 1_000, { rank: 50, reach: 990n, density: 0.1 })
    expect(planOf([closer], paging, 11)).toEqual({ index: 0, offsets: [50] })
    expect(planOf([{ ...closer, belowRank: 100 }], paging, 11)?.offsets).toBe(undefined)
    expect(planOf([closer], { ...paging, hasRanks: false }, 11)).toBe(null)
  })

  it('counts what comes, and knows what is left of both parts', () => {
    const read = sawRows(range(100, 200, { endRank: 95 }), versions(101, 102, 103, 104, 205))
    expect([read.reach, read.rank, pagesLeft(read, paging)]).toEqual([104n, 4, 9.1])
    const [lower, upper] = splitRange(read, { at: 150n, rank: 50, isCounted: true })
    expect(lower).toEqual({ ...read, upTo: 150n, endRank: 50 })
    expect(upper).toEqual(range(150, 200, { rankAbove: 50, rank: 50, endRank: 95, density: 1 }))
  })

  it('notices that ranks are not those of rows', () => {
    const counted = range(0, 100, { rank: 40, endRank: 60 })
    expect(isMiscounted(counted, true, 12)).toBe(true)
    expect(isMiscounted(counted, false, 12)).toBe(false)
    expect(isMiscounted({ ...counted, endRank: 50 }, true, 12)).toBe(false)
    expect(isMiscounted({ ...counted, belowRank: 40 }, false, 12)).toBe(true)
  })

  it('knows where parts begin without ranks as well, within the range', () => {
    const even = range(0, 100, { density: 0.5 })
    expect(bordersByDensity(even, [10, 20, 50, 60], paging).map(({ at }) => at)).toEqual([20n, 40n])
  })
})
