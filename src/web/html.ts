// HTML as a tagged template. Whatever is put into it is text and is escaped; only templates put into templates stay markup. There
// is no way around it, because names and records of the upstream end up in these pages.

import { plural, shortSpan } from '../util/text.ts'

const markup = Symbol('markup')

/** Markup. Data cannot forge it, because no JSON makes a symbol. */
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
  // Parsers of HTML drop or replace NUL.
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

/** A row version, which may have more digits than a number keeps (P4). */
export const wholeVersion = (version: string): string => BigInt(version).toLocaleString('en')

/** A kind of run as people read it. */
export const kindInWords = (kind: string): string => (kind === 'lookback' ? 'look-back' : kind)

/** To the second, in UTC and saying so. */
export const stamp = (moment: Date): string => formOf(moment, 'stamp')

// Times are UTC. The script puts the reader's own time beside it, and in its place for whoever wants that: it finds times by `datetime`
// or `data-at`, how they are written by `data-form`, and the word for the zone by `data-zone`.

/** Where a page says of which zone its times are. */
export const zone: Html = html`<span data-zone>UTC</span>`

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const dayOf = (iso: string): string =>
  `${Number(iso.slice(8, 10))} ${months[Number(iso.slice(5, 7)) - 1] ?? ''}`
const forms = {
  stamp: (iso: string) => `${iso.slice(0, 19).replace('T', ' ')} UTC`,
  second: (iso: string) => iso.slice(11, 19),
  minute: (iso: string) => iso.slice(11, 16),
  moment: (iso: string) => `${dayOf(iso)} ${iso.slice(11, 16)}`,
  year: (iso: string) => `${dayOf(iso)} ${iso.slice(0, 4)} ${iso.slice(11, 16)}`,
  day: dayOf,
} as const
type Form = keyof typeof forms

export const formOf = (moment: Date, form: Form): string => forms[form](moment.toISOString())

/** A time in one of these forms; the tooltip has it whole. */
export const short = (moment: Date, form: Form): Html =>
  html`<time datetime="${moment.toISOString()}" title="${stamp(moment)}" data-form="${form}">${formOf(moment, form)}</time>`

export const time = (moment: Date): Html =>
  html`<time datetime="${moment.toISOString()}" data-form="stamp">${stamp(moment)}</time>`

/** `14:02:31` of today, `21 Nov 16:02` of another day: UTC, as the pages say once. */
export function clock(moment: Date, now: Date): Html {
  const [iso, today] = [moment.toISOString(), now.toISOString()]
  const isToday = iso.slice(0, 10) === today.slice(0, 10)
  return short(moment, isToday ? 'second' : iso.slice(0, 4) === today.slice(0, 4) ? 'moment' : 'year')
}

/** How long ago a moment was, in words; the tooltip has the exact moment. */
export const age = (moment: Date, now: Date): Html =>
  html`<time datetime="${moment.toISOString()}" title="${stamp(moment)}" data-age="words">${momentInWords(moment, now)}</time>`

/** When something is next done: what is due is done now. */
export const until = (moment: Date, now: Date): Html =>
  html`<time datetime="${moment.toISOString()}" title="${stamp(moment)}" data-age="next">${moment <= now ? 'now' : momentInWords(moment, now)}</time>`

/** An age as short as a table needs it, without `ago`. The script lets all of these go on. */
export const span = (moment: Date, now: Date): Html =>
  html`<time datetime="${moment.toISOString()}" data-age="span">${shortSpan(now.getTime() - moment.getTime())}</time>`

/** Text of the upstream, cut to a length and kept from changing the direction of what stands around it. */
export function foreign(text: string, most = 200): Html {
  if (text === '') return html`<span class="quiet">(empty)</span>`
  const characters = [...text.slice(0, 2 * most + 2)]
  return html`<bdi>${characters.length > most ? `${characters.slice(0, most).join('')}…` : text}</bdi>`
}

// A state: a word, a shape and a colour. The shape and the colour come from the style.
export type Tone = 'ok' | 'warn' | 'bad' | 'idle' | 'todo' | 'busy'

export const state = (tone: Tone, words: Html | string): Html =>
  html`<span class="st ${tone}">${words}</span>`

const toneOfRun: Readonly<Record<string, Tone>> = {
  done: 'ok',
  failed: 'bad',
  running: 'busy',
  inconclusive: 'warn',
  waiting: 'todo',
  cancelled: 'idle',
}

/** How a run or a backfill stands. */
export const runState = (status: string): Html => state(toneOfRun[status] ?? 'idle', status)

/** A number of a list of facts, and below it what it means. */
export const fact = (title: string, value: Html | string | null, meaning?: string): Html =>
  html`<div><dt>${title}</dt><dd>${value}${meaning && html`<small>${meaning}</small>`}</dd></div>`

/** Shown by the script alone. Copies an address of this console, or the text of the element with an id. */
export const copyButton = (
  words: string,
  what: { readonly address: string } | { readonly from: string },
): Html =>
  'address' in what
    ? html`<button type="button" data-copy="${what.address}" aria-live="polite" hidden>${words}</button>`
    : html`<button type="button" data-copy-from="${what.from}" aria-live="polite" hidden>${words}</button>`
