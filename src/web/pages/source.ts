// `/sources/:name`: what needs somebody at one source, its first load, its streams, and what was asked of its upstream.

import { sourceOfProblem } from '../../problems/stream-problems.ts'
import { sourceTitle, withProblems } from '../../problems/stream-state.ts'
import type { SourceLine } from '../../store/book/source-config.ts'
import { baseOf, environmentSource, sourceIn } from '../../streams/names.ts'
import { plural } from '../../util/text.ts'
import { firstLoadCard } from '../first-load.ts'
import { stateTimeline } from '../history-charts.ts'
import { age, fact, type Html, html, time } from '../html.ts'
import { streamsCard } from '../stream-cells.ts'
import { chartSpan, rangeIn } from '../time-range.ts'
import { latencyChart } from '../upstream-charts.ts'
import { heading, noSuch, type Page } from './layout.ts'
import { problemCards } from './problem-cards.ts'
import { snapshotOf, standingOf, whyOf } from './sources.ts'
import { addressOf, filterForm } from './tables.ts'
import { traffic } from './upstream.ts'

const crumbs = [['/sources', 'Sources']] as const

export const sourcePage: Page = {
  path: '/sources/:name',
  place: '/sources',
  title: 'Source',
  isLive: true,
  showsTime: true,
  async body({ statusQueries, params, query, now, viewer, ...context }) {
    const name = params.name === environmentSource ? '' : (params.name ?? '')
    const range = rangeIn(query, now, 'day')
    const [wide, fine] = [chartSpan(range, now, 1_440), chartSpan(range, now, 288)]
    const [sources, whole, problems, states, requests] = await Promise.all([
      statusQueries.sources(),
      statusQueries.snapshot(),
      context.problems,
      statusQueries.states(wide),
      statusQueries.requests(fine),
    ])
    const source = withProblems(sources, problems).find((one) => one.name === name)
    if (!source || params.name === '') return noSuchSource
    const snapshot = snapshotOf(whole, name)
    const own = problems.filter((one) => sourceOfProblem(one) === name)
    const names = snapshot.streams.map(({ stream }) => stream)
    const answers = requests.filter(({ service }) => sourceIn(service) === name)
    return {
      title: sourceTitle(name),
      heading: heading({ title: sourceTitle(name), crumbs, lead: standingOf(source) }),
      body: html`${facts(source, now)}
${own.length > 0 && html`<section class="card problems" aria-labelledby="problems"><h2 id="problems">Problems</h2>${problemCards(own, snapshot, viewer)}</section>`}
${firstLoadCard(snapshot)}
${names.length === 0 ? notRead(source) : streamsCard(snapshot, problems)}
${filterForm(`/sources/${sourceTitle(name)}`, [], { range, usual: 'day' })}
${
  names.length > 0 &&
  html`<section class="card">${stateTimeline(
    names,
    states.filter(({ stream }) => names.includes(stream)),
    wide,
  )}</section>`
}
${asked(answers, fine)}
<p class="as-of small quiet">As of ${time(whole.at)}</p>`,
    }
  },
}

export const noSuchSource = noSuch(
  'source',
  html`<a href="/sources">These are the sources</a>. The file that <code>SOURCES_FILE</code> names says which there are.`,
  crumbs,
)

const facts = (one: SourceLine, now: Date): Html => {
  const { readThroughAt: read, deletionsKnownAt: deletions, tags } = one
  const ago = (at: Date | null) => (at === null ? 'not yet' : age(at, now))
  return html`<section class="card" aria-label="How it stands"><dl class="facts">
${fact('Read through', ago(read), 'the earliest of its streams')}
${fact('Deletions known', ago(deletions), 'the earliest of its streams')}
${tags.length > 0 && fact('Tags', tags.join(', '))}</dl>
${whyOf(one)}<p><a href="${addressOf('/settings', { source: sourceTitle(one.name) })}">Settings of this source</a>${one.changedSettings > 0 && `: ${plural(one.changedSettings, 'change')} while workers run`}</p></section>`
}

const notRead = ({ isGone }: SourceLine): Html =>
  html`<section class="card"><p>This worker does not read it at the moment${isGone ? ', because the file does not name it any more' : ''}. Its rows stay as they are.</p></section>`

type Answers = Parameters<typeof traffic>[0]

/** By service: how many requests, and how soon they were answered. */
const asked = (answers: Answers, span: ReturnType<typeof chartSpan>): Html =>
  html`${[...Map.groupBy(answers, ({ service }) => service)].map(
    ([service, ofIt]) =>
      html`<section class="card" aria-label="Requests to the ${baseOf(service)} service"><dl class="facts">${traffic(ofIt, span.words)}</dl>${latencyChart(`${baseOf(service)} service`, ofIt, span)}</section>`,
  )}`
