import { describe, expect, it } from 'vitest'
import { currentLookBack, nextLookBack } from '../../src/sync/look-back.ts'

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
})
