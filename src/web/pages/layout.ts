// What all pages have around them: navigation, problems, who is signed in.

import { isNews, type Problem } from '../../problems/stream-problems.ts'
import type { Assets } from '../assets.ts'
import { foreign, type Html, html, stamp } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { StatusQueries } from '../status-queries.ts'

// The problems, at the top of every page; nothing when there are none. Announced is only how many there are, so that a screen reader is
// not told every changed word.
const problemBanner = (problems: readonly Problem[], isOpen: boolean): Html =>
  html`<details class="problems"${isOpen && html` open`}>
<summary><span role="status" data-live="problem-count">${problemCount(problems)}</span></summary>
<div data-live="problems">${problemList(problems)}</div>
</details>`

/** The pieces of it that follow what happens, by their keys. */
export const problemCells = (problems: readonly Problem[]) =>
  [
    ['problem-count', problemCount(problems)],
    ['problems', problemList(problems)],
  ] as const

const problemCount = (problems: readonly Problem[]): Html | null => {
  const news = problems.filter(({ kind }) => isNews(kind)).length
  const needs = problems.length - news
  const parts = [
    needs > 0 && (needs === 1 ? 'One thing needs you' : `${needs} things need you`),
    news > 0 && (news === 1 ? 'one change to know about' : `${news} changes to know about`),
  ]
  const text = parts.filter(Boolean).join(' and ')
  return text === '' ? null : html`${text}`
}

const problemList = (problems: readonly Problem[]): Html | null =>
  problems.length === 0 ? null : html`<ul>${problems.map(line)}</ul>`

const line = ({ what, whatToDo, runbook, since }: Problem): Html =>
  html`<li><p>${foreign(what, 500)}${since && html` <span class="quiet">since ${stamp(since)}</span>`}</p>
<p class="todo">${withCode(whatToDo)} <span class="quiet">More: ${runbook}</span></p></li>`

/** What stands between backticks is a command. */
const withCode = (text: string): readonly Html[] =>
  text.split('`').map((part, index) => (index % 2 === 0 ? html`${part}` : html`<code>${part}</code>`))

type Layout = {
  readonly title: string
  readonly path: string
  readonly viewer: Viewer
  readonly assets: Pick<Assets, 'urlOf'>
  /** Null while nothing is known. */
  readonly problems: readonly Problem[] | null
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
  ['/upstream', 'Upstream'],
] as const

const styles = ['uplot.css', 'page.css', 'tables.css', 'overview.css', 'actions.css'] as const
const strokes = 'M3 8c3 0 3 3 6 3s3-3 6-3 3 3 6 3M3 15c3 0 3 3 6 3s3-3 6-3 3 3 6 3'
const waves = html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${strokes}" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round"/></svg>`
const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="${strokes}" fill="none" stroke="#1596a5" stroke-width="2.6" stroke-linecap="round"/></svg>`)}`

const queuesPlace = ['/queues', 'Queues'] as const

export const layout = ({ title, path, viewer, assets, problems, body, asOf, reloadSeconds }: Layout): Html =>
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
${problems && problemBanner(problems, path === '/')}
<h1>${title}</h1>
${viewer.message && html`<p class="message ${viewer.message.isGood ? 'good' : 'bad'}" role="status">${foreign(viewer.message.text, 600)}</p>`}
${body}
${asOf && html`<p class="as-of quiet">As of ${stamp(asOf)}</p>`}
</main>
</body>
</html>
`

const signIn = ({ canAct, canSignIn, csrfToken }: Viewer): Html | null => {
  if (canAct)
    return html`<form class="sign-in" method="post" action="/sign-out"><input type="hidden" name="csrf" value="${csrfToken}"><button>Sign out</button></form>`
  return canSignIn ? html`<p class="sign-in"><a href="/sign-in">Sign in</a></p>` : null
}

// What a page is: a path, a title, and what it shows of the status queries.
export type PageContext = {
  readonly statusQueries: StatusQueries
  readonly viewer: Viewer
  readonly query: URLSearchParams
  readonly now: Date
}
export type Page = {
  readonly path: string
  readonly title: string
  /** It says itself as of when it is, and follows. */
  readonly isLive?: true
  body(context: PageContext): Promise<Html>
}
