// `/find`: one search for all: a record by its key, number or text, a stream, a run, a field.

import { plural } from '../../util/text.ts'
import { clock, foreign, type Html, html } from '../html.ts'
import type { FoundIn } from '../row-queries.ts'
import { heading, type Page } from './layout.ts'
import { recordAddress } from './rows.ts'
import { addressOf, plainTable } from './tables.ts'

const longestSearch = 100
const mostFields = 8

export const findPage: Page = {
  path: '/find',
  title: 'Find',
  isSearch: true,
  async body({ statusQueries, query, now }) {
    const text = (query.get('q') ?? '').replaceAll('\0', '').trim().slice(0, longestSearch)
    const head = heading({ title: text === '' ? 'Find a record' : html`“${foreign(text, longestSearch)}”` })
    const form = html`<form class="card" role="search" aria-label="Everything" method="get" action="/find"><div class="bar"><label>Key, number or text <input type="search" name="q" size="30" value="${text}" maxlength="${longestSearch}" autocomplete="off"></label><button class="go">Find</button></div></form>`
    if (text === '')
      return { title: 'Find', heading: head, body: html`${form}${streamLinks(statusQueries.streams)}` }
    const isNumber = /^\d{1,18}$/.test(text)
    const found = statusQueries.find(text)
    // Awaited only after the queries below: until then a failure must not count as unhandled.
    found.catch(() => {})
    const [fields, run] = await Promise.all([
      statusQueries.fields({ stream: null, text }, mostFields),
      isNumber ? statusQueries.run(text) : null,
    ])
    const named = statusQueries.streams.filter((name) => name.includes(text.toLowerCase()))
    const others = [
      ...named.map((name) => html`stream <a href="/streams/${name}">${name}</a>`),
      ...(run ? [html`<a href="/runs/${run.id}">run ${run.id}</a> (${run.kind} of ${run.stream})`] : []),
      ...fields.map(
        ({ stream, sourceName }) =>
          html`field <a href="${addressOf(`/streams/${stream}/fields`, { search: sourceName })}">${foreign(sourceName, 60)}</a> of ${stream}`,
      ),
    ]
    return {
      title: 'Find',
      heading: head,
      body: html`${form}
${others.length > 0 && html`<section class="card"><h2>Not records</h2><ul class="key">${others.map((one) => html`<li>${one}</li>`)}</ul></section>`}`,
      rest: async () => recordsFound(await found, text, now),
    }
  },
}

function recordsFound(found: readonly FoundIn[], text: string, now: Date): Html {
  const withRows = found.filter(({ rows }) => rows.length > 0)
  return html`${withRows.map((one) => records(one, text, now))}
${withRows.length === 0 && html`<section class="card"><h2>No record found</h2><p>The newest rows of ${plural(found.length, 'stream')} were searched, deleted ones too. Search all of one: ${found.map(({ stream }, index) => html`${index > 0 && ', '}<a href="${addressOf(`/streams/${stream}/rows`, { q: text })}">${stream}</a>`)}.</p></section>`}`
}

const streamLinks = (streams: readonly string[]): Html =>
  html`<section class="card"><h2>Or look through the rows of a stream</h2><dl class="pairs">${streams.map(
    (name) =>
      html`<dt><b>${name}</b></dt><dd><ul class="key">${rowChoices.map(
        ([words, choice]) =>
          html`<li><a href="${addressOf(`/streams/${name}/rows`, choice)}"><span class="hidden">${name}: </span>${words}</a></li>`,
      )}</ul></dd>`,
  )}</dl></section>`

const rowChoices: readonly (readonly [words: string, choice: Readonly<Record<string, string>>])[] = [
  ['all', {}],
  ['changed in the last hour', { changed: 'last hour' }],
  ['changed in the last day', { changed: 'last day' }],
  ['deleted', { deleted: 'only' }],
]

const records = ({ stream, rows, columns, hasMore }: FoundIn, text: string, now: Date): Html =>
  html`<section class="card"><div class="bar spread"><h2>${stream}</h2>${hasMore && html`<a class="btn" href="${addressOf(`/streams/${stream}/rows`, { q: text })}">Search all of ${stream}</a>`}</div>
${plainTable({
  caption: html`<span class="hidden">Rows of ${stream}</span>`,
  columns: [
    {
      title: 'Key',
      cell: ({ key }) => html`<a href="${recordAddress(stream, key)}">${foreign(key, 80)}</a>`,
    },
    ...columns.map((title, index) => ({
      title,
      cell: ({ values }: FoundIn['rows'][number]) => foreign(values[index] ?? 'null', 80),
    })),
    { title: 'Changed here', cell: ({ changedAt }) => clock(changedAt, now) },
    { title: 'Note', cell: ({ isDeleted }) => (isDeleted && html`<span class="tag">deleted</span>`) || null },
  ],
  rows,
})}</section>`
