// The forms by which a person acts from a page. Each carries the session's token; without one there are none.

import type { StreamOverview } from '../store/queries/overview.ts'
import { streams } from '../streams/catalog.ts'
import { type Html, html } from './html.ts'
import { addressOf } from './pages/tables.ts'
import type { Viewer } from './sessions.ts'

/** Null for a viewer who cannot act. */
export const actionForm = (viewer: Viewer, action: string, fields: Html): Html | null =>
  viewer.csrfToken === null
    ? null
    : html`<form class="act" method="post" action="${action}"><input type="hidden" name="csrf" value="${viewer.csrfToken}">${fields}</form>`

export const hasPositions = (stream: string): boolean =>
  streams.some(({ name, kind }) => name === stream && kind === 'changes')

/** What can be done with one stream, beside its name. Who may not act sees the command that does the same. */
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
  html`<a href="${addressOf('/backfill', { stream, 'from-checkpoint': checkpoint })}">Backfill from ${checkpoint}…</a>`

export const cancelForm = (viewer: Viewer, backfill: string): Html | null =>
  actionForm(viewer, `/backfills/${backfill}/cancel`, html`<button>Cancel backfill ${backfill}</button>`)

/** `target` is the id of an entry, or a stream for all of it; then `through` is the newest entry that there is to see. */
export const quarantineForms = (
  viewer: Viewer,
  target: string,
  what: string,
  through: string | null = null,
): Html =>
  html`${actionForm(viewer, `/quarantine/${target}/retry`, html`<button>Retry ${what}</button>`)}
${actionForm(
  viewer,
  `/quarantine/${target}/drop`,
  html`${through !== null && html`<input type="hidden" name="through" value="${through}">`}<label>Reason <input name="reason" required maxlength="300" autocomplete="off"></label><button>Drop ${what}</button>`,
)}`
