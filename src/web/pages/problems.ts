// `/problems`: what needs somebody, what heals by itself, and what is worth knowing, each with what to press.

import { type Care, careOf } from '../../problems/stream-state.ts'
import { type Html, html } from '../html.ts'
import { heading, type Page } from './layout.ts'
import { problemCards, verdict } from './problem-cards.ts'

const parts = [
  ['needs you', 'Need you'],
  ['heals', 'Being retried'],
  ['news', 'Worth knowing'],
] as const satisfies readonly (readonly [Care, string])[]

export const problemsPage: Page = {
  path: '/problems',
  title: 'Problems',
  async body({ statusQueries, problems: known, now }) {
    const [problems, snapshot] = await Promise.all([known, statusQueries.snapshot()])
    const section = ([care, title]: (typeof parts)[number]): Html | null => {
      const own = problems.filter((one) => careOf(one) === care)
      return own.length === 0
        ? null
        : html`<section class="card" aria-label="${title}"><h2>${title}</h2>${problemCards(own, now)}</section>`
    }
    const quarantined = snapshot.streams.filter((one) => one.quarantined > 0)
    return {
      title: 'Problems',
      heading: heading({
        title: verdict(problems, snapshot),
        lead: 'A problem closes by itself when its cause is gone. What changed by itself is shown for a day.',
      }),
      body: html`${problems.length === 0 && html`<section class="card"><h2>No problems</h2><p>Nothing needs you. <a href="/">The overview</a> shows how far each stream is, <a href="/actions">who did what</a> what was decided before.</p></section>`}
${parts.map(section)}
${quarantined.length > 0 && html`<section class="card"><h2>Quarantine</h2><p>Records that cannot be rows are kept whole: ${quarantined.map(({ stream, quarantined: records }, index) => html`${index > 0 && ', '}<a href="/quarantine?stream=${stream}">${records} of ${stream}</a>`)}.</p></section>`}`,
    }
  },
}
