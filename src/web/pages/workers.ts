// `/workers`: which workers there are, what each does, and what runs next. `/queue`: the same of the queue alone, with its numbers.

import { isReadWhole } from '../../problems/stream-state.ts'
import type { WorkerSeen } from '../../store/book/watch.ts'
import { baseOf } from '../../streams/names.ts'
import { formatDuration, plural, shortSpan } from '../../util/text.ts'
import { age, count, foreign, type Html, html, kindInWords, short, state, until } from '../html.ts'
import type { NextRun, Snapshot } from '../status-queries.ts'
import { heading, type Page } from './layout.ts'
import { plainTable } from './tables.ts'

const hourMs = 3_600_000

export const workersPage: Page = {
  path: '/workers',
  title: 'Workers',
  isLive: true,
  async body(context) {
    const { statusQueries, now } = context
    const [workers, runs, counts, snapshot] = await Promise.all([
      statusQueries.workers(),
      statusQueries.runsSince(hourMs),
      statusQueries.queueCounts(),
      statusQueries.snapshot(),
    ])
    const there = workers.filter(({ isGone }) => !isGone)
    const runsOf = ({ host, pid }: WorkerSeen) => runs.find((one) => one.host === host && one.pid === pid)
    return {
      heading: heading({
        title:
          there.length === 0
            ? 'No worker has been heard from'
            : there.length === 1
              ? 'One worker'
              : `${there.length} workers`,
        lead: 'Workers share the work by themselves. When one stops, another continues where it was.',
      }),
      body: html`${there.length === 0 && noWorker}
<section class="card">${
        workers.length === 0
          ? html`<p>No worker has reported yet; each does within half a minute.</p>`
          : plainTable({
              caption: 'Workers',
              columns: [
                {
                  title: 'Worker',
                  cell: ({ host, pid }) => html`${foreign(host, 60)} <span class="quiet small">${pid}</span>`,
                },
                { title: 'When last heard', cell: (one) => standing(one, now) },
                { title: 'Was doing then', cell: doing },
                {
                  title: 'Runs that found something, last hour',
                  cell: (one) => count(runsOf(one)?.runs ?? 0),
                  isNumber: true,
                },
                {
                  title: 'Failed, last hour',
                  cell: (one) => count(runsOf(one)?.failed ?? 0),
                  isNumber: true,
                },
                { title: 'Version', cell: ({ version }) => version },
                {
                  title: 'Up for',
                  cell: ({ startedAt, isGone }) =>
                    isGone ? '–' : shortSpan(now.getTime() - startedAt.getTime()),
                },
              ],
              rows: workers.toSorted((a, b) => Number(a.isGone) - Number(b.isGone)),
            })
      }</section>
${queueParts(counts, snapshot, now)}`,
    }
  },
}

const noWorker = html`<div class="note bad"><b>No worker has been heard from for a minute.</b> Nothing is read until one runs; the pages show what is in Postgres. To start one: <code>tidemark serve</code></div>`

const standing = ({ isGone, seenAt, runs, waits }: WorkerSeen, now: Date): Html => {
  const isWaiting = waits.length > 0 && runs.length === 0
  const [tone, words] = isGone
    ? (['idle', 'Gone'] as const)
    : isWaiting
      ? (['warn', 'Waiting'] as const)
      : (['ok', runs.length > 0 ? 'Working' : 'Idle'] as const)
  return html`${state(tone, words)} <span class="small quiet">${age(seenAt, now)}</span>`
}

/** A worker says every few seconds what it does, which may be over by now (P18). */
function doing({ isGone, runs, waits, seenAt }: WorkerSeen): Html | null {
  if (isGone) return null
  const parts = [
    ...runs.map(
      ({ stream, kind, since }) =>
        html`${kindInWords(kind)} of <a href="/streams/${stream}">${stream}</a> <span class="quiet small">for ${shortSpan(Math.max(0, seenAt.getTime() - new Date(since).getTime()))}</span>`,
    ),
    ...waits.map(
      ({ what, until }) =>
        html`waits for ${foreign(what, 100)}${until && html` until ${short(new Date(until), 'second')}`}`,
    ),
  ]
  return parts.length === 0
    ? html`<span class="quiet">nothing</span>`
    : html`${parts.map((part, index) => html`${index > 0 && html`<br>`}${part}`)}`
}

export const queuePage: Page = {
  path: '/queue',
  place: '/workers',
  title: 'Queue',
  isLive: true,
  async body(context) {
    const { statusQueries, now } = context
    const [counts, snapshot] = await Promise.all([statusQueries.queueCounts(), statusQueries.snapshot()])
    return {
      heading: heading({
        title: counts === null ? 'The queue does not answer' : waitingInWords(counts),
        crumbs: [['/workers', 'Workers']],
        lead: 'The queue only says what runs next. If it is lost, Tidemark fills it again within seconds, and no row is lost.',
      }),
      body: queueParts(counts, snapshot, now),
    }
  },
}

const queueParts = (counts: Counts | null, snapshot: Snapshot, now: Date): Html =>
  html`${counts === null && html`<div class="note bad"><b>The queue does not answer, so nothing is read.</b> Tidemark goes on by itself when it is back. <a href="/problems">Problems</a></div>`}
<div class="cols"><section class="card c8"><h2>What runs next by schedule</h2>${next(snapshot, counts !== null, now)}</section>
${counts && numbers(counts)}</div>`

type Counts = Readonly<Record<string, number>>

function waitingInWords({ waiting = 0, delayed = 0 }: Counts): string {
  const all = waiting + delayed
  return all === 0 ? 'Nothing waits' : `${plural(all, 'run')} ${all === 1 ? 'waits' : 'wait'}`
}

const numbers = (counts: Counts): Html =>
  html`<section class="card c4"><h2>In the queue now</h2><dl class="facts">${Object.entries(counts).map(
    ([name, amount]) => html`<div><dt>${name}</dt><dd>${count(amount)}</dd></div>`,
  )}</dl></section>`

/** What runs next. Runs of one moment and one kind share a line. */
function next(
  { nextRuns: runs, streams: seen }: Pick<Snapshot, 'nextRuns' | 'streams'>,
  isKnown: boolean,
  now: Date,
): Html {
  if (!isKnown) return html`<p>Not known until the queue answers.</p>`
  if (runs.length === 0) return html`<p>Nothing is scheduled.</p>${others}`
  const paused = new Set(seen.flatMap((one) => (one.paused === null ? [] : one.stream)))
  // The next run waits for one that reads everything, however long that takes.
  const loading = new Set(seen.filter(isReadWhole).map(({ stream }) => stream))
  return html`${plainTable({
    caption: html`<span class="hidden">What runs next</span>`,
    columns: [
      {
        title: 'When',
        cell: ({ stream, kind, at }) =>
          kind !== 'reconcile' && loading.has(stream) ? html`when all is read` : until(at, now),
      },
      {
        title: 'What',
        cell: ({ stream, kind }) => html`${kindInWords(kind)} of <a href="/streams/${stream}">${stream}</a>`,
      },
      {
        title: 'Why',
        cell: (run) =>
          paused.has(run.stream)
            ? html`paused, so nothing is read by schedule <span class="small quiet">until it is resumed</span>`
            : whyOf(run, seen),
      },
    ],
    rows: runs.toSorted((a, b) => a.at.getTime() - b.at.getTime()),
  })}${others}`
}

const others = html`<p class="small quiet">Not listed: look-backs, searches for deletions, checks of the upstream and other runs that come in between, when there is something for them to do. <a href="/runs">Runs</a> shows them.</p>`

/** By the schedule of its own source. */
function whyOf({ stream, kind, schedule }: NextRun, seen: Snapshot['streams']): Html {
  const isOwn = kind === 'incremental' || kind === 'list'
  const variable = `SCHEDULE_${(isOwn ? baseOf(stream) : kind).toUpperCase()}`
  const byWebhook = isOwn && seen.find((one) => one.stream === stream)?.kind === 'changes'
  const words = 'cron' in schedule ? schedule.cron : `every ${formatDuration(schedule.everyMs)}`
  return html`${words} <span class="small quiet"><code>${variable}</code>${byWebhook && ', or at once when a webhook says so'}</span>`
}
