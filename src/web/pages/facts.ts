// `/facts`: what was learnt about the upstream, with the evidence.

import type { FactLine } from '../../mirror/fact-list.ts'
import { html } from '../html.ts'
import { age, foreign } from '../words.ts'
import type { Page } from './page.ts'
import { type Column, table } from './table.ts'

export const factsPage: Page = {
  path: '/facts',
  title: 'Facts about the upstream',
  async body({ desk, now }) {
    return html`<p class="lead">Found out while reading, and looked at again daily. Reading is correct whatever they are; they decide how fast it is.</p>
${table({
  caption: 'Facts by stream',
  columns: columns(now),
  rows: await desk.facts(),
  empty: 'Nothing is known yet: no run has ended.',
})}`
  },
}

const columns = (now: Date): readonly Column<FactLine>[] => [
  { title: 'Fact', cell: ({ name }) => name.replaceAll('_', ' ') },
  { title: 'Stream', cell: ({ stream }) => stream },
  { title: 'Value', cell: ({ value }) => html`<strong>${foreign(value)}</strong>` },
  { title: 'Evidence', cell: ({ evidence }) => foreign(evidence, 500) },
  { title: 'Known', cell: ({ firstAt }) => age(firstAt, now) },
  { title: 'Checked', cell: ({ checkedAt }) => age(checkedAt, now) },
  {
    title: 'Before',
    cell: ({ previousValue, changedAt }) =>
      previousValue === null
        ? null
        : html`${foreign(previousValue)}${changedAt && html`, until ${age(changedAt, now)}`}`,
  },
]
