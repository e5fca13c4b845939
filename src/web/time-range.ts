// The span of time that a page shows: the last hour, day, week or month, or from one moment to another. One control for all pages; the
// address says what was chosen.

import { type Html, html, stamp } from './html.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const lengths = {
  hour: { ms: hourMs, words: 'last hour' },
  day: { ms: dayMs, words: 'last 24 h' },
  week: { ms: 7 * dayMs, words: 'last 7 days' },
  month: { ms: 30 * dayMs, words: 'last 30 days' },
} as const
type Length = keyof typeof lengths
const isLength = (name: string | null): name is Length => name !== null && Object.hasOwn(lengths, name)

export type TimeRange = {
  /** Null: since the beginning. */
  readonly from: Date | null
  /** The first moment that is no longer in it; null: until now. */
  readonly to: Date | null
  readonly words: string
  /** What an address says to get the same. */
  readonly kept: Readonly<Record<'range' | 'from' | 'to', string | null>>
  /** What is wrong with the address; null: nothing. */
  readonly problem: string | null
}

/** Two moments go before a length. `usual`: what holds where the address says nothing; null: any time. */
export function rangeIn(query: URLSearchParams, now: Date, usual: Length | null): TimeRange {
  const [from, to] = [query.get('from') || null, query.get('to') || null]
  if (from !== null || to !== null) return between(from, to)
  const asked = query.get('range') || null
  const problem =
    asked === null || isLength(asked) ? null : `“${asked}” is no span of time. Choose one of those above.`
  const chosen = isLength(asked) ? asked : usual
  const kept = { range: isLength(asked) ? asked : null, from: null, to: null }
  if (chosen === null) return { from: null, to: null, words: 'any time', kept, problem }
  const { ms, words } = lengths[chosen]
  return { from: new Date(now.getTime() - ms), to: null, words, kept, problem }
}

function between(first: string | null, last: string | null): TimeRange {
  const [from, to] = [momentOf(first), momentOf(last)]
  const wrong = [first !== null && from === null && first, last !== null && to === null && last].find(Boolean)
  const isTurned = from !== null && to !== null && from >= to
  const words = [from && `from ${inShort(from)}`, to && `${from ? '' : 'before '}${inShort(to)}`]
  return {
    from,
    to,
    words: words.filter(Boolean).join(' to ') || 'any time',
    kept: { range: null, from: from && first, to: to && last },
    problem: wrong
      ? `“${wrong}” is no time. Write it as 2026-01-31T14:30; it is taken as UTC.`
      : isTurned
        ? 'The first moment is not before the second one, so nothing lies between them.'
        : null,
  }
}

/** As browsers let people choose it, in UTC. */
function momentOf(text: string | null): Date | null {
  if (text === null || !/^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?Z?$/.test(text)) return null
  const at = new Date(text.endsWith('Z') ? text : `${text}Z`)
  // There is no 30 February.
  return !Number.isNaN(at.getTime()) && at.toISOString().startsWith(text.slice(0, 10)) ? at : null
}

const inShort = (at: Date): string => stamp(at).replace(/:00 UTC$/, ' UTC')

/** The span before a moment, or after it, as an address says it. */
export const rangeAround = (from: Date, to: Date | null): Readonly<Record<string, string | null>> => ({
  from: from.toISOString().slice(0, 19),
  to: to && new Date(to.getTime() + 1_000).toISOString().slice(0, 19),
})

// ── the control ──────────────────────────────────────────────────────────────────────────────────────────────

/** Links to the usual spans, beside fields for two moments. `addressFor`: the same page with another span. */
export function rangeControl(
  { kept, problem }: TimeRange,
  usual: Length | null,
  addressFor: (kept: Partial<TimeRange['kept']>) => string,
): Html {
  const isBetween = kept.from !== null || kept.to !== null
  const now = isBetween ? null : (kept.range ?? usual)
  const choices: readonly (readonly [Length | null, string])[] = [
    ...(usual === null ? [[null, 'any time'] as const] : []),
    ...Object.entries(lengths).map(([name, { words }]) => [name as Length, words] as const),
  ]
  return html`<div class="range"><ul class="key" aria-label="Time">${choices.map(
    ([name, words]) =>
      html`<li><a href="${addressFor({ range: name })}"${name === now && !isBetween && html` aria-current="true"`}>${words}</a></li>`,
  )}</ul>
<details${isBetween && html` open`}><summary>Between two moments</summary><div class="bar">${moment('From, UTC', 'from', kept.from)}${moment('and before', 'to', kept.to)} <button>Show this time</button></div></details>
${kept.range !== null && html`<input type="hidden" name="range" value="${kept.range}">`}
${problem !== null && html`<p class="note warn" role="status">${problem}</p>`}</div>`
}

const moment = (label: string, name: string, value: string | null): Html =>
  html`<label>${label} <input type="datetime-local" step="1" name="${name}" value="${value?.replace(/Z$/, '')}"></label>`

// ── charts ───────────────────────────────────────────────────────────────────────────────────────────────────

export type ChartSpan = {
  readonly from: Date
  readonly to: Date
  readonly bucketMs: number
  readonly words: string
}
const minuteMs = 60_000
const bucketMinutes = [1, 5, 15, 30, 60, 180, 360, 720, 1_440]
/** Older minutes are kept as hours, and hours for so long. */
const minutesKeptMs = 8 * dayMs
const hoursKeptMs = 90 * dayMs

/**
 * The span of a chart in whole buckets, so that they stay the same from one look to the next: a day in 5 minutes for `most` of 288. Where
 * the address says nothing of its beginning, it is a day.
 */
export function chartSpan(range: TimeRange, now: Date, most: number): ChartSpan {
  const end = Math.min((range.to ?? now).getTime(), now.getTime())
  const begin = Math.max(Math.min(range.from?.getTime() ?? end - dayMs, end), now.getTime() - hoursKeptMs)
  const leastMinutes = begin < now.getTime() - minutesKeptMs ? 60 : 1
  const minutes = bucketMinutes.find((one) => one >= leastMinutes && (end - begin) / (one * minuteMs) <= most)
  const bucketMs = (minutes ?? 1_440) * minuteMs
  const to = Math.ceil(end / bucketMs) * bucketMs
  // A length that ends now is shown from one full bucket to another, and is not longer for it.
  const isUntilNow = range.to === null && range.from !== null
  const length = Math.max(bucketMs, Math.round((end - begin) / bucketMs) * bucketMs)
  const from = isUntilNow ? to - length : Math.min(Math.floor(begin / bucketMs) * bucketMs, to - bucketMs)
  return { from: new Date(from), to: new Date(to), bucketMs, words: range.words }
}
