// What is known of the upstream: how long a later run may rely on what an earlier one detected. Both ways of reading, by version and
// through lists, rest on it.

import { type BeliefName, confirmedEveryMs, expiryOf, isConfirmed } from '../streams/beliefs.ts'
import type { Belief, RunCore } from './ports/store.ts'

export type Detected = { readonly name: BeliefName; readonly value: string; readonly evidence: string }

const sortings = ['proven', 'ignored', 'refused'] as const
export type Sorting = 'unknown' | (typeof sortings)[number]

/** What a test of the upstream came to. */
export type Verdict = {
  readonly value: 'proven' | 'honoured' | 'ignored' | 'refused' | 'undecided'
  readonly evidence: string
}
export const ignored = (evidence: string): Verdict => ({ value: 'ignored', evidence })
export const undecided = (evidence: string): Verdict => ({ value: 'undecided', evidence })

export const detected = (name: BeliefName, value: string, evidence: string): Detected => ({
  name,
  value,
  evidence,
})

/** The belief of this name, unless it has expired. */
export function usable(beliefs: readonly Belief[], name: BeliefName, now: Date): Belief | null {
  const known = beliefs.find((belief) => belief.name === name)
  const expiry = known ? expiryOf(known) : null
  return known && (expiry === null || expiry > now) ? known : null
}

/** Those that are worth writing down: the value is another than the known one, or was not confirmed for an hour. */
export function toRecord(
  beliefs: readonly Belief[],
  seen: readonly Detected[],
  now: Date,
): readonly Belief[] {
  return seen.flatMap(({ name, value, evidence }) => {
    const known = beliefs.find((belief) => belief.name === name)
    return isConfirmed(known, value, now) ? [] : [{ name, value, evidence, testedAt: now }]
  })
}

/** Writes down what is news of it. */
export const learn = (
  { state, findings }: Pick<RunCore, 'state' | 'findings'>,
  seen: readonly Detected[],
  now: Date,
): Promise<void> => findings.learn(toRecord(state.beliefs, seen, now))

const ageMs = ({ testedAt }: Belief, now: Date): number => now.getTime() - testedAt.getTime()

type Known = {
  readonly sorting: Sorting
  readonly largestAnswer: number
  /** The upstream cuts answers before it sorts them. */
  readonly cutsBeforeSort?: boolean
}

export function knownBeliefs(beliefs: readonly Belief[], now: Date): Known {
  // Where paging is ignored, each question of the proof of sorting would fetch everything: sorting is not used there.
  if (usable(beliefs, 'paging', now)?.value === 'ignored') return { sorting: 'ignored', largestAnswer: 0 }
  return {
    sorting: sortings.find((one) => one === usable(beliefs, 'sorting', now)?.value) ?? 'unknown',
    largestAnswer: Number(usable(beliefs, 'largest_answer', now)?.value ?? 0),
    cutsBeforeSort: usable(beliefs, 'sorted_before_cut', now)?.value === 'no',
  }
}

/** The largest answer, when it is news: larger than known, or not confirmed for an hour. */
export function largestAnswerBelief(beliefs: readonly Belief[], received: number, now: Date): Belief | null {
  const known = beliefs.find(({ name }) => name === 'largest_answer')
  const knownValue = Number(known?.value ?? 0)
  const isNews =
    received > knownValue ||
    usable(beliefs, 'largest_answer', now) === null ||
    (received === knownValue && known !== undefined && ageMs(known, now) >= confirmedEveryMs)
  if (received === 0 || !isNews) return null
  return {
    ...detected('largest_answer', String(received), `one answer held ${received} records`),
    testedAt: now,
  }
}
