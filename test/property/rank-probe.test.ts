// The rank probe against lists that lost some records and gained others.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { probeRanks } from '../../src/sync/deletions/rank-probe.ts'

function sidesOf(mine: readonly number[], list: readonly number[]) {
  const ours = [...mine].sort((a, b) => a - b)
  const theirs = [...list].sort((a, b) => a - b)
  let requests = 0
  const at = (keys: readonly number[], rank: number) => {
    const key = keys[rank - 1]
    return key === undefined ? null : BigInt(key)
  }
  return {
    requests: () => requests,
    count: ours.length,
    ours: async (rank: number) => at(ours, rank),
    theirs: async (rank: number) => {
      requests += 1
      return at(theirs, rank)
    },
  }
}

const keys = (count: number) => Array.from({ length: count }, (_, index) => 10 + 3 * index)

describe('the rank probe', () => {
  it('needs three requests while nothing vanished, also when records came above', async () => {
    const sides = sidesOf(keys(200_000), [...keys(200_000), 900_000, 900_001])
    expect(await probeRanks(sides, 20, 7)).toMatchObject({ vanished: [], unknown: [900_000n], isWhole: true })
    expect(sides.requests()).toBe(3)
  })

  it('proves nothing where the list shows its last record in every place behind it', async () => {
    const shown = keys(20).slice(0, 10)
    const sides = sidesOf([...shown, 300], [...shown, 300])
    const theirs = async (rank: number) => (await sides.theirs(rank)) ?? 300n
    expect(await probeRanks({ ...sides, theirs }, 20, 7)).toMatchObject({ repeats: true, isWhole: false })
    // Ours has one more, which vanished: all the same its place shows a record.
    const more = sidesOf([...shown, 200, 300], [...shown, 300])
    const theirsOfMore = async (rank: number) => (await more.theirs(rank)) ?? 300n
    expect(await probeRanks({ ...more, theirs: theirsOfMore }, 20, 7)).toMatchObject({
      vanished: [],
      isWhole: false,
    })
  })

  it('finds one in 200,000 with less than 25 requests', async () => {
    const gone = 10 + 3 * 123_456
    const sides = sidesOf(
      keys(200_000),
      keys(200_000).filter((key) => key !== gone),
    )
    expect(await probeRanks(sides, 20, 7)).toMatchObject({
      vanished: [BigInt(gone)],
      unknown: [],
      isWhole: true,
    })
    expect(sides.requests()).toBeLessThan(25)
  })

  it('names only what is missing or unknown, and all of it when nothing unknown is among it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 120 }),
        fc.array(fc.nat(), { maxLength: 6 }),
        fc.uniqueArray(fc.integer({ min: 1, max: 500 }), { maxLength: 4 }),
        async (mine, picks, more) => {
          const gone = new Set(picks.map((pick) => mine[pick % mine.length]))
          const added = more.filter((key) => !mine.includes(key))
          const list = [...mine.filter((key) => !gone.has(key)), ...added]
          const { vanished, unknown, isWhole } = await probeRanks(sidesOf(mine, list), 20, 7)
          for (const key of vanished) expect(gone).toContain(Number(key))
          for (const key of unknown) expect(added).toContain(Number(key))
          expect(isWhole).toBe(true)
          if (added.every((key) => key > Math.max(...mine)))
            expect(vanished.map(Number).sort()).toEqual([...gone].sort())
        },
      ),
      { numRuns: 2_000 },
    )
  })

  it('finds one that a record which is missing here hides, by a place between the two', async () => {
    const all = keys(1_000)
    const sides = sidesOf(
      all.filter((key) => key !== all[200]),
      all.filter((key) => key !== all[800]),
    )
    expect(await probeRanks(sides, 20, 100)).toMatchObject({ isWhole: true })
    expect(await probeRanks(sides, 20, 500)).toMatchObject({
      vanished: [BigInt(all[800] ?? 0)],
      unknown: [BigInt(all[200] ?? 0)],
      isWhole: true,
    })
  })

  it('takes no part of what vanished for all of it where others came behind, as after a restored backup', async () => {
    for (const [lost, came] of [
      [26, 20],
      [26, 25],
      [26, 26],
      [20, 26],
    ] as const) {
      const common = keys(1_000)
      const newest = [900_000, 900_001]
      const mine = [...common, ...Array.from({ length: lost }, (_, index) => 100_000 + index), ...newest]
      const list = [...common, ...Array.from({ length: came }, (_, index) => 200_000 + index), ...newest]
      expect(await probeRanks(sidesOf(mine, list), 12, 1_010)).toMatchObject({ isWhole: false })
      if (lost !== came)
        expect(await probeRanks(sidesOf(mine, list), 12, 7)).toMatchObject({ isWhole: false })
    }
  })

  it('gives up when there is more than it may find', async () => {
    const sides = sidesOf(
      keys(1_000),
      keys(1_000).filter((key) => key % 2 === 0),
    )
    expect(await probeRanks(sides, 5, 7)).toMatchObject({ isWhole: false })
    expect(sides.requests()).toBeLessThan(5 * 12)
  })
})
