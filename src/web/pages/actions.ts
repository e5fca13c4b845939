// `/actions`: who did what, from where, why, and how it stood before and afterwards.

import { deedInWords, toldInWords } from '../../operator/action-words.ts'
import type { ActionLine, Standing } from '../../store/book/actions.ts'
import { clock, count, foreign, type Html, html, state, type Tone } from '../html.ts'
import { rangeIn } from '../time-range.ts'
import type { Page } from './layout.ts'
import { addressOf, byId, type Column, chosen, filterForm, listPart, select } from './tables.ts'

export const actionsPage: Page = {
  path: '/actions',
  title: 'Who did what',
  async body({ statusQueries, query, now }) {
    const stream = chosen(query, 'stream', statusQueries.streams)
    const range = rangeIn(query, now, null)
    const { from, to } = range
    return html`<p class="lead">
  What people did here in the last two years, in the console, over HTTP and in the terminal, with sign-ins, downloads and queries.
  <code>tidemark actions verify</code> tells whether this record was changed.
  What Tidemark reads by itself, or for <code>tidemark sync</code>, is in the runs.
</p>
${filterForm('/actions', [select('Stream', 'stream', statusQueries.streams, stream)], { range, kept: { stream } })}
${await listPart({
  path: '/actions',
  query,
  kept: { stream, ...range.kept },
  names: { list: 'actions', first: 'Newest', next: 'Older' },
  read: byId(50, (before, limit) => statusQueries.actions({ stream, from, to, before, limit })),
  caption: 'Actions, the newest first',
  columns: columns(now),
  empty: 'Nobody has done anything here in this time.',
  more: html`<a class="btn" href="/actions.ndjson">All as NDJSON</a>`,
})}`
  },
}

const columns = (now: Date): readonly Column<ActionLine>[] => [
  { title: 'When', cell: ({ at }) => html`<span class="nowrap">${clock(at, now)}</span>` },
  {
    title: 'Who',
    cell: ({ who, door, address }) =>
      html`${who === '' ? html`<span class="quiet">no name</span>` : foreign(who, 60)}<br><span class="small quiet">${door}, ${address}</span>`,
  },
  {
    title: 'What',
    cell: (line) => html`${deedInWords(line)} <b>${foreign(line.target, 80)}</b>`,
  },
  {
    title: 'Why',
    cell: ({ reason, confirmed }) =>
      html`${reason !== null && html`“${foreign(reason, 300)}”`}${confirmed !== null && html` <span class="small quiet">confirmed ${count(Number(confirmed))}</span>`}`,
  },
  { title: 'Before and after', cell: ({ before, after }) => difference(before, after) },
  {
    title: 'Result',
    cell: (line) =>
      html`${state(tones[line.result] ?? 'todo', line.result)}<br><span class="small quiet">${foreign(toldInWords(line), 300)}</span>${runsOf(line)}`,
  },
]

// What was begun may be over: its run says so.
const tones: Readonly<Record<string, Tone>> = { done: 'ok', begun: 'todo', refused: 'warn', failed: 'bad' }

const byRuns = ['sync', 'resume', 'approve', 'lookAgain', 'retryQuarantine']

/** Where that is seen which an action began. */
function runsOf({ action, stream, at, result }: ActionLine): Html | null {
  if (stream === null || result === 'refused') return null
  const link = (address: string, words: string) => html` <a class="small" href="${address}">${words}</a>`
  if (action === 'backfill') return link('/backfills', 'backfills')
  return byRuns.includes(action)
    ? link(addressOf('/runs', { stream, from: `${at.toISOString().slice(0, 19)}Z` }), 'runs since')
    : null
}

/** Only what changed. */
function difference(before: Standing | null, after: Standing | null): Html | null {
  const names = Object.keys(after ?? {}).filter((name) => before?.[name] !== after?.[name])
  if (names.length === 0) return null
  return html`${names.map((name) => html`<span class="small"><code>${name}</code> <del>${inWords(before?.[name])}</del> <ins>${inWords(after?.[name])}</ins></span><br>`)}`
}

const inWords = (value: Standing[string] | undefined): string =>
  value === true
    ? 'yes'
    : value === false
      ? 'no'
      : value === null || value === undefined
        ? 'none'
        : String(value)
