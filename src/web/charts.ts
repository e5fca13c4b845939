// Charts as SVG from the server: they need no script, print, and say in a sentence what they show. Text is never scaled: positions are
// in percent, heights in pixels.

import { bucketNames, type MissingSpread } from '../store/book/deletions.ts'
import type { ServiceBucket } from '../store/book/request-history.ts'
import type { Span as Buckets } from '../store/book/watch.ts'
import { plural, shortSpan } from '../util/text.ts'
import { count, formOf, type Html, html, short, span, spanInWords, zone } from './html.ts'
import { plainTable } from './pages/tables.ts'

/** A line of a key: what a colour stands for. */
export const swatch = (className: string, words: string): Html =>
  html`<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="${className}" width="12" height="12" rx="2"/></svg>${words}</li>`

// The tide gauge: how old each kind of knowledge is, from two days on the left to now on the right, by the logarithm of the age.
export type TideAges = {
  /** Milliseconds; null: not known yet. */
  readonly read: number | null
  readonly settled: number | null
  readonly deletions: number | null
}

const shortestMs = 1_000
const longestMs = 2 * 86_400_000
const leftEdge = 3
const rightEdge = 97
const gaugeTicks = [
  [1_000, 'now'],
  [10_000, '10 s'],
  [60_000, '1 min'],
  [600_000, '10 min'],
  [3_600_000, '1 h'],
  [86_400_000, '1 day'],
] as const

/** Where an age lies, in percent of the width. */
function tidePlace(ageMs: number): number {
  const bounded = Math.min(longestMs, Math.max(shortestMs, ageMs))
  const share = Math.log(bounded / shortestMs) / Math.log(longestMs / shortestMs)
  return rightEdge - share * (rightEdge - leftEdge)
}

export const percent = (value: number): string => `${value.toFixed(2)}%`

export const tideAxis: Html = html`<svg class="plot" height="14" aria-hidden="true">${gaugeTicks.map(
  ([ms, words]) => html`<text class="mid" x="${percent(tidePlace(ms))}" y="11">${words}</text>`,
)}</svg>`

export const tideKey: Html = html`<ul class="key"><li><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="f-read" cx="6" cy="6" r="5.5"/></svg>read through</li><li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="f-settled" x="1" y="1" width="10" height="10"/></svg>settled through</li><li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="f-gone" x="4" y="0" width="4" height="12"/></svg>deletions known through</li></ul>`

/** For whoever wonders what the gauge tells apart. */
export const timesMeaning: Html = html`<details><summary>What do these times mean?</summary><dl class="pairs small"><dt><b>Read through</b></dt><dd>Every change that the upstream showed at that time is here, or in the quarantine if it cannot be a row. A whole list was read at that time.</dd><dt><b>Settled through</b></dt><dd>Changes that became visible late are here as well, and a comparison with the whole list found nothing else. Use it as “data as of” in reports.</dd><dt><b>Deletions known through</b></dt><dd>Every row that was deleted upstream before that time is marked. Rows deleted later can still be counted.</dd></dl></details>`

export function tideGauge(ages: TideAges): Html {
  const { read, settled, deletions } = ages
  const oldest = Math.max(...[read, settled, deletions].map((one) => one ?? longestMs))
  return html`<svg class="plot" height="28" role="img" aria-label="${tideSentence(ages)}">${[
    1_000, 60_000, 3_600_000, 86_400_000,
  ].map(
    (ms) =>
      html`<line class="grid" x1="${percent(tidePlace(ms))}" x2="${percent(tidePlace(ms))}" y1="2" y2="26"/>`,
  )}<rect class="f-soft" x="${percent(leftEdge)}" width="${percent(Math.max(0, tidePlace(oldest) - leftEdge))}" y="11" height="6" rx="1"/>${
    deletions !== null &&
    html`<rect class="f-gone" x="${percent(tidePlace(deletions))}" y="5" width="4" height="18" rx="1"><title>Deletions known through</title></rect>`
  }${
    settled !== null &&
    html`<rect class="f-settled" x="${percent(tidePlace(settled))}" y="8.5" width="11" height="11" transform="translate(-5 0)"><title>Settled through</title></rect>`
  }${read !== null && html`<circle class="f-read" cx="${percent(tidePlace(read))}" cy="14" r="6"><title>Read through</title></circle>`}</svg>`
}

/** The same without the picture. `settles`: when, where it is not settled yet. */
export function tideWords(
  { read, settled, deletions }: TideAges,
  now: Date,
  settles: string | null = null,
): Html {
  const words = (ms: number | null, otherwise: string) =>
    ms === null ? otherwise : span(new Date(now.getTime() - ms), now)
  if (read === null) return html`not read through yet`
  if (settled !== null && read === settled && read === deletions) return html`all ${words(read, '')} ago`
  const later = settles === null ? 'not yet' : `not yet: ${settles}`
  return html`read ${words(read, '')} · settled ${words(settled, later)} · deletions ${words(deletions, 'not yet')}`
}

function tideSentence({ read, settled, deletions }: TideAges): string {
  const ago = (ms: number | null) => (ms === null ? 'not yet' : `${shortSpan(ms)} ago`)
  return `Read through ${ago(read)}, settled through ${ago(settled)}, deletions known through ${ago(deletions)}`
}

// Bars that add up to what their legend says: one a bucket, the last one at the right.
export function bars(
  values: readonly number[],
  options: { readonly height: number; readonly label: string },
): Html {
  const { height, label } = options
  const most = Math.max(1, ...values)
  const step = 100 / Math.max(1, values.length)
  return html`<svg class="plot" height="${height}" role="img" aria-label="${label}">${values.map(
    (value, index) => {
      if (value <= 0) return null
      const tall = Math.max(1.5, (value / most) * (height - 1))
      return html`<rect class="f-read" x="${percent(index * step + step * 0.12)}" width="${percent(step * 0.76)}" y="${(height - tall).toFixed(1)}" height="${tall.toFixed(1)}"/>`
    },
  )}<line class="grid" x1="0" x2="100%" y1="${height - 0.5}" y2="${height - 0.5}"/></svg>`
}

// The numbers of the charts as tables: a row for each mark below a chart, the newest first.
type Span = Omit<Buckets, 'bucketMs'>
const hourMs = 3_600_000
const dayMs = 24 * hourMs
const tickSizes = [
  hourMs / 6,
  hourMs / 2,
  hourMs,
  4 * hourMs,
  12 * hourMs,
  dayMs,
  2 * dayMs,
  5 * dayMs,
  10 * dayMs,
]

const lengthOf = ({ from, to }: Span): number => to.getTime() - from.getTime()

/** So far apart are the marks below a chart, at most seven of them, and the rows of its table. */
export const tickMsOf = (span: Span): number =>
  tickSizes.find((size) => lengthOf(span) / size <= 7) ?? 30 * dayMs

/** In the sentences and marks of a chart: with the day where it shows more than one. */
const formIn = (span: Span) => (tickMsOf(span) >= dayMs ? 'day' : exactIn(span))
const exactIn = (span: Span) => (lengthOf(span) > dayMs ? 'moment' : 'minute')
export const clockOf = (at: Date, span: Span): string => formOf(at, exactIn(span))
export const tableMoment = (at: Date, span: Span): Html => short(at, exactIn(span))
/** What belongs to a mark, or to a row of the table. */
export const tickOf = (at: Date, span: Span) => ({ form: formIn(span), words: formOf(at, formIn(span)) })

export const numbers = (table: Html): Html =>
  html`<details><summary>Show the numbers</summary>${table}</details>`

/** A row for each mark of the chart. A column says what its buckets come to together. */
export function partsTable<Bucket extends { readonly at: Date }>(
  caption: string,
  span: Span,
  buckets: readonly Bucket[],
  columns: readonly (readonly [title: string, cell: (own: readonly Bucket[]) => string])[],
): Html {
  const partMs = tickMsOf(span)
  const parts = [...Map.groupBy(buckets, ({ at }) => Math.floor(at.getTime() / partMs))]
  return plainTable({
    caption: html`${caption} in each ${spanInWords(partMs).replace(/^1 /, '')}, ${zone}`,
    columns: [
      { title: 'From', cell: ([part]) => short(new Date(part * partMs), formIn(span)) },
      ...columns.map(([title, cell]) => ({
        title,
        cell: ([, own]: readonly [number, readonly Bucket[]]) => cell(own),
        isNumber: true,
      })),
    ],
    rows: parts.toSorted(([one], [other]) => other - one),
  })
}

export const sumOf = <Bucket>(buckets: readonly Bucket[], amount: (bucket: Bucket) => number): number =>
  buckets.reduce((sum, one) => sum + amount(one), 0)

/** Of several buckets together. */
export const latencyOf = (buckets: readonly ServiceBucket[]): readonly number[] =>
  buckets.reduce<number[]>((sum, { latency }) => latency.map((one, index) => one + (sum[index] ?? 0)), [])

// ── missing rows ─────────────────────────────────────────────────────────────────────────────────────────────

const missingHeight = 110
const fewBuckets = 3

/**
 * Shows from which time the rows are that a listing lacked: when old records were archived, that looks different from an upstream that shows
 * only a part.
 */
export function missingRowsChart(spread: MissingSpread): Html {
  const { column, unit, buckets } = spread
  const names = bucketNames(spread)
  const words = missingInWords(spread, names)
  const most = Math.max(1, ...buckets.map(([, , rows]) => rows))
  const step = 100 / Math.max(1, buckets.length)
  const bar = (className: string, index: number, from: number, amount: number) => {
    if (amount <= 0) return null
    const [below, tall] = [from, amount].map((rows) => (rows / most) * (missingHeight - 4)) as [
      number,
      number,
    ]
    const shown = Math.max(1.5, tall)
    return html`<rect class="${className}" x="${percent(index * step + step * 0.1)}" width="${percent(step * 0.8)}" y="${(missingHeight - below - shown).toFixed(1)}" height="${shown.toFixed(1)}"/>`
  }
  const bars = buckets.map(
    ([, missing, rows], index) =>
      html`${bar('f-bad', index, 0, missing)}${bar('f-idle', index, missing, rows - missing)}`,
  )
  return html`<figure><figcaption><span>Where the missing rows are</span> <small>rows per ${unit} of <code>${column}</code></small></figcaption>
<svg class="plot" height="${missingHeight + 18}" role="img" aria-label="${words}"><line class="grid" x1="0" x2="100%" y1="${missingHeight}" y2="${missingHeight}"/>${bars}<text x="0" y="${missingHeight + 14}">${names[0]}</text>${buckets.length > 1 && html`<text class="end" x="100%" y="${missingHeight + 14}">${names.at(-1)}</text>`}</svg>
<ul class="key">${swatch('f-bad', 'missing')}${swatch('f-idle', 'still listed')}</ul>
<p class="small quiet">${words}.</p>
${numbers(
  plainTable({
    caption: html`Missing rows by ${unit}`,
    columns: [
      { title: unit, cell: ([name]) => name },
      { title: 'Missing', cell: ([, missing]) => count(missing), isNumber: true },
      { title: 'Rows', cell: ([, , rows]) => count(rows), isNumber: true },
    ],
    rows: buckets.map(([, missing, rows], index) => [names[index] ?? '', missing, rows] as const),
  }),
)}</figure>`
}

/** As few buckets as hold nine tenths of them, when that says something. */
function missingInWords({ column, unit, buckets }: MissingSpread, names: readonly string[]): string {
  const all = buckets.reduce((sum, [, missing]) => sum + missing, 0)
  const affected = buckets
    .map(([, missing], index) => ({ index, missing }))
    .filter(({ missing }) => missing > 0)
  let held = 0
  const most = affected
    .toSorted((one, other) => other.missing - one.missing)
    .filter(({ missing }) => {
      const isNeeded = held < all * 0.9
      held += isNeeded ? missing : 0
      return isNeeded
    })
  const rows = `${plural(all, 'missing row')} with a ${column}`
  return most.length <= fewBuckets && most.length < buckets.length
    ? `Of ${rows}, ${count(held)} ${held === 1 ? 'is' : 'are'} of ${most
        .toSorted((one, other) => one.index - other.index)
        .map(({ index }) => names[index])
        .join(', ')}`
    : `${rows} are spread over ${count(affected.length)} of ${plural(buckets.length, unit)}`
}
