// What changes on the overview while one looks at it: small pieces of the page, each under a key. The page is made of the same
// pieces that are sent to it later, so that it says the same with and without its script.

import type { StreamOverview } from '../mirror/overview.ts'
import type { Sight } from './desk.ts'
import { type Html, html } from './html.ts'
import { concernList } from './pages/layout.ts'
import { age, ageInWords, count, foreign, spanInWords } from './words.ts'

export type Cells = ReadonlyMap<string, Html | null>

/** The place of a piece on the page. */
export const live = (cells: Cells, key: string): Html =>
  html`<span data-live="${key}">${cells.get(key)}</span>`

export function cellsOf(sight: Sight): Cells {
  const cells = new Map<string, Html | null>([['concerns', concernList(sight.concerns)]])
  for (const stream of sight.streams) {
    const put = (name: string, content: Html | null) => cells.set(`${stream.stream}/${name}`, content)
    for (const [name, content] of Object.entries(numbersOf(stream, sight))) put(name, content)
    for (const run of sight.laneRuns)
      if (run.stream === stream.stream)
        put(
          `${run.lane}/last`,
          html`<span class="status ${run.status}">${run.status}</span> ${age(run.finishedAt ?? run.startedAt, sight.at)}`,
        )
    for (const { stream: of, lane, at } of sight.nextRuns)
      if (of === stream.stream) put(`${lane}/next`, age(at, sight.at))
  }
  return cells
}

function numbersOf(stream: StreamOverview, sight: Sight): Record<string, Html> {
  return {
    age:
      stream.lagMs === null
        ? html`not yet complete`
        : html`<time datetime="${stream.completeAt?.toISOString()}">${ageInWords(stream.lagMs)}</time>`,
    state: stateOf(stream),
    position: html`${stream.position === '0' ? 'none yet' : stream.position}`,
    rows: stream.rows === null ? html`not counted yet` : html`about ${count(stream.rows)}`,
    rate: html`${count(sight.rates.streams.get(stream.stream)?.at(-2) ?? 0)}`,
    lookback:
      stream.lookbackMs === null
        ? html`not measured yet`
        : html`${spanInWords(stream.lookbackMs)}: ${foreign(stream.lookbackReason ?? '')}`,
    late: html`${count(stream.lateArrivals)}`,
    rescued: html`${count(stream.rescued)}`,
    quarantined: html`${count(stream.quarantined)}`,
    held: stream.held === null ? html`nothing` : html`deletions wait for a person`,
  }
}

function stateOf({ stoppedReason, running }: StreamOverview): Html {
  if (stoppedReason !== null) return html`<span class="status failed">stopped</span>`
  return running.length > 0
    ? html`<span class="status running">reading: ${running.join(', ')}</span>`
    : html``
}
