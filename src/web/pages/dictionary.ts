// `/dictionary`: every field that was seen, with its column.

import type { FieldLine } from '../../store/queries/dictionary.ts'
import { plural } from '../../util/text.ts'
import { age, count, foreign, html } from '../html.ts'
import type { Page } from './layout.ts'
import { type Column, chosen, filterForm, select, table } from './tables.ts'

const most = 1_000
const longestSearch = 100

export const dictionaryPage: Page = {
  path: '/dictionary',
  title: 'Data dictionary',
  async body({ statusQueries, query, now }) {
    const streams = await statusQueries.fieldStreams()
    const stream = chosen(query, 'stream', streams)
    const text = (query.get('search') ?? '').replaceAll('\0', '').trim().slice(0, longestSearch)
    const fields = await statusQueries.fields({ stream, text }, most)
    return html`${filterForm('/dictionary', [
      html`<label>Name <input type="search" name="search" value="${text}" maxlength="${longestSearch}" autocomplete="off"></label>`,
      select('Stream', 'stream', streams, stream),
    ])}
${table({
  caption: `${plural(fields.length, 'field')}${fields.length === most ? ': there are more, search to see them' : ''}`,
  columns: columns(now),
  rows: fields,
  empty: 'No field matches. Widen the search to see others.',
})}`
  },
}

const columns = (now: Date): readonly Column<FieldLine>[] => [
  { title: 'Field', cell: ({ sourceName }) => foreign(sourceName) },
  { title: 'Stream', cell: ({ stream }) => stream },
  {
    title: 'Column',
    cell: ({ columnName }) =>
      columnName === null ? html`<span class="quiet">none</span>` : html`<code>${foreign(columnName)}</code>`,
  },
  { title: 'Type', cell: ({ columnType }) => columnType },
  { title: 'Null', cell: ({ nullShare }) => percent(nullShare), isNumber: true },
  { title: 'Misfit values', cell: ({ rescued }) => (rescued === 0 ? '' : count(rescued)), isNumber: true },
  { title: 'First seen', cell: ({ firstSeenAt }) => age(firstSeenAt, now) },
  { title: 'Note', cell: ({ note }) => (note === null ? null : foreign(note, 500)) },
]

/** Never rounded to all or nothing. */
function percent(share: number | null): string {
  if (share === null) return ''
  if (share > 0 && share < 0.01) return '< 1 %'
  if (share < 1 && share > 0.99) return '> 99 %'
  return `${Math.round(share * 100)} %`
}
