// Who is left alone when requests fail: one source, or the host for all of them (P10, P19).

import { describe, expect, it } from 'vitest'
import {
  type Asker,
  afterAnswered,
  afterClaimed,
  afterFailed,
  type CircuitState,
  heldFor,
  mayBeTried,
} from '../../src/upstream/http/circuit-state.ts'
import { backoff } from '../../src/util/backoff.ts'

const asker = (source: string): Asker => ({ name: `${source}.assignment`, source })
const [one, other, third] = [asker('one'), asker('other'), asker('third')]
const told = { code: 'UPSTREAM_STATUS', status: 503, problem: 'status 503.' } as const
const policy = { ...backoff.circuit, jitter: 0 }

/** Exchanges of so many milliseconds, each after the one before. */
const fail = (
  before: CircuitState | null,
  who: Asker,
  nowMs: number,
  { recent = '', tookMs = 1, answeredMs = 0 } = {},
) =>
  afterFailed(before, who, { startedMs: nowMs - tookMs, nowMs, random: 1, policy, told, recent, answeredMs })
const failAll = (before: CircuitState | null, all: readonly Asker[], fromMs: number, recent = '') =>
  all.reduce<CircuitState | null>(
    (state, who, index) => fail(state, who, fromMs + 10 * index, { recent }),
    before,
  )
const answer = (before: CircuitState | null, who: Asker, nowMs: number, count = 1) =>
  afterAnswered(before, who, { count, nowMs })

const fourOf = (who: Asker) => [who, who, who, who]
const fourOfTwo = [one, other, one, other]

describe('a source alone', () => {
  it('is left alone after as many failures in a row as a request has attempts, and others are not', () => {
    const three = failAll(null, fourOf(one).slice(1), 1_000)
    expect(heldFor(three, one)).toBeNull()
    const four = failAll(null, fourOf(one), 1_000)
    expect(heldFor(four, one)).toMatchObject({ whose: 'own', untilMs: 1_030 + 5_000 })
    expect(heldFor(four, other)).toBeNull()
  })

  it('fails once when exchanges that were under way together fail', () => {
    let state = fail(null, one, 1_000)
    for (let more = 1; more < 10; more++) state = fail(state, one, 1_000 + more, { tookMs: 500 })
    expect(heldFor(state, one)).toBeNull()
  })

  it('is left alone while the host answers others, also when two sources fail', () => {
    const busy = '1'.repeat(20)
    const state = failAll(null, [...fourOf(one), ...fourOf(other)], 1_000, busy)
    expect(heldFor(state, third)).toBeNull()
    expect(heldFor(state, one)).toMatchObject({ whose: 'own' })
    const answered = answer(state, third, 2_000)
    expect(heldFor(answered, one)).toMatchObject({ whose: 'own' })
  })

  it('works again with one answer of its own', () => {
    expect(answer(failAll(null, fourOf(one), 1_000), one, 7_000)).toBeNull()
  })
})

describe('a host', () => {
  const down = failAll(null, fourOfTwo, 1_000)

  it('is left alone by all when two sources fail there, and at least half of the last exchanges', () => {
    expect(heldFor(down, third)).toMatchObject({ whose: 'host', untilMs: 1_030 + 5_000, told })
    expect(heldFor(failAll(null, fourOfTwo, 1_000, '1111'), third)).toMatchObject({ whose: 'host' })
    expect(heldFor(failAll(null, fourOfTwo, 1_000, '11111'), third)).toBeNull()
    expect(heldFor(failAll(null, fourOf(one), 1_000), third)).toBeNull()
  })

  it('is tried by one, after an eighth of the time for which it has failed, and at least each five minutes', () => {
    let state = down as CircuitState
    const pausesMs: number[] = []
    const sinceMs = state.host?.sinceMs ?? 0
    for (let times = 0; times < 60; times++) {
      const untilMs = heldFor(state, third)?.untilMs ?? 0
      state = afterClaimed(state, third, { nowMs: untilMs, longestMs: 35_000 })
      const held = heldFor(state, one)
      // One that hangs is alone for 10 s at first, and for as long as a request may take in the end.
      expect(held?.untilMs).toBe(untilMs + Math.min(35_000, 10_000 * 2 ** ((state.host?.failures ?? 1) - 1)))
      expect(held && mayBeTried(held, untilMs + 1)).toBe(false)
      state = fail(state, third, untilMs + 100)
      const pauseMs = Math.round((heldFor(state, one)?.untilMs ?? 0) - untilMs - 100)
      expect(pauseMs).toBeLessThanOrEqual(Math.max(5_000, (untilMs + 100 - sinceMs) / 8) + 1)
      pausesMs.push(pauseMs)
    }
    expect(pausesMs.slice(0, 6)).toEqual(Array(6).fill(5_000))
    expect(pausesMs.toSorted((a, b) => a - b)).toEqual(pausesMs)
    expect(pausesMs.at(-1)).toBe(300_000)
  })

  it('is asked by all at once after any answer, and one that fails even so is left alone by itself', () => {
    const tried = fail(
      afterClaimed(down as CircuitState, one, { nowMs: 6_100, longestMs: 35_000 }),
      one,
      6_200,
    )
    const answered = answer(tried, third, 17_000)
    for (const who of [one, other, third])
      expect(heldFor(answered, who)?.untilMs ?? 0).toBeLessThanOrEqual(17_000)
    const again = failAll(answered, fourOf(one), 18_000)
    expect(heldFor(again, one)).toMatchObject({ whose: 'own' })
    expect(heldFor(again, third)).toBeNull()
  })

  it('is not left alone for one that it answers, because two others fail on and on', () => {
    const answered = answer(
      afterClaimed(down as CircuitState, third, { nowMs: 6_100, longestMs: 35_000 }),
      third,
      6_200,
    )
    let state = failAll(answered, [...fourOf(one), ...fourOf(other)], 7_000)
    expect(heldFor(state, third)).toBeNull()
    expect(heldFor(state, one)).toMatchObject({ whose: 'own' })
    state = failAll(state, [...fourOf(one), ...fourOf(other)], 590_000)
    expect(heldFor(state, third)).toBeNull()
    expect(heldFor(failAll(state, [third, one], 591_000), asker('fourth'))).toMatchObject({ whose: 'host' })
    expect(heldFor(failAll(state, [one, other], 700_000), third)).toMatchObject({ whose: 'host' })
  })

  it('is left alone at once when it goes down, though it answered all but a broken one a moment before', () => {
    let state = failAll(null, fourOf(asker('broken')), 0)
    for (const who of [one, other, third]) state = answer(state, who, 1_000, 5)
    expect(heldFor(state, third)).toBeNull()
    for (let round = 0; round < 4; round++) state = failAll(state, [one, other], 2_000 + 1_000 * round)
    expect(heldFor(state, third)).toBeNull()
    state = failAll(state, [one, other], 6_000)
    expect(heldFor(state, third)).toMatchObject({ whose: 'host' })
  })

  it('is left alone when requests of two sources have hung and nobody was answered meanwhile', () => {
    const hung = { recent: '1'.repeat(20), tookMs: 30_000, answeredMs: 29_000 }
    const notes = { name: 'one.notes', source: 'one' }
    const ofThree = [one, notes, other].reduce<CircuitState | null>(
      (state, who, index) => fail(state, who, 60_000 + index, hung),
      null,
    )
    expect(heldFor(ofThree, third)).toBeNull()
    const state = fail(ofThree, third, 60_100, hung)
    expect(heldFor(state, third)).toMatchObject({ whose: 'host' })
    const answered = { ...hung, answeredMs: 45_000 }
    const all = [one, notes, other, third]
    expect(
      heldFor(
        all.reduce<CircuitState | null>((before, who) => fail(before, who, 60_000, answered), null),
        third,
      ),
    ).toBeNull()
    const answeredByAnother = answer(ofThree, asker('fourth'), 60_050)
    expect(heldFor(fail(answeredByAnother, third, 60_100, hung), third)).toBeNull()
  })

  it('is not tried by two when a request that began before fails meanwhile', () => {
    const claimed = afterClaimed(down as CircuitState, one, { nowMs: 6_100, longestMs: 35_000 })
    const state = fail(claimed, other, 6_200, { tookMs: 5_300 })
    expect(heldFor(state, third)?.untilMs).toBe(6_100 + 10_000)
  })
})
