// In which state a stream is: by its worst problem, and in the words of tidemark.freshness.

import { describe, expect, it } from 'vitest'
import type { Problem, ProblemKind } from '../../src/problems/stream-problems.ts'
import { problemsByKey, stateOfStream, verdictInWords } from '../../src/problems/stream-state.ts'
import { markupOf } from '../../src/web/html.ts'
import { leadOf, shownOf } from '../../src/web/stream-cells.ts'
import { emptySnapshot } from '../support/status-queries.ts'

const loaded = {
  stream: 'note',
  paused: null,
  readThroughAt: new Date(),
  running: [],
}
const problem = (kind: ProblemKind, of = 'note'): Problem => ({
  key: `${kind}:${of}`,
  kind,
  stream: of === 'note' ? of : null,
  since: new Date(),
  what: `what ${kind} means`,
  whatToDo: '',
  runbook: '',
})
const stateWith = (
  problems: readonly Problem[],
  standing: Partial<Parameters<typeof stateOfStream>[0]> = {},
) => stateOfStream({ ...loaded, ...standing }, 'assignment', problemsByKey(problems))

describe('stateOfStream', () => {
  it('tells a stream that is behind from one to which nothing comes until a person acts', () => {
    expect(stateWith([])).toMatchObject({ state: 'live', tone: 'ok', reason: null })
    expect(stateWith([problem('failing')])).toMatchObject({ state: 'behind', reason: 'what failing means' })
    expect(stateWith([problem('token_refused', 'assignment')])).toMatchObject({ state: 'stopped' })
    expect(stateWith([problem('token_refused', 'tracking')])).toMatchObject({ state: 'live' })
    expect(stateWith([], { paused: { at: '2026-01-01' } })).toMatchObject({ state: 'paused', tone: 'idle' })
  })

  it('takes no problem of a stream for one of the service of that name', () => {
    const ofStream = { ...problem('inconclusive', 'assignment'), stream: 'assignment' }
    expect(stateWith([ofStream])).toMatchObject({ words: 'up to date', tone: 'ok' })
  })

  it('goes by the worst problem', () => {
    const found = stateWith([problem('stale'), problem('inconclusive'), problem('access_lost')])
    expect(found).toMatchObject({ words: 'access lost', state: 'stopped', reason: 'what access_lost means' })
  })

  it('P18: calls no stream live to which nothing comes, also while its deletions wait', () => {
    for (const [kind, state] of [
      ['failing', 'behind'],
      ['stale', 'behind'],
      ['token_refused', 'stopped'],
    ] as const) {
      const other = kind === 'token_refused' ? problem(kind, 'assignment') : problem(kind)
      expect(stateWith([other, problem('deletions_blocked')])).toMatchObject({
        words: 'deletions blocked',
        state,
      })
    }
  })

  it('calls a stream live while only deletions wait, and says that they do', () => {
    expect(stateWith([problem('deletions_blocked')])).toMatchObject({
      state: 'live',
      tone: 'bad',
      reason: 'what deletions_blocked means',
    })
    expect(stateWith([problem('deletions_frozen')])).toMatchObject({
      ...{ state: 'live', words: 'deletions frozen', tone: 'bad' },
      reason: 'what deletions_frozen means',
    })
  })

  it('calls a first load loading, also one that fails', () => {
    const begun = { readThroughAt: null, running: ['incremental'] }
    expect(stateWith([], begun)).toMatchObject({ state: 'loading', words: 'first load' })
    expect(stateWith([problem('failing')], begun)).toMatchObject({ state: 'loading', words: 'runs fail' })
    expect(stateWith([problem('access_lost')], begun)).toMatchObject({ state: 'stopped' })
  })

  it('P18: calls it no first load when a stream is read again because its position was moved back', () => {
    const again = { readThroughAt: null, firstReadThroughAt: new Date() }
    expect(stateWith([], again)).toMatchObject({ state: 'loading', words: 'to be read again' })
    expect(stateWith([], { ...again, running: ['incremental'] })).toMatchObject({
      ...{ state: 'loading', words: 'reading again' },
    })
    // After a restored backup nothing is left of its first load.
    expect(stateWith([], { readThroughAt: null, isReadAgain: true, running: ['incremental'] })).toMatchObject(
      {
        words: 'reading again',
      },
    )
    expect(stateWith([], { readThroughAt: null })).toMatchObject({ words: 'not read yet' })
    // A look-back reads a part of it.
    expect(stateWith([], { ...again, running: ['lookback'] })).toMatchObject({ words: 'to be read again' })
  })
})

describe('the verdict', () => {
  const paused = { ...loaded, stream: 'assignment', paused: { at: '2026-01-01' } }
  it('P18: calls nothing up to date that is paused', () => {
    expect(verdictInWords([], [loaded])).toBe('Everything is up to date')
    expect(verdictInWords([], [loaded, paused])).toBe('assignment is paused, everything else is up to date')
    expect(verdictInWords([], [loaded, paused, paused])).toBe(
      'Two streams are paused, everything else is up to date',
    )
    expect(verdictInWords([], [paused])).toBe('Every stream is paused')
  })

  it('counts what needs somebody before what only has to be known', () => {
    const found = [
      problem('schema_drift'),
      problem('service_down', 'tracking'),
      problem('failing'),
      problem('stale'),
    ]
    expect(verdictInWords(found, [loaded, paused])).toBe(
      'Two things need you, one heals by itself, one change to know about',
    )
    expect(verdictInWords([], [loaded, { ...loaded, readThroughAt: null }])).toBe(
      'First load: 1 of 2 streams are complete',
    )
  })

  it('P18: calls it no first load when streams are read again', () => {
    const again = { ...loaded, readThroughAt: null, firstReadThroughAt: new Date() }
    expect(verdictInWords([], [loaded, again])).toBe(
      'note is not read through again since its position was moved back',
    )
    expect(verdictInWords([], [loaded, again, again])).toBe(
      'Two streams are not read through again since their positions were moved back',
    )
    expect(verdictInWords([], [loaded, again, { ...loaded, readThroughAt: null }])).toBe(
      'First load: 2 of 3 streams are complete',
    )
  })
})

describe('the verdict over several sources (P18)', () => {
  const of = (
    ...states: readonly (readonly [string, 'live' | 'behind' | 'stopped' | 'paused' | 'loading' | 'new'])[]
  ) =>
    verdictInWords(
      [],
      [loaded],
      states.map(([name, state]) => ({ name, state, problems: 0, isGone: false, streams: 1 })),
    )

  it('calls nothing up to date that stands still in one of them', () => {
    expect(of(['', 'live'])).toBe('Everything is up to date')
    expect(of(['', 'live'], ['acme', 'live'])).toBe('All 2 sources are up to date')
    expect(of(['', 'live'], ['acme', 'stopped'])).toBe('The source acme is stopped')
    expect(of(['acme', 'stopped'], ['beta', 'behind'], ['', 'live'])).toBe(
      'Two of 3 sources are stopped or behind',
    )
    expect(of(['', 'live'], ['acme', 'paused'])).toBe(
      'Streams of the source acme are paused, all others are up to date',
    )
    expect(of(['', 'live'], ['acme', 'loading'])).toBe('The source acme is loading')
  })

  it('counts no source as complete that is paused, and calls nothing a first load that may be another reading', () => {
    expect(of(['', 'paused'], ['acme', 'loading'], ['beta', 'new'])).toBe(
      'Two of 3 sources are loading or not read yet',
    )
  })
})

describe('the line under the verdict (P18)', () => {
  const at = new Date('2026-01-02T10:00:00Z')
  const streams = [
    ['note', 'changes', '09:57:07'],
    ['visit', 'changes', '09:57:09'],
    ['region', 'list', '09:28:06'],
    ['tracker', 'list', '09:40:00'],
  ].map(([stream, kind, read]) => ({
    ...{ stream, kind, service: 'assignment', paused: null, running: [], unexplained: null },
    ...{ settledThroughAt: null, deletionsKnownAt: null, settling: null, rows: null, deletedRows: null },
    readThroughAt: new Date(`2026-01-02T${read}Z`),
  }))
  const lead = (problems: readonly Problem[] = []) => {
    const found = leadOf(
      { ...emptySnapshot, at, streams } as unknown as Parameters<typeof leadOf>[0],
      problems,
    )
    return found && markupOf(found).replaceAll(/<[^>]*>/g, '')
  }
  it('says through when changes are read, and how old the oldest list is', () => {
    expect(lead()).toBe(
      'All 4 streams are up to date. Changes are read through 09:57:07 UTC. The whole list that was read longest ago was read at 09:28:06 UTC.',
    )
  })

  it('names the minute whose rows it counts', () => {
    const rates = { from: new Date('2026-01-02T09:27:00Z'), bucketMs: 60_000, buckets: 2 }
    const snapshot = {
      ...emptySnapshot,
      at,
      streams,
      rates: { ...rates, streams: new Map([['note', [0, 16_374]]]) },
    }
    const [note, visit] = streams.map((one) =>
      markupOf(
        shownOf(
          one as unknown as Parameters<typeof shownOf>[0],
          snapshot as unknown as Parameters<typeof shownOf>[1],
          new Map(),
        ).rate,
      ),
    )
    expect(note?.replaceAll(/<[^>]*>/g, '')).toBe('16,374 rows from 09:28 to 09:29')
    expect(note).toContain('in the last one 16,374 rows"')
    expect(visit?.replaceAll(/<[^>]*>/g, '')).toBe('no changes')
  })

  it('promises nothing while deletions wait, a service is down or a part does not work', () => {
    expect(lead([problem('deletions_blocked')])).toBe('1 stream: deletions blocked · 3 streams: up to date')
    expect(lead([problem('service_down', 'assignment')])).toBe('4 streams: behind, retrying')
    expect(lead([problem('part_down', 'queue')])).toBeNull()
  })
})
