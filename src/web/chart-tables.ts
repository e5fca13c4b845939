// The numbers of the charts as tables: a row for each mark below a chart, the newest first.

import type { ServiceBucket } from '../store/book/request-history.ts'
import type { Span as Buckets } from '../store/book/watch.ts'
import { formOf, type Html, html, short, spanInWords, zone } from './html.ts'
import { plainTable } from './pages/tables.ts'

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
