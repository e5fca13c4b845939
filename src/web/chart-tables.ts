// The numbers of the charts as tables: a chart has a point for every five minutes, a table a row for every four hours, the newest first.

import type { ServiceBucket } from '../store/book/request-history.ts'
import { type Html, html } from './html.ts'
import { plainTable } from './pages/tables.ts'

export const clockOf = (at: Date): string => at.toISOString().slice(11, 16)

/** So far apart are the marks below a chart. */
export const tickHours = 4
const partMs = tickHours * 3_600_000

export const numbers = (table: Html): Html =>
  html`<details><summary>Show the numbers</summary>${table}</details>`

/** A row for every four hours. A column says what its buckets come to together. */
export function partsTable<Bucket extends { readonly at: Date }>(
  caption: string,
  buckets: readonly Bucket[],
  columns: readonly (readonly [title: string, cell: (own: readonly Bucket[]) => string])[],
): Html {
  const parts = [...Map.groupBy(buckets, ({ at }) => Math.floor(at.getTime() / partMs))]
  return plainTable({
    caption: `${caption} in each ${tickHours} hours, UTC`,
    columns: [
      { title: 'From', cell: ([part]) => clockOf(new Date(part * partMs)) },
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

const fastestMs = 10

/** The upper edge of the class in which a share of the answers lies; null without answers. */
export function quantileMs(latency: readonly number[], share: number): number | null {
  const all = sumOf(latency, (one) => one)
  if (all === 0) return null
  let seen = 0
  const index = latency.findIndex((amount) => {
    seen += amount
    return seen >= all * share
  })
  return fastestMs * 2 ** Math.max(0, index)
}

/** Of several buckets together. */
export const latencyOf = (buckets: readonly ServiceBucket[]): readonly number[] =>
  buckets.reduce<number[]>((sum, { latency }) => latency.map((one, index) => one + (sum[index] ?? 0)), [])
