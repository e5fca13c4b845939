// What all pages have around them: navigation, search, who is signed in, and what came of the last action.

import type { FastifyReply } from 'fastify'
import type { Problem } from '../../problems/stream-problems.ts'
import type { Assets } from '../assets.ts'
import { toldWithPlaces } from '../command-places.ts'
import { foreign, type Html, html, markupOf, time } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import type { StatusQueries } from '../status-queries.ts'
import { needsCount } from './problem-cards.ts'

const badge = (problems: readonly Problem[]): Html | null => {
  const needs = needsCount(problems)
  return needs === 0 ? null : html`<span class="badge">${needs}<span class="hidden"> need you</span></span>`
}

export type Layout = {
  readonly title: string
  /** The path of the place in the navigation that the page belongs to. */
  readonly path: string
  /** Null where it does not matter who looks. */
  readonly viewer: Viewer | null
  readonly assets: Pick<Assets, 'urlOf'>
  /** Null while nothing is known. */
  readonly problems: readonly Problem[] | null
  /** Instead of the title alone. */
  readonly heading?: Html | null
  readonly body: Html
  readonly asOf?: Date | null
  /** There is a made-up upstream to break. */
  readonly isDemo?: boolean
  /** The reader may not see any other page, at least not yet: the page has no navigation. */
  readonly isAlone?: boolean
  /** While it is open, it shows what happens. */
  readonly isLive?: boolean
  readonly now?: Date
  /** The page loads itself again after this long. */
  readonly reloadSeconds?: number
  /** Or it leads to this place of the worker. */
  readonly goTo?: string
}

export const places = [
  ['/', 'Overview'],
  ['/problems', 'Problems'],
  ['/find', 'Data'],
  ['/runs', 'Runs'],
  ['/upstream', 'Upstream'],
  ['/workers', 'Workers'],
  ['/backfills', 'Backfills'],
] as const

/** Less often needed. */
export const morePlaces = [
  ['/events', 'What happened'],
  ['/changes', 'Changes'],
  ['/quarantine', 'Quarantine'],
  ['/dictionary', 'Dictionary'],
  ['/checkpoints', 'Checkpoints'],
  ['/actions', 'Who did what'],
  ['/sources', 'Sources'],
  ['/alerts', 'Alerts'],
  ['/people', 'People'],
  ['/settings', 'Settings'],
] as const

const styles = ['page.css', 'parts.css'] as const
const strokes = 'M2 8c3.3-3 6.7-3 10 0s6.7 3 10 0M2 13.5c3.3-3 6.7-3 10 0s6.7 3 10 0M5 20h14'
const waves = html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${strokes}" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round"/></svg>`
const icon = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="${strokes}" fill="none" stroke="#1596a5" stroke-width="2.6" stroke-linecap="round"/></svg>`)}`

export const layout = (page: Layout): Html => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
${page.reloadSeconds !== undefined && html`<meta http-equiv="refresh" content="${page.reloadSeconds}">`}${page.goTo !== undefined && html`<meta http-equiv="refresh" content="0;url=${page.goTo}">`}
<title>${page.title} · Tidemark</title>
<link rel="icon" href="${icon}">
${styles.map((name) => html`<link rel="stylesheet" href="${page.assets.urlOf(name)}">\n`)}<script defer src="${page.assets.urlOf('page.js')}"></script>
</head>
<body data-now="${(page.now ?? new Date()).toISOString()}">
<a class="skip" href="#main">Skip to the content</a>
${top(page)}
<main id="main" tabindex="-1">
${page.viewer?.message && html`<p class="message ${page.viewer.message.isGood ? 'good' : 'bad'}" role="status">${toldWithPlaces(page.viewer.message.text, 600)}</p>`}
<div class="follows"${page.isLive && html` data-follows`}>
${page.heading ?? heading({ title: page.title })}
${page.body}
</div>
</main>
${!page.isAlone && foot(page)}
</body>
</html>
`

// What the browser may do with a page, beside what holds for every answer.
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ')

export const pageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': contentPolicy,
}

export const sendPage = (reply: FastifyReply, page: Layout, status = 200): FastifyReply =>
  reply
    .code(status)
    .headers(pageHeaders)
    .send(markupOf(layout(page)))

function foot({ asOf, viewer }: Layout): Html {
  return html`<footer><p><span>${morePlaces.map(([address, name], index) => html`${index > 0 && ' · '}<a href="${address}">${name}</a>`)}</span>${asOf && html`<span data-as-of>As of ${time(asOf)}</span>`}${viewer && whoIs(viewer)}<button type="button" class="link" data-own-zone title="Times in UTC, or by the clock of this device" hidden>Times: UTC</button><button type="button" class="link" data-open-keys hidden>Keys</button></p></footer>
${keysDialog}`
}

const top = (page: Layout): Html => html`<header class="top">
<a class="brand" href="/">${waves}Tidemark</a>
${!page.isAlone && ways(page)}
</header>`

function ways({ path, viewer, problems, isDemo }: Layout): Html {
  return html`<nav aria-label="Main"><ul class="nav">${places.map(
    ([address, name]) =>
      html`<li><a href="${address}"${address === path && html` aria-current="page"`}>${name}${address === '/problems' && problems && html` <span data-badge>${badge(problems)}</span>`}</a></li>`,
  )}${isDemo && html`<li><a href="/demo"${path === '/demo' && html` aria-current="page"`}>Demo</a></li>`}</ul></nav>
<form class="find" role="search" method="get" action="/find"><label class="hidden" for="q">Find a record by key, number or text</label><input id="q" name="q" type="search" placeholder="Find a record" maxlength="100" autocomplete="off"></form>
<span class="live" role="status" data-connection></span>
${viewer && account(viewer)}`
}

/** The list of keys. The script opens it, and without the script the keys do nothing. */
const keysDialog = html`<dialog id="keys" aria-labelledby="keys-title"><form method="dialog" class="more"><h2 id="keys-title">Keys</h2>
<dl class="pairs"><dt><kbd>/</kbd></dt><dd>find a record</dd><dt><kbd>g</kbd> and a letter</dt><dd>go to ${places.map(
  ([, name], index) => html`${index > 0 && ', '}<kbd>${name[0]?.toLowerCase()}</kbd> ${name}`,
)}</dd><dt><kbd>j</kbd>, <kbd>k</kbd></dt><dd>next row, row before; <kbd>Enter</kbd> opens it</dd><dt><kbd>?</kbd></dt><dd>this list</dd></dl>
<label class="check"><input type="checkbox" data-use-keys checked> Use these keys, outside of fields</label>
<button>Close</button></form></dialog>`

const account = ({ role, name, signInAt, csrfToken }: Viewer): Html | null => {
  // They sign out where the proxy lets them.
  if (name.startsWith('proxy:')) return null
  if (role !== null)
    return html`<form class="account" method="post" action="/sign-out"><input type="hidden" name="csrf" value="${csrfToken}"><button>Sign out</button></form>`
  return signInAt === null ? null : html`<p class="account"><a href="${signInAt}">Sign in</a></p>`
}

const whoIs = ({ role, name, signInAt }: Viewer): Html => {
  if (role !== null)
    return html`<span>Signed in as ${foreign(name, 80)} (${role})${role === 'viewer' && html`: you can view everything, but not act`}${signInAt && html`. <a href="${signInAt}">Sign in as somebody else</a>`}</span>`
  return html`<span>You can view everything; to act, sign in</span>`
}

/** The head of a page: where it belongs, what it is, one sentence about it, and what can be done. */
export const heading = (head: {
  readonly title: Html | string
  readonly crumbs?: readonly (readonly [address: string, name: string])[] | undefined
  readonly lead?: Html | string | null
  readonly bar?: Html | null
}): Html =>
  html`<div class="head"><div>${
    head.crumbs &&
    html`<p class="crumbs">${head.crumbs.map(([address, name]) => html`<a href="${address}">${name}</a> / `)}</p>`
  }<h1>${head.title}</h1>${head.lead && html`<p class="lead">${head.lead}</p>`}</div>${head.bar && html`<div class="bar">${head.bar}</div>`}</div>`

/** Nothing has the name that the address says. */
export const noSuch = (
  what: string,
  text: Html,
  crumbs?: Parameters<typeof heading>[0]['crumbs'],
): Shown => ({
  title: `No such ${what}`,
  heading: heading({ title: `There is no such ${what}`, crumbs }),
  body: html`<section class="card"><p>${text}</p></section>`,
  status: 404,
})

// What a page is: a path, a title, and what it shows of the status queries.
export type PageContext = {
  readonly statusQueries: StatusQueries
  readonly viewer: Viewer
  readonly query: URLSearchParams
  /** The parameters of the path. */
  readonly params: Readonly<Record<string, string>>
  readonly problems: Promise<readonly Problem[]>
  /** Everybody who reaches the address may read, without a token. */
  readonly isOpen?: boolean
  readonly now: Date
}
export type Shown = {
  /** Left out: that of the page. */
  readonly title?: string
  /** Left out: the title alone. */
  readonly heading?: Html
  readonly body: Html
  /** The part that takes longer. If it is not there soon, the body is sent first and this follows. */
  readonly rest?: () => Promise<Html>
  /** 200 when it is left out. */
  readonly status?: number
}
export type Page = {
  readonly path: string
  /** The path of the page's place in the navigation; left out: its own path. */
  readonly place?: string
  readonly title: string
  /** While it is open, it shows what happens. */
  readonly isLive?: true
  /** It shows the time of its content by itself. */
  readonly showsTime?: true
  /** It may keep the database busy for seconds. */
  readonly isSearch?: true
  body(context: PageContext): Promise<Html | Shown>
}
