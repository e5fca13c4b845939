// How far readings are that go on: the first load on the overview, others where they are listed. Everything comes from what is recorded.

import { livingRows } from '../store/book/streams.ts'
import {
  type Estimate,
  estimate,
  isListing,
  isTold,
  leftInWords,
  outlookInWords,
  percent,
  type ReadingProgress,
  rangesInWords,
  readingName,
  rowsInWords,
  type UnreadPart,
} from '../streams/load-progress.ts'
import { plural, shortSpan } from '../util/text.ts'
import { bars } from './charts.ts'
import { clock, count, foreign, type Html, html, kindInWords, state } from './html.ts'
import type { Snapshot } from './status-queries.ts'

type Seen = Pick<Snapshot, 'at' | 'streams' | 'loads'>

const unfinished = ({ loads }: Pick<Seen, 'loads'>): readonly ReadingProgress[] =>
  loads.filter(({ isComplete }) => !isComplete)

/** Null when none goes on. */
export function firstLoadCard(seen: Seen): Html | null {
  const loading = unfinished(seen)
  if (loading.length === 0) return null
  return html`<section class="card" aria-labelledby="first-load"><h2 id="first-load">${loading.every(({ isAgain }) => isAgain) ? 'Reading again' : 'First load'}</h2>
<div class="more">${loadsOf(seen, loading)}</div>
<ol class="steps"><li><b>Load:</b> every record is read once.</li><li><b>Catch up:</b> changes made in the meantime are read. Then the stream is <b>read through</b> a moment, seconds ago.</li><li><b>First reconcile:</b> everything is compared with the whole list, so that <b>deletions are known</b>. It starts by itself.</li></ol>
<details><summary>How sure is this?</summary><p class="quiet small">The upstream does not say how many records it has. Where its list can be counted, Tidemark asks for pages further and further on until one is not full, and again every 5 minutes. The percentage never falls: if there turn out to be more records, it waits. The time left comes from the slowest and the fastest 30 seconds of the last 5 minutes. Row versions are no measure of progress: most rows can lie in a small part of their range.</p></details></section>`
}

/** The card of one stream, for its own page. */
export function firstLoadOf(seen: Pick<Seen, 'at' | 'loads'>, stream: string): Html | null {
  const load = unfinished(seen).find((one) => one.stream === stream)
  return load ? loadOf(load, seen.at) : null
}

function loadsOf({ at, streams, loads }: Seen, loading: readonly ReadingProgress[]): Html {
  const complete = streams.filter((one) => (one.readThroughAt ?? one.firstReadThroughAt) !== null)
  const took = (stream: string) => {
    const load = loads.find((one) => one.stream === stream && one.isComplete)
    return load ? shortSpan(estimate(load, at).elapsedMs) : ''
  }
  return html`<p class="lead">${count(complete.length)} of ${count(streams.length)} streams are complete. ${loading.length === streams.length - complete.length && outlook(loading, at)} You can query the rows that are here already; ${loading.every(({ isAgain }) => isAgain) ? 'until then some may be missing, or older than their records' : 'sums are too small until then'}.</p>
<div class="cols">${loading.map((load) => html`<div class="c6">${loadOf(load, at)}</div>`)}</div>
${
  complete.length > 0 &&
  html`<p class="small quiet">Complete: ${complete
    .map((one) => {
      const { stream } = one
      const [span, rows] = [took(stream), livingRows(one)]
      return `${stream} (${rows === null ? 'not counted yet' : count(rows)}${span === '' ? '' : `, ${span}`})`
    })
    .join(' · ')}</p>`
}`
}

/** When all of them will be, if each of them tells. */
function outlook(loading: readonly ReadingProgress[], at: Date): string {
  const lefts = loading.map((load) => estimate(load, at).left)
  const known = lefts.flatMap((left) => left ?? [])
  if (known.length < lefts.length || known.length === 0) return ''
  const mosts = known.map(({ mostMs }) => mostMs)
  const left: NonNullable<Estimate['left']> = {
    leastMs: Math.max(...known.map(({ leastMs }) => leastMs)),
    mostMs: mosts.some((one) => one === null) ? null : Math.max(...mosts.map((one) => one ?? 0)),
  }
  return `${loading.length === 1 ? 'The other one' : 'The others'} will be in ${leftInWords(left)}.`
}

/** Others that come every few seconds are over before somebody has read of them. */
const shortestShownMs = 10_000

/** What reads now, one beside the other; null: nothing, or nothing that can be told. */
export function runningNow(readings: readonly ReadingProgress[], at: Date): Html | null {
  const isLong = ({ total, beganAt }: ReadingProgress) =>
    total !== null || at.getTime() - beganAt.getTime() >= shortestShownMs
  const told = readings.filter((one) => isTold(one) && isLong(one))
  return told.length === 0
    ? null
    : html`<section class="card" aria-labelledby="running"><h2 id="running">Running now</h2>
<div class="cols">${told.map((one) => html`<div class="c6">${loadOf(one, at)}</div>`)}</div></section>`
}

function loadOf(load: ReadingProgress, at: Date): Html {
  const found = estimate(load, at)
  const { stream, reading, rows, requests, bytes, total, share } = { ...load, share: found.share }
  const name = reading === 'first load' ? stream : `${kindInWords(reading)} of ${stream}`
  const words = share === null ? reading === 'first load' && readingName(load) : `about ${percent(share)} %`
  const left = total === null ? null : Math.max(0, total - rows)
  return html`<figure><figcaption><span>${name}${words && `: ${words}`}</span> <small>${rowsInWords(load)}, ${countedInWords(load, at)}</small></figcaption>
${share !== null && bar(stream, share)}</figure>
${load.unread && ranges(stream, load.unread)}
<dl class="facts">
<div><dt>Read</dt><dd>${count(rows)} ${isListing(load) ? 'records' : 'rows'}<small>${plural(requests, 'request')}, ${megabytes(bytes)}</small></dd></div>
<div><dt>Speed</dt><dd>${found.rowsPerSecond === null ? 'not known yet' : `${count(found.rowsPerSecond)} rows/s`}<small>last 30 s</small></dd></div>
<div><dt>Left</dt><dd>${found.left ? leftInWords(found.left) : (found.closing ?? 'not known yet')}<small>${left === null ? '' : `${count(left)} rows`}</small></dd></div>
</dl>
${found.stalled && html`<p>${state('warn', foreign(outlookInWords(found, at) ?? '', 300))}</p>`}
${pace(load)}`
}

function countedInWords({ totalAt, totalRequests }: ReadingProgress, at: Date): Html | string {
  if (totalAt === null) return 'not counted'
  if (!totalRequests) return 'by the rows here'
  return html`counted at ${clock(totalAt, at)} in ${count(totalRequests)} requests`
}

const bar = (stream: string, share: number): Html => {
  const read = `${(share * 100).toFixed(1)}%`
  return html`<svg class="plot" height="14" role="img" aria-label="About ${percent(share)} percent of the rows of ${stream} are read"><rect class="f-none" width="100%" height="14" rx="4"/><rect class="f-read" width="${read}" height="14" rx="4"/></svg>`
}

/** Which versions are read, and which are not: ranges of them are read side by side. */
function ranges(stream: string, unread: readonly UnreadPart[]): Html {
  const words = rangesInWords(unread)
  const place = (share: number) => `${(100 * Math.max(0, Math.min(1, share))).toFixed(2)}%`
  return html`<figure><figcaption><span class="small">Ranges of versions</span> <small>${words}; many rows may share a narrow part</small></figcaption><svg class="plot" height="14" role="img" aria-label="${words} to be read of ${stream}, side by side"><rect class="f-read" width="100%" height="14"/>${unread.map(([from, to]) => html`<rect class="f-none" x="${place(from)}" width="${place(Math.max(to - from, 0.002))}" height="14"/>`)}</svg></figure>`
}

/** Rows between two marks, which are five seconds apart. */
function pace({ stream, marks, ...load }: ReadingProgress): Html | null {
  const rows = marks.slice(1).map(([, now], index) => Math.max(0, now - (marks[index]?.[1] ?? 0)))
  if (rows.length < 3) return null
  const done = isListing(load) ? 'compared' : 'stored'
  const label = `Rows of ${stream} ${done} every five seconds, ${count(Math.max(...rows))} at most`
  return html`<figure><figcaption><span class="small">Rows ${done}</span> <small>rows per 5 s, ${count(Math.max(...rows))} at most</small></figcaption>${bars(rows, { height: 40, label })}</figure>`
}

const megabytes = (bytes: number): string =>
  bytes < 1_000_000 ? `${count(bytes / 1_000)} kB` : `${count(bytes / 1_000_000)} MB`
