// What is said of streams in short, on the overview and on the page of each.

import type { Problem } from '../problems/stream-problems.ts'
import { isReadWhole, type ProblemsByKey, problemsByKey, stateOfStream } from '../problems/stream-state.ts'
import type { SourceLine } from '../store/book/source-config.ts'
import { livingRows } from '../store/book/streams.ts'
import { notSettledBecause, settledThrough } from '../streams/settling.ts'
import { capitalized, plural, shortSpan } from '../util/text.ts'
import { bars, tideAxis, tideGauge, tideKey, tideWords, timesMeaning } from './charts.ts'
import {
  clock,
  count,
  foreign,
  type Html,
  html,
  kindInWords,
  short,
  span,
  spanInWords,
  state,
  wholeVersion,
  zone,
} from './html.ts'
import { addressOf } from './pages/tables.ts'
import type { Snapshot, StreamSnapshot } from './status-queries.ts'

/** Under the verdict: through when all streams are read; where something keeps them from it, only how many are in which state (P18). */
export function leadOf({ streams: all, at }: Snapshot, problems: readonly Problem[]): Html | null {
  if (all.length === 0 || all.some(({ readThroughAt }) => readThroughAt === null)) return null
  if (problems.some(({ kind }) => kind === 'part_down')) return null
  const byKey = problemsByKey(problems)
  const states = all.map((stream) => stateOfStream(stream, stream.service, byKey))
  if (states.some(({ tone }) => tone !== 'ok'))
    return html`${[...Map.groupBy(states, ({ words }) => words)].map(
      ([words, some], index) => html`${index > 0 && ' · '}${plural(some.length, 'stream')}: ${words}`,
    )}`
  const lists = all.filter(({ kind }) => kind === 'list')
  const oldestOf = (some: readonly StreamSnapshot[]) =>
    some.flatMap(({ readThroughAt }) => readThroughAt ?? []).toSorted((a, b) => a.getTime() - b.getTime())[0]
  const [changes, list] = [oldestOf(all.filter(({ kind }) => kind === 'changes')), oldestOf(lists)]
  const which = lists.length === 1 ? 'The whole list' : 'The whole list that was read longest ago'
  return html`${all.length === 1 ? 'The stream is' : `All ${all.length} streams are`} up to date.${
    changes && html` Changes are read through ${clock(changes, at)} ${zone}.`
  }${list && html` ${which} was read at ${clock(list, at)} ${zone}.`}`
}

/** The same over several sources; null while one of them is not read through yet. */
export function leadOfSources(sources: readonly SourceLine[], at: Date): Html | null {
  const live = sources.filter(({ state }) => state === 'live').length
  const moments = sources.map(({ readThroughAt }) => readThroughAt)
  const oldest = moments.toSorted((a, b) => (a?.getTime() ?? 0) - (b?.getTime() ?? 0))[0]
  if (!oldest) return null
  return html`${live === sources.length ? `All ${live}` : `${live} of ${sources.length}`} <a href="/sources">sources</a> are live. Each of their streams was last read at ${clock(oldest, at)} ${zone} or later.`
}

/** Which streams are not settled, why, and when they will be; the first load says so itself. */
function settlingOf({ streams: all }: Snapshot): Html | null {
  const waiting = all.filter(({ settling, readThroughAt }) => settling !== null && readThroughAt !== null)
  const [first] = waiting
  if (!first?.settling) return null
  return html`<b>Not settled yet:</b> ${waiting.map(({ stream, settling }, index) => html`${index > 0 && ', '}${stream} (${settling?.when})`)}. ${waiting.length === 1 ? first.settling.why : `${notSettledBecause} Until then the newest rows can lack a late one.`}`
}

/** A line for each stream. */
export const streamsCard = (snapshot: Snapshot, problems: readonly Problem[], title = 'Streams'): Html => {
  const byKey = problemsByKey(problems)
  return html`<section class="card" aria-labelledby="streams">
<div class="bar spread"><h2 id="streams">${title}</h2>${tideKey}</div>
<div class="scroll" tabindex="-1"><table role="table" class="stack"><caption class="hidden">Streams, with how old each kind of knowledge is</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Stream</th><th role="columnheader" scope="col">State</th><th role="columnheader" scope="col" class="gauge"><span class="hidden">How far</span>${tideAxis}</th><th role="columnheader" scope="col" class="num">Rows</th><th role="columnheader" scope="col">Rows changed per minute, last 30</th><th role="columnheader" scope="col">Next read</th></tr></thead>
<tbody role="rowgroup">${snapshot.streams.map((stream) => row(stream, shownOf(stream, snapshot, byKey)))}</tbody></table></div>
<p class="small quiet">${settlingOf(snapshot)}</p>
${timesMeaning}</section>`
}

const row = (
  { stream, kind }: StreamSnapshot,
  { state, gauge, rows, rate, next }: ReturnType<typeof shownOf>,
): Html =>
  html`<tr role="row"><th role="rowheader" scope="row"><a href="/streams/${stream}">${stream}</a><br><span class="small quiet">${kind === 'list' ? 'whole list' : 'changes since the last read'}</span></th>
<td role="cell">${state}</td><td role="cell" class="wide gauge">${gauge}</td><td role="cell" class="num" data-l="Rows">${rows}</td>
<td role="cell" class="rate" data-l="Rows changed per minute, last 30">${rate}</td><td role="cell" class="nowrap" data-l="Next read">${next}</td></tr>`

/** The pieces of one stream, for the overview and for the stream's own page. */
export function shownOf(stream: StreamSnapshot, snapshot: Snapshot, problems: ProblemsByKey) {
  const { at } = snapshot
  const ages = agesOf(stream, at)
  const rates = snapshot.rates.streams.get(stream.stream) ?? []
  const now = Math.round(rates.at(-1) ?? 0)
  const { from, bucketMs, buckets } = snapshot.rates
  const [begin, end] = [buckets - 1, buckets].map((one) => new Date(from.getTime() + one * bucketMs))
  const isQuiet = rates.every((one) => one === 0)
  const words = isQuiet ? 'no changes' : plural(now, 'row')
  return {
    state: stateOf(stream, problems, at),
    gauge: html`${tideGauge(ages)}<span class="small quiet">${tideWords(ages, at, stream.settling?.when)}</span>`,
    rate: html`${bars(rates, { height: 26, label: `Rows changed in each of the last ${buckets} whole minutes; in the last one ${words}` })}<span class="small quiet">${words}${!isQuiet && begin && end && html` from ${short(begin, 'minute')} to ${short(end, 'minute')}`}</span>`,
    rows: rowsOf(stream),
    next: nextOf(stream, snapshot),
    read: moment(stream.readThroughAt, at),
    settled: moment(settledThrough(stream.kind, stream), at, stream.settling?.when),
    deletions: moment(stream.deletionsKnownAt, at),
  }
}

/** Living rows, deleted ones apart. */
function rowsOf(stream: StreamSnapshot): Html {
  const { rows, deletedRows } = stream
  if (rows === null) return html`not counted yet`
  const living = livingRows(stream)
  if (living === null) return html`${count(rows)} <small>deleted ones included</small>`
  return html`${count(living)}${deletedRows !== 0 && html` <small>and ${count(deletedRows ?? 0)} deleted</small>`}`
}

const agesOf = (stream: StreamSnapshot, now: Date) => {
  const ageOf = (moment: Date | null) =>
    moment === null ? null : Math.max(0, now.getTime() - moment.getTime())
  return {
    read: ageOf(stream.readThroughAt),
    settled: ageOf(settledThrough(stream.kind, stream)),
    deletions: ageOf(stream.deletionsKnownAt),
  }
}

const moment = (at: Date | null, now: Date, otherwise?: string): Html =>
  at === null
    ? html`not yet${otherwise && html`<small>${otherwise}</small>`}`
    : html`${clock(at, now)}<small>${span(at, now)} ago</small>`

function nextOf({ stream, paused, ...standing }: StreamSnapshot, { nextRuns, at }: Snapshot): Html | null {
  if (paused) return html`<span class="quiet">not read</span>`
  if (isReadWhole(standing)) return html`<span class="quiet">going on</span>`
  const next = nextRuns.find((run) => run.stream === stream && ['incremental', 'list'].includes(run.kind))
  if (!next) return html`<span class="quiet">not known</span>`
  const aheadMs = next.at.getTime() - at.getTime()
  return html`<time datetime="${next.at.toISOString()}">${aheadMs < 1_000 ? 'now' : `in ${shortSpan(aheadMs)}`}</time>`
}

/** Counts that lead to where they can be looked into. */
export function countsOf(stream: StreamSnapshot) {
  const { stream: name, position, lookbackMs, related } = stream
  return {
    position: html`${position === '0' ? 'none yet' : wholeVersion(position)}`,
    lookback:
      lookbackMs === null
        ? html`as configured<small>no late arrival was measured yet</small>`
        : html`${spanInWords(lookbackMs)}<small>${foreign(stream.lookbackReason ?? 'no reason was recorded')}</small>`,
    late: html`${count(stream.lateArrivals)}`,
    rescued: notable(stream.rescued, addressOf('/dictionary', { stream: name })),
    quarantined: notable(stream.quarantined, addressOf('/quarantine', { stream: name })),
    blocked:
      stream.blockedDeletions === null
        ? html`not blocked`
        : html`<a href="${addressOf('/approve', { stream: name })}">${stream.blockedDeletions.rejected ? 'frozen' : 'blocked'}</a>`,
    missed: notable(stream.missedRows, addressOf('/runs', { stream: name, kind: 'reconcile' })),
    backfills: notable(stream.unfinishedBackfills, '/backfills'),
    related: related && html`${count(related.read)} read<small>${count(related.waiting)} waiting</small>`,
  }
}

/** Zero needs no attention; more leads to where it can be looked into. */
const notable = (amount: number, address: string): Html =>
  amount === 0 ? html`0` : html`<a href="${address}">${count(amount)}</a>`

/** The state in the same words as everywhere else, with more that only a page has room for. */
function stateOf(stream: StreamSnapshot, problems: ProblemsByKey, now: Date): Html {
  const { tone, words } = stateOfStream(stream, stream.service, problems)
  const shown = state(tone, capitalized(words))
  const { paused, running } = stream
  if (paused && tone === 'idle')
    return html`${shown} <span class="small quiet">by ${foreign(paused.by, 60)} since ${clock(new Date(paused.at), now)}${paused.reason && html`: “${foreign(paused.reason)}”`}</span>`
  if (tone === 'busy')
    return html`${shown} <span class="small quiet">${running.map(kindInWords).join(', ')}</span>`
  return shown
}
