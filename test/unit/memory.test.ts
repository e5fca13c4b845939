// What a worker gives back when it comes to rest (P10).

import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { giveMemoryBack } from '../../src/util/memory.ts'

const minuteMs = 60_000
const megabytes = 60
beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
afterEach(() => void vi.useRealTimers())

/** Nothing holds it any more. */
function leaveGarbage(): number {
  const chunks = Array.from({ length: megabytes }, () => new Array<number>(131_072).fill(0.5))
  return chunks.length
}
const heapMegabytes = () => process.memoryUsage().heapUsed / 1_048_576

it('gives back what nobody holds, once nothing is under way', () => {
  let isBusy = true
  const stopping = new AbortController()
  giveMemoryBack({ isBusy: () => isBusy, signal: stopping.signal })
  leaveGarbage()
  const before = heapMegabytes()
  vi.advanceTimersByTime(minuteMs)
  isBusy = false
  vi.advanceTimersByTime(minuteMs)
  expect(heapMegabytes()).toBeLessThan(before - megabytes / 2)
  stopping.abort()
  expect(vi.getTimerCount()).toBe(0)
})
