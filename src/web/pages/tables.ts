// A table with a caption and headers. On a narrow screen each row becomes a block, with the header of each value before it; the roles
// are written out because browsers forget them then.

import { type Html, html } from '../html.ts'
import { rangeControl, type TimeRange } from '../time-range.ts'

export type Column<Row> = {
  readonly title: string
  readonly isNumber?: boolean
  /** Mostly one word, which is not to be broken. */
  readonly isWord?: boolean
  /** On a narrow screen it takes the whole width. */
  readonly isWide?: boolean
  readonly isLeftOut?: boolean
  readonly cell: (row: Row) => Html | string | number | null
}

type Table<Row> = {
  readonly caption: Html | string
  /** The first column names the row. */
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** For a table that may be wider than its frame: its name for people who scroll it with the keyboard. */
  readonly scrolls?: string
}

/** `empty`: instead of a table without rows. */
export const table = <Row>({ empty, ...shown }: Table<Row> & { readonly empty: string }): Html =>
  html`<section class="card">${shown.rows.length === 0 ? html`<p>${empty}</p>` : plainTable(shown)}</section>`

/** Without a frame of its own. */
export function plainTable<Row>({ caption, columns: all, rows, scrolls }: Table<Row>): Html {
  const columns = all.filter(({ isLeftOut }) => !isLeftOut)
  const number = ({ isNumber, isWord, isWide }: Column<Row>) =>
    isNumber ? html` class="num"` : isWord ? html` class="word"` : isWide && html` class="wide"`
  const frame =
    scrolls === undefined ? html`tabindex="-1"` : html`tabindex="0" role="region" aria-label="${scrolls}"`
  return html`<div class="scroll" ${frame}><table role="table" class="stack"><caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">${columns.map(
    (column) => html`<th scope="col" role="columnheader"${number(column)}>${column.title}</th>`,
  )}</tr></thead>
<tbody role="rowgroup">${rows.map(
    (row) =>
      html`<tr role="row">${columns.map((column, index) =>
        index === 0
          ? html`<th scope="row" role="rowheader" class="wide${column.isWord && ' name'}">${column.cell(row)}</th>`
          : html`<td role="cell" data-l="${column.title}"${number(column)}>${column.cell(row)}</td>`,
      )}</tr>`,
  )}</tbody></table></div>`
}

// Forms that ask for a part of a list, by GET: the address says what is shown. What an address holds is checked before it is used.
/** One of the values that there are, or null for all. */
export function chosen(query: URLSearchParams, name: string, values: readonly string[]): string | null {
  const value = query.get(name)
  return value !== null && values.includes(value) ? value : null
}

export const select = (
  label: string,
  name: string,
  values: readonly string[],
  value: string | null,
  inWords: (value: string) => string = (one) => one,
): Html =>
  html`<label>${label} <select name="${name}"><option value="">all</option>${values.map(
    (one) => html`<option value="${one}"${one === value && html` selected`}>${inWords(one)}</option>`,
  )}</select></label>`

/** What a list or chart is narrowed to. `time`: with the span of time, and what else the address says. */
export const filterForm = (
  path: string,
  fields: readonly Html[],
  time?: {
    readonly range: TimeRange
    readonly kept?: Kept
    readonly usual?: Parameters<typeof rangeControl>[1]
  },
): Html =>
  html`<form class="card" method="get" action="${path}">${fields.length > 0 && html`<div class="bar">${fields} <button class="go">Show</button></div>`}${time && rangeControl(time.range, time.usual ?? null, (kept) => addressOf(path, { ...time.kept, ...kept }))}</form>`

type Kept = Readonly<Record<string, string | null>>
type Part<Row> = { readonly rows: readonly Row[]; readonly next: string | null }

/** A part of a list of rows that have ids: the one after the id that the address names. */
export const byId =
  <Row extends { readonly id: string }>(
    most: number,
    read: (next: string | null, limit: number) => Promise<readonly Row[]>,
  ) =>
  async (next: string | null): Promise<Part<Row>> => {
    // One more tells whether there is another part.
    const found = await read(next !== null && /^\d{1,18}$/.test(next) ? next : null, most + 1)
    const rows = found.slice(0, most)
    return { rows, next: found.length > most ? (rows.at(-1)?.id ?? null) : null }
  }

/** A part of a long list, with the ways to its beginning and to the next part. The address says where the part begins. */
export async function listPart<Row>(given: {
  readonly path: string
  readonly query: URLSearchParams
  /** What else the address says. */
  readonly kept: Kept
  /** The parameter that says where the part begins. */
  readonly beginsAt?: 'before' | 'after'
  readonly names: { readonly list: string; readonly first: string; readonly next: string }
  /** What it is given comes from the address. */
  read(next: string | null): Promise<Part<Row>>
  readonly caption: string
  readonly columns: readonly Column<Row>[]
  readonly empty: string
  /** Beside the ways. */
  readonly more?: Html | false
}): Promise<Html> {
  const { path, query, kept, beginsAt = 'before', names, caption, columns, empty } = given
  const begin = query.get(beginsAt) || null
  const { rows, next } = await given.read(begin)
  // There are others, which the address passes over.
  const isBehindEnd = begin !== null && next === null
  const none = isBehindEnd ? `There are no ${names.next.toLowerCase()} ${names.list}.` : empty
  return html`${table({ caption, columns, rows, empty: none })}
<nav class="pages" aria-label="More ${names.list}">
${begin !== null && html`<a class="btn" href="${addressOf(path, kept)}">${names.first}</a>`}
${next !== null && html`<a class="btn" rel="next" href="${addressOf(path, { ...kept, [beginsAt]: next })}">${names.next}</a>`}
${given.more}
</nav>`
}

/** A path with what of the parameters is there. */
export function addressOf(path: string, parameters: Readonly<Record<string, string | null>>): string {
  const there = Object.entries(parameters).filter((one): one is [string, string] => Boolean(one[1]))
  return there.length === 0 ? path : `${path}?${new URLSearchParams(there)}`
}
