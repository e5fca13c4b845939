import { describe, expect, it } from 'vitest'
import {
  estimate,
  isLogged,
  leftInWords,
  type Mark,
  outlookInWords,
  percent,
  type ReadingProgress,
  rowsInWords,
} from '../../src/streams/load-progress.ts'
import { markStep } from '../../src/streams/run-steps.ts'
import { firstLoadCard, firstLoadOf } from '../../src/web/first-load.ts'
import { html, markupOf } from '../../src/web/html.ts'

const began = Date.UTC(2026, 10, 1, 12)
const at = (seconds: number) => new Date(began + seconds * 1000)

/** After so many seconds, with marks every five seconds by a function of time. */
function progress(
  seconds: number,
  rowsBy: (seconds: number) => number,
  more: Partial<ReadingProgress> = {},
): ReadingProgress {
  const marks: Mark[] = []
  for (let mark = 0; mark <= seconds; mark += 5) marks.push([began / 1000 + mark, rowsBy(mark)])
  return {
    stream: 'assignment',
    reading: 'first load',
    beganAt: at(0),
    updatedAt: at(seconds),
    endedAt: null,
    isComplete: false,
    rows: rowsBy(seconds),
    rowsAt: at(seconds),
    requests: 1,
    bytes: 1,
    total: null,
    totalAt: null,
    totalRequests: null,
    share: null,
    waitsFor: null,
    waitsUntil: null,
    error: null,
    marks: marks.slice(-73),
    unread: null,
    ...more,
  }
}

describe('the estimate of a reading', () => {
  it('takes its rate from the last 30 seconds', () => {
    // 100 a second for a minute, then 400.
    const faster = (second: number) => 100 * Math.min(60, second) + 400 * Math.max(0, second - 60)
    expect(estimate(progress(60, faster), at(60)).rowsPerSecond).toBeCloseTo(100)
    expect(estimate(progress(75, faster), at(75)).rowsPerSecond).toBeCloseTo(250)
    expect(estimate(progress(90, faster), at(90)).rowsPerSecond).toBeCloseTo(400)
    expect(estimate(progress(0.5, faster), at(0.5)).rowsPerSecond).toBeNull()
  })

  it('says how long still as a range from the slowest and the fastest 30 seconds, and nothing in the first 30', () => {
    const rowsBy = (second: number) => 100 * Math.min(60, second) + 400 * Math.max(0, second - 60)
    const counted = { total: 60_000, share: 0.3 }
    expect(estimate(progress(29, rowsBy, counted), at(29)).left).toBeNull()
    const { left } = estimate(progress(90, rowsBy, counted), at(90))
    // 18,000 are read, and 42,000 are left: 105 s at 400 a second, 420 s at 100.
    expect(left?.leastMs).toBeCloseTo(105_000)
    expect(left?.mostMs).toBeCloseTo(420_000)
    expect(estimate(progress(90, rowsBy), at(90)).left).toBeNull()
  })

  it('forgets what was slow five minutes ago', () => {
    const rowsBy = (second: number) => Math.min(60, second) + 100 * Math.max(0, second - 60)
    const { left } = estimate(progress(400, rowsBy, { total: 44_060, share: 0.7 }), at(400))
    expect(left?.leastMs).toBeCloseTo(100_000)
    expect(left?.mostMs).toBeCloseTo(100_000)
  })

  it('is stalled after 20 seconds without a row, says why, and promises no time', () => {
    const waits = {
      waitsFor: 'the assignment service answers 429',
      waitsUntil: at(109),
      rowsAt: at(60),
      updatedAt: at(100),
      total: 60_000,
      share: 0.1,
    }
    const standing = progress(100, (second) => 100 * Math.min(60, second), waits)
    const found = estimate(standing, at(100))
    expect(found).toMatchObject({ rowsPerSecond: 0, left: null })
    expect(outlookInWords(found, at(100))).toBe(
      'stalled for 40 s: the assignment service answers 429, next try in 9 s',
    )
    expect(estimate(standing, at(79)).stalled).toBeNull()
  })

  it('tells why no run goes on with it', () => {
    const over = progress(60, (second) => second, {
      endedAt: at(60),
      error: 'it answered 503. It was asked with ?Page=1. It says: no.',
    })
    expect(outlookInWords(estimate(over, at(120)), at(120))).toBe('stalled for 1 m: it answered 503')
    expect(outlookInWords(estimate({ ...over, error: null }, at(120)), at(120))).toBe(
      'stalled for 1 m: no worker goes on with it',
    )
  })

  it('promises no time when nearly all is read, and says 100 % only of what is complete', () => {
    const nearly = progress(60, (second) => 100 * second, { total: 6_000, share: 0.995 })
    expect(outlookInWords(estimate(nearly, at(60)), at(60))).toBe('catching up')
    expect(percent(0.9999)).toBe(99)
    const complete = progress(60, (second) => 100 * second, { isComplete: true, endedAt: at(60), share: 1 })
    expect(estimate(complete, at(90_000))).toMatchObject({ share: 1, stalled: null, elapsedMs: 60_000 })
    expect(percent(1)).toBe(100)
  })

  it('never says that more is read than there is', () => {
    expect(rowsInWords({ reading: 'first load', rows: 37_412, total: 60_005 })).toBe('37,412 of about 60,005')
    expect(rowsInWords({ reading: 'first load', rows: 60_100, total: 60_005 })).toBe('60,100 of about 60,100')
    expect(rowsInWords({ reading: 'first load', rows: 5, total: null })).toBe('5 rows')
  })
})

describe('the time left, in words', () => {
  it.each([
    [34_800, 44_000, '30–45 s'],
    [3_200, 4_100, '3–5 s'],
    [120_000, 149_000, '2–2.5 min'],
    [660_000, 1_000_000, '11–17 min'],
    [3_600_000, 3_600_000, 'about 60 min'],
    [7_200_000, 9_000_000, '2–2.5 h'],
    [500, 900, 'less than 1 s'],
    [40_000, null, '40 s or more'],
  ])('from %d to %s ms: %s', (leastMs, mostMs, words) => {
    expect(leftInWords({ leastMs, mostMs })).toBe(words)
  })
})

describe('the card of a first load', () => {
  it('shows which versions are not read yet, where ranges of them are read side by side', () => {
    const shownOf = (unread: ReadingProgress['unread']) => {
      const load = { ...progress(60, (second) => 600 * second), unread }
      return markupOf(firstLoadOf({ at: at(60), loads: [load] }, 'assignment') ?? html``)
    }
    const shown = shownOf([
      [0.25, 0.5],
      [0.75, 0.7501],
    ])
    expect(shown).toContain('2 ranges of versions are left')
    expect(shown).toContain('<rect class="f-none" x="25.00%" width="25.00%" height="14"/>')
    // What is narrow is seen all the same.
    expect(shown).toContain('x="75.00%" width="0.20%"')
    expect(shownOf([[0.5, 1]])).toContain('1 range of versions is left')
    expect(shownOf(null)).not.toContain('ranges')
  })
})

describe('a comparison', () => {
  it('P18: marks rows and does not stand still, however long that takes', () => {
    const seen = progress(100, (second) => 842 * Math.min(60, second), {
      ...{ reading: 'reconcile', total: 50_000, share: 0.999, rowsAt: at(60) },
      step: markStep(18_009),
    })
    expect(outlookInWords(estimate(seen, at(100)), at(100))).toBe('marking 18,009 rows as deleted')
    expect(estimate({ ...seen, step: 'List everything' }, at(100)).stalled).not.toBeNull()
  })

  it('P18: says that it lists again, and not that there are more rows', () => {
    const more = { reading: 'verify', total: 60_000, share: 0.999 }
    const words = (rows: number) => {
      const seen = progress(100, (second) => (rows * second) / 100, more)
      return [rowsInWords(seen), outlookInWords(estimate(seen, at(100)), at(100))]
    }
    expect(words(59_900)).toEqual(['59,900 of about 60,000', 'nearly all is listed'])
    expect(words(327_227)).toEqual(['327,227 records of about 60,000 rows', 'listing again what may differ'])
  })
})

describe('the card of first loads', () => {
  const load = progress(60, (second) => 100 * second, { total: 60_000, share: 0.1 })
  const words = (...streams: readonly (readonly [string, { read?: Date; first?: Date }])[]) =>
    markupOf(
      html`${firstLoadCard({
        at: at(60),
        loads: [load],
        streams: streams.map(([stream, { read = null, first = read }]) => ({
          ...{ stream, rows: 9, deletedRows: 0, readThroughAt: read, firstReadThroughAt: first },
        })) as unknown as Parameters<typeof firstLoadCard>[0]['streams'],
      })}`,
    )
  const loading = ['assignment', {}] as const
  const complete = ['assignment_note', { read: at(9) }] as const

  it('P18: says when all are complete only if it is known of each', () => {
    expect(words(loading, complete)).toContain('1 of 2 streams are complete. The other one will be in')
    const text = words(loading, complete, ['assignment_object', {}])
    expect(text).toContain('1 of 3 streams are complete.')
    expect(text).not.toContain('will be')
  })

  it('P18: takes no stream for a first load that is read again because its position was moved back', () => {
    expect(words(loading, ['assignment_note', { first: at(9) }])).toContain('1 of 2 streams are complete.')
  })
})

describe('the log', () => {
  const worker = { isOwn: false, isLong: true, isStalled: true, isFirst: true }
  const load = { reading: 'first load', rows: 0 }
  const poll = { reading: 'incremental', rows: 0 }

  it('tells of a first load that stands still once, whoever reads it, and of no poll that waits', () => {
    expect(isLogged(load, worker)).toBe(true)
    expect(isLogged(load, { ...worker, isFirst: false })).toBe(false)
    expect(isLogged(load, { ...worker, isStalled: false })).toBe(false)
    expect(isLogged(poll, worker)).toBe(false)
    expect(isLogged(poll, { ...worker, isOwn: true })).toBe(false)
    expect(isLogged({ ...poll, rows: 5 }, worker)).toBe(false)
  })

  it('tells of own readings once they are long', () => {
    const own = { isOwn: true, isLong: true, isStalled: false, isFirst: false }
    expect(isLogged({ ...poll, rows: 5 }, own)).toBe(true)
    expect(isLogged(load, own)).toBe(true)
    expect(isLogged(load, { ...own, isLong: false })).toBe(false)
  })
})
