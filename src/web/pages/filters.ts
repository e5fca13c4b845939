// Forms that ask for a part of a list, by GET: the address says what is shown. What an address holds is checked before it is used.

import { type Html, html } from '../html.ts'

/** One of the values that there are, or null for all. */
export function chosen(query: URLSearchParams, name: string, values: readonly string[]): string | null {
  const value = query.get(name)
  return value !== null && values.includes(value) ? value : null
}

/** An id, or null. */
export function idIn(query: URLSearchParams, name: string): string | null {
  const value = query.get(name) ?? ''
  return /^\d{1,18}$/.test(value) ? value : null
}

export const select = (label: string, name: string, values: readonly string[], value: string | null): Html =>
  html`<label>${label} <select name="${name}"><option value="">all</option>${values.map(
    (one) => html`<option${one === value && html` selected`}>${one}</option>`,
  )}</select></label>`

export const filterForm = (path: string, fields: readonly Html[]): Html =>
  html`<form class="filter" method="get" action="${path}">${fields} <button>Show</button></form>`

/** A path with what of the parameters is there. */
export function addressOf(path: string, parameters: Readonly<Record<string, string | null>>): string {
  const there = Object.entries(parameters).filter((one): one is [string, string] => Boolean(one[1]))
  return there.length === 0 ? path : `${path}?${new URLSearchParams(there)}`
}
