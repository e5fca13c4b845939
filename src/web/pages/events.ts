// `/events`: what happened that somebody may want to know: late commits, quarantines, comparisons, failures, outages, what people did.

import { clock, foreign, type Html, html } from '../html.ts'
import type { Happening } from '../status-queries.ts'
import { rangeIn } from '../time-range.ts'
import type { Page } from './layout.ts'
import { recordAddress } from './rows.ts'
import { byId, type Column, chosen, filterForm, listPart, select } from './tables.ts'

const most = 50

export const eventsPage: Page = {
  path: '/events',
  title: 'What happened',
  isLive: true,
  async body({ statusQueries, query, now }) {
    const { streams } = statusQueries
    const stream = chosen(query, 'stream', streams)
    const range = rangeIn(query, now, 'week')
    return html`<p class="lead">
  Late commits, quarantines, comparisons, failures, outages and what people did.
  Of runs that failed one after the other, the last of each hour stands here, for the newest 2,000 runs of the time: <a href="/runs?outcome=failed">all of them</a>.
</p>
${filterForm('/events', [select('Stream', 'stream', streams, stream)], { range, kept: { stream }, usual: 'week' })}
${await listPart({
  path: '/events',
  query,
  kept: { stream, ...range.kept },
  beginsAt: 'after',
  names: { list: 'events', first: 'Newest', next: 'Older' },
  read: byId(most, async (after, limit) => {
    const skip = Number(after ?? 0)
    const found = await statusQueries.happenings({ ...range, stream, skip, limit })
    return found.map((one, index) => ({ ...one, id: String(skip + index + 1) }))
  }),
  caption: `Events, ${range.words}, the newest first`,
  columns: columns(now),
  empty: 'Nothing out of the ordinary in this time.',
})}`
  },
}

const columns = (now: Date): readonly Column<Happening>[] => [
  { title: 'When', cell: ({ at }) => html`<span class="nowrap">${clock(at, now)}</span>` },
  { title: 'Stream', cell: ({ stream }) => stream && html`<a href="/streams/${stream}">${stream}</a>` },
  {
    title: 'What',
    isWide: true,
    cell: (one) => html`${one.tone !== '' && html`<span class="st ${one.tone}"></span> `}${happened(one)}`,
  },
]

/** In words, with where it leads. */
export const happened = ({ text, stream, key, runId }: Happening): Html => html`${foreign(text, 200)}
${stream !== null && key !== null && html`<a href="${recordAddress(stream, key)}">${stream} ${foreign(key, 40)}</a>`}
${runId !== null && html`(<a href="/runs/${runId}">run ${runId}</a>)`}`
