// `/dictionary`: every field that was seen, with its column.

import type { BeliefLine, FieldLine } from '../../store/queries/dictionary.ts'
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
  caption: `${plural(fields.length, 'field')}${fields.length === most ? ': the first of more, search to see others' : ''}`,
  columns: columns(now),
  rows: fields,
  empty: 'There is no such field.',
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
  { title: 'Rescued', cell: ({ rescued }) => (rescued === 0 ? '' : count(rescued)), isNumber: true },
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

// `/facts`: what was learnt about the upstream, with the evidence.
export const beliefsPage: Page = {
  path: '/facts',
  title: 'Facts about the upstream',
  async body({ statusQueries, now }) {
    return html`<p class="lead">Found out while reading, and looked at again daily. Reading is correct whatever they are; they decide how fast it is.</p>
${table({
  caption: 'Facts by stream',
  columns: beliefColumns(now),
  rows: await statusQueries.beliefs(),
  empty: 'Nothing is known yet: no run has ended.',
})}`
  },
}

const beliefColumns = (now: Date): readonly Column<BeliefLine>[] => [
  { title: 'Fact', cell: ({ name }) => name.replaceAll('_', ' ') },
  { title: 'Stream', cell: ({ stream }) => stream },
  { title: 'Value', cell: ({ value }) => html`<strong>${foreign(value)}</strong>` },
  { title: 'Evidence', cell: ({ evidence }) => foreign(evidence, 500) },
  { title: 'Known', cell: ({ firstAt }) => age(firstAt, now) },
  { title: 'Checked', cell: ({ testedAt }) => age(testedAt, now) },
  {
    title: 'Before',
    cell: ({ previousValue, changedAt }) =>
      previousValue === null
        ? null
        : html`${foreign(previousValue)}${changedAt && html`, until ${age(changedAt, now)}`}`,
  },
]
