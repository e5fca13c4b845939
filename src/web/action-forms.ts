// The forms by which a person acts from a page. Each carries the session's token; without one there are none.

import type { StreamOverview } from '../store/queries/overview.ts'
import { streams } from '../streams/catalog.ts'
import { plural } from '../util/text.ts'
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

/** What can be done with one stream. */
export function streamActions(overview: StreamOverview, viewer: Viewer): Html | null {
  if (!viewer.canAct) return null
  const { stream, paused, blockedDeletions, missedRows } = overview
  const form = (action: string, fields: Html) => actionForm(viewer, `/streams/${stream}/${action}`, fields)
  return html`<details class="actions"><summary>Actions<span class="hidden"> on ${stream}</span></summary>
${blockedDeletions !== null && html`<p><a href="${addressOf('/approve', { stream })}">Review blocked deletions…</a></p>`}
${missedRows > 0 && form('acknowledge', html`<button>Acknowledge ${plural(missedRows, 'missed row')}</button>`)}
${form('sync', html`${kinds(stream)}<button>Read now</button>`)}
${
  paused === null
    ? form(
        'pause',
        html`<label>Reason for the pause <input name="reason" maxlength="300" autocomplete="off"></label><button>Pause</button>`,
      )
    : form('resume', html`<button>Resume</button>`)
}
${hasPositions(stream) && html`<p><a href="${addressOf('/backfill', { stream })}">Backfill…</a></p>`}
</details>`
}

/** List streams are read whole each time. */
const kinds = (stream: string): Html | false =>
  hasPositions(stream) &&
  html`<label>What to read <select name="kind"><option value="incremental">new changes</option><option value="lookback">the recent past (look-back)</option><option value="reconcile">everything (reconcile)</option></select></label>`

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
