// What changes on a page while one looks at it: small pieces, each under a key. The page is made of the same pieces that are sent to it
// later, so that it says the same with and without its script.

import type { Sight, StreamSight } from './desk.ts'
import { type Html, html } from './html.ts'
import { addressOf } from './pages/filters.ts'
import { age, ageInWords, count, foreign, spanInWords, stamp, time } from './words.ts'

export type Cells = ReadonlyMap<string, Html | null>

/** The place of a piece on the page. */
export const live = (cells: Cells, key: string): Html =>
  html`<span data-live="${key}">${cells.get(key)}</span>`

export function cellsOf(sight: Sight): Cells {
  const cells = new Map<string, Html | null>([['as-of', time(sight.at)]])
  for (const stream of sight.streams)
    for (const [name, content] of Object.entries(numbersOf(stream, sight)))
      cells.set(`${stream.stream}/${name}`, content)
  for (const { stream, lane, status, startedAt, finishedAt } of sight.laneRuns)
    cells.set(
      `${stream}/${lane}/last`,
      html`<span class="status ${status}">${status}</span> ${age(finishedAt ?? startedAt, sight.at)}`,
    )
  for (const { stream, lane, at } of sight.nextRuns) cells.set(`${stream}/${lane}/next`, age(at, sight.at))
  return cells
}

function numbersOf(stream: StreamSight, sight: Sight): Record<string, Html | null> {
  const { stream: name, completeAt, lagMs, position, lookbackMs, related } = stream
  const rates = sight.rates.streams.get(name) ?? []
  return {
    state: stateOf(stream),
    age:
      completeAt === null || lagMs === null
        ? html`not complete yet`
        : html`<time datetime="${completeAt.toISOString()}" title="${stamp(completeAt)}">${ageInWords(lagMs)}</time>`,
    rate: html`now ${count(rates.at(-1) ?? 0)}, peak ${count(Math.max(0, ...rates))}`,
    position: html`${position === '0' ? 'none yet' : position}`,
    rows:
      stream.rows === null
        ? html`not counted yet`
        : stream.rows === 0
          ? html`none yet`
          : html`about ${count(stream.rows)}`,
    lookback:
      lookbackMs === null
        ? html`as configured: nothing was measured yet`
        : html`${spanInWords(lookbackMs)}: ${foreign(stream.lookbackReason ?? 'no reason was noted')}`,
    late: html`${count(stream.lateArrivals)}`,
    rescued: notable(stream.rescued, addressOf('/dictionary', { stream: name })),
    quarantined: notable(stream.quarantined, addressOf('/quarantine', { stream: name })),
    held: stream.held === null ? html`nothing` : html`<b>deletions, until a person decides</b>`,
    missed: notable(stream.censusRescues, addressOf('/runs', { stream: name, lane: 'census' })),
    backfills: notable(stream.unfinishedBackfills, addressOf('/checkpoints', { stream: name })),
    related: related && html`${count(related.read)} read, ${count(related.waiting)} waiting`,
  }
}

/** Zero needs no attention; more leads to where it can be looked into. */
const notable = (amount: number, address: string): Html =>
  amount === 0 ? html`0` : html`<a href="${address}">${count(amount)}</a>`

function stateOf({ stoppedReason, paused, running }: StreamSight): Html | null {
  if (stoppedReason !== null) return html`<span class="status failed">stopped</span>`
  if (paused)
    return html`<span class="status waiting">paused by ${foreign(paused.by, 60)} since ${stamp(new Date(paused.at))}${paused.reason && html`: ${foreign(paused.reason)}`}</span>`
  return running.length > 0 ? html`<span class="status running">reading: ${running.join(', ')}</span>` : null
}
