// The switches as text, and what the rendering makes of some of them.

import { describe, expect, it } from 'vitest'
import { initialBehaviour, readSwitch, switchNames, switchOptions } from '../../src/simulator/behaviour.ts'
import { camelCase } from '../../src/simulator/fields.ts'
import { countVersions } from '../../src/simulator/row.ts'
import { localTime, utcTime } from '../../src/simulator/times.ts'

describe('the switches', () => {
  it('are all options of the command line, in kebab-case', () => {
    expect(switchOptions.map(({ name }) => name)).toEqual(switchNames)
    for (const { option } of switchOptions) expect(option).toMatch(/^[a-z]+(-[a-z]+)*$/)
  })

  it.each([
    ['order', 'unstable', { order: 'unstable' }],
    ['pageCap', '100', { pageCap: 100 }],
    ['pageCap', 'none', { pageCap: null }],
    ['lateFraction', '0.25', { lateFraction: 0.25 }],
    ['listWrapper', 'items', { listWrapper: 'items' }],
    ['sortableFields', 'Status, City', { sortableFields: ['Status', 'City'] }],
    ['inclusive', 'true', { inclusive: true }],
  ] as const)('%s reads %j', (name, text, expected) => {
    expect(readSwitch(name, text)).toEqual(expected)
  })

  it.each([
    ['order', 'sideways'],
    ['pageCap', '0'],
    ['pageCap', '1.5'],
    ['ties', 'none'],
    ['lateFraction', '2'],
    ['lateFraction', ''],
    ['listWrapper', ''],
    ['sortableFields', ''],
  ] as const)('%s refuses %j and says what to write', (name, text) => {
    expect(readSwitch(name, text)).toEqual({ wrong: expect.stringContaining('should be') })
  })
})

describe('camelCase', () => {
  it.each([
    ['AssignmentIdExt', 'assignmentIdExt'],
    ['UID', 'uid'],
    ['SysUpdatedDateUTC', 'sysUpdatedDateUTC'],
    ['OwnerUID', 'ownerUID'],
    ['HTMLText', 'htmlText'],
    ['already', 'already'],
  ])('%s → %s', (name, camel) => {
    expect(camelCase(name)).toBe(camel)
  })
})

describe('timestamps', () => {
  it('have seven digits, and a Z only when they are UTC', () => {
    const timeMs = Date.UTC(2025, 2, 30, 1, 2, 3, 45)
    expect(localTime(timeMs, 678)).toBe('2025-03-30T01:02:03.0450678')
    expect(utcTime(timeMs, 9_999)).toBe('2025-03-30T01:02:03.0459999Z')
  })

  it('agree with the platform', () => {
    for (let timeMs = 0; timeMs < 4e12; timeMs += 98_765_432_101)
      expect(utcTime(timeMs)).toBe(new Date(timeMs).toISOString().replace('Z', '0000Z'))
  })
})

describe('countVersions', () => {
  it('steps, and lets successive writes share a version', () => {
    const versions = countVersions(initialBehaviour({ rowVersionStep: 5, ties: 3 }), 100n)
    expect(Array.from({ length: 7 }, () => versions.next())).toEqual([
      100n,
      100n,
      100n,
      105n,
      105n,
      105n,
      110n,
    ])
  })

  it('goes on above a version somebody used, and from an older one after a restore', () => {
    const versions = countVersions(initialBehaviour(), 1n)
    versions.reach(50n)
    expect(versions.next()).toBe(51n)
    versions.reach(2n ** 63n - 1n)
    expect(versions.next()).toBe(52n)
    versions.reset(10n)
    expect(versions.next()).toBe(11n)
  })
})
