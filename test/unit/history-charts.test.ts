// The charts: sums that agree with their bars, lines that end where nothing is known, sentences.

import { describe, expect, it } from 'vitest'
import type { ServiceBucket } from '../../src/store/book/request-history.ts'
import { quantileMs } from '../../src/store/book/request-history.ts'
import type { MinuteBucket } from '../../src/store/book/watch.ts'
import { lagChart, rowsChart, stateTimeline } from '../../src/web/history-charts.ts'
import { markupOf } from '../../src/web/html.ts'
import { chartSpan, rangeIn } from '../../src/web/time-range.ts'
import {
  askedByDay,
  askedChart,
  daysUntil,
  failuresChart,
  latencyChart,
} from '../../src/web/upstream-charts.ts'

const now = new Date('2026-11-22T14:02:31Z')
const span = chartSpan(rangeIn(new URLSearchParams(), now, 'day'), now, 96)
const at = (bucket: number) => new Date(span.from.getTime() + bucket * span.bucketMs)
const minute = (bucket: number, more: Partial<MinuteBucket> = {}): MinuteBucket => ({
  ...{ stream: 'assignment', at: at(bucket), inserted: 0, updated: 0, deleted: 0, quarantined: 0 },
  ...{ readAge: 3, settledAge: 600, deletionsAge: 3_000 },
  ...more,
})
const service = (bucket: number, more: Partial<ServiceBucket> = {}): ServiceBucket => ({
  ...{ service: 'assignment', at: at(bucket), requests: 10, bytes: 1, failures: {} },
  latency: [0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  ...more,
})

describe('rows written', () => {
  it('are bars that add up to their legend', () => {
    const chart = markupOf(
      rowsChart(
        [minute(0, { inserted: 30 }), minute(4, { inserted: 10, updated: 50, quarantined: 1 })],
        span,
      ),
    )
    expect(chart).toContain('rows per 15 min, last 24 h; bars add up to 91')
    expect(chart).toContain(
      'aria-label="91 rows written, last 24 h: 40 new, 50 changed, 0 deleted, 1 quarantined"',
    )
    const heights = (name: string) =>
      [
        ...chart.matchAll(
          new RegExp(`class="${name}" x="[\\d.]+%" width="[\\d.]+%" y="[\\d.]+" height="([\\d.]+)"`, 'g'),
        ),
      ].map(([, one]) => Number(one))
    expect(heights('f-ok').map((one) => one / (heights('f-ok')[1] ?? 1))).toEqual([expect.closeTo(3, 1), 1])
    expect(heights('f-idle')).toEqual([])
  })

  it('say so when nothing was noted', () => {
    expect(markupOf(rowsChart([], span))).toContain('Nothing was recorded in this time.')
  })
})

describe('how far behind', () => {
  it('is a line that ends where no worker looked, with the worst moment in words', () => {
    const buckets = [
      minute(0),
      minute(1),
      minute(2, { readAge: 1_260 }),
      minute(6),
      minute(7, { settledAge: null }),
    ]
    const chart = markupOf(lagChart(buckets, span, 900_000))
    expect(chart).toMatch(/class="limit".*a problem after 15 min/)
    expect(chart).toContain(
      `aria-label="Worst age of read through, last 24 h: 21 min at ${at(2).toISOString().slice(11, 16)} UTC; last 3 s"`,
    )
    expect(chart.match(/<polyline class="ln"/g)).toHaveLength(2)
    expect(chart.match(/<polyline class="ln two"/g)).toHaveLength(2)
    expect(chart).toContain('Show the numbers')
  })
})

describe('the timeline', () => {
  it('has each stream’s spans where they were, and those without a worker in its numbers', () => {
    const half = new Date((span.from.getTime() + span.to.getTime()) / 2)
    const spans = [
      { stream: 'assignment', from: span.from, to: half, state: 'up to date' },
      { stream: 'assignment', from: half, to: span.to, state: null },
    ]
    const chart = markupOf(stateTimeline(['assignment', '<b>'], spans, span))
    expect(chart).toContain('class="f-ok" x="0.00%" width="50.00%"')
    expect(chart).toContain('1 times a stream was not up to date, last 24 h')
    expect(chart).toContain('no worker')
    expect(chart).not.toContain('<b>')
  })
})

describe('the upstream', () => {
  it.each([
    [[10], 0.5, 10],
    [[0, 0, 5, 5], 0.5, 40],
    [[0, 0, 5, 5], 0.95, 80],
    [[0, 0], 0.5, null],
  ])('answers %j: a share of %d took up to %s ms', (latency, share, ms) =>
    expect(quantileMs(latency, share)).toBe(ms),
  )

  it('is told by the median and the slow ones, and by what failed', () => {
    const answered = markupOf(latencyChart('assignment service', [service(0), service(1)], span))
    expect(answered).toContain('half are faster: 40 ms')
    expect(answered).toContain('"The assignment service, ')
    expect(markupOf(latencyChart('assignment', [], span))).toContain('Nothing was recorded')
    const chart = markupOf(
      failuresChart(
        [service(0, { failures: { '429': 70 } }), service(3, { failures: { '5xx': 7, none: 1 } })],
        span,
      ),
    )
    expect(chart).toContain('aria-label="78 requests failed, last 24 h"')
    expect(chart).toContain('429, slow down: 70')
    expect(markupOf(failuresChart([service(0)], span))).toContain('None.')
  })
})

describe('the numbers', () => {
  const cells = (chart: string) =>
    [...chart.matchAll(/<t[dh] [^>]*role="(?:cell|rowheader)"[^>]*>(?:<time [^>]*>)?([^<]*)</g)].map(
      ([, text]) => text,
    )

  it('of each chart are a table in four hours, the newest first', () => {
    // The span begins at 14:15: bucket 0 lies in the part from 12:00, bucket 20 (19:15) in that from 16:00.
    const rows = markupOf(rowsChart([minute(0, { inserted: 30 }), minute(20, { updated: 1_050 })], span))
    expect(rows).toContain('Show the numbers')
    expect(cells(rows)).toEqual(['16:00', '0', '1,050', '0', '0', '12:00', '30', '0', '0', '0'])
    const answers = markupOf(latencyChart('assignment', [service(0), service(20)], span))
    expect(cells(answers)).toEqual(['16:00', '10', '40 ms', '40 ms', '12:00', '10', '40 ms', '40 ms'])
    const failed = markupOf(failuresChart([service(0, { failures: { '429': 3 } })], span))
    expect(cells(failed)).toEqual(['12:00', '3', '0', '0', '0'])
  })
})

describe('what was asked for', () => {
  const asked = (at: string, stream: string | null, kind: string | null, requests: number) => ({
    ...{ at: new Date(at), stream, kind, requests },
  })
  const days = daysUntil(now)
  const some = [
    asked('2026-11-22T00:00:00Z', 'assignment', 'lookback', 30),
    asked('2026-11-21T00:00:00Z', 'assignment', 'lookback', 10),
    asked('2026-11-22T00:00:00Z', 'tracker_object', 'list', 900),
    asked('2026-11-16T00:00:00Z', null, null, 2),
  ]

  const services = [900, 30, 10, 2].map((requests) => ({ requests, service: 'assignment' }))

  it('is told for seven days of UTC, by stream and kind of run, the most first, beside the budget', () => {
    expect(days).toMatchObject({
      from: new Date('2026-11-16T00:00:00Z'),
      to: new Date('2026-11-23T00:00:00Z'),
    })
    const text = markupOf(askedByDay(some, services, days, { perSecond: 0.1, hasNamed: false }))
    const plain = text.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ')
    expect(plain).toMatch(
      /For 22 Nov 21 Nov .* 16 Nov tracker_object list 900 0 0 0 0 0 0 assignment look-back 30 10 0 0 0 0 0 no run known 0 0 0 0 0 0 2 all 930 10 0 0 0 0 2/,
    )
    expect(plain).toContain(
      '8,640 times a day. The most that they asked one service in one of these days is 10 % of that',
    )
    expect(markupOf(askedByDay(some, services, days, { perSecond: 100, hasNamed: false }))).toContain(
      'is less than 1 % of that',
    )
    const ofAcme = { requests: 5_000, service: 'acme.assignment' }
    const ofTwo = markupOf(askedByDay(some, [...services, ofAcme], days, { perSecond: 0.1, hasNamed: true }))
    expect(ofTwo).toMatch(
      /times a day for the source that the environment describes\. .* of it .* 10 % of that/,
    )
    expect(markupOf(askedByDay([], [], days, { perSecond: null, hasNamed: false }))).toMatch(
      /No request was counted[\s\S]*No budget is set\..*href="\/settings"/,
    )
  })

  it('is a chart whose bars add up', () => {
    const chart = markupOf(
      askedChart([...some, asked('2026-11-22T00:00:00Z', 'assignment', 'verify', 5)], days),
    )
    expect(chart).toContain(
      '947 requests, 7 days: 900 new changes and lists, 40 look-back, 0 search for deletions, 5 comparisons and the rest, 2 no run known',
    )
  })
})
