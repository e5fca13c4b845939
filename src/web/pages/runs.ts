// `/runs`: the runs, by stream, kind and outcome.

import { type RunLine, runOutcomes, slots } from '../../store/book/runs.ts'
import { kinds } from '../../streams/catalog.ts'
import { formatDuration, plural } from '../../util/text.ts'
import { runningNow } from '../first-load.ts'
import { clock, count, foreign, type Html, html, kindInWords, runState } from '../html.ts'
import { isShort, runTimeline } from '../run-charts.ts'
import { chartSpan, rangeIn } from '../time-range.ts'
import type { Page, PageContext } from './layout.ts'
import { byId, type Column, chosen, filterForm, listPart, select } from './tables.ts'

export const runsPage: Page = {
  path: '/runs',
  title: 'Runs',
  isLive: true,
  async body(context) {
    const { statusQueries, query, now } = context
    const isFirst = !query.has('before')
    const readings = isFirst ? await statusQueries.readings(null) : []
    return html`${runningNow(readings, now)}
${isFirst && (await timeline(context))}
${await runsList(context, '/runs', null)}`
  },
}

/** Of the last hour, or of the span that the address names. */
async function timeline({ statusQueries, query, now }: PageContext): Promise<Html | null> {
  const span = chartSpan(rangeIn(query, now, 'hour'), now, slots)
  if (!isShort(span)) return null
  const { stream, kind } = chosenIn(query, statusQueries.streams)
  const all = await statusQueries.runSpans(stream === null ? statusQueries.streams : [stream], span)
  const spans = all.filter((one) => kind === null || one.kind === kind)
  return html`<section class="card">${runTimeline(spans, { by: ({ stream }) => stream, span })}</section>`
}

const chosenIn = (query: URLSearchParams, streams: readonly string[]) => ({
  stream: chosen(query, 'stream', streams),
  kind: chosen(query, 'kind', kinds),
})

/** Of one stream, or of all with a choice among them. */
export async function runsList(
  { statusQueries, query, now }: PageContext,
  path: string,
  stream: string | null,
): Promise<Html> {
  const picked = chosenIn(query, statusQueries.streams)
  const range = rangeIn(query, now, null)
  const filter = {
    from: range.from,
    to: range.to,
    stream: stream ?? picked.stream,
    kind: picked.kind,
    outcome: chosen(query, 'outcome', runOutcomes),
  }
  const kept = { stream: stream === null ? filter.stream : null, kind: filter.kind, outcome: filter.outcome }
  return html`${filterForm(
    path,
    [
      ...(stream === null ? [select('Stream', 'stream', statusQueries.streams, filter.stream)] : []),
      select('Kind', 'kind', kinds, filter.kind, kindInWords),
      select('Outcome', 'outcome', runOutcomes, filter.outcome),
    ],
    { range, kept },
  )}
${await listPart({
  path,
  query,
  kept: { ...kept, ...range.kept },
  names: { list: 'runs', first: 'Newest', next: 'Older' },
  read: byId(50, (before, limit) => statusQueries.runs(filter, { before, limit })),
  caption: 'Runs, the newest first',
  columns: columns(now, stream === null),
  empty: 'No run matches. Widen the filter to see others.',
})}`
}

const columns = (now: Date, withStream: boolean): readonly Column<RunLine>[] => [
  { title: 'Run', cell: ({ id }) => html`<a href="/runs/${id}">${id}</a>`, isNumber: true },
  { title: 'Stream', isLeftOut: !withStream, cell: streamLink },
  { title: 'Kind', cell: ({ kind }) => kindInWords(kind) },
  { title: 'Outcome', cell: outcome },
  { title: 'Began', cell: ({ startedAt }) => html`<span class="nowrap">${clock(startedAt, now)}</span>` },
  { title: 'Took', cell: took },
  { title: 'New', cell: ({ inserted }) => some(inserted), isNumber: true },
  { title: 'Changed', cell: ({ updated }) => some(updated), isNumber: true },
  { title: 'Unchanged', cell: ({ unchanged }) => some(unchanged), isNumber: true },
  { title: 'Deleted', cell: ({ markedDeleted }) => some(markedDeleted), isNumber: true },
  { title: 'Requests', cell: ({ requests }) => some(requests), isNumber: true },
  { title: 'Note', cell: remark },
]

const streamLink = ({ stream }: RunLine): Html => html`<a href="/streams/${stream}">${stream}</a>`

/** Nothing draws less attention than a row of zeros. */
const some = (amount: number): string => (amount === 0 ? '' : count(amount))

const outcome = ({ status, polls }: RunLine): Html =>
  html`${runState(status)}${polls > 1 && html` <span class="quiet small">${count(polls)} runs</span>`}`

function took({ startedAt, finishedAt, polls }: RunLine): Html | null {
  if (finishedAt === null || polls > 1) return null
  const ms = finishedAt.getTime() - startedAt.getTime()
  return html`<span class="nowrap">${formatDuration(ms)}</span>`
}

function remark({ error, note, rescued, quarantined }: RunLine): Html | null {
  const parts = [
    error !== null && html`<span class="bad">${foreign(error, 500)}</span>`,
    note !== null && foreign(note, 500),
    rescued > 0 && html`${plural(rescued, 'misfit value')}`,
    quarantined > 0 && html`${count(quarantined)} in quarantine`,
  ].filter((part) => part !== false)
  return parts.length === 0 ? null : html`${parts.map((part, index) => html`${index > 0 && ' · '}${part}`)}`
}
