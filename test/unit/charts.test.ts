// Charts as text: where things lie, and what is said instead of the picture.

import { describe, expect, it } from 'vitest'
import { shortSpan } from '../../src/util/text.ts'
import { bars, tideGauge, tideWords } from '../../src/web/charts.ts'
import { clock, markupOf } from '../../src/web/html.ts'

const places = (markup: string, shape: string): number[] =>
  [...markup.matchAll(new RegExp(`<${shape} class="f-[^"]*" (?:c?x)="([\\d.]+)%"`, 'g'))].map(([, at]) =>
    Number(at),
  )

describe('the tide gauge', () => {
  it('puts what is newer further to the right, by the logarithm of its age', () => {
    const at = (read: number) =>
      places(markupOf(tideGauge({ read, settled: null, deletions: null })), 'circle')[0] ?? 0
    const places5 = [1_000, 10_000, 100_000, 1_000_000, 10_000_000].map(at)
    expect(places5).toEqual(places5.toSorted((a, b) => b - a))
    const steps = places5.slice(1).map((place, index) => (places5[index] ?? 0) - place)
    for (const step of steps) expect(step).toBeCloseTo(steps[0] ?? 0, 1)
    // Nothing leaves the picture.
    expect([at(0), at(-5), at(1e12)]).toEqual([97, 97, 3])
  })

  it('says the same to those who do not see it, and draws nothing that is not known', () => {
    const ages = { read: 3_000, settled: 660_000, deletions: null }
    const gauge = markupOf(tideGauge(ages))
    expect(gauge).toContain(
      'aria-label="Read through 3 s ago, settled through 11 min ago, deletions known through not yet"',
    )
    expect(gauge).not.toContain('f-gone')
    const words = (one: Parameters<typeof tideWords>[0]) =>
      markupOf(tideWords(one, new Date())).replaceAll(/<[^>]*>/g, '')
    expect(words(ages)).toBe('read 3 s · settled 11 min · deletions not yet')
    expect(words({ read: null, settled: null, deletions: null })).toBe('not read through yet')
    expect(words({ read: 60_000, settled: 60_000, deletions: 60_000 })).toBe('all 1 min ago')
  })
})

describe('bars', () => {
  it('are as high as their share of the highest, and none where nothing was', () => {
    const drawn = markupOf(bars([0, 50, 100], { height: 21, label: '100 rows' }))
    const heights = [...drawn.matchAll(/height="([\d.]+)"\/>/g)].map(([, one]) => Number(one))
    expect(heights).toEqual([10, 20])
    expect(markupOf(bars([], { height: 20, label: 'none' }))).toContain('aria-label="none"')
  })
})

describe('short words', () => {
  it.each([
    [-5, '0 s'],
    [3_900, '3 s'],
    [275_000, '4 min 35 s'],
    [660_000, '11 min'],
    [39_060_000, '10 h 51 min'],
    [126_000_000, '35 h'],
    [259_200_000, '3 days'],
  ])('tell a span of %i ms', (ms, words) => expect(shortSpan(ms)).toBe(words))

  it('tell a moment by the clock, and by the day when it was another', () => {
    const now = new Date('2026-11-22T14:02:31Z')
    const words = (iso: string) => />(.*)</.exec(markupOf(clock(new Date(iso), now)))?.[1]
    expect(words('2026-11-22T03:11:40Z')).toBe('03:11:40')
    expect(words('2026-11-21T16:02:51Z')).toBe('21 Nov 16:02')
    expect(words('2025-11-21T16:02:51Z')).toBe('21 Nov 2025 16:02')
  })
})
