// What earlier runs learnt about the upstream, as far as a run may still rely on it.

import type { Fact } from './ports.ts'
import type { ReadingOptions, Sorting } from './reading.ts'

/** Facts are looked at again after this long. */
const factLifetimeMs = 24 * 3_600_000

const hourMs = 3_600_000

type Known = Pick<ReadingOptions, 'sorting' | 'largestAnswer'>

export function knownFacts(facts: readonly Fact[], now: Date): Known {
  const fresh = (name: string) =>
    facts.find((fact) => fact.name === name && now.getTime() - fact.checkedAt.getTime() < factLifetimeMs)
      ?.value
  // Where paging is ignored, asking for one record from the beginning would fetch everything there is.
  if (fresh('paging') === 'ignored') return { sorting: 'ignored', largestAnswer: 0 }
  return { sorting: asSorting(fresh('sorting')), largestAnswer: Number(fresh('largest_answer') ?? 0) }
}

/** The largest answer, when it is news: larger than known, or not confirmed for an hour. */
export function largestAnswerFact(facts: readonly Fact[], received: number, now: Date): Fact | null {
  const known = facts.find((fact) => fact.name === 'largest_answer')
  const knownValue = Number(known?.value ?? 0)
  const ageMs = known ? now.getTime() - known.checkedAt.getTime() : Number.POSITIVE_INFINITY
  const isNews =
    received > knownValue || ageMs >= factLifetimeMs || (received === knownValue && ageMs >= hourMs)
  if (received === 0 || !isNews) return null
  return {
    name: 'largest_answer',
    value: String(received),
    evidence: `one answer held ${received} records`,
    checkedAt: now,
  }
}

const asSorting = (value: string | undefined): Sorting =>
  value === 'proven' || value === 'ignored' || value === 'refused' ? value : 'unknown'
