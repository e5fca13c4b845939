// How long what was learnt about the upstream is relied on, and when it is written down again.

import { describe, expect, it } from 'vitest'
import { knownFacts, largestAnswerFact } from '../../src/sync/changes/hypotheses.ts'

const now = new Date('2026-03-02T12:00:00Z')
const fact = (name: string, value: string, ageHours: number) => ({
  name,
  value,
  evidence: '',
  checkedAt: new Date(now.getTime() - ageHours * 3_600_000),
})

describe('a fact', () => {
  it('is relied on for a day', () => {
    expect(knownFacts([fact('sorting', 'proven', 23)], now).sorting).toBe('proven')
    expect(knownFacts([fact('sorting', 'proven', 24)], now).sorting).toBe('unknown')
  })

  it('that paging is ignored keeps the questions of the proof from being asked', () => {
    const known = [fact('sorting', 'proven', 1), fact('paging', 'ignored', 1)]
    expect(knownFacts(known, now).sorting).toBe('ignored')
  })
})

describe('the largest answer', () => {
  const isNews = (value: string, ageHours: number, received: number) =>
    largestAnswerFact([fact('largest_answer', value, ageHours)], received, now) !== null

  it('is written down when it is larger than known, or is known for an hour, or is out of date', () => {
    expect(largestAnswerFact([], 100, now)).toMatchObject({ value: '100', checkedAt: now })
    expect(isNews('100', 0, 101)).toBe(true)
    expect(isNews('100', 1, 100)).toBe(true)
    expect(isNews('100', 24, 7)).toBe(true)
  })

  it('costs no statement at each poll (P10)', () => {
    expect(isNews('100', 0.9, 100)).toBe(false)
    expect(isNews('100', 23, 99)).toBe(false)
    expect(largestAnswerFact([], 0, now)).toBeNull()
  })
})
