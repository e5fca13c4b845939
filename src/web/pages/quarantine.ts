// `/quarantine`: records that cannot be rows, whole as far as a page can hold them.

import type { QuarantineEntry } from '../../store/book/quarantine.ts'
import { plural } from '../../util/text.ts'
import { entryForms, quarantineForms } from '../action-forms.ts'
import { age, count, foreign, html } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import { rangeIn } from '../time-range.ts'
import type { Page } from './layout.ts'
import { recordAddress } from './rows.ts'
import { byId, type Column, chosen, filterForm, listPart, select } from './tables.ts'

const mostCharacters = 1_500

export const quarantinePage: Page = {
  path: '/quarantine',
  place: '/problems',
  title: 'Quarantine',
  isLive: true,
  async body({ statusQueries, viewer, query, now }) {
    const stream = chosen(query, 'stream', statusQueries.mirrored)
    const range = rangeIn(query, now, null)
    const { from, to } = range
    const { streams } = statusQueries
    // Read before the list, so that the forms cover no entry that the list does not lead to.
    const whole = viewer.canAct && stream !== null ? await statusQueries.quarantineOf(stream) : null
    return html`<p class="lead">
  Records that cannot be stored as rows are kept here whole, so that nothing is lost.
  After a record was corrected upstream, it becomes a row when it next changes, or when you try it again.
</p>
${filterForm('/quarantine', [select('Stream', 'stream', statusQueries.mirrored, stream)], { range, kept: { stream } })}
${
  stream !== null &&
  whole !== null &&
  html`<section class="card more" aria-label="All of them">
<h2>${plural(whole.records, 'record')} of ${stream}</h2>
${quarantineForms(viewer, stream, { ...whole, canBeTried: streams.includes(stream) })}
</section>`
}
${await listPart({
  path: '/quarantine',
  query,
  kept: { stream, ...range.kept },
  beginsAt: 'after',
  names: { list: 'records', first: 'Oldest', next: 'Newer' },
  read: byId(30, (after, limit) =>
    statusQueries.quarantine(
      { stream, id: null },
      { after: after ?? '0', limit, mostCharacters: mostCharacters + 1, from, to },
    ),
  ),
  caption: 'Records in quarantine, the oldest first',
  columns: columns(now, viewer, streams),
  empty: emptyIn(stream, from !== null || to !== null),
})}`
  },
}

/** Those that were taken out are not listed: some may have come in that time. */
const emptyIn = (stream: string | null, isOfTime: boolean): string => {
  const which = stream === null ? 'No record' : `No record of ${stream}`
  return isOfTime ? `${which} that is in quarantine now came in this time.` : `${which} is in quarantine.`
}

const columns = (
  now: Date,
  viewer: Viewer,
  streams: readonly string[],
): readonly Column<QuarantineEntry>[] => [
  { title: 'Entry', cell: ({ id }) => id, isNumber: true },
  { title: 'Stream', cell: ({ stream }) => stream },
  {
    title: 'Key',
    isWord: true,
    cell: ({ stream, key }) =>
      key === null
        ? html`<span class="quiet">none</span>`
        : html`<a href="${recordAddress(stream, key)}">${foreign(key, 80)}</a>`,
  },
  { title: 'Reason', cell: ({ reason }) => foreign(reason, 500) },
  { title: 'Seen', cell: ({ timesSeen }) => `${count(timesSeen)}×`, isNumber: true },
  { title: 'First', cell: ({ firstSeenAt }) => age(firstSeenAt, now) },
  { title: 'Last', cell: ({ lastSeenAt }) => age(lastSeenAt, now) },
  {
    title: 'Record',
    cell: ({ text, repeatedText }) => html`<details><summary>${foreign(text, 60)}</summary>
<pre tabindex="0">${foreign(text, mostCharacters)}</pre>
${repeatedText !== null && html`<p>Earlier values of fields that came twice:</p><pre tabindex="0">${foreign(repeatedText, mostCharacters)}</pre>`}</details>`,
  },
  {
    title: 'Act',
    isLeftOut: !viewer.canAct,
    cell: ({ id, stream }) => entryForms(viewer, id, streams.includes(stream)),
  },
]
