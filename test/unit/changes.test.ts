// Single decisions about what to ask next and how far the position may move (P6).

import { describe, expect, it } from 'vitest'
import { beginReading, sawAnswer, sawRefusal } from '../../src/sync/changes.ts'
import type { Decision, ReadingOptions } from '../../src/sync/reading.ts'

const options: ReadingOptions = {
  from: 10n,
  until: null,
  pageSize: 3,
  largePageSize: 30,
  maxPasses: 3,
  sorting: 'proven',
  largestAnswer: 3,
}
const page = (...versions: number[]) => ({
  received: versions.length,
  rows: versions.map((version, index) => ({ key: `${version}-${index}`, version: BigInt(version) })),
})
const answer = (decision: Decision, ...versions: number[]) => sawAnswer(decision.reading, page(...versions))
const asked = ({ step }: Decision) => (step.kind === 'ask' ? step.request : step)

describe('reading changes', () => {
  it('begins with one request above the position, and ends when nothing is new', () => {
    const first = beginReading(options)
    expect(asked(first)).toEqual({ since: 10n, page: 1, pageSize: 3, sorts: 'RowVersion' })
    expect(answer(first)).toMatchObject({
      step: { kind: 'end', isComplete: true },
      reading: { position: 10n },
    })
    expect(answer(first, 10)).toMatchObject({
      step: { kind: 'end' },
      learnt: [{ name: 'inclusive', value: 'yes' }],
    })
  })

  it('holds the last version of a page back until the next page shows nothing more of it', () => {
    const second = answer(beginReading(options), 11, 12, 13)
    expect(second.reading.position).toBe(12n)
    expect(asked(second)).toMatchObject({ since: 12n, page: 1 })
    expect(answer(second, 13)).toMatchObject({ step: { kind: 'end' }, reading: { position: 13n } })
  })

  it('asks for a larger page when one version fills it', () => {
    const second = answer(beginReading(options), 11, 11, 11)
    expect(second.reading.position).toBe(10n)
    expect(asked(second)).toMatchObject({ since: 10n, pageSize: 30 })
    expect(answer(second, 11, 11, 11, 11, 12).reading.position).toBe(11n)
  })

  it('looks past an old tie that fills the page', () => {
    expect(asked(answer(beginReading(options), 10, 10, 10))).toMatchObject({ since: 11n, page: 1 })
  })

  it('takes the proof back when a page is out of order, and returns to where the run began', () => {
    const second = answer(beginReading(options), 11, 12, 13)
    const back = answer(second, 13, 20, 14)
    expect(back.retreat).toContain('14 behind 20')
    expect(back.reading).toMatchObject({ position: 10n, sorting: 'ignored' })
    expect(back.learnt).toMatchObject([{ name: 'sorting', value: 'ignored' }])
    expect(asked(back)).toEqual({ since: 10n, page: 1, pageSize: 30, sorts: 'RowVersion' })
  })

  it('never sends Sorts again once it was refused', () => {
    const refused = sawRefusal(beginReading({ ...options, sorting: 'unknown' }).reading, 400)
    expect(asked(refused)).toMatchObject({ sorts: null })
    expect(asked(answer(refused, 11, 12, 13))).toMatchObject({ sorts: null })
  })

  it('reports a version below the one asked for, and asks no more', () => {
    expect(answer(beginReading(options), 9).step).toEqual({
      kind: 'breach',
      what: 'asked for changes since 10, it served version 9',
    })
  })

  it('is not fooled by a list in order of ids that looks ascending', () => {
    const ascending = Array.from({ length: 20 }, (_, index) => 11 + index)
    let decision = answer(beginReading({ ...options, sorting: 'unknown', pageSize: 20 }), ...ascending)
    // Sorts is ignored: the same record comes first whichever end is asked for.
    decision = answer(decision, 11)
    decision = answer(decision, ...ascending)
    decision = answer(decision, 11)
    expect(decision.reading).toMatchObject({ sorting: 'ignored', position: 10n })
  })

  it('ends after a few answers that held everything, when the source never rests', () => {
    let decision = beginReading({ ...options, pageSize: 100, largestAnswer: 100 })
    let version = 11
    let answers = 0
    while (decision.step.kind === 'ask' && answers < 100) {
      decision = answer(decision, version, version + 1)
      version += 1
      answers += 1
    }
    expect(answers).toBeLessThan(5)
    expect(decision.reading.position).toBeGreaterThan(10n)
  })
})
