// `/backfill`: the dialogue that comes before a backfill. First what it would take, then the word to begin.

import { UsageError } from '../../usage-error.ts'
import { actionForm, hasPositions } from '../action-forms.ts'
import type { Desk } from '../desk.ts'
import { type Html, html } from '../html.ts'
import type { Viewer } from '../viewer.ts'
import { foreign } from '../words.ts'
import { chosen } from './filters.ts'
import type { Page } from './page.ts'

export const backfillPage: Page = {
  path: '/backfill',
  title: 'Backfill',
  async body({ desk, viewer, query }) {
    if (!viewer.canAct)
      return html`<p class="notice">A backfill is asked for by those who are signed in.${viewer.canSignIn && html` <a href="/login?to=/backfill">Sign in</a>`}</p>`
    const known = desk.streams.filter(hasPositions)
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
${isAsked && (await estimate(desk, viewer, stream, fields))}`
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
  desk: Desk,
  viewer: Viewer,
  stream: string,
  fields: Readonly<Record<string, string>>,
): Promise<Html> {
  try {
    const { text, from, to } = await desk.planBackfill(stream, fields)
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
