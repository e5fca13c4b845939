// How long is waited after a failure: one formula, by the table of policies; and trying again by it.

import { describe, expect, it } from 'vitest'
import { type BackoffPolicy, backoff, delayAfter, retry } from '../../src/util/backoff.ts'

describe('delayAfter', () => {
  it.each(Object.entries<BackoffPolicy>(backoff))(
    '%s: begins with the first, doubles, ends at the longest',
    (_name, policy) => {
      expect(delayAfter(policy, 1)).toBe(policy.firstMs)
      expect(delayAfter(policy, 2)).toBe(Math.min(policy.longestMs, 2 * policy.firstMs))
      for (const failures of [50, 1_000_000]) expect(delayAfter(policy, failures)).toBe(policy.longestMs)
    },
  )

  it('makes a share of it random', () => {
    const policy = { firstMs: 1_000, longestMs: 8_000, jitter: 0.25 }
    expect([0, 0.5, 1].map((random) => delayAfter(policy, 1, random))).toEqual([750, 875, 1_000])
    expect([0, 1].map((random) => delayAfter(policy, 9, random))).toEqual([6_000, 8_000])
  })
})

describe('retry', () => {
  const failing = (times: number) => {
    let left = times
    return async () => {
      if (left-- > 0) throw new Error(`${left} more`)
      return 'done'
    }
  }

  it('waits between attempts as long as is said, and comes back with what came of it', async () => {
    const waited: number[] = []
    const result = await retry(failing(3), {
      delayMs: (_error, failures) => failures * 10,
      wait: async (delayMs) => waited.push(delayMs),
    })
    expect([result, waited]).toEqual(['done', [10, 20, 30]])
  })

  it('ends with the error for which there is no delay, and with why the wait ended', async () => {
    const plan = {
      delayMs: (_error: unknown, failures: number) => (failures < 2 ? 0 : null),
      wait: async () => {},
    }
    await expect(retry(failing(9), plan)).rejects.toThrow('7 more')
    const stopped = { ...plan, wait: () => Promise.reject(new Error('the worker is stopping')) }
    await expect(retry(failing(9), stopped)).rejects.toThrow('the worker is stopping')
  })
})
