// `/upstream`: whether each service answers, and what is believed of it: the claim, whether it holds, by what that was seen, when it was
// tested, from when on it is doubted, and what it was before.

import type { Problem } from '../../problems/stream-problems.ts'
import type { BeliefLine } from '../../store/book/dictionary.ts'
import { quantileMs, type ServiceBucket } from '../../store/book/request-history.ts'
import { beliefKind, beliefs, expiryOf, verdictOf } from '../../streams/beliefs.ts'
import { baseOf, besideIn, sourceIn } from '../../streams/names.ts'
import type { Settings } from '../../streams/settings.ts'
import { capitalized, plural } from '../../util/text.ts'
import { actionForm, hasPositions } from '../action-forms.ts'
import { latencyOf } from '../chart-tables.ts'
import { age, count, foreign, type Html, html, state } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { StreamSnapshot } from '../status-queries.ts'
import { chartSpan, rangeIn } from '../time-range.ts'
import { askedByDay, askedChart, daysUntil, failuresChart, latencyChart } from '../upstream-charts.ts'
import type { Page } from './layout.ts'
import { type Column, filterForm, plainTable } from './tables.ts'

export const upstreamPage: Page = {
  path: '/upstream',
  title: 'Upstream',
  isLive: true,
  async body({ statusQueries, viewer, query, now, ...context }) {
    const range = rangeIn(query, now, 'day')
    const [fine, coarse] = [chartSpan(range, now, 288), chartSpan(range, now, 96)]
    const days = daysUntil(range.to ?? now)
    const [lines, problems, snapshot, lately, answers, failed, asked, byDay, inDays, settings] =
      await Promise.all([
        statusQueries.beliefs(),
        context.problems,
        statusQueries.snapshot(),
        statusQueries.requests(chartSpan(rangeIn(new URLSearchParams(), now, 'hour'), now, 60)),
        statusQueries.requests(fine),
        statusQueries.requests(coarse),
        statusQueries.askedFor(coarse),
        statusQueries.askedFor(days),
        statusQueries.requests(days),
        statusQueries.settings(),
      ])
    const isChanges = (stream: string) => hasPositions(statusQueries, stream)
    const named = [...new Set([...statusQueries.streams, ...lines.map(({ stream }) => stream)])]
    const shown = named.filter((stream) => isChanges(stream) || lines.some((line) => line.stream === stream))
    return html`<p class="lead">How the upstream behaves, as Tidemark found out by testing. Each run tests what it relies on, and Tidemark tests the rest again, each by the time that stands with it. If something no longer holds, Tidemark takes back what it concluded from it and reads without it.</p>
<p><a href="/upstream/contract">What the upstream says about itself</a> (its contract): operations, fields, and where the records differ.</p>
<div class="cols">${services(snapshot.streams).map((service) =>
      serviceCard(
        service,
        problems,
        lately.filter((one) => one.service === service.name),
        now,
      ),
    )}</div>
${filterForm('/upstream', [], { range, usual: 'day' })}
<div class="cols">${services(snapshot.streams).map(
      ({ name }) =>
        html`<section class="card c6">${latencyChart(
          titleOfService(name),
          answers.filter((one) => one.service === name),
          fine,
        )}</section>`,
    )}</div>
<section class="card">${failuresChart(failed, coarse)}</section>
<section class="card">${askedChart(asked, coarse)}</section>
<section class="card" aria-labelledby="by-day">${askedByDay(byDay, inDays, days, { perSecond: budgetOf(settings), hasNamed: snapshot.streams.some(({ stream }) => sourceIn(stream) !== '') })}</section>
${shown.filter(isChanges).map((stream) =>
  streamPart(
    stream,
    lines.filter((line) => line.stream === stream),
    viewer,
    now,
  ),
)}
${listsPart(
  lines.filter(({ stream }) => !isChanges(stream)),
  now,
)}`
  },
}

/** Requests per second that all workers make to a host with one sign-in, for the source that the environment describes; null: as many as it wants. */
function budgetOf({ settings }: Settings): number | null {
  const set = settings.find(({ name }) => name === 'REQUESTS_PER_SECOND')
  return Number(set?.value) > 0 ? Number(set?.value) : null
}

// ── services ─────────────────────────────────────────────────────────────────────────────────────────────────

/** Each source has services of its own. */
type Service = { readonly name: string; readonly streams: readonly StreamSnapshot[] }

function services(shown: readonly StreamSnapshot[]): readonly Service[] {
  return [...Map.groupBy(shown, ({ stream, service }) => besideIn(stream, service))].map(([name, own]) => ({
    name,
    streams: own,
  }))
}

const titleOfService = (name: string): string =>
  `${baseOf(name)} service${sourceIn(name) === '' ? '' : ` of ${sourceIn(name)}`}`

const failedOf = ({ failures }: ServiceBucket): number =>
  Object.values(failures).reduce((a, b) => a + Number(b), 0)

/** How many requests there were, and how soon they were answered; null: none. */
export function traffic(answers: readonly ServiceBucket[], when = 'last hour'): Html | null {
  const requests = answers.reduce((sum, one) => sum + one.requests, 0)
  if (requests === 0) return null
  const failed = answers.reduce((sum, one) => sum + failedOf(one), 0)
  const latency = latencyOf(answers)
  const [half, most] = [quantileMs(latency, 0.5), quantileMs(latency, 0.95)]
  return html`${half !== null && html`<div><dt>Answers in</dt><dd>${count(half)} ms<small>half of them; 95 of 100 within ${count(most ?? half)} ms</small></dd></div>`}
<div><dt>Requests</dt><dd>${count(requests)}<small>${when}; ${failed === 0 ? 'none failed' : `${count(failed)} failed`}</small></dd></div>`
}

function serviceCard(
  { name, streams: own }: Service,
  problems: readonly Problem[],
  answers: readonly ServiceBucket[],
  now: Date,
): Html {
  const has = (kind: string) => problems.find(({ key }) => key === `${kind}:${name}`)
  const refused = has('token_refused')
  const toldToWait = has('told_to_wait')
  const down = has('service_down')
  const stopped = problems.find(({ key }) => key === `source_stopped:${sourceIn(name)}`)
  const cause = refused ?? toldToWait ?? down ?? stopped
  // A first load takes long, and its run has not ended well before all is read.
  const latest = [
    ...own.map(({ lastSuccessAt }) => lastSuccessAt),
    ...answers.filter((one) => one.requests > failedOf(one)).map(({ at }) => at),
  ].reduce((a, b) => (b !== null && (a === null || b > a) ? b : a), null)
  const standing = refused
    ? state('bad', 'Refuses the sign-in')
    : toldToWait
      ? state('bad', 'Asks to be left alone')
      : down
        ? state('warn', 'Does not work')
        : stopped
          ? state('bad', 'Not asked')
          : latest === null
            ? state('todo', 'No answer recorded yet')
            : state('ok', 'Well')
  return html`<section class="card c6" aria-labelledby="service-${name}">
<div class="bar spread"><h2 id="service-${name}">${capitalized(titleOfService(name))}</h2>${standing}</div>
<dl class="facts"><div><dt>Sign-in</dt><dd>${refused ? 'refused' : latest === null ? 'not known yet' : down || stopped ? 'worked last time' : 'works'}</dd></div>
<div><dt>Last good answer</dt><dd>${latest === null ? 'none recorded yet' : html`${age(latest > now ? now : latest, now)}<small>or more recently</small>`}</dd></div>
${traffic(answers)}
<div><dt>Streams</dt><dd>${own.length}<small>${own.map(({ stream }) => stream).join(', ')}</small></dd></div></dl>
${cause && html`<p>${foreign(cause.what, 500)}</p>`}
</section>`
}

// ── beliefs ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Streams that are read whole need few beliefs: they share a table. */
const listsPart = (lines: readonly BeliefLine[], now: Date): Html | null =>
  lines.length === 0
    ? null
    : html`<section class="card" aria-labelledby="beliefs-lists"><h2 id="beliefs-lists">How it behaves: whole lists</h2>
${plainTable({
  caption: html`<span class="hidden">Beliefs about streams that are read whole</span>`,
  columns: [
    { title: 'Stream', cell: ({ stream }) => html`<a href="/streams/${stream}">${stream}</a>` },
    ...columns(now),
  ],
  rows: lines,
  scrolls: 'How whole lists behave',
})}</section>`

function streamPart(stream: string, lines: readonly BeliefLine[], viewer: Viewer, now: Date): Html {
  const counted = (verdict: string) => lines.filter((line) => verdictOf(line, now) === verdict).length
  const parts = [
    `${counted('holds')} ${counted('holds') === 1 ? 'holds' : 'hold'}`,
    counted('does not hold') > 0 &&
      `${counted('does not hold')} ${counted('does not hold') === 1 ? 'does' : 'do'} not hold`,
    counted('unknown') > 0 && `${counted('unknown')} to be tested again`,
  ].filter(Boolean)
  return html`<section class="card" aria-labelledby="beliefs-${stream}"><div class="bar spread"><h2 id="beliefs-${stream}">How it behaves: ${stream}</h2>
${checkNow(stream, viewer)}</div>
${beliefTable({
  caption: `${plural(lines.length, 'belief')}: ${parts.join(', ')}`,
  columns: columns(now),
  rows: inOrder(lines, now),
  scrolls: `How ${stream} behaves`,
})}</section>`
}

const beliefTable = (given: Parameters<typeof plainTable<BeliefLine>>[0]): Html =>
  given.rows.length === 0 ? html`<p>Nothing has been tested yet. The first run does.</p>` : plainTable(given)

/** What does not hold first, then as people want to read them. */
function inOrder(lines: readonly BeliefLine[], now: Date): readonly BeliefLine[] {
  const names = Object.keys(beliefs)
  const rank = (line: BeliefLine) =>
    (verdictOf(line, now) === 'does not hold' ? 0 : names.length) + names.indexOf(line.name)
  return lines.toSorted((a, b) => rank(a) - rank(b))
}

const checkNow = (stream: string, viewer: Viewer): Html =>
  actionForm(
    viewer,
    `/streams/${stream}/probe`,
    html`<button>Check now<span class="hidden"> what is believed of ${stream}</span></button>`,
  ) ?? html`<p class="quiet">To check now: <code>tidemark probe</code></p>`

const columns = (now: Date): readonly Column<BeliefLine>[] => [
  {
    title: 'Belief',
    cell: ({ name }) => html`${capitalized(beliefKind(name)?.claim ?? name)} <code>${name}</code>`,
  },
  { title: 'Holds', cell: (line) => verdict(line, now) },
  {
    title: 'Value',
    isWord: true,
    cell: ({ name, value }) => html`<strong>${foreign(beliefKind(name)?.inWords?.[value] ?? value)}</strong>`,
  },
  { title: 'Evidence', cell: (line) => evidence(line, now) },
  { title: 'Last tested', cell: ({ testedAt }) => age(testedAt, now) },
  { title: 'Test again by', cell: (line) => doubted(line, now) },
  {
    title: 'Changed',
    cell: ({ previousValue, changedAt }) =>
      changedAt === null
        ? null
        : html`${age(changedAt, now)}${previousValue !== null && html`, from ${foreign(previousValue)}`}`,
  },
]

function verdict(line: BeliefLine, now: Date): Html {
  const found = verdictOf(line, now)
  if (found === 'unknown') return state('todo', 'Needs a new test')
  return found === 'holds' ? state('ok', 'Holds') : state('bad', 'Does not hold')
}

function evidence(line: BeliefLine, now: Date): Html {
  const { without } = beliefKind(line.name) ?? {}
  const isFallen = verdictOf(line, now) === 'does not hold'
  return html`${foreign(line.evidence, 500)}${isFallen && without && html` <span class="meaning">${without}</span>`}${line.restsSince && html` <span class="quiet">Relied on since ${age(line.restsSince, now)}.</span>`}`
}

function doubted(line: BeliefLine, now: Date): Html {
  const expiry = expiryOf(line)
  return expiry === null ? html`<span class="quiet">when an answer contradicts it</span>` : age(expiry, now)
}
