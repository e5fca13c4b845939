// `/`: the verdict, what needs somebody, and how far each stream is.

import type { Problem } from '../../problems/stream-problems.ts'
import { hasNamed, isWell, problemsByKey, verdictInWords, withProblems } from '../../problems/stream-state.ts'
import type { SourceLine } from '../../store/book/source-config.ts'
import { tideAxis, tideKey, timesMeaning } from '../charts.ts'
import { firstLoadCard } from '../first-load.ts'
import { stateTimeline } from '../history-charts.ts'
import { clock, count, type Html, html, time } from '../html.ts'
import type { Happening, Snapshot, StreamSnapshot } from '../status-queries.ts'
import { leadOf, leadOfSources, settlingOf, shownOf } from '../stream-cells.ts'
import { chartSpan, rangeIn } from '../time-range.ts'
import { happened } from './events.ts'
import { heading, type Page } from './layout.ts'
import { problemCards } from './problem-cards.ts'
import { snapshotOf, sourceColumns } from './sources.ts'
import { addressOf, filterForm, plainTable } from './tables.ts'

export const overviewPage: Page = {
  path: '/',
  title: 'Overview',
  isLive: true,
  showsTime: true,
  async body(context) {
    const range = rangeIn(context.query, context.now, 'day')
    const span = chartSpan(range, context.now, 1_440)
    const [snapshot, problems, states, late, noted] = await Promise.all([
      context.statusQueries.snapshot(),
      context.problems,
      context.statusQueries.states(span),
      context.statusQueries.happenings(),
      context.statusQueries.sources(),
    ])
    const sources = withProblems(noted, problems)
    const few = ofFew(snapshot, sources)
    const names = few.streams.map(({ stream }) => stream)
    return {
      title: 'Overview',
      heading: heading({
        title: html`<span role="status">${verdictInWords(problems, snapshot.streams, sources)}</span>`,
        lead: hasNamed(sources) ? leadOfSources(sources, snapshot.at) : leadOf(snapshot, problems),
      }),
      body: html`<section class="card problems" aria-labelledby="problems"><h2 id="problems">Problems</h2>${problemCards(problems, snapshot, context.viewer)}</section>
${hasNamed(sources) && sourcesCard(sources, context.now)}
${firstLoadCard(few)}
${streamsCard(few, problems, few === snapshot ? 'Streams' : 'Streams of the first source')}
${filterForm('/', [], { range, usual: 'day' })}
<div class="cols"><section class="card c8">${stateTimeline(
        names,
        states.filter(({ stream }) => names.includes(stream)),
        span,
      )}</section>${whatHappened(late, context.now)}</div>
<p class="as-of small quiet">As of ${time(snapshot.at)}</p>`,
    }
  },
}

const mostStreams = 30

/** Of many sources, the streams of the first one: those of others are on the pages of their sources. */
const ofFew = (snapshot: Snapshot, sources: readonly SourceLine[]): Snapshot =>
  hasNamed(sources) && snapshot.streams.length > mostStreams ? snapshotOf(snapshot, '') : snapshot

const mostSources = 10

const sourcesCard = (sources: readonly SourceLine[], now: Date): Html => {
  const unwell = sources.filter((one) => !isWell(one))
  return html`<section class="card" aria-labelledby="sources"><h2 id="sources">Sources</h2>
<p>${[...Map.groupBy(sources, ({ state }) => state)].map(
    ([state, some], index) =>
      html`${index > 0 && ' · '}<a href="${addressOf('/sources', { state })}">${count(some.length)} ${state}</a>`,
  )}. <a href="/sources">All of them, the worst first</a>.</p>
${
  unwell.length > 0 &&
  plainTable({
    caption: `Those that are not well${unwell.length > mostSources ? `, the worst ${mostSources} of ${unwell.length}` : ''}`,
    columns: sourceColumns(now),
    rows: unwell.slice(0, mostSources),
  })
}</section>`
}

export const streamsCard = (snapshot: Snapshot, problems: readonly Problem[], title = 'Streams'): Html => {
  const byKey = problemsByKey(problems)
  return html`<section class="card" aria-labelledby="streams">
<div class="bar spread"><h2 id="streams">${title}</h2>${tideKey}</div>
<div class="scroll" tabindex="-1"><table role="table" class="stack"><caption class="hidden">Streams, with how old each kind of knowledge is</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Stream</th><th role="columnheader" scope="col">State</th><th role="columnheader" scope="col" class="gauge"><span class="hidden">How far</span>${tideAxis}</th><th role="columnheader" scope="col" class="num">Rows</th><th role="columnheader" scope="col">Rows changed per minute, last 30</th><th role="columnheader" scope="col">Next read</th></tr></thead>
<tbody role="rowgroup">${snapshot.streams.map((stream) => row(stream, shownOf(stream, snapshot, byKey)))}</tbody></table></div>
<p class="small quiet">${settlingOf(snapshot)}</p>
${timesMeaning}</section>`
}

const whatHappened = (happenings: readonly Happening[], now: Date): Html =>
  html`<section class="card c4" aria-labelledby="happened"><h2 id="happened">What happened</h2>${
    happenings.length === 0
      ? html`<p class="quiet">Nothing out of the ordinary in 7 days.</p>`
      : html`<ol class="story">${happenings.map((one) => lately(one, now))}</ol>`
  }<p class="small"><a href="/events">All of it</a> · <a href="/runs?outcome=changed">Runs</a> · <a href="/changes">Changes</a> · <a href="/actions">Who did what</a></p></section>`

const lately = (one: Happening, now: Date): Html =>
  html`<li${one.tone !== '' && html` class="${one.tone}"`}>
<span>${happened(one)}</span>
<span class="small quiet">${clock(one.at, now)}
${one.stream !== null && one.key === null && html`· <a href="/streams/${one.stream}">${one.stream}</a>`}</span></li>`

const row = (
  { stream, kind }: StreamSnapshot,
  { state, gauge, rows, rate, next }: ReturnType<typeof shownOf>,
): Html =>
  html`<tr role="row"><th role="rowheader" scope="row"><a href="/streams/${stream}">${stream}</a><br><span class="small quiet">${kind === 'list' ? 'whole list' : 'changes since the last read'}</span></th>
<td role="cell">${state}</td><td role="cell" class="wide gauge">${gauge}</td><td role="cell" class="num" data-l="Rows">${rows}</td>
<td role="cell" class="rate" data-l="Rows changed per minute, last 30">${rate}</td><td role="cell" class="nowrap" data-l="Next read">${next}</td></tr>`
