// `/`: a card for each stream.

import type { RowRates } from '../../store/queries/runs.ts'
import { kinds } from '../../streams/catalog.ts'
import { streamActions } from '../action-forms.ts'
import { type Html, html, kindInWords } from '../html.ts'
import { type Cells, cellsOf, live } from '../live-events.ts'
import type { Viewer } from '../sessions.ts'
import type { Snapshot, StreamSnapshot } from '../status-queries.ts'
import type { Page } from './layout.ts'
import { sparkline } from './tables.ts'

export const overviewPage: Page = {
  path: '/',
  title: 'Overview',
  isLive: true,
  async body({ statusQueries, viewer }) {
    const snapshot = await statusQueries.snapshot()
    const cells = cellsOf(snapshot)
    return html`<div class="cards">${snapshot.streams.map((stream) => card(stream, snapshot, cells, viewer))}</div>
<p class="as-of quiet">As of ${live(cells, 'as-of')}</p>`
  },
}

function card(one: StreamSnapshot, snapshot: Snapshot, cells: Cells, viewer: Viewer): Html {
  const { stream, kind, related } = one
  const cell = (name: string) => live(cells, `${stream}/${name}`)
  const number = (title: string, name: string, isWide = false) =>
    html`<div${isWide && html` class="wide"`}><dt>${title}</dt><dd>${cell(name)}</dd></div>`
  const isChanges = kind === 'changes'
  return html`<article class="card" aria-labelledby="stream-${stream}">
<header><h2 id="stream-${stream}">${stream}</h2> ${cell('state')}</header>
<p class="complete"><span class="label">Read through</span> <strong>${cell('age')}</strong></p>
${plot(stream, snapshot.rates, cell('rate'))}
<dl>
${isChanges && number('Position', 'position')}
${number('Rows', 'rows')}
${isChanges && number('Look-back', 'lookback', true)}
${isChanges && number('Late arrivals', 'late')}
${isChanges && number('Missed rows', 'missed')}
${number('Misfit values', 'rescued')}
${number('In quarantine', 'quarantined')}
${number('Deletions', 'blocked')}
${isChanges && number('Unfinished backfills', 'backfills')}
${related && number('Assignments with related records', 'related', true)}
</dl>
${runTable(stream, snapshot, cell)}
${streamActions(one, viewer)}
</article>`
}

function runTable(stream: string, { latestRuns, nextRuns }: Snapshot, cell: (name: string) => Html): Html {
  const has = (kind: string) =>
    [...latestRuns, ...nextRuns].some((run) => run.stream === stream && run.kind === kind)
  return html`<table><caption class="hidden">Runs of ${stream}</caption>
<thead><tr><th scope="col">Run</th><th scope="col">Last run</th><th scope="col">Next run</th></tr></thead>
<tbody>${kinds
    .filter(has)
    .map(
      (kind) =>
        html`<tr><th scope="row">${kindInWords(kind)}</th><td>${cell(`${kind}/last`)}</td><td>${cell(`${kind}/next`)}</td></tr>`,
    )}</tbody></table>`
}

function plot(stream: string, { from, bucketMs, buckets, streams }: RowRates, rate: Html): Html {
  const rates = (streams.get(stream) ?? []).map((one) => Math.round(one))
  return html`<figure><figcaption><span>Rows per minute, last 30 minutes</span> ${rate}</figcaption>
<div class="plot" data-plot="${stream}" data-from="${from.getTime()}" data-bucket-ms="${bucketMs}" data-buckets="${buckets}" data-rates="${rates.join(',')}">${sparkline(rates)}</div></figure>`
}
