// Who may read the pages. If the worker listens only on this machine, everybody who reaches it, until a token for
// viewers is set. Otherwise only people who signed in, because pages hold personal data.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { UpstreamSays } from '../operator/upstream-record.ts'
import { bearerIn, refuse, signInFirst } from './actions.ts'
import type { Assets } from './assets.ts'
import { type Authentication, signInFrom } from './auth.ts'
import { html } from './html.ts'
import { sendPage } from './pages/layout.ts'
import type { openReadingPlaces, Reader } from './reading-places.ts'
import { type Routes, wantsHtml } from './server.ts'
import type { StatusQueries } from './status-queries.ts'

/** What the routes for people are made of: each takes its part. */
export type Console = {
  readonly authentication: Authentication
  /** Everybody may read who reaches the address. */
  readonly isOpen: boolean
  /** There is a made-up upstream to break. */
  readonly isDemo: boolean
  readonly assets: Pick<Assets, 'urlOf'>
  /** Null while the worker waits for what it needs. */
  readonly statusQueries: (reader: Reader) => StatusQueries | null
  /** Asks the upstream for one record. Null when the stream is not mirrored, or the worker still waits. */
  readonly compare: (stream: string, key: string) => Promise<UpstreamSays | null>
  readonly log: Logger
}

type Options = Pick<Console, 'authentication' | 'isOpen' | 'assets'> & {
  readonly places: ReturnType<typeof openReadingPlaces>
}

/** Routes that answer only those who may read, and those not all at once. */
export const forReaders =
  (options: Options, routes: readonly Routes[]): Routes =>
  (server) => {
    const { places } = options
    server.register(async (scope) => {
      scope.addHook('onRequest', async (request, reply) => {
        if (!(await admits(options, request, reply))) return reply
        if (!(await places.enter(options, request, reply))) return tooMany(options, request, reply)
      })
      scope.addHook('onSend', async (request, _reply, payload) => {
        if (typeof payload === 'string') places.leave(request)
      })
      for (const add of routes) add(scope)
    })
  }

function tooMany({ assets }: Options, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const text =
    'The worker answers as many pages, searches and downloads at once as it can beside its runs, and one person gets a part of them. Wait until yours have ended, then ask again.'
  if (!wantsHtml(request)) return reply.code(503).send({ error: text })
  const body = html`<section class="card"><p>${text}</p></section>`
  const page = {
    title: 'Too many at once',
    path: '',
    viewer: null,
    isAlone: true,
    problems: null,
    assets,
    body,
  }
  return sendPage(reply, page, 503)
}

/** False: the request is answered. The reply itself is no answer here: it can be awaited, and is then nothing. */
async function admits(
  { authentication, isOpen }: Options,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  if (authentication.sessionOf(request) !== null) return true
  const bearer = await bearerIn(authentication, request, reply)
  // A token that is sent and not taken, such as one that was revoked, is refused where nobody needs one, too.
  if (bearer === null ? isOpen : !('problem' in bearer)) return true
  if (bearer !== null && 'problem' in bearer) refuse(reply, bearer)
  else if (wantsHtml(request)) reply.redirect(signInFrom(request.url), 303)
  else refuse(reply, { status: 401, problem: signInFirst })
  return false
}
