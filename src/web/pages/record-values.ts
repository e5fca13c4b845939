// The values of one row, and beside them those of the upstream once somebody has asked for them. Fields can be filtered by name and value,
// and those without a value are folded away.

import { type Json, ownValue } from '../../json/json.ts'
import type { UpstreamSays } from '../../operator/upstream-record.ts'
import { plural } from '../../util/text.ts'
import { foreign, type Html, html } from '../html.ts'
import type { RecordShown } from '../row-queries.ts'

/** What the upstream said, and when it was asked; null: nobody asked. */
export type Compared = { readonly upstream: UpstreamSays; readonly at: Date } | null

const longestValue = 400
const own = new Set(['_first_seen_at', '_synced_at', '_deleted_at', '_deleted_reason', '_hash', '_xid'])

/** The filter for fields: the address of the page, and the text that is wanted. */
type Filter = { readonly address: string; readonly wanted: string }

export function recordValues({ row, fieldOf }: RecordShown, compared: Compared, filter: Filter): Html {
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
  html`<tr role="row"><th role="rowheader" scope="row" class="name${isCompared && ' wide'}"><code>${foreign(name, 80)}</code></th><td role="cell"${isCompared && html` data-l="Here"`} class="value">${shown(here)}</td>${
    there &&
    html`<td role="cell" data-l="Upstream" class="value">${there.isSame ? html`<span class="quiet nowrap">the same</span>` : there.value === undefined ? html`<mark>not there</mark>` : html`<mark>${shown(there.value)}</mark>`}</td>`
  }</tr>`

function shown(value: Json): Html {
  if (value === null) return html`<span class="quiet">null</span>`
  return foreign(textOf(value), longestValue)
}
