// `/backfill`: the dialogue that comes before a backfill. First what it would take, then the word to begin.

import { type BlockedDeletions, blockedDeletionsOf } from '../../store/queries/symptoms.ts'
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
      return html`<p class="notice">A backfill is asked for by those who are signed in.${viewer.canSignIn && html` <a href="/login?to=/backfill">Sign in</a>`}</p>`
    const known = statusQueries.streams.filter(hasPositions)
    const stream = chosen(query, 'stream', known)
    const fields = Object.fromEntries(
      [...query].map(([name, value]) => [name, value.trim()] as const).filter(([, value]) => value !== ''),
    )
    const isAsked = stream !== null && places.some(([name]) => fields[name] !== undefined)
    return html`<p class="lead">Reads a part of the past again, beside the live reading: rows that are newer stay as they are, and the live position does not move. Nothing is read before you have seen what it would take.</p>
<form class="dialogue" method="get" action="/backfill">
<label>Stream <select name="stream">${known.map(
      (name) => html`<option${name === stream && html` selected`}>${name}</option>`,
    )}</select></label>
<fieldset><legend>From one of these</legend>${places.map(([name, title, example]) => input(name, title, example, fields[name]))}</fieldset>
${input('to-version', 'Up to row version', 'otherwise up to the live position', fields['to-version'])}
<button${!isAsked && html` class="primary"`}>Estimate</button>
</form>
${isAsked && (await estimate(statusQueries, viewer, stream, fields))}`
  },
}

const places = [
  ['from-version', 'Above row version', 'such as 120000'],
  ['from-checkpoint', 'From checkpoint', 'its number on the page of checkpoints'],
  ['at', 'From where it was at', '2025-01-31T14:30:00Z, without an offset in UTC'],
] as const

const input = (name: string, title: string, hint: string, value: string | undefined): Html =>
  html`<label>${title} <input name="${name}" value="${value}" autocomplete="off" aria-describedby="${name}-hint"><span class="hint" id="${name}-hint">${hint}</span></label>`

async function estimate(
  statusQueries: StatusQueries,
  viewer: Viewer,
  stream: string,
  fields: Readonly<Record<string, string>>,
): Promise<Html> {
  try {
    const { text, from, to } = await statusQueries.planBackfill(stream, fields)
    return html`<section class="dialogue" aria-labelledby="estimate"><h2 id="estimate">What it would take</h2>
<p role="status">${text}</p>
${actionForm(
  viewer,
  `/streams/${stream}/backfill`,
  html`<input type="hidden" name="from-version" value="${from}"><input type="hidden" name="to-version" value="${to}"><button class="primary">Begin the backfill</button> <a href="/checkpoints">Leave it</a>`,
)}</section>`
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    return html`<p class="problem" role="alert">${foreign(error.message, 400)}</p>`
  }
}

// `/approve`: what is said before held deletions are believed, with their number.
export const approvePage: Page = {
  path: '/approve',
  title: 'Release what is held',
  async body({ statusQueries, viewer, query }) {
    const stream = chosen(query, 'stream', statusQueries.streams)
    const { streams } = await statusQueries.snapshot()
    const blocked = blockedDeletionsOf(streams.find((one) => one.stream === stream)?.blockedDeletions)
    if (stream === null || blocked === null)
      return html`<p class="notice">Nothing is held here. <a href="/">All streams</a></p>`
    const { missing } = blocked
    if (missing === null)
      return html`<p class="notice">Deletions of ${stream} are held, and how many was not noted. Have all of it read first, by a reconcile or a reading of the whole list: <a href="/">all streams</a></p>`
    return html`<p class="lead">${whatIsBlocked(stream, { ...blocked, missing })}</p>${approveForm(stream, missing, viewer)}`
  },
}

const whatIsBlocked = (
  stream: string,
  { missing, living, seen }: BlockedDeletions & { readonly missing: number },
): string =>
  `The last listing of ${stream} ${seen === null ? '' : `showed ${count(seen)} records and `}lacked ${count(missing)}${living === null ? '' : ` of ${count(living)}`} rows. So much is not believed without a person: the upstream may have answered with a part. Releasing takes another reconcile and believes it, and rows whose records are gone are marked as deleted. They stay in the table, and come back when their records do.`

const approveForm = (stream: string, missing: number, viewer: Viewer): Html | null =>
  actionForm(
    viewer,
    `/streams/${stream}/approve`,
    html`<input type="hidden" name="rows" value="${missing}"><button class="primary">Release: about ${count(missing)} rows may be marked as deleted</button> <a href="/">Leave them</a>`,
  )
