// The forms by which a person acts from a page. Each carries the session's token; without one there are none.

import type { StreamOverview } from '../store/book/streams.ts'
import { type Html, html } from './html.ts'
import { addressOf } from './pages/tables.ts'
import type { Viewer } from './sessions.ts'
import type { StatusQueries } from './status-queries.ts'

/** Null for a viewer who cannot act. */
export const actionForm = (viewer: Viewer, action: string, fields: Html): Html | null =>
  !viewer.canAct || viewer.csrfToken === null
    ? null
    : html`<form class="act" method="post" action="${action}"><input type="hidden" name="csrf" value="${viewer.csrfToken}">${fields}</form>`

/** Null for who is no admin. */
export const formOfAdmin = (viewer: Viewer, action: string, fields: Html): Html | null =>
  viewer.canAdminister ? actionForm(viewer, action, fields) : null

/** Behind one more click. */
export function adminForm(viewer: Viewer, action: string, title: Html | string, fields: Html): Html | null {
  const form = formOfAdmin(viewer, action, fields)
  return form && html`<details class="actions"><summary>${title}</summary>${form}</details>`
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

/** The forms of one entry in quarantine. */
export const entryForms = (viewer: Viewer, id: string): Html =>
  html`${actionForm(viewer, `/quarantine/${id}/retry`, html`<button>Try again<span class="hidden"> entry ${id}</span></button>`)}
${adminForm(viewer, `/quarantine/${id}/drop`, html`Drop…<span class="hidden"> entry ${id}</span>`, html`${dropReason}<button class="harm">Drop entry ${id}</button>`)}`

/** Forms for all entries of a stream, up to the newest one that the page shows. To drop them, their number has to be typed. */
export const quarantineForms = (
  viewer: Viewer,
  stream: string,
  { records, through }: { readonly records: number; readonly through: string },
): Html =>
  html`${actionForm(viewer, `/quarantine/${stream}/retry`, html`<button class="go">Try all of ${stream} again</button>`)}
${adminForm(
  viewer,
  `/quarantine/${stream}/drop`,
  'Drop all of them…',
  html`<input type="hidden" name="through" value="${through}">${dropReason}<label>Type the number of records <input name="records" inputmode="numeric" required autocomplete="off" placeholder="${records}"></label><button class="harm">Drop all of ${stream}</button>`,
)}`

const dropReason = html`<label>Reason, kept with the record <input name="reason" required maxlength="300" autocomplete="off"></label>`
