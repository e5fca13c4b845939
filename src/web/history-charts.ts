// The last day as charts: how far behind, rows written, states, and how the upstream answered. Each has a sentence for those who do not
// see it, and its numbers as a table.

import type { MinuteBucket, ServiceBucket, StateSpan } from '../store/book/watch.ts'
import { shortSpan } from '../util/text.ts'
import {
  clockOf,
  failureKinds,
  failuresTable,
  latencyOf,
  latencyTable,
  numbers,
  outcomes,
  quantileMs,
  rowsTable,
  tickHours,
  troubleTable,
  worstTable,
} from './chart-tables.ts'
import { swatch } from './charts.ts'
import { count, type Html, html } from './html.ts'

export type DaySpan = { readonly from: Date; readonly to: Date; readonly bucketMs: number }

/** The last 24 hours in whole buckets, so that the buckets of a chart stay the same from one look to the next. */
export function dayUntil(now: Date, minutes: number): DaySpan {
  const bucketMs = minutes * 60_000
  const to = new Date(Math.ceil(now.getTime() / bucketMs) * bucketMs)
  return { from: new Date(to.getTime() - 86_400_000), to, bucketMs }
}

const percent = (value: number): string => `${value.toFixed(2)}%`
const placeOf = (at: Date, { from, to }: DaySpan): number =>
  (100 * (at.getTime() - from.getTime())) / (to.getTime() - from.getTime())

/** Full hours below a chart; every other one is left out on a phone. */
function timeAxis(span: DaySpan, y: number): Html {
  const firstMs = Math.ceil(span.from.getTime() / (tickHours * 3_600_000)) * tickHours * 3_600_000
  const ticks: Html[] = []
  for (let ms = firstMs, index = 0; ms <= span.to.getTime(); ms += tickHours * 3_600_000, index++) {
    const x = placeOf(new Date(ms), span)
    const align = x < 3 ? '' : x > 97 ? 'end' : 'mid'
    ticks.push(
      html`<text class="${align}${index % 2 === 1 && ' alt'}" x="${percent(x)}" y="${y}">${clockOf(new Date(ms))}</text>`,
    )
  }
  return html`${ticks}`
}

const figure = (title: string, small: string, chart: Html, below: Html | null): Html =>
  html`<figure><figcaption><span>${title}</span> <small>${small}</small></figcaption>${chart}${below}</figure>`

const withScale = (
  labels: readonly (readonly [y: number, words: string])[],
  height: number,
  plot: Html,
): Html =>
  html`<div class="yx"><svg class="plot" height="${height}" aria-hidden="true">${labels.map(([y, words]) => html`<text x="0" y="${y.toFixed(1)}">${words}</text>`)}</svg>${plot}</div>`

const nothing = (title: string, small: string): Html =>
  figure(
    title,
    small,
    html`<p class="quiet">Nothing was recorded in this time. Workers record each minute while they run.</p>`,
    null,
  )

// ── lines on a logarithmic scale ─────────────────────────────────────────────────────────────────────────────

const plotHeight = 140

type Line = {
  readonly className: string
  readonly points: readonly (readonly [at: Date, value: number | null])[]
}

function logPlot(
  lines: readonly Line[],
  span: DaySpan,
  scale: { readonly least: number; readonly most: number; readonly label: string },
  limit: { readonly value: number; readonly words: string } | null = null,
): Html {
  const y = (value: number) => logPlace(value, scale) * 100
  const paths = lines.flatMap(({ className, points }) =>
    unbroken(points).map((part) => {
      const steps = part.map(([at, value]) => `${(placeOf(at, span) * 10).toFixed(0)},${y(value).toFixed(1)}`)
      return html`<polyline class="${className}" points="${steps.length === 1 ? `${steps[0]} ${steps[0]}` : steps.join(' ')}"/>`
    }),
  )
  return html`<svg class="plot" height="${plotHeight + 18}" role="img" aria-label="${scale.label}"><line class="grid" x1="0" x2="100%" y1="${plotHeight}" y2="${plotHeight}"/><svg viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="${plotHeight}">${paths}</svg>${limit && limitLine(logPlace(limit.value, scale) * plotHeight, limit.words)}${timeAxis(span, plotHeight + 14)}</svg>`
}

const limitLine = (y: number, words: string): Html =>
  html`<line class="limit" x1="0" x2="100%" y1="${y.toFixed(1)}" y2="${y.toFixed(1)}"/><text class="end" x="100%" y="${(y - 5).toFixed(1)}">${words}</text>`

/** 0 at the top. */
const logPlace = (
  value: number,
  { least, most }: { readonly least: number; readonly most: number },
): number => 1 - Math.log(Math.min(most, Math.max(least, value)) / least) / Math.log(most / least)

/** A line ends where nothing is known, and begins anew. */
function unbroken(points: Line['points']): readonly (readonly (readonly [Date, number])[])[] {
  const parts: (readonly [Date, number])[][] = [[]]
  for (const [at, value] of points)
    if (value === null) parts.push([])
    else parts.at(-1)?.push([at, value])
  return parts.filter((part) => part.length > 0)
}

/** Buckets in which nothing was noted break the line. */
function everyBucket<Bucket extends { readonly at: Date }>(
  buckets: readonly Bucket[],
  { from, to, bucketMs }: DaySpan,
): readonly (readonly [Date, Bucket | null])[] {
  const known = new Map(buckets.map((one) => [one.at.getTime(), one]))
  const all: (readonly [Date, Bucket | null])[] = []
  for (let ms = from.getTime(); ms < to.getTime(); ms += bucketMs)
    all.push([new Date(ms), known.get(ms) ?? null])
  return all
}

// ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────

const lagScale = [
  [1, '1 s'],
  [60, '1 min'],
  [3_600, '1 h'],
  [86_400, '1 day'],
] as const

/** How old “read through” was, at worst, and “settled through” beside it. */
export function lagChart(buckets: readonly MinuteBucket[], span: DaySpan, staleAfterMs: number): Html {
  const title = 'How far behind: age of “read through”'
  const small = `worst moment of each ${shortSpan(span.bucketMs)}, last 24 h, UTC; logarithmic`
  const worst = buckets.reduce<MinuteBucket | null>(
    (a, b) => ((b.readAge ?? -1) > (a?.readAge ?? -1) ? b : a),
    null,
  )
  if (!worst || worst.readAge === null) return nothing(title, small)
  const latest = buckets.findLast(({ readAge }) => readAge !== null)
  const scale = { least: 1, most: 2 * 86_400 }
  const label = `Worst age of read through in 24 hours: ${shortSpan(worst.readAge * 1_000)} at ${clockOf(worst.at)} UTC; last ${shortSpan((latest?.readAge ?? 0) * 1_000)}`
  const all = everyBucket(buckets, span)
  const plot = logPlot(
    [
      { className: 'ln two', points: all.map(([at, one]) => [at, one?.settledAge ?? null]) },
      { className: 'ln', points: all.map(([at, one]) => [at, one?.readAge ?? null]) },
    ],
    span,
    { ...scale, label },
    { value: staleAfterMs / 1_000, words: `a problem after ${shortSpan(staleAfterMs)}` },
  )
  const labels = lagScale.map(
    ([seconds, words]) => [logPlace(seconds, scale) * plotHeight + 4, words] as const,
  )
  return figure(
    title,
    small,
    withScale(labels, plotHeight + 18, plot),
    html`<ul class="key"><li><svg viewBox="0 0 12 12" aria-hidden="true"><path class="ln" d="M0 6h12"/></svg>read through</li><li><svg viewBox="0 0 12 12" aria-hidden="true"><path class="ln two" d="M0 6h12"/></svg>settled through</li></ul>
${numbers(worstTable(buckets))}`,
  )
}

/** Bars that add up to the sums of the legend. */
export function rowsChart(buckets: readonly MinuteBucket[], span: DaySpan): Html {
  const sums = outcomes.map(([name]) => buckets.reduce((sum, one) => sum + one[name], 0))
  const all = sums.reduce((a, b) => a + b, 0)
  const title = 'Rows written'
  const small = `rows per ${shortSpan(span.bucketMs)}; bars add up to ${count(all)} in 24 h`
  if (all === 0) return nothing(title, small)
  const parts = buckets.map((one) => ({
    at: one.at,
    parts: outcomes.map(([name, className]) => [className, one[name]] as const),
  }))
  return figure(
    title,
    small,
    stackedBars(
      parts,
      span,
      `${count(all)} rows written in 24 hours: ${outcomes.map(([, , words], index) => `${count(sums[index] ?? 0)} ${words}`).join(', ')}`,
    ),
    html`<ul class="key">${outcomes.map(([, className, words], index) => swatch(className, `${words} ${count(sums[index] ?? 0)}`))}</ul>
${numbers(rowsTable(buckets))}`,
  )
}

const barsHeight = 110

function stackedBars(
  buckets: readonly {
    readonly at: Date
    readonly parts: readonly (readonly [className: string, amount: number])[]
  }[],
  span: DaySpan,
  label: string,
): Html {
  const sumOf = ({ parts }: (typeof buckets)[number]) => parts.reduce((sum, [, amount]) => sum + amount, 0)
  const most = Math.max(1, ...buckets.map(sumOf))
  const width = (100 * span.bucketMs) / (span.to.getTime() - span.from.getTime())
  const bars = buckets.flatMap((bucket) => {
    let top = barsHeight
    return bucket.parts.flatMap(([className, amount]) => {
      if (amount <= 0) return []
      const tall = Math.max(1, (amount / most) * (barsHeight - 4))
      top -= tall
      return [
        html`<rect class="${className}" x="${percent(placeOf(bucket.at, span))}" width="${percent(width * 0.85)}" y="${top.toFixed(1)}" height="${tall.toFixed(1)}"/>`,
      ]
    })
  })
  const plot = html`<svg class="plot" height="${barsHeight + 18}" role="img" aria-label="${label}"><line class="grid" x1="0" x2="100%" y1="${barsHeight}" y2="${barsHeight}"/>${bars}${timeAxis(span, barsHeight + 14)}</svg>`
  return withScale(
    [
      [barsHeight, '0'],
      [12, count(most)],
    ],
    barsHeight + 18,
    plot,
  )
}

const states = [
  ['up to date', 'f-ok'],
  ['behind', 'f-warn'],
  ['needs you', 'f-bad'],
  ['loading', 'f-read'],
  ['paused', 'f-idle'],
] as const
const classOf = (state: string | null): string => states.find(([name]) => name === state)?.[1] ?? 'f-none'
const lineHeight = 38

/** One row a stream, with the edges as they were noted. */
export function stateTimeline(streams: readonly string[], spans: readonly StateSpan[], span: DaySpan): Html {
  const title = 'Last 24 hours'
  const small = 'each row is one stream; UTC'
  if (spans.length === 0) return nothing(title, small)
  const height = streams.length * lineHeight
  const rows = streams.flatMap((stream, index) => [
    html`<text x="0" y="${index * lineHeight + 12}">${stream}</text><rect class="f-none" x="0" width="100%" y="${index * lineHeight + 17}" height="12" rx="2"/>`,
    ...spans
      .filter((one) => one.stream === stream && one.state !== null)
      .map((one) => {
        const from = Math.max(0, placeOf(one.from, span))
        const width = Math.max(0.3, Math.min(100, placeOf(one.to, span)) - from)
        return html`<rect class="${classOf(one.state)}" x="${percent(from)}" width="${percent(width)}" y="${index * lineHeight + 17}" height="12"><title>${stream}: ${one.state} ${clockOf(one.from)} to ${clockOf(one.to)} UTC</title></rect>`
      }),
  ])
  const troubles = spans.filter(({ state }) => state !== 'up to date')
  const label =
    troubles.length === 0
      ? 'All streams were up to date in the last 24 hours'
      : `In the last 24 hours there were ${count(troubles.length)} times when a stream was not up to date`
  return figure(
    title,
    small,
    html`<svg class="plot" height="${height + 16}" role="img" aria-label="${label}">${rows}${timeAxis(span, height + 8)}</svg>`,
    html`<ul class="key">${states.map(([name, className]) => swatch(className, name))}${swatch('f-none', 'no worker')}</ul>
${numbers(troubleTable(troubles.toReversed()))}`,
  )
}

// ── the upstream ─────────────────────────────────────────────────────────────────────────────────────────────

const latencyScale = { least: 5, most: 100_000 }

export function latencyChart(service: string, buckets: readonly ServiceBucket[], span: DaySpan): Html {
  const title = `${service} service: time to answer`
  const small = `milliseconds per ${shortSpan(span.bucketMs)}, last 24 h, UTC; logarithmic`
  const whole = latencyOf(buckets)
  const [median, slow] = [quantileMs(whole, 0.5), quantileMs(whole, 0.95)]
  if (median === null || slow === null) return nothing(title, small)
  const all = everyBucket(buckets, span)
  const line = (share: number) => all.map(([at, one]) => [at, one && quantileMs(one.latency, share)] as const)
  const plot = logPlot(
    [
      { className: 'ln two', points: line(0.95) },
      { className: 'ln', points: line(0.5) },
    ],
    span,
    {
      ...latencyScale,
      label: `The ${service} service: half of its answers in 24 hours took up to ${count(median)} ms, 95 of 100 up to ${count(slow)} ms`,
    },
  )
  const labels = [10, 100, 1_000, 10_000].map(
    (ms) =>
      [logPlace(ms, latencyScale) * plotHeight + 4, ms >= 1_000 ? `${ms / 1_000} s` : `${ms} ms`] as const,
  )
  return figure(
    title,
    small,
    withScale(labels, plotHeight + 18, plot),
    html`<ul class="key"><li><svg viewBox="0 0 12 12" aria-hidden="true"><path class="ln" d="M0 6h12"/></svg>half are faster: ${count(median)} ms</li><li><svg viewBox="0 0 12 12" aria-hidden="true"><path class="ln two" d="M0 6h12"/></svg>95 of 100 are faster: ${count(slow)} ms</li></ul>
${numbers(latencyTable(buckets))}`,
  )
}

export function failuresChart(buckets: readonly ServiceBucket[], span: DaySpan): Html {
  const byTime = [...Map.groupBy(buckets, ({ at }) => at.getTime())].map(([ms, own]) => ({
    at: new Date(ms),
    parts: failureKinds.map(
      ([name, className]) =>
        [className, own.reduce((sum, { failures }) => sum + Number(failures[name] ?? 0), 0)] as const,
    ),
  }))
  const sums = failureKinds.map((_kind, index) =>
    byTime.reduce((sum, { parts }) => sum + (parts[index]?.[1] ?? 0), 0),
  )
  const all = sums.reduce((a, b) => a + b, 0)
  const small = `requests per ${shortSpan(span.bucketMs)}, all services, last 24 h`
  if (all === 0)
    return figure(
      'Requests that failed',
      small,
      html`<p class="quiet">${buckets.length === 0 ? 'Nothing was recorded in this time.' : 'None.'}</p>`,
      null,
    )
  return figure(
    'Requests that failed',
    small,
    stackedBars(byTime, span, `${count(all)} requests failed in 24 hours`),
    html`<ul class="key">${failureKinds.map(([, className, words], index) => swatch(className, `${words}: ${count(sums[index] ?? 0)}`))}</ul>
${numbers(failuresTable(buckets))}`,
  )
}
