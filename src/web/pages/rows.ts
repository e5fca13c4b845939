// `/streams/:name/rows`: the rows of one stream, searched and paged through, as SQL and as CSV.

import {
  deletedChoices,
  isRowCursor,
  type RowCursor,
  type RowLine,
  type RowPage,
  type RowSearch,
} from '../../store/book/rows.ts'
import { tableName, viewName } from '../../streams/names.ts'
import { plural } from '../../util/text.ts'
import { clock, copyButton, count, foreign, type Html, html } from '../html.ts'
import { type RowsShown, summaryColumns } from '../row-queries.ts'
import { rangeControl, rangeIn, type TimeRange } from '../time-range.ts'
import type { PageContext } from './layout.ts'
import { streamTab } from './stream-frame.ts'
import { addressOf } from './tables.ts'

const pageSize = 50
const mostColumns = 20
const longestSearch = 100

/** What an address asks for. What it holds is checked before it is used. */
export function rowsAsked(
  query: URLSearchParams,
  now: Date,
): {
  readonly search: RowSearch
  readonly range: TimeRange
  readonly columns: readonly string[]
  readonly after: RowCursor | null
} {
  const deleted = deletedChoices.find((one) => one === query.get('deleted')) ?? 'shown'
  const range = rangeIn(query, now, null)
  const text = (query.get('q') ?? '').replaceAll('\0', '').trim().slice(0, longestSearch)
  return {
    search: { text, deleted, within: range, field: fieldIn(query) },
    range,
    columns: query.getAll('column').slice(0, mostColumns),
    after: cursorIn(query),
  }
}

function fieldIn(query: URLSearchParams): NonNullable<RowSearch['field']> | null {
  const [column, value] = ['field', 'value'].map((name) =>
    (query.get(name) ?? '').replaceAll('\0', '').trim().slice(0, longestSearch),
  )
  return column && value ? { column, value } : null
}

function cursorIn(query: URLSearchParams): RowCursor | null {
  const [at, key] = [query.get('at'), query.get('key')]
  return at !== null && key !== null && isRowCursor({ at, key }) ? { at, key } : null
}

export const rowsTab = streamTab(
  '/streams/:name/rows',
  'Rows',
  async (context, { stream: { stream } }) => {
    const asked = rowsAsked(context.query, context.now)
    const shown = await context.statusQueries.rows(stream, {
      ...asked,
      limit: pageSize,
      mostCharacters: 300,
      tellsMatched: true,
      choose: summaryColumns,
    })
    if (shown === null)
      return html`<section class="card"><p>Nothing of ${stream} is stored yet. Its table is made by the first record that comes.</p></section>`
    return {
      body: searchForm(stream, asked, shown, context.query),
      rest: async () =>
        html`${results(stream, context, asked, shown, await shown.page)}
${asSql(stream, shown, csvAddress(stream, context.query, { raw: '1' }))}`,
    }
  },
  { place: '/find', isSearch: true },
)

const asSql = (stream: string, { sql }: RowsShown, rawCsv: string): Html =>
  html`<section class="card" aria-labelledby="sql"><div class="bar spread"><h2 id="sql">As SQL</h2>${copyButton('Copy as SQL', { from: 'query' })}</div><pre class="term" tabindex="0" id="query">${sql}</pre>
<p class="small quiet">The CSV contains these columns and at most ${count(mostInCsv)} rows. A text that a spreadsheet would run as a formula begins with an apostrophe there; programs take <a href="${rawCsv}">the CSV without it</a>. Everything: <code>tidemark sql --csv "select * from ${viewName(stream)}" > ${stream}.csv</code></p></section>`

const searchForm = (
  stream: string,
  { search, range }: Asked,
  { all, columns, keyName }: RowsShown,
  query: URLSearchParams,
): Html =>
  html`<form class="card" role="search" aria-label="Rows of ${stream}" method="get" action="/streams/${stream}/rows"><div class="bar">
<label>Text, number or key <input type="search" name="q" size="26" value="${search.text}" maxlength="${longestSearch}" autocomplete="off"></label>
<label>Field <select name="field"><option value="">any</option>${[keyName, ...all].map((name) => html`<option${name === search.field?.column && html` selected`}>${name}</option>`)}</select></label>
<label>holds <input type="search" name="value" size="14" value="${search.field?.value ?? ''}" maxlength="${longestSearch}" autocomplete="off" placeholder="a value, or null"></label>
${choice('Deleted rows', 'deleted', deletedChoices, search.deleted)}
<button class="go">Search</button></div>
<div>Changed here: ${rangeControl(range, null, (kept) => addressWith(`/streams/${stream}/rows`, withoutRange(query), kept))}</div>
<details><summary>Columns: ${columns.length} of ${all.length}</summary><fieldset class="checks"><legend class="hidden">Columns to show</legend>${all.map(
    (name) =>
      html`<label class="check"><input type="checkbox" name="column" value="${name}"${columns.includes(name) && html` checked`}> ${foreign(name, 60)}</label>`,
  )}</fieldset></details>
<p class="small quiet">Searches the key, texts and numbers of <code>${tableName(stream)}</code>, the newest change first. It stops after two seconds, and then says how far it got.</p></form>`

const choice = (label: string, name: string, values: readonly string[], value: string): Html =>
  html`<label>${label} <select name="${name}">${values.map(
    (one) => html`<option${one === value && html` selected`}>${one}</option>`,
  )}</select></label>`

type Asked = ReturnType<typeof rowsAsked>

function results(
  stream: string,
  context: PageContext,
  asked: Asked,
  { columns }: RowsShown,
  page: RowPage,
): Html {
  const { search } = asked
  if (page.rows.length === 0 && page.next === null) return nothingFound(stream, asked)
  const hasKey = asked.after === null && page.rows[0]?.key === search.text
  const more = !page.isCut
    ? null
    : hasKey
      ? html`<p class="quiet">First the row with this key. ${count(page.looked)} rows were searched for others that mention it; “Older” searches on.</p>`
      : html`<div class="note warn"><b>The search was stopped after ${count(page.looked)} rows.</b> These are the matches among them. Go on from here with “Older”; a key, a number or a shorter time helps.</div>`
  const csv = csvAddress(stream, context.query)
  return html`<section class="card" aria-labelledby="found"><div class="bar spread"><h2 id="found">${howMany(asked, page)} <span class="quiet small">· the newest change first</span></h2><a class="btn" href="${csv}">CSV</a></div>
${more}
${page.rows.length > 0 && rowTable(stream, columns, page.rows, search, context.now)}
<nav class="pages" aria-label="More rows">${asked.after !== null && html`<a class="btn" href="${addressWith(`/streams/${stream}/rows`, context.query, null)}">Newest</a>`}${
    page.next !== null &&
    html`<a class="btn" rel="next" href="${addressWith(`/streams/${stream}/rows`, context.query, page.next)}">Older</a>`
  }</nav></section>`
}

function howMany({ after }: Asked, { rows, next }: RowPage): string {
  const few = plural(rows.length, 'row')
  if (next === null) return after === null ? few : `The last ${few}`
  return after === null ? `The first ${few}` : few
}

const whichSearched: Readonly<Record<RowSearch['deleted'], string>> = {
  shown: 'Deleted rows were searched too.',
  hidden: 'Deleted rows were not searched.',
  only: 'Only deleted rows were searched.',
}

function nothingFound(stream: string, { search, after }: Asked): Html {
  const wider = addressOf(`/streams/${stream}/rows`, {})
  const isWithin = search.within?.from || search.within?.to
  if (search.text === '' && !search.field && !isWithin && search.deleted === 'shown')
    return html`<section class="card"><p>${after === null ? `${stream} has no rows yet.` : 'There are no older rows.'}</p></section>`
  return html`<section class="card"><h2>${after === null ? 'Nothing found' : 'Nothing more found'}</h2><p>No ${after !== null && 'older '}row of ${stream} matches${search.text !== '' && html` “${foreign(search.text)}”`}${search.field && html`${search.text !== '' && ' and'} <code>${foreign(search.field.column)}</code> “${foreign(search.field.value)}”`}. ${whichSearched[search.deleted]}</p>
<div class="bar"><a class="btn" href="${wider}">Clear the search</a>${search.text !== '' && html`<a class="btn" href="${addressOf('/find', { q: search.text })}">Search every stream</a>`}</div></section>`
}

const rowTable = (
  stream: string,
  columns: readonly string[],
  rows: readonly RowLine[],
  search: RowSearch,
  now: Date,
): Html => html`<div class="scroll" tabindex="-1"><table role="table" class="stack data"><caption class="hidden">Rows of ${stream}</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Key</th>${columns.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}<th role="columnheader" scope="col">Changed here</th><th role="columnheader" scope="col">Note</th></tr></thead>
<tbody role="rowgroup">${rows.map(
  (row) =>
    html`<tr role="row"><th role="rowheader" scope="row" class="wide"><a href="${recordAddress(stream, row.key)}">${foreign(row.key, 80)}</a></th>${columns.map(
      (name, index) =>
        html`<td role="cell" data-l="${name}">${value(row.values[index] ?? null, search.text)}</td>`,
    )}<td role="cell" class="nowrap" data-l="Changed here">${clock(row.changedAt, now)}</td><td role="cell" data-l="Note">${row.isDeleted && html`<span class="tag">deleted</span>`}${row.hasMisfits && html` <span class="tag">misfit value</span>`}${row.isLate && html` <span class="tag">late commit</span>`}${matchedIn(row, search.text, columns)}</td></tr>`,
)}</tbody></table></div>`

/** Which columns hold what was searched for, besides those that are shown. */
export const matchedIn = ({ matched }: RowLine, text: string, shown: readonly string[]): Html =>
  html`${matched
    .filter(({ column }) => !shown.includes(column))
    .map(
      (one) =>
        html` <span class="change"><code>${foreign(one.column, 60)}</code> ${value(one.value, text)}</span>`,
    )}`

/** The page of one record. */
export const recordAddress = (stream: string, key: string): string =>
  `/records/${stream}/${encodeURIComponent(key)}`

/** For more rows, people should ask the database itself. */
export const mostInCsv = 10_000

const longestValue = 80

function value(text: string | null, search: string): Html {
  if (text === null) return html`<span class="quiet">null</span>`
  const at = search === '' ? -1 : text.toLowerCase().indexOf(search.toLowerCase())
  if (at < 0 || at > longestValue - search.length) return foreign(text, longestValue)
  return html`<bdi>${text.slice(0, at)}<mark>${text.slice(at, at + search.length)}</mark>${text.slice(at + search.length, longestValue)}${text.length > longestValue && '…'}</bdi>`
}

const csvAddress = (stream: string, query: URLSearchParams, more = {}): string =>
  addressWith(`/streams/${stream}/rows.csv`, query, more)

const withoutRange = (query: URLSearchParams): URLSearchParams =>
  new URLSearchParams([...query].filter(([name]) => !['range', 'from', 'to'].includes(name)))

/** The same search, from another place on, or as another file. */
function addressWith(
  path: string,
  query: URLSearchParams,
  more: Readonly<Record<string, string | null>> | null,
): string {
  const kept = [...query].filter(
    ([name, one]) =>
      ['q', 'field', 'value', 'range', 'from', 'to', 'deleted', 'column'].includes(name) && one !== '',
  )
  const added = Object.entries(more ?? {}).filter((one): one is [string, string] => one[1] !== null)
  const all = new URLSearchParams([...kept, ...added])
  return all.size === 0 ? path : `${path}?${all}`
}
