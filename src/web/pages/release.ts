// `/release`: what is said before held deletions are believed, with their number.

import { type Held, heldOf } from '../../mirror/held.ts'
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
    const { missing } = held
    if (missing === null)
      return html`<p class="notice">Deletions of ${stream} are held, and how many was not noted. Have all of it read first, by a census or a reading of the whole list: <a href="/">all streams</a></p>`
    return html`<p class="lead">${whatIsHeld(stream, { ...held, missing })}</p>${releaseForm(stream, missing, viewer)}`
  },
}

const whatIsHeld = (stream: string, { missing, living, seen }: Held & { readonly missing: number }): string =>
  `The last listing of ${stream} ${seen === null ? '' : `showed ${count(seen)} records and `}lacked ${count(missing)}${living === null ? '' : ` of ${count(living)}`} rows. So much is not believed without a person: the upstream may have answered with a part. Releasing takes another census and believes it, and rows whose records are gone are marked as deleted. They stay in the table, and come back when their records do.`

const releaseForm = (stream: string, missing: number, viewer: Viewer): Html | null =>
  actionForm(
    viewer,
    `/streams/${stream}/release`,
    html`<input type="hidden" name="rows" value="${missing}"><button class="primary">Release: about ${count(missing)} rows may be marked as deleted</button> <a href="/">Leave them</a>`,
  )
