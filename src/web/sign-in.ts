// `/sign-in` and `/sign-out`, with a token or at an identity provider. What stays of either is the session of sessions.ts.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  addCookie,
  clientAddress,
  cookieOf,
  destinationOf,
  isFromHere,
  notLookedUp,
  openClientLimit,
  removeCookie,
} from './auth.ts'
import { newForm, openFields } from './form-fields.ts'
import { foreign, type Html, html } from './html.ts'
import type { NoteSignIn } from './noting.ts'
import { callbackPath, type IdentityProvider, newSignInSecret, SignInFailed } from './oidc.ts'
import { type Layout, sendPage } from './pages/layout.ts'
import type { Console } from './readers.ts'
import { fieldsOf, queryOf, queryTextOf, type Routes, withForms } from './server.ts'

type Options = Pick<Console, 'authentication' | 'isOpen' | 'assets' | 'log'> & {
  /** Null: people sign in with tokens only. */
  readonly provider: IdentityProvider | null
  readonly note: NoteSignIn
}

type Told = {
  readonly problem?: string | null
  /** It is about the token that was typed. */
  readonly isWrong?: boolean
  readonly isEndOf?: 'all' | 'oidc'
  /** Where to sign out at the provider, too. */
  readonly signOutUrl?: string | null
}
type Show = (request: FastifyRequest, reply: FastifyReply, status: number, told: Told) => FastifyReply

export const signInRoutes =
  (options: Options): Routes =>
  (server) => {
    const { authentication, provider, isOpen, assets, note } = options
    const page = (request: FastifyRequest, title: string, body: Html) => ({
      title,
      path: '/sign-in',
      viewer: null,
      assets,
      problems: null,
      body,
      isAlone: !isOpen && authentication.sessionOf(request) === null,
    })
    const show: Show = (request, reply, status, told) => {
      const { to = queryOf(request).get('to') } = fieldsOf(request)
      const problem = told.problem ?? authentication.problemOf(request)
      const body = signInForm({ ...told, to: destinationOf(to), problem, provider })
      return sendPage(reply, page(request, 'Sign in', body), status)
    }
    withForms(server, (scope) => {
      scope.get('/sign-in', async (request, reply) => {
        const ended = queryOf(request).get('ended')
        if (ended === 'oidc' && provider !== null)
          return show(request, reply, 200, { isEndOf: ended, signOutUrl: await provider.signOutUrl() })
        return authentication.sessionOf(request)?.role === 'admin'
          ? reply.redirect(destinationOf(queryOf(request).get('to')), 303)
          : show(request, reply, 200, ended === 'all' ? { isEndOf: ended } : {})
      })
      scope.post('/sign-in', async (request, reply) => {
        if (!isFromHere(request))
          return show(request, reply, 403, { problem: 'Another site sent this form. Sign in here.' })
        const { token = '', to = '/' } = fieldsOf(request)
        const verdict = await authentication.check(request, reply, token)
        if ('problem' in verdict) {
          const problem = verdict.status === 401 ? wrongToken : verdict.problem
          return show(request, reply, verdict.status, { problem, isWrong: verdict.status === 401 })
        }
        await note(request, { action: 'signIn', person: verdict })
        return await authentication.signIn(request, reply, verdict).then(
          () => reply.redirect(destinationOf(to), 303),
          () => show(request, reply, 503, { problem: notLookedUp }),
        )
      })
      scope.post('/sign-out', async (request, reply) => {
        const session = authentication.sessionOf(request)
        const isOwn = session === null || authentication.isOwnForm(session, fieldsOf(request).csrf ?? '')
        // Also without a session: browsers send no cookie with the form of another site, but take the one of the answer.
        if (!isFromHere(request) || !isOwn)
          return show(request, reply, 403, { problem: 'That form was out of date. Load the page again.' })
        if (session) await note(request, { action: 'signOut', person: session })
        await authentication.signOut(request, reply)
        return reply.redirect(session?.who.startsWith('oidc:') ? '/sign-in?ended=oidc' : '/', 303)
      })
      if (provider !== null) addOidc(scope, { ...options, provider }, show, page)
    })
  }

/** Beside the way back: a secret of this browser, and the place to which the sign-in leads. */
const beginCookie = 'tidemark_sign_in'
const mostMinutes = 10
/** What comes back makes the worker ask the provider, so it may fail only so often. */
const mostOfClient = { most: 20, withinMs: 60_000 }

/** To the provider and back. Neither changes anything here before the provider has said who it is. */
function addOidc(
  scope: FastifyInstance,
  { provider, authentication, note, log }: Options & { readonly provider: IdentityProvider },
  show: Show,
  page: (request: FastifyRequest, title: string, body: Html) => Layout,
): void {
  const limit = openClientLimit(mostOfClient)
  const fail = (request: FastifyRequest, reply: FastifyReply, error: unknown) => {
    if (!(error instanceof SignInFailed)) throw error
    log.warn({ address: clientAddress(request) }, `a sign-in failed: ${error.message}`)
    return show(request, reply, 403, { problem: error.message })
  }
  scope.get('/sign-in/oidc', async (request, reply) => {
    const secret = newSignInSecret()
    const place = Buffer.from(destinationOf(queryOf(request).get('to'))).toString('base64url')
    try {
      const url = await provider.begin(secret)
      const cookie = { name: beginCookie, value: `${secret}.${place}`, isSecure: provider.isSecure }
      // The provider leads back here, so browsers count that as coming from another site.
      addCookie(reply, { ...cookie, maxAge: mostMinutes * 60, sameSite: 'Lax' })
      return reply.redirect(url.href, 303)
    } catch (error) {
      return fail(request, reply, error)
    }
  })
  scope.get(callbackPath, async (request, reply) => {
    const [secret = '', place = ''] = (cookieOf(request, beginCookie, provider.isSecure) ?? '').split('.')
    removeCookie(reply, beginCookie)
    if (limit.waitMs(request, Date.now()) > 0)
      return show(request, reply, 429, {
        problem: 'Too many sign-ins from your address failed. Wait a minute.',
      })
    try {
      if (!/^[\w-]{43}$/.test(secret))
        throw new SignInFailed(
          `This sign-in began in another browser or more than ${mostMinutes} minutes ago, or was finished already. Sign in again.`,
        )
      const { person, how } = await provider.finish(queryTextOf(request), secret)
      await note(request, { action: 'signIn', person, how })
      await authentication.signIn(request, reply, person)
      // Browsers send the cookie of the session only with what a page of this site asks for: a redirect would still be the provider's.
      const to = destinationOf(Buffer.from(place, 'base64url').toString())
      const body = html`<section class="card"><p>You are signed in as ${foreign(person.who)}. <a href="${to}">Go on</a></p></section>`
      return sendPage(reply, { ...page(request, 'Signed in', body), isAlone: true, goTo: to })
    } catch (error) {
      limit.count(request, Date.now())
      return fail(request, reply, error)
    }
  })
}

const wrongToken =
  'This token is not taken: it is neither the value of ADMIN_TOKEN nor that of VIEWER_TOKEN, and none that was made for a person or a program and still holds.'

const tokenField = (wrong: string | null): Html =>
  openFields('/sign-in', {
    ...newForm,
    wrong: wrong === null ? null : { text: wrong, field: 'token' },
  }).secret({
    name: 'token',
    title: 'Token',
    hint: html`A token that was made for you, or the value of <code>ADMIN_TOKEN</code> or <code>VIEWER_TOKEN</code>. On the worker’s machine, <code>tidemark token create ola --role operator</code> makes one.`,
    more: html`required autocomplete="current-password"${wrong === null && html` autofocus`}`,
  })

type Asked = Told & { readonly to: string; readonly provider: IdentityProvider | null }

function signInForm({ to, problem, isWrong = false, isEndOf, signOutUrl, provider }: Asked): Html {
  return html`<form class="card dialogue" method="post" action="/sign-in">
<input type="hidden" name="to" value="${to}">
${isEndOf === 'all' && html`<p class="note" role="status">All sessions have ended, yours too. Whoever was signed in signs in again.</p>`}
${isEndOf === 'oidc' && html`<p class="note" role="status">You are signed out here, and may still be signed in at ${provider?.host}.${signOutUrl && html` <a href="${signOutUrl}">Sign out there, too</a>`}</p>`}
${problem && !isWrong && html`<p class="note bad" role="alert">${problem}</p>`}
${provider && html`<p><a class="btn go" href="/sign-in/oidc?${new URLSearchParams({ to }).toString()}">Sign in at ${provider.host}</a></p>`}
${tokenField(isWrong ? (problem ?? null) : null)}
<button class="go">Sign in</button>
</form>`
}
