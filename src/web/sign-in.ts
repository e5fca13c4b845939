// `/sign-in` and `/sign-out`. The token is compared and forgotten; what stays is the session of sessions.ts.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Assets } from './assets.ts'
import { type Authentication, isFromHere, type TokenCheck, tooManyWrong } from './auth.ts'
import { type Html, html } from './html.ts'
import type { NoteSignIn } from './noting.ts'
import { sendPage } from './page-routes.ts'
import { layout } from './pages/layout.ts'
import { fieldsOf, type Routes, withForms } from './server.ts'
import { longestName } from './sessions.ts'

type Options = {
  /** Null without a token: then there is no way to sign in. */
  readonly authentication: Authentication | null
  readonly checkToken: TokenCheck | null
  /** Everybody may read the pages who reaches the address. */
  readonly isOpen: boolean
  readonly assets: Pick<Assets, 'urlOf'>
  readonly note: NoteSignIn
}

export const signInRoutes =
  ({ authentication, checkToken, isOpen, assets, note }: Options): Routes =>
  (server) => {
    if (authentication === null || checkToken === null) return
    const show = (request: FastifyRequest, reply: FastifyReply, status: number, problem: string | null) => {
      const query = new URLSearchParams(request.url.split('?')[1])
      const { to = query.get('to'), name = '' } = fieldsOf(request)
      const isAfterEnd = query.get('ended') === 'all'
      const body = signInForm({ to: destinationOf(to), name, problem, isAfterEnd })
      return sendPage(
        reply,
        layout({
          ...{ title: 'Sign in', path: '/sign-in', viewer: null, assets, problems: null, body },
          isAlone: !isOpen && authentication.sessionOf(request) === null,
        }),
        status,
      )
    }
    withForms(server, (scope) => {
      scope.get('/sign-in', async (request, reply) =>
        authentication.sessionOf(request)?.role === 'operator'
          ? reply.redirect('/', 303)
          : show(request, reply, 200, null),
      )
      scope.post('/sign-in', async (request, reply) => {
        if (!isFromHere(request))
          return show(request, reply, 403, 'Another site sent this form. Sign in here.')
        const { token = '', to = '/', name = '' } = fieldsOf(request)
        const verdict = checkToken(request, reply, token)
        if (verdict === 'wrong')
          return show(
            request,
            reply,
            401,
            'This is neither the value of ADMIN_TOKEN nor that of VIEWER_TOKEN.',
          )
        if (typeof verdict !== 'string') return show(request, reply, 429, tooManyWrong(verdict))
        const who = { role: verdict, name: printable(name) }
        await note(request, { action: 'signIn', ...who })
        authentication.signIn(request, reply, who)
        return reply.redirect(destinationOf(to), 303)
      })
      scope.post('/sign-out', async (request, reply) => {
        const session = authentication.sessionOf(request)
        const isOwn = session === null || authentication.isOwnForm(session, fieldsOf(request).csrf ?? '')
        // Also without a session: browsers send no cookie with the form of another site, but take the one of the answer.
        if (!isFromHere(request) || !isOwn)
          return show(request, reply, 403, 'That form was out of date. Load the page again.')
        if (session) await note(request, { action: 'signOut', ...session })
        authentication.signOut(request, reply)
        return reply.redirect('/', 303)
      })
    })
  }

/** Only places of this worker, whatever a browser makes of an address. */
function destinationOf(wanted: string | null): string {
  const here = 'http://here.invalid'
  if (wanted === null || !URL.canParse(wanted, here)) return '/'
  const { protocol, origin, pathname, search } = new URL(wanted, here)
  // `blob:` has the origin of what follows.
  return protocol === 'http:' && origin === here && !pathname.startsWith('//') ? `${pathname}${search}` : '/'
}

/** A name for the record is one line. */
const printable = (name: string): string => name.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ').trim()

type Asked = {
  readonly to: string
  readonly name: string
  readonly problem: string | null
  /** Somebody has just ended all sessions. */
  readonly isAfterEnd: boolean
}

const signInForm = ({
  to,
  name,
  problem,
  isAfterEnd,
}: Asked): Html => html`<form class="card dialogue" method="post" action="/sign-in">
<input type="hidden" name="to" value="${to}">
${isAfterEnd && html`<p class="note" role="status">All sessions have ended, yours too. Whoever was signed in signs in again.</p>`}
${problem !== null && html`<p class="note bad" role="alert">${problem}</p>`}
<label>Your name, for the record <input name="name" value="${name}" maxlength="${longestName}" autocomplete="name"></label>
<label>Token <input name="token" type="password" required autofocus autocomplete="current-password"></label>
<p class="hint">With the value of <code>ADMIN_TOKEN</code> you may act, with that of <code>VIEWER_TOKEN</code> look. You stay signed in for twelve hours.</p>
<button class="go">Sign in</button>
</form>`
