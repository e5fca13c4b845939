// Problems of a deployment with many sources: they are found in a time that grows like the number of its streams.

import { describe, expect, it } from 'vitest'
import { noAlertFile } from '../../src/config/alert-file.ts'
import { findProblems, problemRules } from '../../src/problems/find-problems.ts'
import type { Part } from '../../src/problems/parts.ts'
import { problemsByKey, stateOfStream, withProblems } from '../../src/problems/stream-state.ts'
import type { StreamSymptoms } from '../../src/store/book/symptoms.ts'
import { catalogueOf, type Stream } from '../../src/streams/catalog.ts'
import { dynamicIn } from '../support/settings.ts'
import { wellAt } from '../support/symptoms.ts'

const now = new Date('2026-03-02T12:00:00Z')
const ago = (minutes: number) => new Date(now.getTime() - minutes * 60_000)
const well = wellAt(now)
const kinds = ['incremental', 'lookback', 'reconcile']
const base = ['assignment', 'assignment_note', 'tracker_object']
const dynamic = dynamicIn()

type Failing = StreamSymptoms['failing'][number]
const refused = (kind: string, minutes: number): Failing => ({
  ...{ kind, failures: 3, since: ago(minutes + 1), lastAt: ago(minutes) },
  ...{ error: 'POST /token: refused', code: 'UPSTREAM_SIGN_IN' },
})
const serviceDown = (name: string): Part => ({
  ...{ name, kind: 'service', isUp: false, state: 'down', since: ago(1) },
  ...{ reason: 'It was not seen.', whatToDo: null },
})

const streamsOf = (sources: number): readonly Stream[] =>
  Array.from({ length: sources }, (_, place) => catalogueOf([], undefined, `s${place}`)).flatMap((all) =>
    all.filter(({ name }) => base.some((one) => name.endsWith(`.${one}`))),
  )

/** How many properties of streams, symptoms and problems are read. */
function openCount() {
  let reads = 0
  const counted = <One extends object>(one: One): One =>
    new Proxy(one, {
      get(target, key) {
        reads++
        return Reflect.get(target, key)
      },
    })
  return { counted, reads: () => reads }
}

/** Of sources of which every stream fails, with what is read to find that and to say how each stream and source stands. */
function readsOf(sources: number, failing: readonly Failing[], isDown: boolean): number {
  const { counted, reads } = openCount()
  const streams = streamsOf(sources).map(counted)
  expect(streams).toHaveLength(3 * sources)
  const symptoms = streams.map(({ name }) =>
    counted({ ...well, stream: name, readThroughAt: ago(99), lastSuccessAt: ago(99), failing }),
  )
  const rules = problemRules({ streams, config: { dynamic, alertFile: noAlertFile } })
  const parts = isDown ? streams.map(({ name }) => serviceDown(name)) : []
  const problems = findProblems({ symptoms, view: { parts }, rules, now }).map(counted)
  expect(problems.length).toBeGreaterThanOrEqual(sources)
  const byKey = problemsByKey(problems)
  for (const { name, service } of streams)
    stateOfStream({ stream: name, paused: null, readThroughAt: ago(99), running: [] }, service, byKey)
  withProblems(
    Array.from({ length: sources }, (_, place) => ({ name: `s${place}`, state: 'live' as const })),
    problems,
  )
  return reads()
}

describe('problems of many sources', () => {
  it.each([
    { what: 'the sign-in of all is refused', failing: kinds.map((kind) => refused(kind, 9)) },
    { what: 'their runs fail', failing: kinds.map((kind) => ({ ...refused(kind, 9), code: null })) },
    { what: 'their services are down', failing: [], isDown: true },
  ])('reads for each stream as much as for one of a few, while $what', ({ failing, isDown = false }) => {
    const of = (sources: number) => readsOf(sources, failing, isDown)
    const [few, more] = [of(25), of(100)]
    expect(more).toBeLessThan(5 * few)
    expect(of(1_000)).toBeLessThan(50 * few)
  })

  it('calls a sign-in refused unless any stream of that service was let in after the refusal', () => {
    const streams = streamsOf(3)
    const lettingIn: Readonly<Record<string, Date>> = {
      's1.assignment_note': ago(5),
      's2.tracker_object': ago(5),
    }
    const symptoms = streams.map(({ name }) => ({
      ...{ ...well, stream: name, lastSuccessAt: lettingIn[name] ?? ago(20) },
      failing: name.endsWith('.assignment') ? [refused('incremental', 9), refused('reconcile', 12)] : [],
    }))
    const rules = problemRules({ streams, config: { dynamic, alertFile: noAlertFile } })
    const found = findProblems({ symptoms, view: { parts: [] }, rules, now })
    expect(found.map(({ key, since }) => [key, since])).toEqual([
      ['token_refused:s0.assignment', ago(13)],
      ['token_refused:s2.assignment', ago(13)],
      ['failing:s1.assignment', ago(10)],
    ])
  })

  it('counts the problems of each source, and takes the first of two with one key for the state', () => {
    const [first, second] = [well, { ...well, stream: 's1.note' }].map((one) => ({
      ...{ ...one, quarantined: 1 },
      failing: [{ ...refused('incremental', 9), code: null }],
    }))
    const rules = problemRules({ streams: [], config: { dynamic, alertFile: noAlertFile } })
    const symptoms = [first, second].flatMap((one) => one ?? [])
    const problems = findProblems({ symptoms, view: { parts: [] }, rules, now })
    const sources = ['', 's1', 's2'].map((name) => ({ name, state: 'live' as const }))
    expect(withProblems(sources, problems).map(({ name, problems: many }) => [name, many])).toEqual([
      ['', 2],
      ['s1', 2],
      ['s2', 0],
    ])
    const twice = problems.flatMap((one) => [one, { ...one, what: 'told later' }])
    const standing = { stream: 's1.note', paused: null, readThroughAt: ago(1), running: [] }
    expect(stateOfStream(standing, 'assignment', problemsByKey(twice)).reason).toContain(
      'runs in a row failed',
    )
  })
})
