// `/`: the verdict, what needs somebody, and how far each stream is.

import { hasNamed, isWell, verdictInWords, withProblems } from '../../problems/stream-state.ts'
import type { SourceLine } from '../../store/book/source-config.ts'
import { firstLoadCard } from '../first-load.ts'
import { stateTimeline } from '../history-charts.ts'
import { clock, count, type Html, html, time } from '../html.ts'
import type { Happening, Snapshot } from '../status-queries.ts'
import { leadOf, leadOfSources, streamsCard } from '../stream-cells.ts'
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
