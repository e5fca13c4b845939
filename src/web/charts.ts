// Charts as SVG from the server: they need no script, print, and say in a sentence what they show. Text is never scaled: positions are
// in percent, heights in pixels.

import { shortSpan } from '../util/text.ts'
import { type Html, html, span } from './html.ts'

/** A line of a key: what a colour stands for. */
export const swatch = (className: string, words: string): Html =>
  html`<li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="${className}" width="12" height="12" rx="2"/></svg>${words}</li>`

// The tide gauge: how old each kind of knowledge is, from two days on the left to now on the right, by the logarithm of the age.
export type TideAges = {
  /** Milliseconds; null: not known yet. */
  readonly read: number | null
  readonly settled: number | null
  readonly deletions: number | null
}

const shortestMs = 1_000
const longestMs = 2 * 86_400_000
const leftEdge = 3
const rightEdge = 97
const gaugeTicks = [
  [1_000, 'now'],
  [10_000, '10 s'],
  [60_000, '1 min'],
  [600_000, '10 min'],
  [3_600_000, '1 h'],
  [86_400_000, '1 day'],
] as const

/** Where an age lies, in percent of the width. */
function tidePlace(ageMs: number): number {
  const bounded = Math.min(longestMs, Math.max(shortestMs, ageMs))
  const share = Math.log(bounded / shortestMs) / Math.log(longestMs / shortestMs)
  return rightEdge - share * (rightEdge - leftEdge)
}

export const percent = (value: number): string => `${value.toFixed(2)}%`

export const tideAxis: Html = html`<svg class="plot" height="14" aria-hidden="true">${gaugeTicks.map(
  ([ms, words]) => html`<text class="mid" x="${percent(tidePlace(ms))}" y="11">${words}</text>`,
)}</svg>`

export const tideKey: Html = html`<ul class="key"><li><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="f-read" cx="6" cy="6" r="5.5"/></svg>read through</li><li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="f-settled" x="1" y="1" width="10" height="10"/></svg>settled through</li><li><svg viewBox="0 0 12 12" aria-hidden="true"><rect class="f-gone" x="4" y="0" width="4" height="12"/></svg>deletions known through</li></ul>`

/** For whoever wonders what the gauge tells apart. */
export const timesMeaning: Html = html`<details><summary>What do these times mean?</summary><dl class="pairs small"><dt><b>Read through</b></dt><dd>Every change that the upstream showed at that time is here, or in the quarantine if it cannot be a row. A whole list was read at that time.</dd><dt><b>Settled through</b></dt><dd>Changes that became visible late are here as well, and a comparison with the whole list found nothing else. Use it as “data as of” in reports.</dd><dt><b>Deletions known through</b></dt><dd>Every row that was deleted upstream before that time is marked. Rows deleted later can still be counted.</dd></dl></details>`

export function tideGauge(ages: TideAges): Html {
  const { read, settled, deletions } = ages
  const oldest = Math.max(...[read, settled, deletions].map((one) => one ?? longestMs))
  return html`<svg class="plot" height="28" role="img" aria-label="${tideSentence(ages)}">${[
    1_000, 60_000, 3_600_000, 86_400_000,
  ].map(
    (ms) =>
      html`<line class="grid" x1="${percent(tidePlace(ms))}" x2="${percent(tidePlace(ms))}" y1="2" y2="26"/>`,
  )}<rect class="f-soft" x="${percent(leftEdge)}" width="${percent(Math.max(0, tidePlace(oldest) - leftEdge))}" y="11" height="6" rx="1"/>${
    deletions !== null &&
    html`<rect class="f-gone" x="${percent(tidePlace(deletions))}" y="5" width="4" height="18" rx="1"><title>Deletions known through</title></rect>`
  }${
    settled !== null &&
    html`<rect class="f-settled" x="${percent(tidePlace(settled))}" y="8.5" width="11" height="11" transform="translate(-5 0)"><title>Settled through</title></rect>`
  }${read !== null && html`<circle class="f-read" cx="${percent(tidePlace(read))}" cy="14" r="6"><title>Read through</title></circle>`}</svg>`
}

/** The same without the picture. `settles`: when, where it is not settled yet. */
export function tideWords(
  { read, settled, deletions }: TideAges,
  now: Date,
  settles: string | null = null,
): Html {
  const words = (ms: number | null, otherwise: string) =>
    ms === null ? otherwise : span(new Date(now.getTime() - ms), now)
  if (read === null) return html`not read through yet`
  if (settled !== null && read === settled && read === deletions) return html`all ${words(read, '')} ago`
  const later = settles === null ? 'not yet' : `not yet: ${settles}`
  return html`read ${words(read, '')} · settled ${words(settled, later)} · deletions ${words(deletions, 'not yet')}`
}

function tideSentence({ read, settled, deletions }: TideAges): string {
  const ago = (ms: number | null) => (ms === null ? 'not yet' : `${shortSpan(ms)} ago`)
  return `Read through ${ago(read)}, settled through ${ago(settled)}, deletions known through ${ago(deletions)}`
}

// Bars that add up to what their legend says: one a bucket, the last one at the right.
export function bars(
  values: readonly number[],
  options: { readonly height: number; readonly label: string },
): Html {
  const { height, label } = options
  const most = Math.max(1, ...values)
  const step = 100 / Math.max(1, values.length)
  return html`<svg class="plot" height="${height}" role="img" aria-label="${label}">${values.map(
    (value, index) => {
      if (value <= 0) return null
      const tall = Math.max(1.5, (value / most) * (height - 1))
      return html`<rect class="f-read" x="${percent(index * step + step * 0.12)}" width="${percent(step * 0.76)}" y="${(height - tall).toFixed(1)}" height="${tall.toFixed(1)}"/>`
    },
  )}<line class="grid" x1="0" x2="100%" y1="${height - 0.5}" y2="${height - 0.5}"/></svg>`
}
