// The past as charts: how far behind, rows written, states, and how the upstream answered. Each has a sentence for those who do not
// see it, and its numbers as a table.

import type { MinuteBucket, StateSpan } from '../store/book/watch.ts'
import { capitalized, shortSpan } from '../util/text.ts'
import { clockOf, numbers, partsTable, sumOf, tableMoment, tickMsOf, tickOf } from './chart-tables.ts'
import { percent, swatch } from './charts.ts'
import { count, type Html, html, zone } from './html.ts'
import { plainTable } from './pages/tables.ts'
import type { ChartSpan } from './time-range.ts'

const placeOf = (at: Date, { from, to }: ChartSpan): number =>
  (100 * (at.getTime() - from.getTime())) / (to.getTime() - from.getTime())

/** Full hours or days below a chart; every other one is left out on a phone. */
function timeAxis(span: ChartSpan, y: number): Html {
  const tickMs = tickMsOf(span)
  const firstMs = Math.ceil(span.from.getTime() / tickMs) * tickMs
  const ticks: Html[] = []
  for (let ms = firstMs, index = 0; ms <= span.to.getTime(); ms += tickMs, index++) {
    const at = new Date(ms)
    const x = placeOf(at, span)
    const align = x < 3 ? '' : x > 97 ? 'end' : 'mid'
    const { form, words } = tickOf(at, span)
    ticks.push(
      html`<text class="${align}${index % 2 === 1 && ' alt'}" x="${percent(x)}" y="${y}" data-at="${at.toISOString()}" data-form="${form}">${words}</text>`,
    )
  }
  return html`${ticks}`
}

/** Without a chart, says that there is nothing to show. */
export function figure(given: {
  readonly title: string
  readonly small: Html | string
  readonly chart?: Html
  readonly key?: readonly Html[]
  readonly table?: Html
  readonly nothing?: string | undefined
}): Html {
  const { title, small, chart, key, table, nothing = notRecorded } = given
  return html`<figure>
<figcaption><span>${title}</span> <small>${small}</small></figcaption>
${chart ?? html`<p class="quiet">${nothing}</p>`}
${key && html`<ul class="key">${key}</ul>`}
${table && numbers(table)}
</figure>`
}

const notRecorded = 'Nothing was recorded in this time. Workers record each minute while they run.'

/** A plot with its scale on the left and the time below it. */
const plotted = (given: {
  readonly height: number
  readonly span: ChartSpan
  readonly label: string
  readonly marks: readonly (readonly [y: number, words: string])[]
  readonly plot: Html
}): Html => {
  const { height, span, label, marks, plot } = given
  return html`<div class="yx">
<svg class="plot" height="${height + 18}" aria-hidden="true">${marks.map(([y, words]) => html`<text x="0" y="${y.toFixed(1)}">${words}</text>`)}</svg>
<svg class="plot" height="${height + 18}" role="img" aria-label="${label}">
<line class="grid" x1="0" x2="100%" y1="${height}" y2="${height}"/>
${plot}
${timeAxis(span, height + 14)}
</svg>
</div>`
}

// ── lines on a logarithmic scale ─────────────────────────────────────────────────────────────────────────────

const plotHeight = 140

type Line = {
  readonly words: string
  readonly points: readonly (readonly [at: Date, value: number | null])[]
}
export type Scale = {
  readonly least: number
  readonly most: number
  readonly marks: readonly (readonly [value: number, words: string])[]
}
const lineClasses = ['ln', 'ln two']

/** The first line lies above the second. */
export function lines(given: {
  readonly title: string
  readonly small: Html | string
  readonly label: string
  readonly span: ChartSpan
  readonly scale: Scale
  readonly lines: readonly [Line, Line]
  readonly limit?: { readonly value: number; readonly words: string }
  readonly table: Html
}): Html {
  const { title, small, label, span, scale, limit, table } = given
  const paths = given.lines.map(({ points }, index) =>
    unbroken(points).map((part) => {
      const steps = part.map(
        ([at, value]) =>
          `${(placeOf(at, span) * 10).toFixed(0)},${(logPlace(value, scale) * 100).toFixed(1)}`,
      )
      // A point alone is a line of no length.
      const path = steps.length === 1 ? [...steps, ...steps] : steps
      return html`<polyline class="${lineClasses[index]}" points="${path.join(' ')}"/>`
    }),
  )
  const plot = html`<svg viewBox="0 0 1000 100" preserveAspectRatio="none" width="100%" height="${plotHeight}">${paths.toReversed()}</svg>
${limit && limitLine(logPlace(limit.value, scale) * plotHeight, limit.words)}`
  const marks = scale.marks.map(([value, words]) => [logPlace(value, scale) * plotHeight + 4, words] as const)
  return figure({
    title,
    small,
    table,
    chart: plotted({ height: plotHeight, span, label, marks, plot }),
    key: given.lines.map(
      ({ words }, index) =>
        html`<li><svg viewBox="0 0 12 12" aria-hidden="true"><path class="${lineClasses[index]}" d="M0 6h12"/></svg>${words}</li>`,
    ),
  })
}

const limitLine = (y: number, words: string): Html =>
  html`<line class="limit" x1="0" x2="100%" y1="${y.toFixed(1)}" y2="${y.toFixed(1)}"/><text class="end" x="100%" y="${(y - 5).toFixed(1)}">${words}</text>`

/** 0 at the top. */
const logPlace = (value: number, { least, most }: Pick<Scale, 'least' | 'most'>): number =>
  1 - Math.log(Math.min(most, Math.max(least, value)) / least) / Math.log(most / least)

/** A line ends where nothing is known, and begins anew. */
function unbroken(points: Line['points']): readonly (readonly (readonly [Date, number])[])[] {
  const parts: (readonly [Date, number])[][] = [[]]
  for (const [at, value] of points)
    if (value === null) parts.push([])
    else parts.at(-1)?.push([at, value])
  return parts.filter((part) => part.length > 0)
}

/** Buckets in which nothing was noted break the line. */
export function everyBucket<Bucket extends { readonly at: Date }>(
  buckets: readonly Bucket[],
  { from, to, bucketMs }: ChartSpan,
): readonly (readonly [Date, Bucket | null])[] {
  const known = new Map(buckets.map((one) => [one.at.getTime(), one]))
  const all: (readonly [Date, Bucket | null])[] = []
  for (let ms = from.getTime(); ms < to.getTime(); ms += bucketMs)
    all.push([new Date(ms), known.get(ms) ?? null])
  return all
}

// ── bars that add up to the sums of their key ────────────────────────────────────────────────────────────────

const barsHeight = 110

type Kind<Bucket> = {
  readonly className: string
  readonly words: string
  readonly amount: (bucket: Bucket) => number
}

export function bars<Bucket extends { readonly at: Date }>(given: {
  readonly title: string
  small(all: number): Html | string
  label(all: number, sums: readonly string[]): string
  readonly span: ChartSpan
  readonly buckets: readonly Bucket[]
  readonly kinds: readonly Kind<Bucket>[]
  /** Between the words of the key and their sums. */
  readonly keySign?: string
  /** Left out: the title. */
  readonly tableOf?: string
  readonly nothing?: string | undefined
}): Html {
  const { title, span, buckets, kinds, keySign = ':', tableOf = title } = given
  const sums = kinds.map(({ amount }) => sumOf(buckets, amount))
  const all = sumOf(sums, (one) => one)
  const small = given.small(all)
  if (all === 0) return figure({ title, small, nothing: given.nothing })
  const byTime = [...Map.groupBy(buckets, ({ at }) => at.getTime())].map(([ms, own]) => ({
    at: new Date(ms),
    amounts: kinds.map(({ amount }) => sumOf(own, amount)),
  }))
  const most = Math.max(1, ...byTime.map(({ amounts }) => sumOf(amounts, (one) => one)))
  const width = (100 * span.bucketMs) / (span.to.getTime() - span.from.getTime())
  const plot = byTime.map(({ at, amounts }) => {
    let top = barsHeight
    return amounts.map((amount, index) => {
      if (amount <= 0) return null
      const tall = Math.max(1, (amount / most) * (barsHeight - 4))
      top -= tall
      return html`<rect class="${kinds[index]?.className}" x="${percent(placeOf(at, span))}" width="${percent(width * 0.85)}" y="${top.toFixed(1)}" height="${tall.toFixed(1)}"/>`
    })
  })
  const inWords = kinds.map(({ words }, index) => `${count(sums[index] ?? 0)} ${words}`)
  return figure({
    title,
    small,
    chart: plotted({
      height: barsHeight,
      span,
      label: given.label(all, inWords),
      plot: html`${plot}`,
      marks: [
        [barsHeight, '0'],
        [12, count(most)],
      ],
    }),
    key: kinds.map(({ className, words }, index) =>
      swatch(className, `${words}${keySign} ${count(sums[index] ?? 0)}`),
    ),
    table: partsTable(
      tableOf,
      span,
      buckets,
      kinds.map(({ words, amount }) => [words, (own) => count(sumOf(own, amount))] as const),
    ),
  })
}

// ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────

const lagScale: Scale = {
  least: 1,
  most: 2 * 86_400,
  marks: [
    [1, '1 s'],
    [60, '1 min'],
    [3_600, '1 h'],
    [86_400, '1 day'],
  ],
}
type Age = 'readAge' | 'settledAge' | 'deletionsAge'

/** How old “read through” was, at worst, and “settled through” beside it. */
export function lagChart(buckets: readonly MinuteBucket[], span: ChartSpan, staleAfterMs: number): Html {
  const title = 'How far behind: age of “read through”'
  const small = html`worst moment of each ${shortSpan(span.bucketMs)}, ${span.words}, ${zone}; logarithmic`
  const known = buckets.filter(({ readAge }) => readAge !== null)
  const ageIn = (bucket: MinuteBucket | undefined) => shortSpan((bucket?.readAge ?? 0) * 1_000)
  const worst = known.toSorted((one, other) => (other.readAge ?? 0) - (one.readAge ?? 0))[0]
  if (!worst) return figure({ title, small })
  const all = everyBucket(buckets, span)
  const line = (words: string, age: Age) => ({
    words,
    points: all.map(([at, one]) => [at, one?.[age] ?? null] as const),
  })
  const worstOf = (age: Age) => (own: readonly MinuteBucket[]) => {
    const ages = own.map((one) => one[age]).filter((one) => one !== null)
    return ages.length === 0 ? '–' : shortSpan(Math.max(...ages) * 1_000)
  }
  return lines({
    title,
    small,
    span,
    scale: lagScale,
    label: `Worst age of read through, ${span.words}: ${ageIn(worst)} at ${clockOf(worst.at, span)} UTC; last ${ageIn(known.at(-1))}`,
    lines: [line('read through', 'readAge'), line('settled through', 'settledAge')],
    limit: { value: staleAfterMs / 1_000, words: `a problem after ${shortSpan(staleAfterMs)}` },
    table: partsTable('Worst age', span, buckets, [
      ['Read through', worstOf('readAge')],
      ['Settled through', worstOf('settledAge')],
      ['Deletions known', worstOf('deletionsAge')],
    ]),
  })
}

const outcomes = [
  { className: 'f-ok', words: 'new', amount: (one: MinuteBucket) => one.inserted },
  { className: 'f-read', words: 'changed', amount: (one: MinuteBucket) => one.updated },
  { className: 'f-idle', words: 'deleted', amount: (one: MinuteBucket) => one.deleted },
  { className: 'f-bad', words: 'quarantined', amount: (one: MinuteBucket) => one.quarantined },
]

export const rowsChart = (buckets: readonly MinuteBucket[], span: ChartSpan): Html =>
  bars({
    title: 'Rows written',
    span,
    buckets,
    kinds: outcomes,
    keySign: '',
    small: (all) => `rows per ${shortSpan(span.bucketMs)}, ${span.words}; bars add up to ${count(all)}`,
    label: (all, sums) => `${count(all)} rows written, ${span.words}: ${sums.join(', ')}`,
  })

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
export function stateTimeline(
  streams: readonly string[],
  spans: readonly StateSpan[],
  span: ChartSpan,
): Html {
  const title = capitalized(span.words)
  const small = html`each row is one stream; ${zone}`
  if (spans.length === 0) return figure({ title, small })
  const height = streams.length * lineHeight
  const rows = streams.flatMap((stream, index) => [
    html`<text x="0" y="${index * lineHeight + 12}">${stream}</text><rect class="f-none" x="0" width="100%" y="${index * lineHeight + 17}" height="12" rx="2"/>`,
    ...spans
      .filter((one) => one.stream === stream && one.state !== null)
      .map((one) => {
        const from = Math.max(0, placeOf(one.from, span))
        const width = Math.max(0.3, Math.min(100, placeOf(one.to, span)) - from)
        return html`<rect class="${classOf(one.state)}" x="${percent(from)}" width="${percent(width)}" y="${index * lineHeight + 17}" height="12"><title>${stream}: ${one.state} ${clockOf(one.from, span)} to ${clockOf(one.to, span)} UTC</title></rect>`
      }),
  ])
  const troubles = spans.filter(({ state }) => state !== 'up to date')
  const label =
    troubles.length === 0
      ? `The streams shown were up to date, ${span.words}`
      : `${count(troubles.length)} times a stream was not up to date, ${span.words}`
  return figure({
    title,
    small,
    chart: html`<svg class="plot" height="${height + 16}" role="img" aria-label="${label}">
${rows}
${timeAxis(span, height + 8)}
</svg>`,
    key: [...states.map(([name, className]) => swatch(className, name)), swatch('f-none', 'no worker')],
    table: troubleTable(troubles.toReversed(), span),
  })
}

const troubleTable = (troubles: readonly StateSpan[], span: ChartSpan): Html =>
  troubles.length === 0
    ? html`<p>The streams shown were up to date.</p>`
    : plainTable({
        caption: html`Times a stream was not up to date, ${span.words}, ${zone}`,
        columns: [
          { title: 'Stream', cell: ({ stream }) => stream },
          { title: 'State', cell: ({ state }) => state ?? 'no worker' },
          { title: 'From', cell: ({ from }) => tableMoment(from, span) },
          { title: 'To', cell: ({ to }) => tableMoment(to, span) },
        ],
        rows: troubles.slice(0, 50),
      })
