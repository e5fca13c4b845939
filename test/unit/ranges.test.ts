// Ranges of versions that are read side by side: where they are cut, what of them is left, and where an idle reader takes over.

import { describe, expect, it } from 'vitest'
import {
  cut,
  densityOf,
  isFar,
  partsFor,
  type Range,
  rangeOf,
  readThrough,
  shareRead,
  splitOf,
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

describe('cutting', () => {
  it('makes parts of one width that leave nothing out', () => {
    expect(cut([span(0, 100)], 4)).toEqual([span(0, 25), span(25, 50), span(50, 75), span(75, 100)])
    const parts = cut([span(7, 1_000), span(5_000, 5_003)], 6)
    expect(parts[0]?.above).toBe(7n)
    expect(parts.at(-1)).toEqual(span(5_000, 5_003))
    for (const [index, part] of parts.slice(1, -1).entries()) expect(part.above).toBe(parts[index]?.upTo)
    expect(cut([span(0, 3)], 12)).toEqual([span(0, 1), span(1, 2), span(2, 3)])
    expect(cut([], 12)).toEqual([])
  })

  it('makes no more parts than are worth two pages each', () => {
    const unread = { upTo: 10_000n, ranges: [span(0, 10_000)] }
    expect(partsFor(unread, { pageRows: 1_000, density: 1 })).toBe(5)
    expect(partsFor(unread, { pageRows: 1_000, density: 0.1 })).toBe(1)
    expect(partsFor(unread, { pageRows: 1_000, density: 0 })).toBe(1)
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

describe('taking over', () => {
  const paging = { pageRows: 10, density: 1 }

  it('takes the upper half of the range with most rows left, above the page that is on the way', () => {
    const ranges = [range(0, 100, { density: 0.1 }), range(100, 200, { cursor: 120n, density: 1 })]
    expect(splitOf(ranges, paging)).toEqual({ index: 1, at: 165n })
    expect(splitRange(range(100, 200, { cursor: 120n, written: 110n, density: 1 }), 165n)).toEqual([
      range(100, 165, { cursor: 120n, written: 110n, density: 1 }),
      range(165, 200, { density: 1 }),
    ])
  })

  it('leaves alone what is over, what cannot be cut, and what is not worth a question', () => {
    for (const known of [{ isOver: true }, { isWhole: true }, { density: 0.001 }])
      expect(splitOf([range(0, 1_000, known)], paging)).toBe(null)
    expect(splitOf([range(0, 15, { density: 1 })], paging)).toBe(null)
    expect(splitOf([range(0, 1, { density: 1_000 })], paging)).toBe(null)
  })

  it('never takes what its reader has asked for already', () => {
    for (let cursor = 0n; cursor < 40n; cursor++) {
      const split = splitOf([range(0, 40, { cursor, density: 50 })], { pageRows: 1, density: 1 })
      if (split) expect(split.at > cursor && split.at < 40n).toBe(true)
    }
  })
})
