// `/changes`: what changed in the rows of all streams whose past is kept, with the values before and after, and the run that wrote it.

import type { ChangeCursor, StreamChange } from '../../store/book/changes.ts'
import { clock, count, foreign, type Html, html, time } from '../html.ts'
import { rangeIn } from '../time-range.ts'
import type { Page } from './layout.ts'
import { recordAddress } from './rows.ts'
import { type Column, chosen, filterForm, listPart, select } from './tables.ts'

const most = 40
const longestName = 100

export const changesPage: Page = {
  path: '/changes',
  title: 'Changes',
  isSearch: true,
  async body({ statusQueries, query, now }) {
    const { streams } = statusQueries
    const stream = chosen(query, 'stream', streams)
    const column = (query.get('column') ?? '').replaceAll('\0', '').trim().slice(0, longestName)
    const range = rangeIn(query, now, null)
    const kept = { stream, column }
    const found = await statusQueries.changes({
      stream,
      column,
      from: range.from,
      to: range.to,
      limit: most,
      after: cursorIn(query.get('before')),
    })
    const { changes, next, isCut } = found
    return html`<p class="lead">Each line is a row that changed, as Tidemark saw it: two changes between two polls are one. New rows are no change.</p>
${keptFor(streams, found.kept)}
${found.ended.map((one) => html`<p class="note">The history of ${one.stream} ends at ${time(one.at)}: rows were written later, and what changed in them, if anything, is not here.</p>`)}
${filterForm('/changes', [select('Stream', 'stream', streams, stream), columnField(column)], { range, kept })}
${await listPart({
  path: '/changes',
  query,
  kept: { ...kept, ...range.kept },
  names: { list: 'changes', first: 'Newest', next: 'Older' },
  read: async () => ({ rows: changes, next: next && `${next.micros} ${next.stream} ${next.key}` }),
  caption: `Changes, ${range.words}, the newest first`,
  columns: columns(now),
  empty: next === null ? 'No such change in this time, as far as the past is kept.' : 'Nothing found so far.',
  more: isCut && html`<p class="quiet">The search was stopped after a second. “Older” goes on.</p>`,
})}`
  },
}

const columnField = (column: string): Html =>
  html`<label>Column contains <input type="search" name="column" value="${column}" maxlength="${longestName}" autocomplete="off"></label>`

function cursorIn(text: string | null): ChangeCursor | null {
  const [, micros, stream, key] = /^(\d{1,17}) (\S{1,200}) ([^\0]{0,1000})$/s.exec(text ?? '') ?? []
  return micros !== undefined && stream !== undefined && key !== undefined ? { micros, stream, key } : null
}

/** Of which streams there is something to see here. */
function keptFor(streams: readonly string[], kept: readonly string[]): Html | null {
  const without = streams.filter((name) => !kept.includes(name))
  if (without.length === 0) return null
  return html`<p class="note">Changes of ${without.join(', ')} are kept once <code>HISTORY</code> names them.</p>`
}

const columns = (now: Date): readonly Column<StreamChange>[] => [
  {
    title: 'Seen',
    cell: ({ at }) => html`<span class="nowrap">${clock(new Date(at), now)}</span>`,
  },
  {
    title: 'Row',
    cell: ({ stream, key }) =>
      html`<a href="${recordAddress(stream, key)}">${stream} ${foreign(key, 80)}</a>`,
  },
  { title: 'What changed', isWide: true, cell: changed },
  {
    title: 'By',
    cell: ({ modifiedBy }) => modifiedBy && html`<span class="nowrap">${foreign(modifiedBy, 30)}</span>`,
  },
  { title: 'Run', cell: ({ runId }) => runId && html`<a href="/runs/${runId}">${runId}</a>` },
]

function changed({ fields, fieldCount, isDeleted, isBack }: StreamChange): Html {
  const left = fieldCount - fields.length
  return html`${isDeleted && html`<span class="tag">deleted</span> `}${isBack && html`<span class="tag">came back</span> `}${fields.map((one) => fieldChange(one))}${left > 0 && html`<span class="small quiet">and ${count(left)} more</span>`}`
}

/** A column with its values before and after. */
export const fieldChange = ({ column, before, after }: StreamChange['fields'][number]): Html =>
  html`<span class="change"><code>${foreign(column, 60)}</code> <del>${shown(before)}</del> <ins>${shown(after)}</ins></span> `

const shown = (text: string | null): Html | string => (text === null ? 'null' : foreign(text, 60))
