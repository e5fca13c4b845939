// `/find`: one search for all: a record by its key, number or text, and whatever else pages have a name for.

import type { QuarantinedKey } from '../../store/book/quarantine.ts'
import { plural } from '../../util/text.ts'
import { clock, foreign, type Html, html, kindInWords } from '../html.ts'
import { type Named, namedIn, unquoted } from '../named.ts'
import type { FoundIn } from '../row-queries.ts'
import { heading, morePlaces, type Page, type PageContext, places } from './layout.ts'
import { anchorOf } from './problem-cards.ts'
import { matchedIn, recordAddress } from './rows.ts'
import { addressOf, plainTable } from './tables.ts'

const longestSearch = 100
const mostFields = 8
const mostOfEach = 8

export const findPage: Page = {
  path: '/find',
  title: 'Find',
  isSearch: true,
  async body(context) {
    const { statusQueries, query, now } = context
    const { streams } = statusQueries
    const text = (query.get('q') ?? '').replaceAll('\0', '').trim().slice(0, longestSearch)
    const head = heading({ title: text === '' ? 'Find a record' : html`“${foreign(text, longestSearch)}”` })
    const form = html`<form class="card" role="search" aria-label="Everything" method="get" action="/find"><div class="bar"><label>Key, number, text or name <input type="search" name="q" size="30" value="${text}" maxlength="${longestSearch}" autocomplete="off"></label><button class="go">Find</button></div>
<p class="small quiet">Also what pages call things: <code>assignment 14</code>, <code>run 443</code>, a stream, a field, a problem, a worker, a setting. Text in quotes is looked for as it is.</p></form>`
    if (text === '') return { heading: head, body: html`${form}${streamLinks(streams)}` }
    const exact = unquoted(text)
    const named = exact === null ? namedIn(text, streams) : null
    const isRecord = named?.what === 'record'
    const wanted = isRecord ? named.key : (exact ?? text)
    const found = statusQueries.find(wanted, isRecord ? [named.stream] : streams)
    // Awaited only after the queries below: until then a failure must not count as unhandled.
    found.catch(() => {})
    const [others, quarantined] = await Promise.all([
      calledSo(context, exact ?? text, named),
      statusQueries.quarantinedKey({ streams: isRecord ? [named.stream] : streams, key: wanted }, mostOfEach),
    ])
    return {
      heading: head,
      body: html`${form}
${quarantined.length > 0 && inQuarantine(quarantined, wanted)}
${others.length > 0 && html`<section class="card"><h2>Not records</h2><ul class="key">${others.map((one) => html`<li>${one}</li>`)}</ul></section>`}
${isRecord && html`<p class="quiet">Only ${named.stream} was searched. <a href="${addressOf('/find', { q: `"${text}"` })}">Search all streams for these words</a></p>`}`,
      rest: async () => recordsFound(await found, wanted, now, isRecord ? named.stream : null),
    }
  },
}

/** What is no record, and is called so. */
async function calledSo(
  { statusQueries, problems }: PageContext,
  text: string,
  named: Named | null,
): Promise<readonly Html[]> {
  const wanted = text.toLowerCase()
  const asName = wanted.replaceAll(/[\s-]+/g, '_')
  const isLong = wanted.length > 2
  const has = (...texts: readonly string[]) =>
    texts.some((one) => (isLong ? one.toLowerCase().includes(wanted) : one.toLowerCase() === wanted))
  const ofRun = named?.what === 'run' ? named.id : /^\d{1,18}$/.test(text) ? text : null
  const [fields, run, workers, open, { settings }] = await Promise.all([
    statusQueries.fields({ stream: null, text }, mostFields),
    ofRun === null ? null : statusQueries.run(ofRun),
    statusQueries.workers(),
    problems,
    statusQueries.settings(),
  ])
  // Related records have none, nor have streams that are not mirrored.
  const hasPage = (stream: string | null) => stream !== null && statusQueries.streams.includes(stream)
  const fieldAddress = (stream: string, search: string) =>
    hasPage(stream)
      ? addressOf(`/streams/${stream}/fields`, { search })
      : addressOf('/dictionary', { stream, search })
  const link = (what: string, address: string, words: Html | string) =>
    html`${what} <a href="${address}">${words}</a>`
  const found = [
    statusQueries.streams
      .filter((name) => name.includes(asName))
      .map((name) => link('stream', `/streams/${name}`, name)),
    run
      ? [html`<a href="/runs/${run.id}">run ${run.id}</a> (${kindInWords(run.kind)} of ${run.stream})`]
      : named?.what === 'run'
        ? [html`There is no run ${named.id}. Runs are forgotten after 90 days.`]
        : [],
    named && named.what !== 'record' && named.what !== 'run' ? [link('', ...placeOf(named))] : [],
    [...places, ...morePlaces]
      .filter(([, name]) => has(name))
      .map(([address, name]) => link('page', address, name)),
    open
      .filter(({ kind, what, key }) => has(what, key, kind.replaceAll('_', ' ')))
      .map((one) => link('problem', `/problems#${anchorOf(one)}`, foreign(one.what, 120))),
    workers
      .filter(({ id, host, pid }) => has(id, host) || String(pid) === text)
      .map(({ host, pid }) => link('worker', '/workers', html`${foreign(host, 60)} (${pid})`)),
    settings
      .filter(({ name }) => isLong && name.toLowerCase().includes(asName))
      .map(({ name, stream }) =>
        link('setting', hasPage(stream) ? `/streams/${stream}/settings` : '/settings', name),
      ),
    fields.map(
      ({ stream, sourceName }) =>
        html`${link('field', fieldAddress(stream, sourceName), foreign(sourceName, 60))} of ${stream}`,
    ),
  ]
  return found.flatMap((some) => some.slice(0, mostOfEach))
}

const entryAddress = (id: string): string => addressOf('/quarantine', { after: String(BigInt(id) - 1n) })

function placeOf({ what, id }: Extract<Named, { id: string }>): readonly [address: string, words: string] {
  if (what === 'checkpoint')
    return [addressOf('/checkpoints', { before: String(BigInt(id) + 1n) }), `checkpoints from ${id} back`]
  return what === 'entry'
    ? [entryAddress(id), `quarantine from entry ${id} on`]
    : ['/backfills', 'all backfills']
}

const inQuarantine = (entries: readonly QuarantinedKey[], key: string): Html =>
  html`<section class="card"><h2>In quarantine</h2><p>What was last read of these records cannot be stored as a row.</p><ul class="key">${entries.map(
    ({ id, stream, reason }) =>
      html`<li><a href="${recordAddress(stream, key)}">${stream} ${foreign(key, 80)}</a>: ${foreign(reason, 300)} <a class="small" href="${entryAddress(id)}">entry ${id}</a></li>`,
  )}</ul></section>`

/** `stream`: that in which a key was looked for. */
function recordsFound(found: readonly FoundIn[], text: string, now: Date, stream: string | null): Html {
  const withRows = found.filter(({ rows }) => rows.length > 0)
  return html`${withRows.map((one) => records(one, text, now))}
${
  withRows.length === 0 &&
  html`<section class="card"><h2>No row found</h2><p>The newest rows of ${plural(found.length, 'stream')} were searched, deleted ones too. Search all of one: ${found.map(({ stream }, index) => html`${index > 0 && ', '}<a href="${addressOf(`/streams/${stream}/rows`, { q: text })}">${stream}</a>`)}.</p>
<p>${stream === null ? html`If you know its stream and key, search for both, such as <code>assignment 14</code>: that also finds what was noted of a record that is no row, and asks the upstream for it.` : html`<a href="${recordAddress(stream, text)}">What is known of ${stream} ${foreign(text, 80)}</a>: whether it is in the quarantine, and what the upstream says of it.`}</p></section>`
}`
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
  ['changed in the last hour', { range: 'hour' }],
  ['changed in the last day', { range: 'day' }],
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
    {
      title: 'Matched',
      cell: (row) =>
        html`${row.isDeleted && html`<span class="tag">deleted</span> `}${matchedIn(row, text, [])}`,
    },
  ],
  rows,
})}</section>`
