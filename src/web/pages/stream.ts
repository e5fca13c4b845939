// `/streams/:name`: how current one stream is, what it is read by, and what was caught. Its other tabs are pages beside it.

import { unexplainedInWords } from '../../problems/stream-state.ts'
import { claims, keptInWords } from '../../problems/targets.ts'
import { slots } from '../../store/book/runs.ts'
import { livingRows, type StreamOverview } from '../../store/book/streams.ts'
import { kinds } from '../../streams/catalog.ts'
import { sourceIn } from '../../streams/names.ts'
import { settingsOfStream } from '../../streams/settings.ts'
import { settledThrough } from '../../streams/settling.ts'
import { capitalized, formatDuration, plural } from '../../util/text.ts'
import { actionForm, hasPositions, reasonLine } from '../action-forms.ts'
import { tideAxis, tideKey, timesMeaning } from '../charts.ts'
import { firstLoadOf, runningNow } from '../first-load.ts'
import { lagChart, rowsChart } from '../history-charts.ts'
import { age, fact, type Html, html, kindInWords, runState, span, state, time, until } from '../html.ts'
import { isShort, runTimeline } from '../run-charts.ts'
import type { Viewer } from '../sessions.ts'
import type { Snapshot, StreamSnapshot } from '../status-queries.ts'
import { countsOf, type shownOf } from '../stream-cells.ts'
import { chartSpan, rangeIn } from '../time-range.ts'
import { checkpointList } from './checkpoints.ts'
import { frozenInWords, lookAgainForm } from './confirm.ts'
import { fieldList } from './dictionary.ts'
import type { Page, PageContext } from './layout.ts'
import { rewindTab } from './rewind.ts'
import { rowsTab } from './rows.ts'
import { runsList } from './runs.ts'
import { settingsTable } from './settings.ts'
import { orCommand, streamTab } from './stream-frame.ts'
import { addressOf, type Column, filterForm, plainTable } from './tables.ts'

const overviewTab = streamTab(
  '/streams/:name',
  'Stream',
  async (context, { stream, snapshot, cells }) => html`${firstLoad(stream, snapshot)}
${runningNow(await otherReadings(context, stream.stream), context.now)}
${current(stream, cells)}
${await targetsCard(context, stream)}
${attention(stream, context.viewer)}
${await past(context, stream.stream)}
<div class="cols">${rowsWritten(cells.rate)}${runTable(stream.stream, snapshot)}</div>
${caught(stream)}
<p class="as-of small quiet">As of ${time(snapshot.at)}</p>`,
  { isLive: true, showsTime: true },
)

/** The first load has a card of its own. */
const otherReadings = async ({ statusQueries }: PageContext, stream: string) =>
  (await statusQueries.readings(stream)).filter(({ reading }) => reading !== 'first load')

/** While it goes on. */
function firstLoad({ stream }: StreamSnapshot, snapshot: Snapshot): Html | null {
  const load = firstLoadOf(snapshot, stream)
  return (
    load &&
    html`<section class="card" aria-labelledby="first-load"><h2 id="first-load">When will it be ready?</h2><div class="more">${load}</div><p class="quiet">You can query the rows that are here already; sums are too small until the load is complete.</p></section>`
  )
}

function current(shown: StreamSnapshot, cells: ReturnType<typeof shownOf>): Html {
  const { kind, settling, unexplained, ...held } = shown
  const isSearching = unexplained !== null && held.blockedDeletions === null && held.paused === null
  return html`<section class="card" aria-labelledby="current"><div class="bar spread"><h2 id="current">How current is it?</h2>${tideKey}</div>
<div>${tideAxis}${cells.gauge}</div>
<dl class="facts">
${fact('Read through', cells.read, 'every change that was visible upstream then is here')}
${fact('Settled through', cells.settled, kind === 'list' ? 'each read compares the whole list' : 'commits that were late before this are here, too')}
${fact('Deletions known through', cells.deletions, 'rows deleted upstream before this are marked')}
${fact('Rows', cells.rows, 'as Postgres has counted along')}
${kind === 'changes' && fact('Position', countsOf(shown).position, 'every version up to this one has been read')}
</dl>
${settling && html`<p class="small quiet"><b>Not settled yet.</b> ${settling.why}</p>`}
${isSearching && html`<p class="small quiet"><b>Deletions.</b> ${unexplainedInWords(unexplained)}</p>`}
${timesMeaning}</section>`
}

/** Null without targets. */
async function targetsCard(
  { statusQueries, now }: PageContext,
  { stream, kind, ...times }: StreamSnapshot,
): Promise<Html | null> {
  const targets = statusQueries.alerting().targets[stream] ?? {}
  const kept = await statusQueries.keptTargets(stream)
  const ages: Readonly<Record<string, Date | null>> = {
    read: times.readThroughAt,
    settled: settledThrough(kind, times),
    deletions: times.deletionsKnownAt,
  }
  const share = (time: string, days: number) => {
    const found = kept.find((one) => one.time === time && one.days === days)
    return found ? keptInWords(found) : 'not known yet'
  }
  const columns: readonly Column<readonly [time: string, targetMs: number]>[] = [
    {
      title: 'Target',
      cell: ([time, targetMs]) => `${capitalized(claims[time] ?? time)}: ${formatDuration(targetMs)}`,
    },
    {
      title: 'Now',
      cell([time, targetMs]) {
        const at = ages[time] ?? null
        if (at === null) return 'not yet'
        return state(now.getTime() - at.getTime() > targetMs ? 'bad' : 'ok', span(at, now))
      },
    },
    { title: 'Kept over 7 days', cell: ([time]) => share(time, 7) },
    { title: 'Kept over 30 days', cell: ([time]) => share(time, 30) },
  ]
  const rows = Object.entries(targets)
  const caption = html`<span class="hidden">Targets of ${stream}</span>`
  return rows.length === 0
    ? null
    : html`<section class="card" aria-labelledby="targets"><h2 id="targets">Targets</h2>${plainTable({ caption, columns, rows })}<p class="small quiet">Counted by the minute, from the first such time on. A minute in which no worker ran counts as missed; one in which the stream was paused does not count.</p></section>`
}

/** What of this stream waits for somebody, with what to press. */
function attention({ stream, blockedDeletions, missedRows }: StreamOverview, viewer: Viewer): Html | null {
  const parts = [
    blockedDeletions?.rejected &&
      html`<div class="bar"><p>Deletions are frozen. ${frozenInWords(blockedDeletions.rejected)} ${blockedDeletions.missing !== null && html`${plural(blockedDeletions.missing, 'row')} that the list lacks ${blockedDeletions.missing === 1 ? 'stays' : 'stay'}. `}<a href="/approve?stream=${stream}">Review deletions…</a></p>${lookAgainForm(viewer, stream)}</div>`,
    blockedDeletions !== null &&
      !blockedDeletions.rejected &&
      html`<p>Deletions are blocked: too many rows are missing. <a class="btn" href="/approve?stream=${stream}">Review deletions…</a></p>`,
    missedRows > 0 &&
      html`<div class="bar"><p>A reconcile found ${plural(missedRows, 'row')} that no other run had brought. They are stored now.</p>
${actionForm(viewer, `/streams/${stream}/acknowledge`, html`<button>Acknowledge ${plural(missedRows, 'missed row')}</button>`) ?? html`<code class="small">tidemark reconcile --acknowledge ${stream}</code>`}</div>`,
  ].filter((part) => typeof part === 'object' && part !== null)
  return parts.length === 0
    ? null
    : html`<section class="note warn more" aria-label="Waits for you">${parts}</section>`
}

/** How far behind it was, and what came. */
async function past({ statusQueries, query, now }: PageContext, stream: string): Promise<Html> {
  const range = rangeIn(query, now, 'day')
  const [fine, coarse] = [chartSpan(range, now, 288), chartSpan(range, now, 96)]
  const ofRuns = chartSpan(rangeIn(query, now, 'hour'), now, slots)
  const [ages, rows, runs] = await Promise.all([
    statusQueries.minutes([stream], fine),
    statusQueries.minutes([stream], coarse),
    isShort(ofRuns) ? statusQueries.runSpans([stream], ofRuns) : null,
  ])
  return html`${filterForm(`/streams/${stream}`, [], { range, usual: 'day' })}<section class="card">${lagChart(ages, fine, statusQueries.staleAfterMs(stream))}</section>
<div class="cols"><section class="card c7">${rowsChart(rows, coarse)}</section><section class="card c5">${runs ? runTimeline(runs, { by: ({ kind }) => kindInWords(kind), span: ofRuns }) : html`<p class="quiet">Single runs are shown for two days at most. <a href="${addressOf(`/streams/${stream}/runs`, range.kept)}">The runs of this time</a></p>`}</section></div>`
}

const rowsWritten = (rate: Html): Html =>
  html`<section class="card c7"><figure><figcaption><span>Rows written lately</span> <small>rows per minute, last 30 minutes; new, changed and deleted ones</small></figcaption>${rate}</figure></section>`

function runTable(stream: string, { latestRuns, nextRuns, at }: Snapshot): Html {
  const of = (kind: string) => (run: { readonly stream: string; readonly kind: string }) =>
    run.stream === stream && run.kind === kind
  const rows = kinds.flatMap((kind) => {
    const [last, next] = [latestRuns.find(of(kind)), nextRuns.find(of(kind))]
    if (!last && !next) return []
    const ended =
      last &&
      html`${runState(last.status)} <span class="quiet small">${age(last.finishedAt ?? last.startedAt, at)}</span>`
    return html`<tr role="row"><th role="rowheader" scope="row" class="wide">${kindInWords(kind)}</th><td role="cell" data-l="Last run">${ended}</td><td role="cell" data-l="Next run">${next && until(next.at, at)}</td></tr>`
  })
  return html`<section class="card c5"><h2 id="runs">Runs</h2><div class="scroll" tabindex="-1"><table role="table" class="stack"><caption class="hidden">Runs of ${stream}</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Kind</th><th role="columnheader" scope="col">Last run</th><th role="columnheader" scope="col">Next run</th></tr></thead>
<tbody role="rowgroup">${rows}</tbody></table></div></section>`
}

function caught(stream: StreamSnapshot): Html {
  const cells = countsOf(stream)
  const isChanges = stream.kind === 'changes'
  return html`<section class="card" aria-labelledby="caught"><h2 id="caught">What Tidemark caught</h2><dl class="facts">
${isChanges && fact('Late commits', cells.late, 'became visible after a higher version had been read; last 90 days')}
${isChanges && fact('Missed rows', cells.missed, 'found by a reconcile and by no other run')}
${fact('Quarantine', cells.quarantined, 'records that cannot be stored as rows')}
${fact('Misfit values', cells.rescued, 'do not fit their column; kept in _rescued')}
${fact('Deletions', cells.blocked, 'blocked if more than a fifth of the rows are missing, at once or within a day')}
${isChanges && fact('Look-back', cells.lookback)}
${isChanges && fact('Unfinished backfills', cells.backfills)}
${cells.related && fact('Assignments with related records', cells.related)}
</dl></section>`
}

// ── asking before something that costs ───────────────────────────────────────────────────────────────────────

const pauseTab = streamTab('/streams/:name/pause', 'Pause', ({ viewer }, { stream: { stream } }) =>
  orCommand(
    viewer,
    `tidemark pause ${stream} --reason TEXT`,
    () => html`<section class="card dialogue"><h2>Pause ${stream}?</h2><p>No worker reads it by itself until somebody resumes it; you can still press <b>Read now</b>. Runs that are in progress end after their current page. Its rows stay and get older.</p>
${actionForm(viewer, `/streams/${stream}/pause`, (fields) => html`${reasonLine(fields, 'Reason for the pause')}<button class="go">Pause</button> <a class="btn" href="/streams/${stream}">Do not pause</a>`)}</section>`,
  ),
)

const readTab = streamTab(
  '/streams/:name/read',
  'Read again',
  async (context, { stream: { stream, ...known } }) => {
    const takes = await reconcileTakes(context, stream, livingRows(known))
    return orCommand(context.viewer, `tidemark reconcile ${stream}`, () =>
      hasPositions(context.statusQueries, stream)
        ? html`<div class="cols">${choice(
            'Compare everything (reconcile)',
            `Reads the whole list of the upstream and compares it with the rows in both directions. Finds rows that are missing, late or deleted. ${takes}`,
            actionForm(
              context.viewer,
              `/streams/${stream}/sync`,
              html`<input type="hidden" name="kind" value="reconcile"><button class="go">Reconcile</button>`,
            ),
          )}${choice(
            'The recent past (look-back)',
            'Reads the versions of the look-back once more, now instead of at its next scheduled run, to find commits that became visible late.',
            actionForm(
              context.viewer,
              `/streams/${stream}/sync`,
              html`<input type="hidden" name="kind" value="lookback"><button class="go">Look back</button>`,
            ),
          )}${choice(
            'From an older position (backfill)',
            'You choose a version, a checkpoint or a time. The next page shows what it takes; nothing is read before you start it.',
            html`<p><a class="btn" href="/backfills?stream=${stream}">Backfill…</a></p>`,
          )}${choice(
            'Move the position back (rewind)',
            'Reads everything above an older position again; what the upstream then returns replaces rows even if they are newer. Hardly ever needed. You confirm before anything is done.',
            html`<p><a class="btn" href="/streams/${stream}/rewind">Rewind…</a></p>`,
          )}</div>`
        : html`<section class="card"><p>${stream} is read completely each time: <b>Read now</b> is all you need.</p></section>`,
    )
  },
)

/** From the last one; it costs the upstream most of all that can be asked for here. */
async function reconcileTakes(
  { statusQueries }: PageContext,
  stream: string,
  rows: number | null,
): Promise<string> {
  const filter = { stream, kind: 'reconcile', outcome: 'done' }
  const [last] = await statusQueries.runs(filter, { before: null, limit: 1 })
  const about = rows === null ? '' : `about ${plural(rows, 'record')}`
  if (!last || last.finishedAt === null)
    return `It reads ${about || 'all records'}; there has been none yet, so the time is not known.`
  const took = formatDuration(last.finishedAt.getTime() - last.startedAt.getTime())
  return `The last one, run ${last.id}, took ${plural(last.requests, 'request')} and ${took}${about && `; there are ${about} now`}.`
}

const choice = (title: string, text: string, form: Html | null): Html =>
  html`<section class="card c6"><h2>${title}</h2><p>${text}</p>${form}</section>`

// ── the other tabs ───────────────────────────────────────────────────────────────────────────────────────────

const runsTab = streamTab(
  '/streams/:name/runs',
  'Runs',
  (context, { stream: { stream } }) => runsList(context, `/streams/${stream}/runs`, stream),
  { isLive: true },
)
const fieldsTab = streamTab('/streams/:name/fields', 'Fields', (context, { stream: { stream } }) =>
  fieldList(context, `/streams/${stream}/fields`, stream),
)
const checkpointsTab = streamTab(
  '/streams/:name/checkpoints',
  'Checkpoints',
  async (context, { stream: { stream, kind } }) =>
    kind === 'changes'
      ? await checkpointList(context, stream, `/streams/${stream}/checkpoints`)
      : html`<section class="card"><p>${stream} is read whole each time: it has no positions, and so no checkpoints.</p></section>`,
)
const settingsTab = streamTab(
  '/streams/:name/settings',
  'Settings',
  async (context, { stream: { stream: name, kind } }) => {
    const settings = await context.statusQueries.settings(sourceIn(name))
    return settingsTable('How it is read', settingsOfStream(settings, { name, kind }), {
      ...context,
      source: settings.source,
    })
  },
)

export const streamPages: readonly Page[] = [
  overviewTab,
  rowsTab,
  runsTab,
  fieldsTab,
  checkpointsTab,
  settingsTab,
  pauseTab,
  readTab,
  rewindTab,
]
