// What all pages have around them: navigation, what needs a person, who is signed in.

import type { Concern } from '../../concerns/concern.ts'
import type { Assets } from '../assets.ts'
import { type Html, html } from '../html.ts'
import type { Viewer } from '../viewer.ts'
import { foreign, stamp } from '../words.ts'
import { concernBanner } from './concerns.ts'

type Layout = {
  readonly title: string
  readonly path: string
  readonly viewer: Viewer
  readonly assets: Pick<Assets, 'urlOf'>
  /** Null while nothing is known. */
  readonly concerns: readonly Concern[] | null
  readonly body: Html
  /** As of when the page is, when it does not say so itself. */
  readonly asOf?: Date | null
  /** The page loads itself again after this long. */
  readonly reloadSeconds?: number
}

const places = [
  ['/', 'Overview'],
  ['/runs', 'Runs'],
  ['/checkpoints', 'Checkpoints'],
  ['/quarantine', 'Quarantine'],
  ['/dictionary', 'Dictionary'],
  ['/facts', 'Facts'],
] as const

const styles = ['uplot.css', 'page.css', 'tables.css', 'overview.css', 'actions.css'] as const
const strokes = 'M3 8c3 0 3 3 6 3s3-3 6-3 3 3 6 3M3 15c3 0 3 3 6 3s3-3 6-3 3 3 6 3'
const waves = html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${strokes}" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round"/></svg>`
const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="${strokes}" fill="none" stroke="#1596a5" stroke-width="2.6" stroke-linecap="round"/></svg>`)}`

const queuesPlace = ['/queues', 'Queues'] as const

export const layout = ({ title, path, viewer, assets, concerns, body, asOf, reloadSeconds }: Layout): Html =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${reloadSeconds !== undefined && html`<meta http-equiv="refresh" content="${reloadSeconds}">`}
<title>${title} · Tidemark</title>
<link rel="icon" href="${icon}">
${styles.map((name) => html`<link rel="stylesheet" href="${assets.urlOf(name)}">\n`)}<script defer src="${assets.urlOf('uplot.js')}"></script>
<script defer src="${assets.urlOf('page.js')}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top">
<p class="brand"><a href="/">${waves}Tidemark</a></p>
<p class="connection" role="status" data-connection></p>
<nav aria-label="Pages"><ul>${[...places, ...(viewer.canAct ? [queuesPlace] : [])].map(
    ([address, name]) =>
      html`<li><a href="${address}"${address === path && html` aria-current="page"`}>${name}</a></li>`,
  )}</ul></nav>
${signIn(viewer)}
</header>
<main id="content" tabindex="-1">
${concerns && concernBanner(concerns, path === '/')}
<h1>${title}</h1>
${viewer.told && html`<p class="told ${viewer.told.isGood ? 'good' : 'bad'}" role="status">${foreign(viewer.told.text, 600)}</p>`}
${body}
${asOf && html`<p class="as-of quiet">As of ${stamp(asOf)}</p>`}
</main>
</body>
</html>
`

const signIn = ({ canAct, canSignIn, csrfToken }: Viewer): Html | null => {
  if (canAct)
    return html`<form class="sign-in" method="post" action="/logout"><input type="hidden" name="csrf" value="${csrfToken}"><button>Sign out</button></form>`
  return canSignIn ? html`<p class="sign-in"><a href="/login">Sign in</a></p>` : null
}
