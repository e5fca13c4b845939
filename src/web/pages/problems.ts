// `/problems`: what needs somebody, what heals by itself, and what is worth knowing, each with what to press.

import { actionInWords } from '../../operator/action-words.ts'
import { type Care, careOf, verdictInWords } from '../../problems/stream-state.ts'
import type { ClosedProblem } from '../../store/book/problems.ts'
import { shortSpan } from '../../util/text.ts'
import { clock, foreign, type Html, html } from '../html.ts'
import { heading, type Page } from './layout.ts'
import { problemCards } from './problem-cards.ts'
import { alertsCard } from './silences.ts'
import { type Column, plainTable } from './tables.ts'

const parts = [
  ['needs you', 'Need you'],
  ['heals', 'Being retried'],
  ['news', 'Worth knowing'],
] as const satisfies readonly (readonly [Care, string])[]

export const problemsPage: Page = {
  path: '/problems',
  title: 'Problems',
  isLive: true,
  async body({ statusQueries, viewer, problems: known, now }) {
    const [problems, snapshot, over, sources] = await Promise.all([
      known,
      statusQueries.snapshot(),
      statusQueries.closedProblems(mostClosed),
      statusQueries.sources(),
    ])
    const section = ([care, title]: (typeof parts)[number]): Html | null => {
      const own = problems.filter((one) => careOf(one) === care)
      return own.length === 0
        ? null
        : html`<section class="card" aria-label="${title}"><h2>${title}</h2>${problemCards(own, snapshot, viewer)}</section>`
    }
    const quarantined = snapshot.streams.filter((one) => one.quarantined > 0)
    return {
      heading: heading({
        title: verdictInWords(problems, snapshot.streams, sources),
        lead: 'A problem closes by itself when its cause is gone. News stays for a day.',
      }),
      body: html`${problems.length === 0 && html`<section class="card"><h2>No problems</h2><p>Nothing needs you. <a href="/">The overview</a> shows how far each stream is, <a href="/actions">Who did what</a> shows earlier decisions.</p></section>`}
${parts.map(section)}
${quarantined.length > 0 && html`<section class="card"><h2>Quarantine</h2><p>Records that cannot be rows are kept whole: ${quarantined.map(({ stream, quarantined: records }, index) => html`${index > 0 && ', '}<a href="/quarantine?stream=${stream}">${records} of ${stream}</a>`)}.</p></section>`}
${closed(over, now)}
${alertsCard(statusQueries.alerting(), snapshot, viewer)}`,
    }
  },
}

const mostClosed = 20

const closed = (over: readonly ClosedProblem[], now: Date): Html | null =>
  over.length === 0
    ? null
    : html`<section class="card" aria-labelledby="closed"><h2 id="closed">Closed in the last 7 days</h2>${plainTable(
        {
          caption:
            over.length === mostClosed
              ? `The last ${mostClosed}`
              : html`<span class="hidden">Closed problems</span>`,
          columns: closedColumns(now),
          rows: over,
        },
      )}</section>`

const closedColumns = (now: Date): readonly Column<ClosedProblem>[] => [
  { title: 'What it was', cell: ({ what }) => html`<span class="plain">${foreign(what, 300)}</span>` },
  { title: 'Closed', cell: ({ endedAt }) => html`<span class="nowrap">${clock(endedAt, now)}</span>` },
  { title: 'Lasted', cell: ({ since, endedAt }) => shortSpan(endedAt.getTime() - since.getTime()) },
  // Whether that ended it is not known, and neither is what was done elsewhere, such as to a setting or upstream.
  { title: 'What was done about it here', cell: ({ by }) => (by === null ? '–' : doneBy(by)) },
]

const doneBy = ({ action, who, door }: NonNullable<ClosedProblem['by']>): Html =>
  html`${who === '' ? door : foreign(who, 60)} ${actionInWords(action)} <a class="small" href="/actions">who did what</a>`
