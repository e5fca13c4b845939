// `/`: a card for each stream.

import type { StreamOverview } from '../../mirror/overview.ts'
import type { RowRates } from '../../mirror/row-rates.ts'
import type { Sight } from '../desk.ts'
import { type Html, html } from '../html.ts'
import { type Cells, cellsOf, live } from '../live-cells.ts'
import type { Page } from './page.ts'
import { sparkline } from './sparkline.ts'

export const overviewPage: Page = {
  path: '/',
  title: 'Overview',
  async body({ desk }) {
    const sight = await desk.sight()
    const cells = cellsOf(sight)
    return html`<div class="cards">${sight.streams.map((stream) => card(stream, sight, cells))}</div>`
  },
}

const numbers = [
  ['position', 'Position'],
  ['rows', 'Rows'],
  ['lookback', 'Look-back'],
  ['late', 'Late arrivals'],
  ['rescued', 'Rescued values'],
  ['quarantined', 'Quarantined'],
  ['held', 'Held'],
] as const

const lanes = ['head', 'trailing', 'census', 'backfill', 'related']

function card({ stream }: StreamOverview, sight: Sight, cells: Cells): Html {
  const cell = (name: string) => live(cells, `${stream}/${name}`)
  const has = (lane: string) =>
    sight.laneRuns.some((run) => run.stream === stream && run.lane === lane) ||
    sight.nextRuns.some((run) => run.stream === stream && run.lane === lane)
  return html`<article class="card" aria-labelledby="${stream}">
<header><h2 id="${stream}">${stream}</h2> ${cell('state')}</header>
<p class="complete"><span class="label">Complete through</span> <strong>${cell('age')}</strong></p>
${plot(stream, sight.rates, cell('rate'))}
<dl>${numbers.map(([name, title]) => html`<div><dt>${title}</dt><dd>${cell(name)}</dd></div>`)}</dl>
<table><caption>Lanes of ${stream}</caption>
<thead><tr><th scope="col">Lane</th><th scope="col">Last run</th><th scope="col">Next</th></tr></thead>
<tbody>${lanes
    .filter(has)
    .map(
      (lane) =>
        html`<tr><th scope="row">${lane}</th><td>${cell(`${lane}/last`)}</td><td>${cell(`${lane}/next`)}</td></tr>`,
    )}</tbody></table>
</article>`
}

function plot(stream: string, { from, bucketMs, streams }: RowRates, rate: Html): Html {
  const rates = streams.get(stream) ?? []
  return html`<figure><figcaption>Rows a minute, the last half hour; now ${rate}</figcaption>
<div class="plot" data-plot="${stream}" data-from="${from.getTime()}" data-bucket="${bucketMs}" data-rates="${rates.join(',')}">${sparkline(rates)}</div></figure>`
}
