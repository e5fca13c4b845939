// How the upstream answered as charts, what failed, and what was asked for: by stream and kind of run, also day by day beside the budget.

import { type AskedBucket, quantileMs, type ServiceBucket } from '../store/book/request-history.ts'
import { sourceIn } from '../streams/names.ts'
import { shortSpan } from '../util/text.ts'
import { latencyOf, partsTable, sumOf } from './chart-tables.ts'
import { bars, everyBucket, figure, lines, type Scale } from './history-charts.ts'
import { count, formOf, type Html, html, kindInWords, zone } from './html.ts'
import { plainTable } from './pages/tables.ts'
import type { ChartSpan } from './time-range.ts'

const latencyScale: Scale = {
  least: 5,
  most: 100_000,
  marks: [
    [10, '10 ms'],
    [100, '100 ms'],
    [1_000, '1 s'],
    [10_000, '10 s'],
  ],
}

export function latencyChart(service: string, buckets: readonly ServiceBucket[], span: ChartSpan): Html {
  const title = `${service}: time to answer`
  const small = html`milliseconds per ${shortSpan(span.bucketMs)}, ${span.words}, ${zone}; logarithmic`
  const whole = latencyOf(buckets)
  const [median, slow] = [quantileMs(whole, 0.5), quantileMs(whole, 0.95)]
  if (median === null || slow === null) {
    const isAsked = sumOf(buckets, ({ requests }) => requests) > 0
    return figure({ title, small, nothing: isAsked ? 'No request was answered in this time.' : undefined })
  }
  const all = everyBucket(buckets, span)
  const line = (words: string, share: number) => ({
    words,
    points: all.map(([at, one]) => [at, one && quantileMs(one.latency, share)] as const),
  })
  const within = (share: number) => (own: readonly ServiceBucket[]) => {
    const ms = quantileMs(latencyOf(own), share)
    return ms === null ? '–' : `${count(ms)} ms`
  }
  return lines({
    title,
    small,
    span,
    scale: latencyScale,
    label: `The ${service}, ${span.words}: half of its answers took up to ${count(median)} ms, 95 of 100 up to ${count(slow)} ms`,
    lines: [
      line(`half are faster: ${count(median)} ms`, 0.5),
      line(`95 of 100 are faster: ${count(slow)} ms`, 0.95),
    ],
    table: partsTable('Time to answer', span, buckets, [
      ['Requests', (own) => count(sumOf(own, ({ requests }) => requests))],
      ['Half up to', within(0.5)],
      ['95 of 100 up to', within(0.95)],
    ]),
  })
}

const failuresOf = (name: string) => (one: ServiceBucket) => Number(one.failures[name] ?? 0)
const failureKinds = [
  { className: 'f-warn', words: '429, slow down', amount: failuresOf('429') },
  { className: 'f-bad', words: '5xx', amount: failuresOf('5xx') },
  { className: 'f-gone', words: '4xx', amount: failuresOf('4xx') },
  { className: 'f-idle', words: 'no answer', amount: failuresOf('none') },
]

export const failuresChart = (buckets: readonly ServiceBucket[], span: ChartSpan): Html =>
  bars({
    title: 'Requests that failed',
    span,
    buckets,
    kinds: failureKinds,
    small: () => `requests per ${shortSpan(span.bucketMs)}, all services, ${span.words}`,
    label: (all) => `${count(all)} requests failed, ${span.words}`,
    nothing: buckets.length === 0 ? 'Nothing was recorded in this time.' : 'None.',
  })

// ── what was asked for ───────────────────────────────────────────────────────────────────────────────────────

const ofKinds =
  (...kinds: readonly string[]) =>
  ({ kind, requests }: AskedBucket) =>
    kinds.includes(kind ?? '') ? requests : 0
const frequent = ['incremental', 'list', 'lookback', 'deletions']
const askedKinds = [
  { className: 'f-read', words: 'new changes and lists', amount: ofKinds('incremental', 'list') },
  { className: 'f-ok', words: 'look-back', amount: ofKinds('lookback') },
  { className: 'f-gone', words: 'search for deletions', amount: ofKinds('deletions') },
  {
    className: 'f-warn',
    words: 'comparisons and the rest',
    amount: ({ kind, requests }: AskedBucket) => (kind !== null && !frequent.includes(kind) ? requests : 0),
  },
  {
    className: 'f-idle',
    words: 'no run known',
    amount: ({ kind, requests }: AskedBucket) => (kind === null ? requests : 0),
  },
]

export const askedChart = (buckets: readonly AskedBucket[], span: ChartSpan): Html =>
  bars({
    title: 'What was asked for',
    tableOf: 'Requests',
    span,
    buckets,
    kinds: askedKinds,
    small: (all) =>
      `requests per ${shortSpan(span.bucketMs)}, all services, ${span.words}; bars add up to ${count(all)}`,
    label: (all, sums) => `${count(all)} requests, ${span.words}: ${sums.join(', ')}`,
  })

const dayMs = 86_400_000
const mostDays = 7

/** Whole days of UTC, the last of which may not be over. */
export const daysUntil = (to: Date): ChartSpan => {
  const end = Math.ceil(to.getTime() / dayMs) * dayMs
  const words = `${mostDays} days`
  return { from: new Date(end - mostDays * dayMs), to: new Date(end), bucketMs: dayMs, words }
}

/** `perSecond`: the budget of the source that the environment describes for a host with one sign-in; null: it has none. `services`: the same requests by service. */
export type Budget = {
  readonly perSecond: number | null
  /** There are other sources, with budgets of their own. */
  readonly hasNamed: boolean
}
export function askedByDay(
  buckets: readonly AskedBucket[],
  services: readonly Pick<ServiceBucket, 'requests' | 'service'>[],
  { from }: ChartSpan,
  { perSecond, hasNamed }: Budget,
): Html {
  const days = Array.from(
    { length: mostDays },
    (_, index) => new Date(from.getTime() + (mostDays - 1 - index) * dayMs),
  )
  const on = (own: readonly AskedBucket[], day: Date) =>
    sumOf(own, ({ at, requests }) => (at.getTime() === day.getTime() ? requests : 0))
  const all = { name: html`all`, own: buckets }
  const rows = [...Map.groupBy(buckets, ({ stream, kind }) => `${stream} ${kind}`).values()]
    .toSorted((a, b) => sumOf(b, ({ requests }) => requests) - sumOf(a, ({ requests }) => requests))
    .map((own) => ({ name: nameOf(own[0]), own }))
  const own = services.filter(({ service }) => sourceIn(service) === '')
  const most = Math.max(0, ...own.map(({ requests }) => requests))
  return html`<h2 id="by-day">Requests a day</h2>${
    rows.length === 0
      ? html`<p class="quiet">No request was counted in these days.</p>`
      : plainTable({
          caption: 'By stream and kind of run, in days of UTC, the newest first',
          columns: [
            { title: 'For', cell: ({ name }) => name },
            ...days.map((day) => ({
              title: formOf(day, 'day'),
              cell: ({ own }: typeof all) => count(on(own, day)),
              isNumber: true,
            })),
          ],
          rows: [...rows, all],
          scrolls: 'Requests a day',
        })
  }<p class="small quiet">${budgetInWords(perSecond, most, hasNamed)}</p><p class="small quiet">${costOfSchedule}</p>`
}

const costOfSchedule = html`What another schedule would cost: a run that finds nothing new takes one request (a list one for each page of it, and a few more that confirm its end), so SCHEDULE_… = 30s means about ${count(86_400 / 30)} requests a day where one is enough, and 5m about ${count(86_400 / 300)}. Look-backs, the search for deletions and reconciles have schedules of their own. <a href="/settings">Settings</a>`

const nameOf = (one: AskedBucket | undefined): Html =>
  !one || one.stream === null || one.kind === null
    ? html`no run known`
    : html`<a href="/streams/${one.stream}">${one.stream}</a> ${kindInWords(one.kind)}`

function budgetInWords(perSecond: number | null, most: number, hasNamed: boolean): Html {
  const whose = hasNamed && ' for the source that the environment describes'
  const others = hasNamed && html` Each of the other <a href="/sources">sources</a> has a setting of its own.`
  if (perSecond === null)
    return html`No budget is set${whose}.${others} REQUESTS_PER_SECOND bounds what all workers together ask a host with one sign-in. Set it on the page <a href="/settings">Settings</a>, or in the environment of the workers.`
  const budget = perSecond * 86_400
  const share = most / budget
  return html`REQUESTS_PER_SECOND=${perSecond} lets all workers together ask a host with one sign-in ${count(budget)} times a day${whose}. The most that they asked one service${hasNamed && ' of it'} in one of these days is ${share > 0 && share < 0.01 ? 'less than 1' : count(100 * share)} % of that.${others}`
}
