// `/runs/:id`: one run: what it did, what it came upon, and what it said.

import type { RunStory } from '../../store/book/runs.ts'
import { runLog } from '../../streams/run-log.ts'
import { blockStep, type RunStep } from '../../streams/run-steps.ts'
import { formatDuration, plural, shortSpan } from '../../util/text.ts'
import { actionForm, hasPositions } from '../action-forms.ts'
import { runningNow } from '../first-load.ts'
import {
  clock,
  count,
  fact,
  foreign,
  type Html,
  html,
  kindInWords,
  runState,
  state,
  wholeVersion,
  zone,
} from '../html.ts'
import { missingRowsChart } from '../missing-rows.ts'
import { stepsFigure } from '../run-charts.ts'
import { rangeAround } from '../time-range.ts'
import { heading, noSuch, type Page, type PageContext } from './layout.ts'
import { recordAddress } from './rows.ts'
import { addressOf, plainTable } from './tables.ts'

export const runPage: Page = {
  path: '/runs/:id',
  place: '/runs',
  title: 'Run',
  isLive: true,
  async body({ statusQueries, params, viewer, now }) {
    const id = /^\d{1,18}$/.test(params.id ?? '') ? (params.id ?? '') : null
    const run = id === null ? null : await statusQueries.run(id)
    if (run === null)
      return noSuch('run', html`Runs are kept for 90 days. <a href="/runs">All runs</a>`, [['/runs', 'Runs']])
    const isBlocked = run.steps?.at(-1)?.what === blockStep
    const evidence = isBlocked ? await statusQueries.deletionEvidence(run.stream) : null
    const readings = run.status === 'running' ? await statusQueries.readings(run.stream) : []
    const ofKind = readings.filter(
      ({ reading }) =>
        reading === run.kind || (reading === 'first load' && ['incremental', 'list'].includes(run.kind)),
    )
    const spread = evidence?.runId === run.id ? evidence.spread : null
    return {
      title: `Run ${run.id}`,
      heading: heading({
        title: `Run ${run.id}: ${kindInWords(run.kind)} of ${run.stream}`,
        crumbs: [
          ['/', 'Streams'],
          [`/streams/${run.stream}`, run.stream],
          [`/streams/${run.stream}/runs`, 'Runs'],
        ],
        lead: html`${isBlocked ? state('bad', 'done, deletions blocked') : runState(run.status)} <span class="quiet">· ${when(run, now)} on ${foreign(run.host, 60)} (${run.pid})</span>`,
        bar: html`${spread && html`<a class="btn go" href="/approve?stream=${run.stream}">Review deletions…</a>`}${again(run, { statusQueries, viewer })}`,
      }),
      body: html`${runningNow(ofKind, now)}
${said(run, isBlocked)}
${numbers(run)}
${run.steps !== null && run.steps.length > 0 && stepsCard(run, run.steps)}
${spread && html`<section class="card">${missingRowsChart(spread)}</section>`}
<div class="cols">${cameUpon(run, isBlocked)}${reached(run, now)}</div>
${logCard(run)}`,
    }
  },
}

const again = (
  { stream, kind }: RunStory,
  { statusQueries, viewer }: Pick<PageContext, 'statusQueries' | 'viewer'>,
): Html | null =>
  !statusQueries.streams.includes(stream) ||
  !(
    kind === 'incremental' ||
    kind === 'list' ||
    ((kind === 'lookback' || kind === 'reconcile') && hasPositions(statusQueries, stream))
  )
    ? null
    : actionForm(
        viewer,
        `/streams/${stream}/sync`,
        html`<input type="hidden" name="kind" value="${kind === 'list' ? 'incremental' : kind}"><button>Run again</button>`,
      )

function when({ startedAt, finishedAt, polls }: RunStory, now: Date): Html {
  if (finishedAt === null)
    return html`since ${clock(startedAt, now)} ${zone}, ${shortSpan(now.getTime() - startedAt.getTime())}`
  const span = html`${clock(startedAt, now)} – ${clock(finishedAt, now)} ${zone}`
  return polls > 1
    ? html`${span}, ${count(polls)} runs that found nothing`
    : html`${span}, ${formatDuration(finishedAt.getTime() - startedAt.getTime())}`
}

function said({ stream, error, errorCode, note, status }: RunStory, isBlocked: boolean): Html | null {
  if (error !== null)
    return html`<div class="note bad"><b>It failed${errorCode !== null && html` (${foreign(errorCode, 60)})`}.</b> ${foreign(error, 1_000)}
<p class="small">The next run of ${stream} reads the same again. If somebody has to do something, <a href="/problems">the problems</a> say what; <a href="/streams/${stream}/runs">the runs since then</a> show whether it went on.</p></div>`
  if (note === null) return null
  return html`<div class="note${isBlocked ? ' bad' : status === 'inconclusive' && ' warn'}">${foreign(note, 1_000)}</div>`
}

const numbers = (run: RunStory): Html =>
  html`<section class="card" aria-label="Numbers"><dl class="facts">
${fact('New', count(run.inserted), 'rows')}
${fact('Changed', count(run.updated), 'rows')}
${fact('Unchanged', count(run.unchanged), 'records that were read again and had not changed')}
${fact('Marked deleted', count(run.markedDeleted), 'rows')}
${run.quarantined > 0 && fact('Quarantine', html`<a href="/quarantine?stream=${run.stream}">${count(run.quarantined)}</a>`, 'records that cannot be stored as rows')}
${run.rescued > 0 && fact('Misfit values', count(run.rescued), 'do not fit their column; kept in _rescued')}
${fact('Requests', count(run.requests), size(run.bytes))}
${run.positionTo !== null && run.positionTo !== '0' && fact('Position', wholeVersion(run.positionTo), run.positionFrom === run.positionTo ? 'as before' : `from ${wholeVersion(run.positionFrom ?? '0')}`)}
</dl>${run.inserted + run.updated + run.markedDeleted > 0 && writtenMeanwhile(run)}</section>`

/** Other runs may have written at the same time. */
function writtenMeanwhile({ stream, startedAt, finishedAt }: RunStory): Html {
  const span = rangeAround(startedAt, finishedAt)
  return html`<p class="small"><a href="${addressOf(`/streams/${stream}/rows`, span)}">Rows of ${stream} that were written meanwhile</a> · <a href="${addressOf('/changes', { stream, ...span })}">what changed in them</a></p>`
}

/** What it did, in order. */
const stepsCard = ({ polls, status }: RunStory, steps: readonly RunStep[]): Html =>
  html`<section class="card">${stepsFigure(steps, {
    isBlocked: steps.at(-1)?.what === blockStep,
    isFailed: status === 'failed',
    of: polls > 1 ? 'the last of these runs' : status === 'running' ? 'so far' : null,
  })}</section>`

/** The same line by line, to be read, searched and copied. */
function logCard(run: RunStory): Html | null {
  const lines = runLog(run)
  if (lines.length === 0) return null
  const text = lines.map(({ at, text }) => `${at.toISOString().slice(11, 23)}  ${text}`).join('\n')
  return html`<section class="card" aria-labelledby="log"><h2 id="log">Log</h2><pre class="term" tabindex="0">${foreign(text, 20_000)}</pre><p class="small quiet">Times are UTC. <code>tidemark runs show ${run.id}</code> prints this.</p></section>`
}

const size = (bytes: number): string =>
  bytes >= 1_000_000 ? `${(bytes / 1_000_000).toFixed(1)} MB` : `${count(Math.ceil(bytes / 1_000))} kB`

/** Of a run that did not come to its end nobody knows what it would have found. */
const foundNothing: Readonly<Record<string, string>> = {
  done: 'Nothing out of the ordinary.',
  running: 'Nothing out of the ordinary so far.',
  failed: 'It failed before it could say.',
  inconclusive: 'Nothing that can be relied on: it could not trust what it was shown.',
}

function cameUpon({ stream, causes, differences, lateArrivals, status }: RunStory, isBlocked: boolean): Html {
  const parts = [
    isBlocked ? html`<p>The list lacked more rows than Tidemark marks as deleted without asking.</p>` : null,
    causes !== null && Object.keys(causes).length > 0
      ? html`<p>${plural(
          Object.values(causes).reduce((sum, one) => sum + one, 0),
          'difference',
        )}: ${Object.entries(causes).map(([cause, rows], index) => html`${index > 0 && ', '}${count(rows)} ${cause}`)}.</p>`
      : null,
    differences.length > 0
      ? plainTable({
          caption: 'Rows that differed, the first of them',
          columns: [
            {
              title: 'Key',
              cell: ({ key }) => html`<a href="${recordAddress(stream, key)}">${foreign(key, 80)}</a>`,
            },
            { title: 'Cause', cell: ({ cause }) => cause },
            { title: 'Columns', cell: ({ fields }) => foreign(fields.slice(0, 6).join(', ') || 'all', 200) },
            { title: 'Cure', cell: ({ cure }) => (cure === null ? null : foreign(cure, 200)) },
          ],
          rows: differences,
        })
      : null,
    lateArrivals.length > 0
      ? html`<p>Late commits: ${lateArrivals.map(({ key, lateMs }, index) => html`${index > 0 && ', '}<a href="${recordAddress(stream, key)}">${foreign(key, 60)}</a> (${shortSpan(lateMs)} late)`)}.</p>`
      : null,
  ].filter((part) => part !== null)
  return html`<section class="card c7"><h2>What it found</h2>${parts.length > 0 ? parts : html`<p class="quiet">${foundNothing[status]}</p>`}</section>`
}

const reached = ({ stream, checkpoints, positionFrom, positionTo }: RunStory, now: Date): Html =>
  html`<section class="card c5"><h2>Positions it reached</h2>${
    checkpoints.length === 0
      ? html`<p class="quiet">${(positionTo ?? positionFrom) === positionFrom ? 'It moved no position.' : 'None are kept any more.'} <a href="${addressOf('/checkpoints', { stream })}">Checkpoints</a></p>`
      : html`<ol class="story">${checkpoints.map(({ position, at }) => html`<li><b>${wholeVersion(position)}</b><span class="small quiet">${clock(new Date(at), now)}</span></li>`)}</ol>`
  }</section>`
