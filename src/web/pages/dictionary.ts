// `/dictionary`: every field that was seen, with its column.

import type { FieldLine } from '../../store/book/dictionary.ts'
import { plural } from '../../util/text.ts'
import { age, count, foreign, type Html, html } from '../html.ts'
import type { Page, PageContext } from './layout.ts'
import { type Column, chosen, filterForm, select, table } from './tables.ts'

/** So that a page stays below 100 KB. */
const most = 150
const longestSearch = 100

export const dictionaryPage: Page = {
  path: '/dictionary',
  title: 'Data dictionary',
  body: (context) => fieldList(context, '/dictionary', null),
}

/** Of one stream, or of all with a choice among them. */
export async function fieldList(
  { statusQueries, query, now }: PageContext,
  path: string,
  only: string | null,
): Promise<Html> {
  const streams = only === null ? await statusQueries.fieldStreams() : []
  const stream = only ?? chosen(query, 'stream', streams)
  const text = (query.get('search') ?? '').replaceAll('\0', '').trim().slice(0, longestSearch)
  const fields = await statusQueries.fields({ stream, text }, most)
  return html`${filterForm(path, [
    html`<label>Name <input type="search" name="search" value="${text}" maxlength="${longestSearch}" autocomplete="off"></label>`,
    ...(only === null ? [select('Stream', 'stream', streams, stream)] : []),
  ])}
${table({
  caption: `${plural(fields.length, 'field')}${fields.length === most ? ': there are more, search to see them' : ''}`,
  columns: columns(now, only === null),
  rows: fields,
  empty: 'No field matches. Widen the search to see others.',
})}`
}

const columns = (now: Date, withStream: boolean): readonly Column<FieldLine>[] => [
  { title: 'Field', cell: ({ sourceName }) => foreign(sourceName) },
  { title: 'Stream', isLeftOut: !withStream, cell: ({ stream }) => stream },
  {
    title: 'Column',
    cell: ({ columnName }) =>
      columnName === null ? html`<span class="quiet">none</span>` : html`<code>${foreign(columnName)}</code>`,
  },
  { title: 'Type', cell: ({ columnType }) => columnType },
  { title: 'Meaning', cell: meaningCell },
  { title: 'Null', cell: ({ nullShare }) => percent(nullShare), isNumber: true },
  { title: 'Misfit values', cell: ({ rescued }) => (rescued === 0 ? '' : count(rescued)), isNumber: true },
  { title: 'First seen', cell: ({ firstSeenAt }) => age(firstSeenAt, now) },
  { title: 'Note', cell: ({ note }) => (note === null ? null : foreign(note, 500)) },
]

/** What it is called, means, is measured in, may hold and refers to. */
function meaningCell({ label, unit, meaning, allowed, refersTo }: FieldLine): Html | null {
  const parts = [
    label && html`<strong>${foreign(label)}</strong>`,
    meaning && foreign(meaning.replace(/[.;]$/, ''), 300),
    unit && html`in ${foreign(unit)}`,
    allowed && foreign(allowed, 300),
    refersTo && html`refers to <code>${foreign(refersTo)}</code>`,
  ].filter((part) => part !== null && part !== '')
  return parts.length === 0
    ? null
    : html`${parts.map((part, index) => html`${index === 0 ? '' : '; '}${part}`)}`
}

/** Never rounded to all or nothing. */
function percent(share: number | null): string {
  if (share === null) return ''
  if (share > 0 && share < 0.01) return '< 1 %'
  if (share < 1 && share > 0.99) return '> 99 %'
  return `${Math.round(share * 100)} %`
}
