// The span of time that an address asks for, as lists and charts take it, and what is said when it is none.

import { describe, expect, it } from 'vitest'
import { markupOf } from '../../src/web/html.ts'
import { chartSpan, rangeAround, rangeControl, rangeIn } from '../../src/web/time-range.ts'

const now = new Date('2026-11-22T14:02:31Z')
const asked = (query: string, usual: Parameters<typeof rangeIn>[2] = null) =>
  rangeIn(new URLSearchParams(query), now, usual)
const ago = (hours: number) => new Date(now.getTime() - hours * 3_600_000)

describe('a span of time', () => {
  it.each([
    ['', null, null, 'any time'],
    ['range=hour', ago(1), null, 'last hour'],
    ['range=week', ago(168), null, 'last 7 days'],
    ['range=month', ago(720), null, 'last 30 days'],
    ['from=2026-11-21T09:00', new Date('2026-11-21T09:00:00Z'), null, 'from 2026-11-21 09:00 UTC'],
    ['to=2026-11-21T09:00:30', null, new Date('2026-11-21T09:00:30Z'), 'before 2026-11-21 09:00:30 UTC'],
    // Two moments are more than a length that the form carries along.
    [
      'range=day&from=2026-11-20T09:00Z&to=2026-11-21T09:00&before=7',
      '2026-11-20T09:00:00Z',
      '2026-11-21T09:00:00Z',
      'from 2026-11-20 09:00 UTC to 2026-11-21 09:00 UTC',
    ],
  ])('of %j', (query, from, to, words) => {
    const range = asked(query)
    expect(range).toMatchObject({
      from: from && new Date(from),
      to: to && new Date(to),
      words,
      problem: null,
    })
    // What it keeps leads to the same again.
    const again = Object.entries(range.kept).flatMap(([name, one]) =>
      one === null ? [] : [`${name}=${one}`],
    )
    expect(asked(again.join('&'))).toEqual(range)
  })

  it.each([
    ['from=2026-01-02', '“2026-01-02” is no time'],
    ['to=2026-13-40T99:99', '“2026-13-40T99:99” is no time'],
    ['from=2026-02-30T10:00', '“2026-02-30T10:00” is no time'],
    ["from='; drop", 'is no time'],
    ['range=__proto__', '“__proto__” is no span of time'],
    ['from=2026-01-02T10:00&to=2026-01-02T10:00', 'is not before the second'],
  ])('is told to be none where it says %s, and asks for nothing odd', (query, problem) => {
    const range = asked(query)
    expect(range.problem).toContain(problem)
    if (!query.includes('&')) expect([range.from, range.to]).toEqual([null, null])
  })

  it('can be changed on each page, and stays in its address', () => {
    const control = (query: string) =>
      markupOf(rangeControl(asked(query, 'day'), 'day', ({ range }) => `/x?stream=a&range=${range}`))
    expect(control('')).toContain('<a href="/x?stream=a&amp;range=day" aria-current="true">')
    expect(control('range=week')).toContain('<input type="hidden" name="range" value="week">')
    const between = control('range=week&from=2026-11-21T09:00')
    expect(between).toContain('name="from" value="2026-11-21T09:00"')
    expect(between).not.toContain('aria-current')
    expect(between).not.toContain('type="hidden"')
    expect(control('from=<b>')).toContain('“&lt;b&gt;” is no time')
  })

  it('of a run holds its last second', () => {
    expect(rangeAround(new Date('2026-11-22T14:00:00.900Z'), new Date('2026-11-22T14:00:02.100Z'))).toEqual({
      from: '2026-11-22T14:00:00',
      to: '2026-11-22T14:00:03',
    })
  })
})

describe('the span of a chart', () => {
  const span = (query: string, most = 288, at = now) =>
    chartSpan(rangeIn(new URLSearchParams(query), at, 'day'), at, most)

  it('is made of whole buckets, so that those of one chart stay what they are', () => {
    const day = span('', 96)
    expect(day).toMatchObject({
      from: new Date('2026-11-21T14:15:00Z'),
      to: new Date('2026-11-22T14:15:00Z'),
      bucketMs: 900_000,
    })
    expect(span('', 96, new Date('2026-11-22T14:14:59Z'))).toEqual(day)
  })

  it.each([
    ['range=hour', 1, 60],
    ['range=day', 5, 288],
    ['range=week', 60, 168],
    ['range=month', 180, 240],
    ['from=2026-11-20T03:10&to=2026-11-20T05:50', 1, 160],
    // Of minutes that old only hours are kept.
    ['from=2026-11-01T00:00&to=2026-11-01T05:00', 60, 5],
  ])('of %s has buckets of %d minutes, %d of them', (query, minutes, buckets) => {
    const { from, to, bucketMs } = span(query)
    expect(bucketMs).toBe(minutes * 60_000)
    expect((to.getTime() - from.getTime()) / bucketMs).toBe(buckets)
  })

  it.each([
    'from=1990-01-01T00:00&to=1991-01-01T00:00',
    'from=2999-01-01T00:00',
    'to=1990-01-01T00:00',
    'from=2026-11-22T00:00&to=2026-11-21T00:00',
  ])('that lies nowhere (%s) is one, and asks for no more than there can be', (query) => {
    const { from, to, bucketMs } = span(query)
    expect(to.getTime() - from.getTime()).toBeGreaterThanOrEqual(bucketMs)
    expect((to.getTime() - from.getTime()) / bucketMs).toBeLessThanOrEqual(289)
  })
})
