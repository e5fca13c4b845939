// `/people`: who is signed in, which tokens people and programs have, and what each role may do.

import type { AccessToken, SessionLine } from '../../store/book/people.ts'
import { actionForm, adminForm } from '../action-forms.ts'
import { age, clock, foreign, html } from '../html.ts'
import type { Viewer } from '../sessions.ts'
import { heading, type Page } from './layout.ts'
import { type Column, table } from './tables.ts'

export const peoplePage: Page = {
  path: '/people',
  title: 'People',
  async body({ statusQueries, viewer, now }) {
    const [sessions, tokens] = await Promise.all([statusQueries.sessions(), statusQueries.tokens()])
    return {
      title: 'People',
      heading: heading({
        title: 'People',
        lead: html`Viewers look. Operators also act. Admins also change settings, drop records, revoke tokens and end sessions. Who did what is in <a href="/actions">the record</a>.`,
      }),
      body: html`${table({
        ...{ caption: 'Signed in', columns: sessionColumns(viewer, now), rows: sessions },
        empty: 'Nobody is signed in.',
      })}
${adminForm(
  viewer,
  '/sessions/end',
  'End all sessions…',
  html`<p>Everybody who is signed in, you among them, has to sign in again. If somebody may know a token, revoke or change the token: the sessions that began with it end, too.</p><button class="harm">End all sessions</button>`,
)}
${table({
  ...{ caption: 'Tokens of single people and programs', columns: tokenColumns(viewer, now), rows: tokens },
  empty:
    'There are no tokens of single people or programs. On the worker’s machine, `tidemark token create NAME --role viewer` makes one for somebody who may only look, and shows it once.',
})}`,
    }
  },
}

const sessionColumns = (viewer: Viewer, now: Date): readonly Column<SessionLine>[] => [
  { title: 'Who', cell: ({ who }) => html`<b>${foreign(who, 80)}</b>` },
  { title: 'Role', cell: ({ role }) => role },
  { title: 'From', cell: ({ address }) => address },
  { title: 'Signed in', cell: ({ begunAt }) => clock(begunAt, now) },
  { title: 'Last seen', cell: ({ seenAt }) => age(seenAt, now) },
  { title: 'Until', cell: ({ endsAt }) => clock(endsAt, now) },
  ...(viewer.canAdminister
    ? [
        {
          title: 'Act',
          cell: ({ id }: SessionLine) =>
            actionForm(viewer, `/sessions/${id}/end`, html`<button>End session ${id}</button>`),
        },
      ]
    : []),
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
  ...(viewer.canAdminister
    ? [
        {
          title: 'Act',
          cell: ({ name }: AccessToken) =>
            adminForm(
              viewer,
              `/tokens/${name}/revoke`,
              html`Revoke…<span class="hidden"> ${name}</span>`,
              html`<button class="harm">Revoke ${name}</button>`,
            ),
        },
      ]
    : []),
]
