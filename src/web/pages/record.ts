// `/records/:stream/:key`: one row: what it holds, why it is as it is, and, once somebody asked, what the upstream says of it now.

import { type Json, ownValue } from '../../json/json.ts'
import {
  type Answer,
  answerInWords,
  deletedBecause,
  eventsOf,
  forgottenInWords,
  type Part,
  settledInWords,
} from '../../operator/row-story.ts'
import type { UpstreamSays } from '../../operator/upstream-record.ts'
import { tableName, viewName } from '../../streams/names.ts'
import { capitalized, plural, shortSpan } from '../../util/text.ts'
import { actionForm } from '../action-forms.ts'
import { withPlaces } from '../command-places.ts'
import { clock, copyButton, foreign, type Html, html, kindInWords, zone } from '../html.ts'
import { type RecordShown, summaryColumns } from '../row-queries.ts'
import { fieldChange } from './changes.ts'
import { heading, type Page, type PageContext, type Shown } from './layout.ts'
import { recordAddress } from './rows.ts'
import { noSuchStream } from './stream-frame.ts'
import { addressOf } from './tables.ts'

export const recordPage: Page = {
  path: '/records/:stream/:key',
  place: '/find',
  title: 'Record',
  body: (context) => recordShown(context, null),
}

export async function recordShown(context: PageContext, compared: Compared): Promise<Shown> {
  const { stream = '', key = '' } = context.params
  const record = await context.statusQueries.record(stream, key)
  if (record === null)
    return noSuchStream((await context.statusQueries.snapshot()).streams.map((one) => one.stream))
  // Related records have no page of their own.
  const isStream = context.statusQueries.streams.includes(stream)
  if (record.row === null && compared === null && isUnknown(record))
    return {
      title: `${stream} has no such row`,
      heading: heading({
        title: `${stream} has no such row`,
        crumbs: [['/', 'Streams']],
        bar: compareBar(context, record, stream, key),
      }),
      body: html`<section class="card"><p>The mirror holds no row with the key ${foreign(key, 100)}, and nothing was noted about it. ${isStream ? html`<a href="${addressOf(`/streams/${stream}/rows`, { q: key })}">Search the rows</a>, or ask` : 'Ask'} the upstream: ${record.canCompare && context.viewer.canAct ? html`<i>Compare with upstream now</i>, above` : html`<code>tidemark explain ${stream} ${foreign(inShell(key), 100)}</code>`}</p></section>`,
      status: 404,
    }
  return {
    title: `${stream} ${key}`,
    heading: heading({
      title: html`${stream} ${foreign(key, 100)}`,
      crumbs: [
        ['/', 'Streams'],
        ...(isStream ? crumbsOf(stream) : [[addressOf('/dictionary', { stream }), stream] as const]),
      ],
      lead: leadOf(record),
      bar: html`${compareBar(context, record, stream, key)}${copyButton('Copy link', { address: recordAddress(stream, key) })}`,
    }),
    body: html`${verdict(record, compared, context.now)}
<div class="cols">${story(record, context.now)}${recordValues(record, compared, { address: recordAddress(stream, key), wanted: context.query.get('fields') ?? '' })}</div>
${record.events.related.length > 0 && belongsTo(record.events)}
<section class="card" aria-labelledby="terminal"><h2 id="terminal">The same in the terminal</h2><pre class="term" tabindex="0">tidemark explain ${stream} ${inShell(key)}</pre></section>`,
    status: record.row === null && compared === null ? 404 : 200,
  }
}

const crumbsOf = (stream: string) =>
  [
    [`/streams/${stream}`, stream],
    [`/streams/${stream}/rows`, 'Rows'],
  ] as const

/** As one word of a command. */
const inShell = (key: string): string => (/^[\w.:-]+$/.test(key) ? key : `'${key.replaceAll("'", "'\\''")}'`)

const isUnknown = ({ notes, events, changes }: RecordShown): boolean =>
  notes.lateArrivals.length +
    notes.missedRows.length +
    events.differences.length +
    events.quarantine.length +
    changes.length ===
    0 && notes.missingSince === null

function compareBar(
  { viewer }: PageContext,
  { canCompare }: RecordShown,
  stream: string,
  key: string,
): Html | null {
  if (!canCompare) return null
  return (
    actionForm(
      viewer,
      `${recordAddress(stream, key)}/compare`,
      html`<button class="go">Compare with upstream now</button>`,
    ) ?? html`<button disabled>Compare with upstream now</button>`
  )
}

function leadOf({ row }: RecordShown): Html | null {
  const fields = row && Object.entries(row.values)
  const names = summaryColumns(fields?.map(([name]) => name) ?? [])
  const texts = names
    .map((name) => row && ownValue(row.values, name))
    .filter((one) => typeof one === 'string' && one !== '')
  return texts.length === 0
    ? null
    : html`${texts.slice(0, 3).map((one, index) => html`${index > 0 && ' · '}${foreign(String(one), 60)}`)}`
}

// ── does it agree ────────────────────────────────────────────────────────────────────────────────────────────

function verdict(story: RecordShown, compared: Compared, now: Date): Html {
  const { row, settledAt, stream } = story
  if (compared !== null) return answer(answerInWords(compared.upstream, row, stream.name), compared.at, now)
  if (row === null)
    return html`<div class="note warn"><b>The mirror holds no such row.</b> Below is what was recorded about its key.</div>`
  if (row.deletedAt !== null)
    return html`<div class="note warn"><b>Deleted.</b> ${deletedBecause(row)}, noticed at ${clock(row.deletedAt, now)} ${zone}. The row is no longer in <code>${viewName(stream.name)}</code>, and stays in <code>${tableName(stream.name)}</code>.</div>`
  return html`<div class="note"><b>It last changed ${shortSpan(now.getTime() - row.syncedAt.getTime())} ago.</b> ${settledInWords(row, settledAt)}</div>`
}

const answer = ({ tone, says, next }: Answer, at: Date, now: Date): Html =>
  html`<div class="note ${tone}" role="status"><b>${foreign(capitalized(says), 500)}.</b> ${next && withPlaces(next)} Asked at ${clock(at, now)} ${zone}, with one request.</div>`

// ── why it is as it is ───────────────────────────────────────────────────────────────────────────────────────

function story(record: RecordShown, now: Date): Html {
  const forgotten = forgottenInWords(record)
  const lines = eventsOf(record).map(
    ({ at, tone, title, parts }) =>
      html`<li${tone !== '' && html` class="${tone}"`}><b>${title}</b>${parts.length > 0 && html`<span>${parts.map(shown)}</span>`}<span class="small quiet">${clock(at, now)}</span></li>`,
  )
  return html`<section class="card c5" aria-labelledby="why"><h2 id="why">Why is this row like this?</h2><ol class="story">${lines}</ol>${forgotten && html`<p class="small quiet">${forgotten}</p>`}</section>`
}

function shown(part: Part): Html | string {
  if (typeof part === 'string') return part
  if ('run' in part)
    return html`<a href="/runs/${part.run}">${part.kind && `${kindInWords(part.kind)} `}run ${part.run}</a>`
  if ('columns' in part) return html`<code>${part.columns}</code>`
  if ('said' in part) return foreign(part.said, 300)
  if ('entry' in part)
    return html`<a href="/quarantine?after=${String(Number(part.entry) - 1)}">entry ${part.entry}</a>`
  return fieldChange(part.change)
}

const belongsTo = ({ related }: RecordShown['events']): Html =>
  html`<section class="card" aria-labelledby="related"><h2 id="related">Belongs to it</h2><ul class="key">${related.map(
    ({ stream, key }) =>
      html`<li><a href="${recordAddress(stream, key)}">${stream} ${foreign(key, 60)}</a></li>`,
  )}</ul></section>`

// ── what it holds ────────────────────────────────────────────────────────────────────────────────────────────

// The values of one row, and beside them those of the upstream once somebody has asked for them. Fields can be filtered by name and value,
// and those without a value are folded away.
/** What the upstream said, and when it was asked; null: nobody asked. */
export type Compared = { readonly upstream: UpstreamSays; readonly at: Date } | null

const longestValue = 400
const own = new Set(['_first_seen_at', '_synced_at', '_deleted_at', '_deleted_reason', '_hash', '_xid'])

/** The filter for fields: the address of the page, and the text that is wanted. */
type Filter = { readonly address: string; readonly wanted: string }

function recordValues({ row, fieldOf }: RecordShown, compared: Compared, filter: Filter): Html {
  const there = compared?.upstream.says === 'found' ? compared.upstream : null
  const names = row === null ? [] : inTableOrder(row.values, fieldOf)
  const title = there === null ? 'Values' : 'Values, here and upstream'
  if (names.length === 0 && there === null)
    return html`<section class="card c7"><h2>${title}</h2><p>There is no row.</p></section>`
  const lines = valueLines({ row, fieldOf }, there, names)
  const shown = lines.filter((line) => isWanted(line, filter.wanted))
  // Most records have no value in half of their columns. These are folded away, unless the filter asks for one.
  const isEmpty = ({ here, there: other }: ValueLine) =>
    filter.wanted === '' && here === null && (other === null || other.isSame)
  const [empty, full] = [shown.filter(isEmpty), shown.filter((line) => !isEmpty(line))]
  return html`<section class="card c7" aria-labelledby="values" data-filtered><div class="bar spread"><h2 id="values">${title}</h2>
<form class="act" role="search" aria-label="Fields" method="get" action="${filter.address}"><label class="hidden" for="fields">Filter the fields by name or value</label><input id="fields" name="fields" type="search" placeholder="Filter ${plural(lines.length, 'field')}" value="${filter.wanted}" maxlength="100" autocomplete="off"><button data-no-script>Filter</button></form></div>
<p class="quiet" role="status" data-filtered-out${shown.length > 0 && html` hidden`}>No field has that in its name or value. <a href="${filter.address}">Show all</a></p>
${full.length > 0 && valueTable(full, title, there !== null)}
${empty.length > 0 && html`<details><summary>${plural(empty.length, 'field')} without a value</summary>${valueTable(empty, 'Fields without a value', there !== null)}</details>`}
${row && html`<details><summary>The row as JSON</summary><pre tabindex="0">${row.text}</pre></details>`}</section>`
}

type ValueLine = {
  readonly name: string
  readonly here: Json
  /** Null: nobody asked. */
  readonly there: { readonly isSame: boolean; readonly value: Json | undefined } | null
}

function valueLines(
  { row, fieldOf }: Pick<RecordShown, 'row' | 'fieldOf'>,
  there: Extract<UpstreamSays, { says: 'found' }> | null,
  names: readonly string[],
): readonly ValueLine[] {
  const differing = new Set(there?.difference?.columns)
  const record = new Map(
    Object.entries(there?.record ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
  )
  if (names.length === 0)
    return [...record].map(([name, value]) => ({ name, here: null, there: { isSame: false, value } }))
  return names.map((name) => ({
    name,
    here: (row && ownValue(row.values, name)) ?? null,
    there: there && {
      isSame: !differing.has(name),
      value: record.get((ownValue(fieldOf, name) ?? name).toLowerCase()),
    },
  }))
}

const textOf = (value: Json): string => (typeof value === 'string' ? value : JSON.stringify(value))

const isWanted = ({ name, here }: ValueLine, wanted: string): boolean =>
  `${name} ${textOf(here)}`.toLowerCase().includes(wanted.toLowerCase())

const valueTable = (lines: readonly ValueLine[], title: string, isCompared: boolean): Html =>
  html`<div class="scroll" tabindex="-1"><table role="table" class="stack"><caption class="hidden">${title}</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Column</th><th role="columnheader" scope="col">Here</th>${isCompared && html`<th role="columnheader" scope="col">Upstream</th>`}</tr></thead>
<tbody role="rowgroup">${lines.map((line) => valueRow(line, isCompared))}</tbody></table></div>`

const inTableOrder = (
  values: Readonly<Record<string, Json>>,
  fieldOf: Readonly<Record<string, string>>,
): readonly string[] =>
  [...new Set([...Object.keys(fieldOf), ...Object.keys(values)])].filter(
    (name) =>
      Object.hasOwn(values, name) && !own.has(name) && !(name === '_rescued' && values[name] === null),
  )

const valueRow = ({ name, here, there }: ValueLine, isCompared: boolean): Html =>
  html`<tr role="row"><th role="rowheader" scope="row" class="name${isCompared && ' wide'}"><code>${foreign(name, 80)}</code></th><td role="cell"${isCompared && html` data-l="Here"`} class="value">${valueShown(here)}</td>${
    there &&
    html`<td role="cell" data-l="Upstream" class="value">${there.isSame ? html`<span class="quiet nowrap">the same</span>` : there.value === undefined ? html`<mark>not there</mark>` : html`<mark>${valueShown(there.value)}</mark>`}</td>`
  }</tr>`

const valueShown = (value: Json): Html =>
  value === null ? html`<span class="quiet">null</span>` : foreign(textOf(value), longestValue)
