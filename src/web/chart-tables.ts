// The numbers of the charts as tables: a chart has a point for every five minutes, a table a row for every four hours, the newest first.

import type { MinuteBucket, ServiceBucket, StateSpan } from '../store/book/watch.ts'
import { shortSpan } from '../util/text.ts'
import { count, type Html, html } from './html.ts'
import { plainTable } from './pages/tables.ts'

export const clockOf = (at: Date): string => at.toISOString().slice(11, 16)

/** So far apart are the marks below a chart. */
export const tickHours = 4
const partMs = tickHours * 3_600_000

export const numbers = (table: Html): Html =>
  html`<details><summary>Show the numbers</summary>${table}</details>`

function inParts<Bucket extends { readonly at: Date }>(
  buckets: readonly Bucket[],
): readonly (readonly [from: string, own: readonly Bucket[]])[] {
  const parts = [...Map.groupBy(buckets, ({ at }) => Math.floor(at.getTime() / partMs))]
  return parts
    .toSorted(([one], [other]) => other - one)
    .map(([part, own]) => [clockOf(new Date(part * partMs)), own] as const)
}

export const worstTable = (buckets: readonly MinuteBucket[]): Html => {
  const worst = (ages: readonly (number | null)[]) => {
    const known = ages.filter((one) => one !== null)
    return known.length === 0 ? '–' : shortSpan(Math.max(...known) * 1_000)
  }
  return plainTable({
    caption: `Worst age in each ${tickHours} hours, UTC`,
    columns: [
      { title: 'From', cell: ([from]) => from },
      { title: 'Read through', cell: ([, own]) => worst(own.map((one) => one.readAge)), isNumber: true },
      {
        title: 'Settled through',
        cell: ([, own]) => worst(own.map((one) => one.settledAge)),
        isNumber: true,
      },
      {
        title: 'Deletions known',
        cell: ([, own]) => worst(own.map((one) => one.deletionsAge)),
        isNumber: true,
      },
    ],
    rows: inParts(buckets),
  })
}

export const outcomes = [
  ['inserted', 'f-ok', 'new'],
  ['updated', 'f-read', 'changed'],
  ['deleted', 'f-idle', 'deleted'],
  ['quarantined', 'f-bad', 'quarantined'],
] as const

export const rowsTable = (buckets: readonly MinuteBucket[]): Html =>
  plainTable({
    caption: `Rows written in each ${tickHours} hours, UTC`,
    columns: [
      { title: 'From', cell: ([from]) => from },
      ...outcomes.map(([name, , words]) => ({
        title: words,
        cell: ([, own]: readonly [string, readonly MinuteBucket[]]) =>
          count(own.reduce((sum, one) => sum + one[name], 0)),
        isNumber: true,
      })),
    ],
    rows: inParts(buckets),
  })

export const troubleTable = (troubles: readonly StateSpan[]): Html =>
  troubles.length === 0
    ? html`<p>All were up to date.</p>`
    : plainTable({
        caption: 'Times a stream was not up to date, last 24 hours',
        columns: [
          { title: 'Stream', cell: ({ stream }) => stream },
          { title: 'State', cell: ({ state }) => state ?? 'no worker' },
          { title: 'From', cell: ({ from }) => clockOf(from) },
          { title: 'To', cell: ({ to }) => clockOf(to) },
        ],
        rows: troubles.slice(0, 50),
      })

const fastestMs = 10

/** The upper edge of the class in which a share of the answers lies; null without answers. */
export function quantileMs(latency: readonly number[], share: number): number | null {
  const all = latency.reduce((a, b) => a + b, 0)
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

export const latencyTable = (buckets: readonly ServiceBucket[]): Html => {
  const within = (own: readonly ServiceBucket[], share: number) => {
    const ms = quantileMs(latencyOf(own), share)
    return ms === null ? '–' : `${count(ms)} ms`
  }
  return plainTable({
    caption: `Time to answer in each ${tickHours} hours, UTC`,
    columns: [
      { title: 'From', cell: ([from]) => from },
      {
        title: 'Requests',
        cell: ([, own]) => count(own.reduce((sum, { requests }) => sum + requests, 0)),
        isNumber: true,
      },
      { title: 'Half up to', cell: ([, own]) => within(own, 0.5), isNumber: true },
      { title: '95 of 100 up to', cell: ([, own]) => within(own, 0.95), isNumber: true },
    ],
    rows: inParts(buckets),
  })
}

export const failureKinds = [
  ['429', 'f-warn', '429, slow down'],
  ['5xx', 'f-bad', '5xx'],
  ['4xx', 'f-gone', '4xx'],
  ['none', 'f-idle', 'no answer'],
] as const

export const failuresTable = (buckets: readonly ServiceBucket[]): Html =>
  plainTable({
    caption: `Requests that failed in each ${tickHours} hours, UTC`,
    columns: [
      { title: 'From', cell: ([from]) => from },
      ...failureKinds.map(([name, , words]) => ({
        title: words,
        cell: ([, own]: readonly [string, readonly ServiceBucket[]]) =>
          count(own.reduce((sum, { failures }) => sum + Number(failures[name] ?? 0), 0)),
        isNumber: true,
      })),
    ],
    rows: inParts(buckets),
  })
