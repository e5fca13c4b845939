// `/release`: what is said before held deletions are believed, with their number.

import { type Held, heldOf } from '../../operator/held.ts'
import { actionForm } from '../action-forms.ts'
import { type Html, html } from '../html.ts'
import type { Viewer } from '../viewer.ts'
import { count } from '../words.ts'
import { chosen } from './filters.ts'
import type { Page } from './page.ts'

export const releasePage: Page = {
  path: '/release',
  title: 'Release what is held',
  async body({ desk, viewer, query }) {
    const stream = chosen(query, 'stream', desk.streams)
    const { streams } = await desk.sight()
    const held = heldOf(streams.find((one) => one.stream === stream)?.held)
    if (stream === null || held === null)
      return html`<p class="notice">Nothing is held here. <a href="/">All streams</a></p>`
    return html`<p class="lead">${whatIsHeld(stream, held)}</p>${releaseForm(stream, held, viewer)}`
  },
}

const whatIsHeld = (stream: string, { missing, living, seen }: Held): string =>
  `The last listing of ${stream} showed ${count(seen)} records and lacked ${count(missing)} of ${count(living)} rows. So much is not believed without a person: the upstream may have answered with a part. Releasing takes another census and believes it, and rows whose records are gone are marked as deleted. They stay in the table, and come back when their records do.`

const releaseForm = (stream: string, { missing }: Held, viewer: Viewer): Html | null =>
  actionForm(
    viewer,
    `/streams/${stream}/release`,
    html`<input type="hidden" name="rows" value="${missing}"><button class="primary">Release: about ${count(missing)} rows may be marked as deleted</button> <a href="/">Leave them</a>`,
  )
