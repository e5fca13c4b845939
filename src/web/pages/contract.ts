// `/upstream/contract`: what the upstream says about itself: where it was read, what it says of each stream, what of it the records
// contradict, which lists it has besides, and what changed. What `tidemark contract` shows at the terminal.

import { changeText } from '../../openapi/changes.ts'
import { type DescribedField, type RecordType, saidOf } from '../../openapi/description.ts'
import { type Difference, differenceInWords } from '../../openapi/differences.ts'
import type { ListOffered } from '../../openapi/lists.ts'
import type { StoredDescription } from '../../openapi/stored.ts'
import { plural } from '../../util/text.ts'
import { age, clock, count, foreign, type Html, html, state, zone } from '../html.ts'
import type { DescriptionShown } from '../status-queries.ts'
import { heading, type Page } from './layout.ts'
import { addressOf, type Column, chosen, plainTable } from './tables.ts'

const mostDifferences = 100
const mostRemarks = 20

export const contractPage: Page = {
  path: '/upstream/contract',
  place: '/upstream',
  title: 'Contract',
  async body({ statusQueries, query, now }) {
    const shown = await statusQueries.contract()
    const stream = chosen(query, 'stream', [...shown.types.keys()])
    const type = stream === null ? null : (shown.types.get(stream) ?? null)
    return {
      heading: heading({
        title: 'What the upstream says about itself',
        crumbs: [['/upstream', 'Upstream']],
        lead: 'Its contract: a description of its operations and records (OpenAPI). Where the records differ from it, Tidemark follows the records.',
      }),
      body: html`${sources(shown, now)}
${stream !== null && type !== null && fieldsOf(stream, type)}
${shown.descriptions.length > 0 && html`<div class="cols">${streamsCard(shown, stream)}${differencesCard(shown.differences)}</div>`}
${listsCard(shown.lists)}
${history(shown, now)}`,
    }
  },
}

function sources({ descriptions, unusable }: DescriptionShown, now: Date): Html {
  if (descriptions.length === 0 && unusable.length === 0)
    return html`<section class="card"><h2>Nothing was read</h2><p>The upstream has not published a description that Tidemark could find. <code>tidemark probe</code> says whether it does; <code>CONTRACT</code> names another place.</p></section>`
  const problems = unusable.map(
    ({ service, problem, since }) =>
      html`<p class="note bad"><b>${service} service:</b> ${foreign(problem, 400)}${since && html` (since ${clock(since, now)} ${zone})`}</p>`,
  )
  return html`${problems}${descriptions.length > 0 && html`<div class="cols">${descriptions.map((one) => source(one, now))}</div>`}`
}

const source = (
  { service, location, description, firstReadAt, lastReadAt }: StoredDescription,
  now: Date,
): Html => {
  const { title, version, openApi, operations, types, remarks } = description
  const records = Object.keys(types).length
  return html`<section class="card c6" aria-labelledby="of-${service}"><div class="bar spread"><h2 id="of-${service}">${service} service</h2>${state('ok', 'Read')}</div>
<dl class="pairs"><dt>Title</dt><dd>${foreign(title, 200)}, version ${foreign(version, 80)}, OpenAPI ${foreign(openApi, 20)}</dd>
<dt>Read from</dt><dd>${foreign(location, 300)}</dd>
<dt>Read</dt><dd>${age(lastReadAt, now)}; unchanged since ${age(firstReadAt, now)}</dd>
<dt>Describes</dt><dd>${plural(operations.length, 'operation')}, ${plural(records, 'type')} of records</dd></dl>
${
  remarks.length > 0 &&
  html`<details><summary>${plural(remarks.length, 'remark')} on what could not be used</summary><ul>${remarks.slice(0, mostRemarks).map((one) => html`<li>${foreign(one, 300)}</li>`)}</ul></details>`
}</section>`
}

const streamsCard = ({ types }: DescriptionShown, chosenStream: string | null): Html =>
  html`<section class="card c6" aria-labelledby="described"><h2 id="described">Streams</h2>${
    types.size === 0
      ? html`<p>No stream is described.</p>`
      : plainTable({
          caption: html`<span class="hidden">Streams and the types of their records</span>`,
          columns: [
            {
              title: 'Stream',
              cell: ([name]) =>
                name === chosenStream
                  ? name
                  : html`<a href="/upstream/contract?stream=${name}">${name}<span class="hidden">: its fields</span></a>`,
            },
            { title: 'Its records are', cell: ([, { name }]) => foreign(name, 100) },
            { title: 'Fields', cell: ([, { fields }]) => count(fields.length), isNumber: true },
          ] satisfies readonly Column<[string, RecordType]>[],
          rows: [...types],
        })
  }</section>`

const fieldsOf = (stream: string, { name, describe, fields }: RecordType): Html =>
  html`<section class="card" aria-labelledby="fields"><h2 id="fields">${stream}: fields of ${foreign(name, 100)}</h2>
${describe !== null && html`<p>${foreign(describe, 500)}</p>`}
${plainTable({
  caption: plural(fields.length, 'field'),
  columns: fieldColumns,
  rows: fields,
})}
<p class="small"><a href="${addressOf('/dictionary', { stream })}">What its records show</a> · <a href="/upstream/contract">All streams</a></p></section>`

const fieldColumns: readonly Column<DescribedField>[] = [
  { title: 'Field', cell: ({ name }) => html`<code>${foreign(name, 100)}</code>` },
  { title: 'What it is', cell: (field) => foreign(saidOf(field), 300) },
  { title: 'What it means', cell: ({ describe }) => (describe === null ? null : foreign(describe, 400)) },
]

const differencesCard = (differences: readonly Difference[]): Html =>
  html`<section class="card c6" aria-labelledby="differences"><h2 id="differences">Where records differ from it</h2>${
    differences.length === 0
      ? html`<p>All records match the description.</p>`
      : plainTable({
          caption:
            differences.length > mostDifferences
              ? `The first ${mostDifferences} of ${count(differences.length)}`
              : `${plural(differences.length, 'difference')}; fields that had no value so far are not counted`,
          columns: differenceColumns,
          rows: differences.slice(0, mostDifferences),
        })
  }</section>`

const differenceColumns: readonly Column<Difference>[] = [
  {
    title: 'Field',
    isWord: true,
    cell: ({ stream, field }) =>
      html`<code>${foreign(field, 100)}</code><br><span class="small quiet">${stream}</span>`,
  },
  { title: 'Difference', cell: (one) => foreign(differenceInWords(one), 300) },
]

/** Lists that no stream mirrors, each with the setting that would add it. */
function listsCard(lists: readonly ListOffered[]): Html | null {
  const others = lists.filter(({ stream }) => stream === null)
  if (others.length === 0) return null
  return html`<section class="card" aria-labelledby="lists"><h2 id="lists">Lists that are not mirrored</h2>${plainTable(
    {
      caption: html`To mirror one, add it to <code>STREAMS</code>; <code>tidemark contract streams</code> says how many records each has`,
      columns: listColumns,
      rows: others,
    },
  )}</section>`
}

const listColumns: readonly Column<ListOffered>[] = [
  { title: 'List', cell: ({ path }) => html`<code>${foreign(path, 200)}</code>` },
  { title: 'Its records are', cell: ({ type }) => foreign(type, 100) },
  { title: 'Read by', cell: ({ hasChanges }) => (hasChanges ? 'changes' : 'whole list') },
  {
    title: 'Setting',
    cell: ({ setting }) => (setting === null ? '' : html`<code>STREAMS=…,${foreign(setting, 200)}</code>`),
  },
]

const history = ({ changes, descriptions }: DescriptionShown, now: Date): Html | null =>
  descriptions.length === 0
    ? null
    : html`<section class="card" aria-labelledby="history"><h2 id="history">What changed</h2>${
        changes.length === 0
          ? html`<p>The description has not changed so far.</p>`
          : html`<ol class="story">${changes.map(
              (one) =>
                html`<li><span>${one.stream !== null && html`<b>${one.stream}</b> `}${foreign(changeText(one), 300)}</span><span class="small quiet">${clock(one.foundAt, now)}</span></li>`,
            )}</ol>`
      }</section>`
