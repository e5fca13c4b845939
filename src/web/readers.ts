// Who may read the pages. If the worker listens only on this machine, everybody who reaches it, until a token for viewers is set. Otherwise
// only people who signed in, because pages hold personal data.

import type { FastifyReply, FastifyRequest } from 'fastify'
import { bearerOf, type Rights } from './actions.ts'
import type { Assets } from './assets.ts'
import { html } from './html.ts'
import { sendPage, wantsHtml } from './page-routes.ts'
import { heading, layout } from './pages/layout.ts'
import type { Routes } from './server.ts'

type Options = Rights & {
  /** Everybody may read who reaches the address. */
  readonly isOpen: boolean
  readonly assets: Pick<Assets, 'urlOf'>
}

/** Routes that answer only those who may read. */
export const forReaders =
  (options: Options, routes: readonly Routes[]): Routes =>
  (server) => {
    server.register(async (scope) => {
      if (!options.isOpen) scope.addHook('onRequest', (request, reply) => admit(options, request, reply))
      for (const add of routes) add(scope)
    })
  }

/** Returning a reply ends the request. */
async function admit(
  { authentication, checkToken, assets }: Options,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const isPage = wantsHtml(request)
  if (authentication === null || checkToken === null)
    return isPage ? sendPage(reply, closed(assets), 403) : reply.code(403).send({ error: closedText })
  if (authentication.sessionOf(request) !== null) return
  const bearer = bearerOf(request)
  const verdict = bearer === null ? 'wrong' : checkToken(request, reply, bearer)
  if (verdict === 'operator' || verdict === 'viewer') return
  if (verdict !== 'wrong')
    return reply
      .code(429)
      .send({ error: `Too many wrong tokens. Try again in ${verdict.waitSeconds} seconds.` })
  if (bearer === null && isPage)
    return reply.redirect(`/sign-in?${new URLSearchParams({ to: request.url })}`, 303)
  return reply
    .code(401)
    .header('www-authenticate', 'Bearer')
    .send({ error: 'Sign in, or send the token as `Authorization: Bearer …`.' })
}

const closedText =
  'The pages hold personal data, and this address can be reached from other machines. Set ADMIN_TOKEN (to act) or VIEWER_TOKEN (to look), or let HTTP_HOST be 127.0.0.1.'

const closed = (assets: Pick<Assets, 'urlOf'>) =>
  layout({
    title: 'Nobody can sign in yet',
    path: '',
    viewer: null,
    isAlone: true,
    assets,
    problems: null,
    heading: heading({ title: 'Nobody can sign in yet' }),
    body: html`<section class="card"><p>${closedText}</p></section>`,
  })
