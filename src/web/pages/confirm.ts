// Pages that ask before something big. `/backfill` shows what a backfill takes before it begins.

import type { BlockedDeletions } from '../../store/queries/symptoms.ts'
import { UsageError } from '../../util/errors.ts'
import { actionForm, hasPositions } from '../action-forms.ts'
import { count, foreign, type Html, html } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { StatusQueries } from '../status-queries.ts'
import type { Page } from './layout.ts'
import { chosen } from './tables.ts'

export const backfillPage: Page = {
  path: '/backfill',
  title: 'Backfill',
  async body({ statusQueries, viewer, query }) {
    if (!viewer.canAct)
      return html`<p class="note">Sign in to start a backfill.${viewer.canSignIn && html` <a href="/sign-in?to=/backfill">Sign in</a>`}</p>`
    const known = statusQueries.streams.filter(hasPositions)
    const stream = chosen(query, 'stream', known)
    const fields = Object.fromEntries(
      [...query].map(([name, value]) => [name, value.trim()] as const).filter(([, value]) => value !== ''),
    )
    const isAsked = stream !== null && places.some(([name]) => fields[name] !== undefined)
    return html`<p class="lead">A backfill reads a part of the past again. It runs beside the ordinary runs: it leaves rows that are newer as they are, and does not move the position of the stream. First see what it takes; nothing is read before you start it.</p>
<form class="card dialogue" method="get" action="/backfill">
<label>Stream <select name="stream">${known.map(
      (name) => html`<option${name === stream && html` selected`}>${name}</option>`,
    )}</select></label>
<fieldset><legend>From (fill in one)</legend>${places.map(([name, title, example]) => input(name, title, example, fields[name] ?? null))}</fieldset>
${input('to-version', 'Up to row version', 'if empty, up to the position of the stream', fields['to-version'] ?? null)}
<button${!isAsked && html` class="go"`}>Show what it takes</button>
</form>
${isAsked && (await estimate(statusQueries, viewer, stream, fields))}`
  },
}

const places = [
  ['from-version', 'Above row version', 'for example 120000'],
  ['from-checkpoint', 'From checkpoint', 'its number, from the page Checkpoints'],
  ['at', 'From the position at this time', 'for example 2025-01-31T14:30:00Z; without an offset it is UTC'],
] as const

const input = (name: string, title: string, hint: string, value: string | null): Html =>
  html`<label>${title} <input name="${name}" value="${value}" autocomplete="off" aria-describedby="${name}-hint"><span class="hint" id="${name}-hint">${hint}</span></label>`

async function estimate(
  statusQueries: StatusQueries,
  viewer: Viewer,
  stream: string,
  fields: Readonly<Record<string, string>>,
): Promise<Html> {
  try {
    const { text, from, to } = await statusQueries.planBackfill(stream, fields)
    return html`<section class="card dialogue" aria-labelledby="estimate"><h2 id="estimate">What it takes</h2>
<p role="status">${text}</p>
${actionForm(
  viewer,
  `/streams/${stream}/backfill`,
  html`<input type="hidden" name="from-version" value="${from}"><input type="hidden" name="to-version" value="${to}"><button class="go">Start the backfill</button> <a href="/checkpoints">Do not start</a>`,
)}</section>`
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    return html`<p class="note bad" role="alert">${foreign(error.message, 400)}</p>`
  }
}

// `/approve` shows how many deletions are blocked, and what approving them does.
export const approvePage: Page = {
  path: '/approve',
  title: 'Blocked deletions',
  async body({ statusQueries, viewer, query }) {
    const stream = chosen(query, 'stream', statusQueries.streams)
    const { streams } = await statusQueries.snapshot()
    const blocked = streams.find((one) => one.stream === stream)?.blockedDeletions ?? null
    if (stream === null || blocked === null)
      return html`<p class="note">No deletions are blocked here. <a href="/">All streams</a></p>`
    const { missing } = blocked
    if (missing === null)
      return html`<p class="note">Deletions of ${stream} are blocked, but their number is not known. Run a reconcile first: it counts them. <a href="/">All streams</a></p>`
    return html`<p class="lead">${whatIsBlocked(stream, { ...blocked, missing })}</p>${approveForm(stream, missing, viewer)}`
  },
}

const whatIsBlocked = (
  stream: string,
  { missing, living, seen }: BlockedDeletions & { readonly missing: number },
): string =>
  `${count(missing)}${living === null ? '' : ` of ${count(living)}`} rows of ${stream} were missing from the last listing of the upstream${seen === null ? '' : `, which showed ${count(seen)} records`}. So many at once can mean that the upstream showed only a part, for example because the integration user lost a permission. That is why Tidemark has not marked them deleted. If they are really gone, approve: Tidemark lists the stream once more and marks the rows that are still missing as deleted. They stay in the table, and are restored if their records come back.`

const approveForm = (stream: string, missing: number, viewer: Viewer): Html | null =>
  actionForm(
    viewer,
    `/streams/${stream}/approve`,
    html`<input type="hidden" name="rows" value="${missing}"><button class="go">Approve ${count(missing)} deletions</button> <a href="/">Leave them blocked</a>`,
  )
