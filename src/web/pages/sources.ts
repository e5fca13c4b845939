// `/sources`: how each source stands, the worst first; and a page for each.

import { sourceOfProblem } from '../../problems/stream-problems.ts'
import { isWell, sourceTitle, withProblems } from '../../problems/stream-state.ts'
import type { SourceLine } from '../../store/book/source-config.ts'
import { baseOf, environmentSource, sourceIn } from '../../streams/names.ts'
import { plural } from '../../util/text.ts'
import { firstLoadCard } from '../first-load.ts'
import { newForm, openFields } from '../form-fields.ts'
import { stateTimeline } from '../history-charts.ts'
import { age, count, fact, foreign, type Html, html, state, type Tone, time } from '../html.ts'
import type { Snapshot } from '../status-queries.ts'
import { streamsCard } from '../stream-cells.ts'
import { chartSpan, rangeIn } from '../time-range.ts'
import { latencyChart } from '../upstream-charts.ts'
import { heading, noSuch, type Page } from './layout.ts'
import { problemCards } from './problem-cards.ts'
import { addressOf, type Column, chosen, filterForm, listPart, select } from './tables.ts'
import { traffic } from './upstream.ts'

const tones: Readonly<Record<SourceLine['state'], Tone>> = {
  ...{ stopped: 'bad', behind: 'warn', loading: 'busy', paused: 'idle', new: 'todo', live: 'ok' },
}
const states = Object.keys(tones)
const mostShown = 100

export const sourcesPage: Page = {
  path: '/sources',
  title: 'Sources',
  async body({ statusQueries, query, now, ...context }) {
    const all = withProblems(...(await Promise.all([statusQueries.sources(), context.problems])))
    const tags = [...new Set(all.flatMap((one) => one.tags))].toSorted()
    const [standing, tag] = [chosen(query, 'state', states), chosen(query, 'tag', tags)]
    const name = query.get('name')?.trim().toLowerCase() ?? ''
    const shown = all.filter(
      (one) =>
        (standing === null || one.state === standing) &&
        (tag === null || one.tags.includes(tag)) &&
        sourceTitle(one.name).includes(name),
    )
    return html`<p class="lead">
  The environment describes one source, and the file that <code>SOURCES_FILE</code> names describes the others.
  The state of a source is the worst of its streams; its times are the earliest.
</p>
${filterForm('/sources', [
  openFields('/sources', newForm).line({ name: 'name', title: 'Name', hint: 'or a part of it', value: name }),
  select('State', 'state', states, standing),
  ...(tags.length > 0 ? [select('Tag', 'tag', tags, tag)] : []),
])}
${await listPart({
  ...{ path: '/sources', query, kept: { name, state: standing, tag } },
  beginsAt: 'after',
  names: { list: 'sources', first: 'The worst', next: 'More' },
  async read(after) {
    const from = /^\d{1,6}$/.test(after ?? '') ? Number(after) : 0
    const next = from + mostShown
    return { rows: shown.slice(from, next), next: next < shown.length ? String(next) : null }
  },
  caption:
    shown.length === all.length ? 'Sources, the worst first' : `${shown.length} of ${all.length} sources`,
  columns: sourceColumns(now),
  empty: 'There is no such source.',
})}`
  },
}

export const sourceColumns = (now: Date): readonly Column<SourceLine>[] => [
  {
    title: 'Source',
    isWord: true,
    cell: ({ name }) => html`<a href="/sources/${sourceTitle(name)}">${sourceTitle(name)}</a>`,
  },
  { title: 'State', cell: standingOf },
  { title: 'Read through', cell: ({ readThroughAt: at }) => (at === null ? 'not yet' : age(at, now)) },
  {
    title: 'Deletions known',
    cell: ({ deletionsKnownAt: at }) => (at === null ? 'not yet' : age(at, now)),
  },
  { title: 'Streams', isNumber: true, cell: ({ streams }) => count(streams) },
  { title: 'Problems', isNumber: true, cell: ({ problems }) => count(problems) },
  { title: 'Tags', cell: ({ tags }) => tags.join(', ') },
  { title: 'Why', isWide: true, cell: whyOf },
]

const standingOf = (one: SourceLine): Html =>
  state(isWell(one) || one.state !== 'live' ? tones[one.state] : 'warn', one.state)

const whyOf = ({ isGone, problem, reasons }: SourceLine): Html =>
  html`${[...(isGone ? ['It is gone from the file.'] : []), ...(problem === null ? reasons : [problem])].map(
    (one) => html`<div>${foreign(one, 400)}</div>`,
  )}`

/** What there is of one source alone. */
export const snapshotOf = (snapshot: Snapshot, source: string): Snapshot => {
  const isOwn = ({ stream }: { readonly stream: string }) => sourceIn(stream) === source
  return { ...snapshot, streams: snapshot.streams.filter(isOwn), loads: snapshot.loads.filter(isOwn) }
}

// `/sources/:name`: what needs somebody at one source, its first load, its streams, and what was asked of its upstream.
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
