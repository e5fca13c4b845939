// What is said of streams in short, on the overview and on the page of each.

import type { Problem } from '../problems/stream-problems.ts'
import { stateOfStream } from '../problems/stream-state.ts'
import type { SourceLine } from '../store/book/source-config.ts'
import { livingRows } from '../store/book/streams.ts'
import { notSettledBecause, settledThrough } from '../streams/settling.ts'
import { capitalized, plural, shortSpan } from '../util/text.ts'
import { bars, tideGauge, tideWords } from './charts.ts'
import {
  clock,
  count,
  foreign,
  type Html,
  html,
  kindInWords,
  span,
  spanInWords,
  state,
  zone,
} from './html.ts'
import { addressOf } from './pages/tables.ts'
import type { Snapshot, StreamSnapshot } from './status-queries.ts'

/** Under the verdict: how many streams are up to date, and up to when every change is here. */
export function leadOf({ streams: all, at }: Snapshot, problems: readonly Problem[]): Html | null {
  if (all.length === 0 || all.some(({ readThroughAt }) => readThroughAt === null)) return null
  const isCurrent = (stream: StreamSnapshot) =>
    stateOfStream(stream, stream.service, problems).state === 'live'
  const current = all.filter(isCurrent).length
  const onTime =
    current === all.length
      ? all.length === 1
        ? 'The stream is'
        : `All ${all.length} streams are`
      : `${current} of ${all.length} streams ${current === 1 ? 'is' : 'are'}`
  const changing = all.flatMap(({ kind, readThroughAt }) => (kind === 'changes' && readThroughAt) || [])
  const oldest = changing.toSorted((a, b) => a.getTime() - b.getTime())[0]
  return html`${onTime} read on time. ${oldest && html`Every change that could be seen upstream at ${clock(oldest, at)} ${zone} is here.`}`
}

/** The same over several sources; null while one of them is not read through yet. */
export function leadOfSources(sources: readonly SourceLine[], at: Date): Html | null {
  const current = sources.filter(({ state }) => state === 'live').length
  const moments = sources.map(({ readThroughAt }) => readThroughAt)
  const oldest = moments.toSorted((a, b) => (a?.getTime() ?? 0) - (b?.getTime() ?? 0))[0]
  if (!oldest) return null
  return html`${current === sources.length ? `All ${current}` : `${current} of ${sources.length}`} <a href="/sources">sources</a> are read on time. Every change that could be seen in each of them at ${clock(oldest, at)} ${zone} is here.`
}

/** Which streams are not settled, why, and when they will be; the first load says so itself. */
export function settlingOf({ streams: all }: Snapshot): Html | null {
  const waiting = all.filter(({ settling, readThroughAt }) => settling !== null && readThroughAt !== null)
  const [first] = waiting
  if (!first?.settling) return null
  return html`<b>Not settled yet:</b> ${waiting.map(({ stream, settling }, index) => html`${index > 0 && ', '}${stream} (${settling?.when})`)}. ${waiting.length === 1 ? first.settling.why : `${notSettledBecause} Until then the newest rows can lack a late one.`}`
}

/** The pieces of one stream, for the overview and for the stream's own page. */
export function shownOf(stream: StreamSnapshot, snapshot: Snapshot, problems: readonly Problem[]) {
  const { at } = snapshot
  const ages = agesOf(stream, at)
  const rates = snapshot.rates.streams.get(stream.stream) ?? []
  const now = Math.round(rates.at(-1) ?? 0)
  const words = rates.every((one) => one === 0) ? 'no changes' : `${plural(now, 'row')} in the last minute`
  return {
    state: stateOf(stream, problems, at),
    gauge: html`${tideGauge(ages)}<span class="small quiet">${tideWords(ages, at, stream.settling?.when)}</span>`,
    rate: html`${bars(rates, { height: 26, label: `Rows changed per minute, last 30 minutes: ${words}` })}<span class="small quiet">${words}</span>`,
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

function nextOf(
  { stream, paused, readThroughAt, running }: StreamSnapshot,
  { nextRuns, at }: Snapshot,
): Html | null {
  if (paused) return html`<span class="quiet">not read</span>`
  if (readThroughAt === null && running.length > 0) return html`<span class="quiet">going on</span>`
  const next = nextRuns.find((run) => run.stream === stream && ['incremental', 'list'].includes(run.kind))
  if (!next) return html`<span class="quiet">not known</span>`
  const aheadMs = next.at.getTime() - at.getTime()
  return html`<time datetime="${next.at.toISOString()}">${aheadMs < 1_000 ? 'now' : `in ${shortSpan(aheadMs)}`}</time>`
}

/** Counts that lead to where they can be looked into. */
export function countsOf(stream: StreamSnapshot) {
  const { stream: name, position, lookbackMs, related } = stream
  return {
    position: html`${position === '0' ? 'none yet' : BigInt(position).toLocaleString('en')}`,
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
function stateOf(stream: StreamSnapshot, problems: readonly Problem[], now: Date): Html {
  const { tone, words } = stateOfStream(stream, stream.service, problems)
  const shown = state(tone, capitalized(words))
  const { paused, running } = stream
  if (paused && tone === 'idle')
    return html`${shown} <span class="small quiet">by ${foreign(paused.by, 60)} since ${clock(new Date(paused.at), now)}${paused.reason && html`: “${foreign(paused.reason)}”`}</span>`
  if (tone === 'busy')
    return html`${shown} <span class="small quiet">${running.map(kindInWords).join(', ')}</span>`
  return shown
}
