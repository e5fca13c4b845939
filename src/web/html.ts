// HTML as a tagged template. Whatever is put into it is text and is escaped; only templates put into templates stay markup. There
// is no way around it, because names and records of the upstream end up in these pages.

import { plural } from '../util/text.ts'

const markup = Symbol('markup')

/** Data cannot forge one: no JSON makes a symbol. */
export type Html = { readonly [markup]: string }
type Part = Html | string | number | bigint | false | null | undefined | readonly Part[]

/** Attributes must be quoted; `false`, `null` and `undefined` are nothing. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { [markup]: strings.reduce((text, string, index) => text + render(parts[index - 1]) + string) }
}

export const markupOf = (template: Html): string => template[markup]

function render(part: Part): string {
  if (part === null || part === undefined || part === false) return ''
  if (typeof part !== 'object') return escapeText(String(part))
  return markup in part ? part[markup] : part.map(render).join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  // The parser would drop or replace it.
  '\0': '\ufffd',
}

const escapeText = (text: string): string => text.replaceAll(/[&<>"'\0]/g, (one) => entities[one] ?? one)

// Ages, moments and numbers in plain words, as the pages show them. Pure.
const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

/** `3 seconds`, `2 minutes`, `1 day`: the largest unit, cut. */
export function spanInWords(ms: number): string {
  const [unit, unitMs] = units.find(([, size]) => ms >= size) ?? ['second', 1_000]
  return plural(Math.max(0, Math.floor(ms / unitMs)), unit)
}

export const ageInWords = (ms: number): string => (ms < 1_000 ? 'just now' : `${spanInWords(ms)} ago`)

/** A moment that may lie on either side of now. */
export function momentInWords(moment: Date, now: Date): string {
  const aheadMs = moment.getTime() - now.getTime()
  if (aheadMs <= 0) return ageInWords(-aheadMs)
  return aheadMs < 1_000 ? 'any moment' : `in ${spanInWords(aheadMs)}`
}

export const count = (amount: number): string => Math.round(amount).toLocaleString('en')

/** A kind of run as people read it. */
export const kindInWords = (kind: string): string => (kind === 'lookback' ? 'look-back' : kind)

/** To the second, in UTC and saying so. */
export const stamp = (moment: Date): string => `${moment.toISOString().slice(0, 19).replace('T', ' ')} UTC`

export const time = (moment: Date): Html =>
  html`<time datetime="${moment.toISOString()}">${stamp(moment)}</time>`

/** In words, with the exact moment at hand. */
export const age = (moment: Date, now: Date): Html =>
  html`<time datetime="${moment.toISOString()}" title="${stamp(moment)}">${momentInWords(moment, now)}</time>`

/** Text of the upstream, cut to a length and kept from changing the direction of what stands around it. */
export function foreign(text: string, most = 200): Html {
  if (text === '') return html`<span class="quiet">(empty)</span>`
  const characters = [...text.slice(0, 2 * most + 2)]
  return html`<bdi>${characters.length > most ? `${characters.slice(0, most).join('')}…` : text}</bdi>`
}
