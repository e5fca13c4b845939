// What the probe says at its end, and by which sign each of its lines begins.

import { expect, it } from 'vitest'
import { type Check, markOfCheck } from '../../src/cli/check.ts'
import { summary } from '../../src/cli/probe.ts'

const check = (more: Partial<Check>): Check => ({ name: 'x', isFine: true, says: '', ...more })

it('counts what passed, what a person should look at, what could not be told, and what failed', () => {
  const checks = [
    check({}),
    check({}),
    check({ isWarning: true }),
    check({ isUntold: true }),
    check({ isFine: false }),
  ]
  expect(checks.map(markOfCheck)).toEqual(['good', 'good', 'warning', 'idle', 'bad'])
  expect(summary(checks, 1_900)).toBe('2 passed, 1 warning, 1 could not be told, 1 failed, 1.9 s')
  expect(summary([check({})], 1_000)).toBe('1 passed, 0 failed, 1 s')
})
