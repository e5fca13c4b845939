// Pages that ask before something big is done. `/backfills` shows current and past backfills, and what a new one would take.

import {
  type EvidenceFact,
  evidenceFacts,
  othersFoundGone,
  shareMissing,
  toApprove,
} from '../../operator/deletions.ts'
import type { DeletionEvidence } from '../../store/book/deletions.ts'
import type { BlockedDeletions, Rejection } from '../../store/book/symptoms.ts'
import { isLookedUpByKey } from '../../streams/catalog.ts'
import { tableName, viewName } from '../../streams/names.ts'
import { UsageError } from '../../util/errors.ts'
import { capitalized, plural } from '../../util/text.ts'
import { actionForm, hasPositions, mistakeIn } from '../action-forms.ts'
import { runningNow } from '../first-load.ts'
import { newForm, openFields, wrongIn } from '../form-fields.ts'
import { count, foreign, type Html, html, state, time } from '../html.ts'
import { missingRowsChart } from '../missing-rows.ts'
import type { Viewer } from '../sessions.ts'
import type { BackfillPlan } from '../status-queries.ts'
import { backfillList } from './checkpoints.ts'
import { heading, type Page } from './layout.ts'
import { recordAddress } from './rows.ts'
import { signInHere } from './stream-frame.ts'
import { chosen } from './tables.ts'

export const backfillPage: Page = {
  path: '/backfills',
  title: 'Backfills',
  isLive: true,
  async body(context) {
    const { statusQueries, viewer, query } = context
    const known = statusQueries.streams.filter((one) => hasPositions(statusQueries, one))
    const stream = chosen(query, 'stream', known)
    const fields = Object.fromEntries(
      [...query].map(([name, value]) => [name, value.trim()] as const).filter(([, value]) => value !== ''),
    )
    const readings = await statusQueries.readings(null)
    const isAsked = stream !== null && places.some(([name]) => fields[name] !== undefined)
    const planned = isAsked ? await orWrong(statusQueries.planBackfill(stream, fields)) : null
    const wrong = planned instanceof UsageError ? wrongIn(planned) : null
    const form = openFields('/backfills', { ...newForm, typed: { ...fields, stream: stream ?? '' }, wrong })
    return {
      heading: heading({
        title: 'Read a part of the past again',
        lead: 'A backfill runs beside the ordinary runs. It never moves the position, and leaves rows that are newer as they are.',
      }),
      body: html`${runningNow(
        readings.filter(({ reading }) => reading === 'backfill'),
        context.now,
      )}
${await backfillList(context, null)}
${
  viewer.canAct
    ? html`<form class="card dialogue" method="get" action="/backfills"><h2>New backfill</h2>
${form.choice({ name: 'stream', title: 'Stream', choices: known.map((name) => [name, name] as const) })}
<fieldset><legend>From (fill in one)</legend>${places.map(([name, title, hint]) => form.line({ name, title, hint }))}</fieldset>
${form.line({ name: 'to-version', title: 'Up to row version', hint: 'if empty, up to the current position of the stream' })}
${form.rest()}
<button${!isAsked && html` class="go"`}>Show what it takes</button>
</form>
${isAsked && planned && !(planned instanceof UsageError) && estimate(planned, stream, viewer)}`
    : html`<section class="card"><h2>New backfill</h2><p>You can view this page but not act. An operator can start one here${signInHere(viewer)}, or anyone on the worker’s machine:</p><pre class="term" tabindex="0">tidemark backfill ${known[0] ?? 'STREAM'} --at 2026-01-31T14:30:00Z</pre></section>`
}`,
    }
  },
}

export const timeExample = 'for example 2025-01-31T14:30:00Z; without an offset it is UTC'
const places = [
  ['from-version', 'Above row version', 'for example 120000'],
  ['from-checkpoint', 'From checkpoint', html`its number: see <a href="/checkpoints">Checkpoints</a>`],
  ['at', 'From the position at this time', timeExample],
] as const

/** The plan; or why what was asked cannot be right. */
export const orWrong = <Plan>(plan: Promise<Plan>): Promise<Plan | UsageError> =>
  plan.catch((error) => {
    if (error instanceof UsageError) return error
    throw error
  })

const estimate = ({ text, from, to }: BackfillPlan, stream: string, viewer: Viewer): Html =>
  html`<section class="card dialogue" aria-labelledby="estimate"><h2 id="estimate">What it takes</h2>
<p role="status">${text}</p>
${actionForm(
  viewer,
  `/streams/${stream}/backfill`,
  html`<input type="hidden" name="from-version" value="${from}"><input type="hidden" name="to-version" value="${to}"><button class="go">Start the backfill</button> <a class="btn" href="/backfills">Do not start</a>`,
)}</section>`

// `/approve` shows the evidence for and against blocked deletions, and asks for a reason and the number of rows.
export const approvePage: Page = {
  path: '/approve',
  place: '/problems',
  title: 'Blocked deletions',
  async body({ statusQueries, viewer, query }) {
    const { streams } = await statusQueries.snapshot()
    const all = streams.filter(({ blockedDeletions }) => blockedDeletions !== null)
    const stream =
      chosen(query, 'stream', statusQueries.streams) ?? (all.length === 1 ? (all[0]?.stream ?? null) : null)
    if (stream === null && all.length > 1)
      return html`<p class="note warn">Deletions of several streams are blocked: ${all.map((one, index) => html`${index > 0 && ', '}<a href="/approve?stream=${one.stream}">${one.stream}</a>`)}.</p>`
    const blocked = streams.find((one) => one.stream === stream)?.blockedDeletions ?? null
    if (stream === null || blocked === null)
      return html`<p class="note">No deletions are blocked here. <a href="/">All streams</a></p>`
    const missing = toApprove(blocked)
    if (missing === null)
      return html`<p class="note">Deletions of ${stream} are blocked (${shareMissing(blocked)}), but their number is not known. Run a reconcile first: it counts them. <a href="/streams/${stream}/read">Read again…</a></p>`
    const evidence = await statusQueries.deletionEvidence(stream)
    const isLookedUp = statusQueries.catalogue.some((one) => one.name === stream && isLookedUpByKey(one))
    return {
      heading: heading({
        title: `Mark ${plural(missing, 'row')} of ${stream} as deleted?`,
        crumbs: [['/problems', 'Problems']],
        lead: html`${missing === 1 ? 'It is' : 'They are'} missing from the list of the upstream. Tidemark marks nothing as deleted until you confirm.${blocked.rejected && html` ${frozenInWords(blocked.rejected)}`}`,
      }),
      body: html`<div class="cols">${whatIsKnown(stream, { ...blocked, missing }, evidence, isLookedUp)}${whatWillHappen(stream, { ...blocked, missing }, evidence, viewer)}</div>`,
    }
  },
}

type Blocked = BlockedDeletions & { readonly missing: number }

const whatIsKnown = (
  stream: string,
  blocked: Blocked,
  evidence: DeletionEvidence,
  isLookedUp: boolean,
): Html => {
  const { seen, missing, marked = null } = blocked
  const { samples, spread } = evidence
  const facts = evidenceFacts(evidence, blocked, isLookedUp)
  return html`<section class="card c7"><p>${shareMissing(blocked)} of ${stream} ${missing === 1 ? 'was' : 'were'} missing from the last listing of the upstream${seen !== null && `, which showed ${count(seen)} records`}. ${marked === null ? 'So many at once' : `With ${count(marked)} others, which were marked deleted within the day before, that is more than a fifth. So many`} can mean that the upstream showed only a part, for example because the integration user lost a permission.</p>
<h2>What speaks for it</h2><ul class="steps">${facts.filter(({ speaks }) => speaks === 'for').map(factLine)}</ul>
<h2>What speaks against it</h2><ul class="steps">${facts.filter(({ speaks }) => speaks === 'against').map(factLine)}<li>${state('warn', '')} Whether the integration user still may see everything is not known: <code>tidemark probe</code></li></ul>
${spread && missingRowsChart(spread)}
${
  samples.length > 0 &&
  html`<h3>Some of them</h3>${[...Map.groupBy(samples, ({ evidence: said }) => said ?? 'not looked up')].map(
    ([said, of]) =>
      html`<p>${foreign(said, 200)}: ${of.map(({ key }, index) => html`${index > 0 && ', '}<a href="${recordAddress(stream, key)}">${foreign(key, 80)}</a>`)}</p>`,
  )}`
}</section>`
}

const factLine = ({ tone, text, at }: EvidenceFact): Html =>
  html`<li>${state(tone, '')} ${capitalized(text)}${at && html` <small class="quiet">asked on ${time(at)}</small>`}</li>`

/** `Frozen since 09:12 by Ada: “a lost right”.` */
export const frozenInWords = ({ at, by, reason }: Rejection): Html =>
  html`Frozen${at && html` since ${time(at)}`} by ${foreign(by, 80)}${reason !== null && html`: “${foreign(reason, 300)}”`}.`

export const lookAgainForm = (viewer: Viewer, stream: string): Html =>
  actionForm(viewer, `/streams/${stream}/look-again`, html`<button>Look again now</button>`) ??
  html`<code class="small">tidemark deletions undo ${stream}</code>`

const whatWillHappen = (
  stream: string,
  { missing, rejected }: Blocked,
  evidence: DeletionEvidence,
  viewer: Viewer,
): Html => {
  const restoring =
    evidence.marked > 0 &&
    `${othersFoundGone(evidence)}: let ${evidence.marked === 1 ? 'it' : 'them'} live again, too`
  const number = { name: 'rows', title: 'Type the number of rows' } as const
  const [approving, rejecting] = [`/streams/${stream}/approve`, `/streams/${stream}/reject`]
  return html`<section class="card c5"><h2>What will happen</h2><ol class="steps"><li>Tidemark lists ${stream} once more.</li><li>Where records can be looked up by key, each row that is still missing is proven gone: by a lookup, or, if there are many, by a second reading of its part of the list. Normal reading goes on meanwhile.</li><li>Those that are gone get <code>_deleted_at</code> and leave <code>${viewName(stream)}</code>. They stay in <code>${tableName(stream)}</code>, and a row that comes back lives again.</li></ol>
${
  viewer.canAct
    ? html`${actionForm(viewer, approving, (fields) => html`${fields.text({ name: 'reason', title: 'Why you believe it' })}${fields.line({ ...number, more: html`inputmode="numeric" required placeholder="${missing}"` })}<div class="bar"><button class="harm">Mark ${plural(missing, 'row')} as deleted</button><a class="btn" href="/problems">Cancel</a></div>`)}
${rejected && html`<h3>Frozen</h3><p>Was the cause mended upstream? The list is read again now; if the rows are still missing, you are asked again.</p>${lookAgainForm(viewer, stream)}`}
<details${mistakeIn(viewer, rejecting) && html` open`}><summary>${rejected ? 'Keep them for another reason…' : 'They are not gone: keep the rows…'}</summary>${actionForm(viewer, rejecting, (fields) => html`${fields.text({ name: 'reason', title: 'Why they are kept' })}${restoring && fields.check({ name: 'restore', title: restoring })}<button>Keep the rows</button>`)}<p class="small quiet">No deletion of ${stream} is marked until a list lacks other rows than these, or somebody looks again.</p></details>
<p class="small quiet">Recorded: your name, address, time, reason, and the number you typed. If the number changes before you confirm, nothing is marked and you are asked again.</p>`
    : html`<p>You can view this page but not act. An operator can do this here, or anyone on the worker’s machine:</p><pre class="term" tabindex="0">tidemark deletions approve ${stream} --rows ${missing}</pre>`
}</section>`
}
