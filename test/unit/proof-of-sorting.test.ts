// How long what was learnt about the upstream is relied on, and when it is written down again.

import { describe, expect, it } from 'vitest'
import { detected, knownBeliefs, largestAnswerBelief, toRecord, usable } from '../../src/sync/capabilities.ts'

const now = new Date('2026-03-02T12:00:00Z')
const belief = (name: string, value: string, ageHours: number) => ({
  name,
  value,
  evidence: '',
  testedAt: new Date(now.getTime() - ageHours * 3_600_000),
})

describe('what was learnt', () => {
  it('is relied on for a day', () => {
    expect(knownBeliefs([belief('sorting', 'proven', 23)], now).sorting).toBe('proven')
    expect(knownBeliefs([belief('sorting', 'proven', 24)], now).sorting).toBe('unknown')
  })

  it('is relied on for ever where it cannot become wrong', () => {
    expect(usable([belief('first_top', '7', 9000)], 'first_top', now)?.value).toBe('7')
  })

  it('is written down when it is another one, was doubted, or is known for an hour, and at no other poll (P10)', () => {
    const seen = [detected('ranks', 'trusted', 'one place compared')]
    expect(toRecord([], seen, now)).toMatchObject([{ value: 'trusted', testedAt: now }])
    expect(toRecord([belief('ranks', 'not trusted', 0)], seen, now)).toHaveLength(1)
    expect(toRecord([{ ...belief('ranks', 'trusted', 0), expiresAt: now }], seen, now)).toHaveLength(1)
    expect(toRecord([belief('ranks', 'trusted', 1)], seen, now)).toHaveLength(1)
    expect(toRecord([belief('ranks', 'trusted', 0.9)], seen, now)).toEqual([])
  })

  it('that paging is ignored keeps the questions of the proof from being asked', () => {
    const known = [belief('sorting', 'proven', 1), belief('paging', 'ignored', 1)]
    expect(knownBeliefs(known, now).sorting).toBe('ignored')
  })
})

describe('the largest answer', () => {
  const isNews = (value: string, ageHours: number, received: number) =>
    largestAnswerBelief([belief('largest_answer', value, ageHours)], received, now) !== null

  it('is written down when it is larger than known, or is known for an hour, or is out of date', () => {
    expect(largestAnswerBelief([], 100, now)).toMatchObject({ value: '100', testedAt: now })
    expect(isNews('100', 0, 101)).toBe(true)
    expect(isNews('100', 1, 100)).toBe(true)
    expect(isNews('100', 24, 7)).toBe(true)
  })

  it('costs no statement at each poll (P10)', () => {
    expect(isNews('100', 0.9, 100)).toBe(false)
    expect(isNews('100', 23, 99)).toBe(false)
    expect(largestAnswerBelief([], 0, now)).toBeNull()
  })
})
