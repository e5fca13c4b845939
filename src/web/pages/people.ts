// `/people`: who is signed in, which tokens people and programs have, and what each role may do. A new token has a page of its own.

import type { AccessToken, SessionLine } from '../../store/book/people.ts'
import { actionForm, adminForm } from '../action-forms.ts'
import type { FormFields } from '../form-fields.ts'
import { age, clock, copyButton, foreign, type Html, html } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import { heading, type Layout, type Page } from './layout.ts'
import { type Column, table } from './tables.ts'

export const peoplePage: Page = {
  path: '/people',
  title: 'People',
  async body({ statusQueries, viewer, isOpen = false, now }) {
    const [sessions, tokens, own] = await Promise.all([
      statusQueries.sessions(),
      statusQueries.tokens(),
      viewer.sessionKey === undefined ? null : statusQueries.sessionId(viewer.sessionKey),
    ])
    return {
      heading: heading({
        title: 'People',
        lead: html`Viewers look. Operators also act. Admins also change settings and alerts, drop records, make and revoke tokens, and end sessions. Who did what is in <a href="/actions">the record</a>.`,
      }),
      body: html`${isOpen && readByAll}
${table({
  caption: 'Signed in',
  columns: sessionColumns(viewer, now, own),
  rows: sessions,
  empty: 'Nobody is signed in.',
})}
${adminForm(
  viewer,
  '/sessions/end',
  'End all sessions…',
  html`<p>Everybody who is signed in, you among them, has to sign in again. If somebody may know a token, revoke or change the token: the sessions that began with it end, too.</p><button class="harm">End all sessions</button>`,
)}
${table({
  caption: 'Tokens of single people and programs',
  columns: tokenColumns(viewer, now),
  rows: tokens,
  empty: 'There are no tokens of single people or programs.',
})}
${adminForm(viewer, '/tokens/create', 'Make a token…', (fields) => tokenFields(fields, now))}`,
    }
  },
}

const readByAll = html`<p class="note"><b>Reading needs no token.</b> Everybody who reaches this address may read all pages, the API and downloads: the worker listens on an address of its own machine alone, and no way to sign in as a viewer is set up. Tokens only decide who may act, so revoking one keeps nobody from reading. <code>VIEWER_TOKEN</code>, <code>OIDC_ISSUER</code> or <code>IDENTITY_PROXIES</code> lets only those read who sign in.</p>`

const usualMs = 90 * 86_400_000

const roleChoices = [
  ['viewer', 'look (viewer)'],
  ['operator', 'look and act (operator)'],
  ['admin', 'do everything (admin)'],
] as const

const tokenNames =
  'of the person or program, as the record of actions shows it: small letters, digits, and . _ @ - between them'

const tokenFields = (fields: FormFields, now: Date): Html =>
  html`<div class="dialogue"><p>A token lets one person or program in, until it ends or is revoked. It is shown once: Tidemark keeps only its hash.</p>
${fields.line({
  name: 'target',
  title: 'Name',
  hint: tokenNames,
  more: html`required maxlength="60" pattern="[a-z0-9]([a-z0-9._@\\-]*[a-z0-9])?" placeholder="nightly-report" title="small letters, digits, and . _ @ - between them"`,
})}
${fields.choice({ name: 'role', title: 'May', choices: roleChoices })}
${fields.line({
  name: 'until',
  title: 'Ends on',
  hint: 'at midnight UTC; empty: when it is revoked',
  value: new Date(now.getTime() + usualMs).toISOString().slice(0, 10),
  more: html`type="date"`,
})}
<button>Make the token</button></div>`

/** The only page that shows a token, once: it is the answer to the form, and nobody keeps it. */
export const tokenPage = (
  { viewer, assets }: Pick<Layout, 'viewer' | 'assets'>,
  text: string,
  token: string,
): Layout => ({
  title: 'The new token',
  path: '/people',
  viewer,
  assets,
  problems: null,
  heading: heading({ crumbs: [['/people', 'People']], title: 'The new token', lead: text }),
  body: html`<section class="card"><h2>Copy it now</h2><p>It is shown only here. If it is lost, revoke it and make another one.</p>
<pre class="term" tabindex="0" id="token">${token}</pre>
<div class="bar">${copyButton('Copy the token', { from: 'token' })}<a class="btn" href="/people">I have it</a></div>
<p>People paste it at <i>Sign in</i>. A program sends it with each request:</p><pre class="term" tabindex="0">Authorization: Bearer ${token.slice(0, 12)}…</pre></section>`,
})

/** `own`: the session of whoever looks. */
const sessionColumns = (viewer: Viewer, now: Date, own: string | null): readonly Column<SessionLine>[] => [
  {
    title: 'Who',
    cell: ({ who, id }) => html`<b>${foreign(who, 80)}</b>${id === own && ' (this is you, here)'}`,
  },
  { title: 'Role', cell: ({ role }) => role },
  { title: 'From', cell: ({ address }) => address },
  { title: 'Signed in', cell: ({ begunAt }) => clock(begunAt, now) },
  { title: 'Last seen', cell: ({ seenAt }) => age(seenAt, now) },
  { title: 'Until', cell: ({ endsAt }) => clock(endsAt, now) },
  {
    title: 'Act',
    isLeftOut: !viewer.canAdminister,
    cell: ({ id }) => actionForm(viewer, `/sessions/${id}/end`, html`<button>End session ${id}</button>`),
  },
]

const tokenColumns = (viewer: Viewer, now: Date): readonly Column<AccessToken>[] => [
  { title: 'Name', cell: ({ name }) => html`<b>${foreign(name, 60)}</b>` },
  { title: 'Role', cell: ({ role }) => role },
  { title: 'Until', cell: ({ endsAt }) => (endsAt === null ? 'it is revoked' : clock(endsAt, now)) },
  {
    title: 'Last used',
    cell: ({ lastUsedAt }) => (lastUsedAt === null ? 'never' : age(lastUsedAt, now)),
  },
  {
    title: 'Made',
    cell: ({ createdAt, createdBy }) =>
      html`${clock(createdAt, now)}<br><span class="small quiet">${foreign(createdBy, 80)}</span>`,
  },
  {
    title: 'Act',
    isLeftOut: !viewer.canAdminister,
    cell: ({ name }) =>
      adminForm(
        viewer,
        `/tokens/${name}/revoke`,
        html`Revoke…<span class="hidden"> ${name}</span>`,
        html`<button class="harm">Revoke ${name}</button>`,
      ),
  },
]
