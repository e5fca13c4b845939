// Which records are looked at again and again, and what their looks prove (P14).

import { describe, expect, it } from 'vitest'
import {
  ageOf,
  dueNow,
  isNews,
  judge,
  type Look,
  longestReplicaLagMs,
  noted,
  rangesToPin,
  superfluous,
  tooMany,
} from '../../src/sync/changes/pinned-records.ts'
import type { Pin } from '../../src/sync/ports/store.ts'

const now = new Date('2026-03-02T12:00:00Z')
const ago = (ms: number) => new Date(now.getTime() - ms)
const pin = (version: bigint, traits: Partial<Pin> = {}): Pin => ({
  key: String(version),
  version,
  lookedAt: ago(60_000),
  lostSince: null,
  isMarked: false,
  ...traits,
})
const look = (version: bigint, found: Look['found'], lostSince: Date | null = null): Look => ({
  ...pin(version, { lostSince }),
  found,
})
const long = ago(longestReplicaLagMs)
const fell = (version: bigint) => look(version, 1n, long)
const stands = (version: bigint) => look(version, version)
const gone = (version: bigint) => look(version, 'gone', long)

describe('which rows are pinned', () => {
  it('one for each age, and ages double in two steps', () => {
    const versions = [1000n, 999n, 998n, 997n, 996n, 995n, 993n, 989n, 1n]
    expect(versions.map((version) => ageOf(1000n, version))).toEqual([1, 2, 3, 4, 4, 5, 6, 7, 19])
    const ranges = rangesToPin([], 1000n)
    expect(ranges.slice(0, 5)).toEqual([
      { above: 999n, upTo: 1000n },
      { above: 998n, upTo: 999n },
      { above: 997n, upTo: 998n },
      { above: 995n, upTo: 997n },
      { above: 993n, upTo: 995n },
    ])
    expect(ranges.at(-1)).toEqual({ above: 0n, upTo: 233n })
    for (const { above, upTo } of ranges) expect(ageOf(1000n, above + 1n)).toBe(ageOf(1000n, upTo))
    expect(rangesToPin([pin(1000n), pin(500n)], 1000n)).toHaveLength(ranges.length - 2)
    expect(rangesToPin([], 2n ** 62n)).toHaveLength(124)
  })

  it('one that is let go has an older one of its age beside it, and was looked at', () => {
    const pins = [pin(1000n), pin(999n), pin(998n), pin(600n), pin(550n)]
    expect(superfluous(pins, 1000n)).toEqual(new Set(['600']))
    const few = superfluous(pins, 2000n)
    expect(few).toEqual(new Set(['999', '1000', '600']))
    expect(dueNow(pins, few, now).map(({ key }) => key)).toEqual(expect.arrayContaining([...few]))
  })

  it('of the superfluous ones, only so many wait for their last look', () => {
    const pins = Array.from({ length: 40 }, (_, index) =>
      pin(BigInt(index + 1), {
        lookedAt: index === 0 ? null : ago(index * 1000),
        lostSince: index === 1 ? ago(1) : null,
      }),
    )
    const spare = new Set(pins.map(({ key }) => key).filter((key) => key !== '40'))
    expect(
      tooMany(pins, spare)
        .map(({ key }) => key)
        .sort((a, b) => Number(a) - Number(b)),
    ).toEqual(Array.from({ length: 13 }, (_, index) => String(index + 3)))
    expect(tooMany(pins, new Set())).toEqual([])
  })

  it('what was lost lately is looked at each time, and what is lost for long in its turn', () => {
    const pins = [10n, 20n, 30n, 40n, 50n].map((version) => pin(version))
    const lost = [pin(11n, { lostSince: ago(1) }), pin(12n, { lostSince: ago(3 * longestReplicaLagMs) })]
    const due = dueNow([...pins, ...lost], new Set(), now).map(({ key }) => key)
    expect(due).toContain('11')
    expect(due).not.toContain('12')
  })

  it('a look in an idle minute is at the newest, and at those that waited longest', () => {
    const pins = [10n, 20n, 30n, 40n].map((version, index) => pin(version, { lookedAt: ago(index * 1000) }))
    expect(dueNow(pins, new Set(), now).map(({ key }) => key)).toEqual(['40', '30'])
    expect(
      dueNow([...pins, pin(5n, { lookedAt: ago(9_000) })], new Set(), now).map(({ key }) => key),
    ).toEqual(['40', '5'])
  })
})

describe('what looks prove', () => {
  const verdict = (...looks: Look[]) => judge(looks, now).kind

  it('nothing, while all are as they were or newer, or cannot be read', () => {
    expect(verdict(stands(5n), look(6n, 9n), look(7n, 'unclear'), look(8n, 'unclear', long))).toBe(
      'as before',
    )
  })

  it('a backup was restored when three fell, seen further apart than a replica lags', () => {
    expect(verdict(stands(5n), fell(6n), fell(7n), fell(8n))).toBe('went back')
    expect(verdict(fell(6n), fell(7n), fell(8n))).toBe('went back')
    expect(verdict(stands(5n), fell(6n), fell(7n))).toBe('fallen')
    const early = (version: bigint) => look(version, 1n, ago(longestReplicaLagMs - 1))
    expect(verdict(stands(5n), early(6n), early(7n), early(8n))).toBe('waiting')
    expect(verdict(stands(5n), fell(6n), early(7n), early(8n))).toBe('waiting')
    expect(verdict(stands(5n), look(6n, 1n))).toBe('waiting')
  })

  it('a backup was restored when the newest vanished, but not when records here and there did', () => {
    expect(verdict(stands(5n), gone(6n), gone(7n), gone(8n))).toBe('went back')
    expect(verdict(stands(5n), gone(6n), gone(7n), fell(8n))).toBe('went back')
    expect(verdict(gone(3n), gone(4n), gone(5n), stands(6n))).toBe('as before')
    expect(verdict(gone(6n), gone(7n), gone(8n))).toBe('as before')
    // That a record was written again since, or another one under its key, does not say that its old version is still there.
    expect(verdict(stands(5n), gone(6n), gone(7n), gone(8n), look(9n, 20n))).toBe('went back')
    expect(verdict(look(5n, 20n), gone(6n), gone(7n), gone(8n), stands(9n))).toBe('as before')
  })

  it('nothing, when records that the upstream marked as deleted are not shown', () => {
    const hidden = (version: bigint) => ({ ...gone(version), isMarked: true })
    expect(verdict(stands(5n), hidden(6n), hidden(7n), hidden(8n))).toBe('as before')
    expect(verdict(stands(5n), gone(7n), gone(8n), gone(9n), hidden(10n))).toBe('went back')
    expect(isNews({ ...look(5n, 'gone'), isMarked: true }, now)).toBe(false)
  })

  it('is seen by all looks when it is news: the first time, and when no replica lags that long', () => {
    expect(isNews(look(5n, 1n), now)).toBe(true)
    expect(isNews(look(5n, 'gone', ago(60_000)), now)).toBe(false)
    expect(isNews(look(5n, 'gone', long), now)).toBe(true)
    expect(isNews({ ...look(5n, 'gone', ago(2 * longestReplicaLagMs)), lookedAt: ago(1_000) }, now)).toBe(
      false,
    )
    expect(isNews(stands(5n), now)).toBe(false)
  })

  it('is forgotten of a record that is seen as it was, and not of one that could not be seen', () => {
    expect(noted(look(5n, 5n, long), now)).toMatchObject({ lostSince: null, lookedAt: now })
    expect(noted(look(5n, 4n, long), now).lostSince).toEqual(long)
    expect(noted(look(5n, 4n), now).lostSince).toEqual(now)
    expect(noted(look(5n, 'unclear', long), now).lostSince).toEqual(long)
  })
})
