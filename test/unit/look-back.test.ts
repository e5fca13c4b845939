import { describe, expect, it } from 'vitest'
import {
  currentLookBack,
  latenessMs,
  nextLookBack,
  recentPast,
  trailingIntervalMs,
} from '../../src/sync/look-back.ts'

const late = (lateMs: number) => ({ key: '1', version: 5n, distance: 2n, lateMs })

describe('the look-back', () => {
  it('grows at once to twice the worst lateness', () => {
    expect(nextLookBack(10_000, 10_000, [late(3000), late(40_000)])?.lookbackMs).toBe(80_000)
  })
  it('stays while something late is seen that it covers', () => {
    expect(nextLookBack(100_000, 10_000, [late(40_000)])).toBeNull()
  })
  it('shrinks slowly when nothing was late, and never below its floor', () => {
    let lookbackMs = 80_000
    const steps: number[] = []
    for (let next = nextLookBack(lookbackMs, 10_000, []); next; next = nextLookBack(lookbackMs, 10_000, [])) {
      expect(next.lookbackMs).toBeGreaterThanOrEqual(Math.max(10_000, lookbackMs * 0.95))
      lookbackMs = next.lookbackMs
      steps.push(lookbackMs)
    }
    expect(lookbackMs).toBe(10_000)
    expect(steps.length).toBeGreaterThan(50)
  })
  it('is the configured least until something comes late', () => {
    expect(nextLookBack(null, 10_000, [])).toEqual({ lookbackMs: 10_000, reason: 'the configured least' })
    expect(nextLookBack(10_000, 10_000, [])).toBeNull()
  })
  it('follows a floor that was raised', () => {
    expect(currentLookBack(5000, 10_000)).toBe(10_000)
    expect(currentLookBack(null, 10_000)).toBe(10_000)
  })
  it('does not grow with the time between two readings, whatever it is', () => {
    // One version a second, each four minutes late; the lane is looked at every 30 s.
    const lateMs = 240_000
    let lookbackMs: number | null = null
    let lastReadAt = 0
    for (let now = 30_000; now < 30 * 86_400_000; now += 30_000) {
      if (now - lastReadAt < trailingIntervalMs(currentLookBack(lookbackMs, 600_000))) continue
      const hiddenSince = new Date(lastReadAt - lateMs)
      const measuredMs = latenessMs(hiddenSince, new Date(now), new Date(lastReadAt))
      lookbackMs = nextLookBack(lookbackMs, 600_000, [late(measuredMs)])?.lookbackMs ?? lookbackMs
      lastReadAt = now
    }
    expect(lookbackMs).toBeGreaterThanOrEqual(2 * lateMs)
    expect(lookbackMs).toBeLessThanOrEqual(4 * lateMs + 60_000)
  })
})

describe('the recent past', () => {
  const at = (ms: number) => new Date(ms)
  it('begins a look-back ago, or earlier when the last reading was long ago', () => {
    expect(recentPast(at(100_000), 10_000, null)).toEqual(at(90_000))
    expect(recentPast(at(100_000), 10_000, at(97_000))).toEqual(at(90_000))
    expect(recentPast(at(100_000), 10_000, at(40_000))).toEqual(at(35_000))
  })
})

describe('how late a version was', () => {
  const at = (ms: number) => new Date(ms)
  it('lies in the middle between the readings before and after it came', () => {
    expect(latenessMs(at(10_000), at(60_000), at(40_000))).toBe(40_000)
    expect(latenessMs(at(50_000), at(60_000), at(40_000))).toBe(5_000)
  })
  it('is taken for the worst it can be where nothing was read before, and is never below nothing', () => {
    expect(latenessMs(at(10_000), at(60_000), null)).toBe(50_000)
    expect(latenessMs(at(70_000), at(60_000), at(40_000))).toBe(0)
  })
})
