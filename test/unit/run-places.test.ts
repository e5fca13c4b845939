// Which run has a place while others hang: a host that hangs gets its share, others wait for what ends soon, and nobody waits for what does
// not (P19).

import { expect, it } from 'vitest'
import { placeFor } from '../../src/worker/queue/run-worker.ts'

const runsAtOnce = 6
const times = (count: number, host: string) => Array.from({ length: count }, () => host)
const place = (host: string, active: readonly string[], slow: readonly string[]) =>
  placeFor(host, { active, slow, runsAtOnce })

it('is any while one is free', () => {
  expect(place('a', times(5, 'a'), [])).toBe('now')
  expect(place('a', times(6, 'a'), [])).toBe('later')
})

it('is beside one that takes long, also for a run of the same host', () => {
  expect(place('a', times(6, 'a'), ['a'])).toBe('now')
  expect(place('a', times(7, 'a'), ['a'])).toBe('later')
})

it('is none for a host that hangs and has its share', () => {
  expect(place('a', times(6, 'a'), times(3, 'a'))).toBe('none')
  expect(place('a', times(6, 'a'), times(6, 'a'))).toBe('none')
  expect(place('b', times(6, 'a'), times(6, 'a'))).toBe('now')
})

it('is soon there for a host that answers, and the last one is for a host that has none', () => {
  const active = [...times(6, 'a'), ...times(5, 'b')]
  expect(place('b', active, times(6, 'a'))).toBe('later')
  expect(place('c', active, times(6, 'a'))).toBe('now')
  expect(place('d', [...active, 'c'], times(6, 'a'))).toBe('later')
})

it('is not waited for when the other host hangs too, nor when all places do', () => {
  const active = [...times(6, 'a'), ...times(5, 'b')]
  expect(place('b', active, [...times(6, 'a'), 'b'])).toBe('none')
  const all = [...active, 'c']
  expect(place('d', all, all)).toBe('none')
})
