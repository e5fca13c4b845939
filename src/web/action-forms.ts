// The forms by which a person acts from a page. Each carries the session's token; without one there are none.

import type { StreamOverview } from '../store/book/streams.ts'
import { type FormFields, newForm, openFields } from './form-fields.ts'
import { type Html, html } from './html.ts'
import { addressOf } from './pages/tables.ts'
import type { Viewer } from './sessions.ts'
import type { StatusQueries } from './status-queries.ts'

/** What stands in a form: buttons alone, or fields, which keep what was typed. */
type Inside = Html | ((fields: FormFields) => Html)

/** `of` tells a form from others of the page that lead to the same action. */
export const formName = (action: string, of: string): string => `${action}#${of}`

/** What was wrong when this form was sent, on the page that shows it next. */
export const mistakeIn = ({ message }: Viewer, action: string, of = '') =>
  message?.mistake?.form === formName(action, of) ? message.mistake : null

/** Null for a viewer who cannot act. */
export function actionForm(viewer: Viewer, action: string, inside: Inside, of = ''): Html | null {
  if (!viewer.canAct || viewer.csrfToken === null) return null
  const mistake = typeof inside === 'function' ? mistakeIn(viewer, action, of) : null
  const fields = openFields(formName(action, of), mistake ?? newForm)
  const shown = typeof inside === 'function' ? inside(fields) : inside
  return html`<form class="act" method="post" action="${action}"${mistake && html` data-mistake`}><input type="hidden" name="csrf" value="${viewer.csrfToken}">${of !== '' && html`<input type="hidden" name="form" value="${of}">`}${fields.rest()}${shown}</form>`
}

/** Null for who is no admin. */
export const formOfAdmin = (viewer: Viewer, action: string, inside: Inside, of = ''): Html | null =>
  viewer.canAdminister ? actionForm(viewer, action, inside, of) : null

/** Behind one more click. */
export function adminForm(
  viewer: Viewer,
  action: string,
  title: Html | string,
  inside: Inside,
  of = '',
): Html | null {
  const form = formOfAdmin(viewer, action, inside, of)
  return (
    form &&
    html`<details class="actions"${mistakeIn(viewer, action, of) && html` open`}><summary>${title}</summary>${form}</details>`
  )
}

export const hasPositions = ({ catalogue }: Pick<StatusQueries, 'catalogue'>, stream: string): boolean =>
  catalogue.some(({ name, kind }) => name === stream && kind === 'changes')

/** What can be done with one stream, beside its name. A viewer who may not act sees the command that does the same. */
export function streamBar(
  { stream, paused }: Pick<StreamOverview, 'stream' | 'paused'>,
  viewer: Viewer,
): Html {
  if (!viewer.canAct)
    return html`<button disabled>Read now</button><code class="small">tidemark sync ${stream}</code>`
  const form = (action: string, fields: Html) => actionForm(viewer, `/streams/${stream}/${action}`, fields)
  return html`${form('sync', html`<button class="go">Read now</button>`)}
<a class="btn" href="/streams/${stream}/read">Read again…</a>
${paused === null ? html`<a class="btn" href="/streams/${stream}/pause">Pause…</a>` : form('resume', html`<button>Resume</button>`)}`
}

export const backfillLink = (stream: string, checkpoint: string): Html =>
  html`<a href="${addressOf('/backfills', { stream, 'from-checkpoint': checkpoint })}">Backfill from ${checkpoint}…</a>`

export const rewindLink = (stream: string, checkpoint: string): Html =>
  html`<a href="${addressOf(`/streams/${stream}/rewind`, { 'to-checkpoint': checkpoint })}">Rewind to ${checkpoint}…</a>`

export const cancelForm = (viewer: Viewer, backfill: string): Html | null =>
  actionForm(viewer, `/backfills/${backfill}/cancel`, html`<button>Cancel backfill ${backfill}</button>`)

export const reasonLine = (fields: FormFields, title = 'Reason', hint?: string): Html =>
  fields.line({ name: 'reason', title, more: html`maxlength="300" required`, ...(hint && { hint }) })

/** The forms of one entry in quarantine. Those of related records and of what is not mirrored now cannot be tried. */
export const entryForms = (viewer: Viewer, id: string, canBeTried: boolean): Html =>
  html`${canBeTried && actionForm(viewer, `/quarantine/${id}/retry`, html`<button>Try again<span class="hidden"> entry ${id}</span></button>`)}
${adminForm(viewer, `/quarantine/${id}/drop`, html`Drop…<span class="hidden"> entry ${id}</span>`, (fields) => html`${dropReason(fields)}<button class="harm">Drop entry ${id}</button>`)}`

/** Forms for all entries of a stream, up to the newest one that the page shows. To drop them, their number has to be typed. */
export const quarantineForms = (
  viewer: Viewer,
  stream: string,
  {
    records,
    through,
    canBeTried,
  }: { readonly records: number; readonly through: string; readonly canBeTried: boolean },
): Html =>
  html`${
    canBeTried
      ? actionForm(
          viewer,
          `/quarantine/${stream}/retry`,
          html`<button class="go">Try all of ${stream} again</button>`,
        )
      : html`<p class="small">They cannot be tried one by one: they are tried when their assignment or their list is read again.</p>`
  }
${adminForm(
  viewer,
  `/quarantine/${stream}/drop`,
  'Drop all of them…',
  (fields) =>
    html`<input type="hidden" name="through" value="${through}">${dropReason(fields)}${fields.line({ name: 'records', title: 'Type the number of records', more: html`inputmode="numeric" required placeholder="${records}"` })}<button class="harm">Drop all of ${stream}</button>`,
)}`

const dropReason = (fields: FormFields): Html => reasonLine(fields, 'Reason, kept with the record')
