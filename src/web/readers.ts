// Who may read the pages. If the worker listens only on this machine, everybody who reaches it, until a token for
// viewers is set. Otherwise only people who signed in, because pages hold personal data.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { UpstreamSays } from '../operator/upstream-record.ts'
import { openPlaces } from '../util/places.ts'
import { bearerIn, refuse, signInFirst } from './actions.ts'
import type { Assets } from './assets.ts'
import { type Authentication, clientAddress, signInFrom } from './auth.ts'
import { html } from './html.ts'
import { sendPage } from './pages/layout.ts'
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

// How much of the worker one reader may have at once.

/** Who asks, for as long as the answer takes. */
export type Reader = {
  /** The session, or where there is none the address: the same for all that one person asks. */
  readonly who: unknown
  /** Nobody waits for the answer any more. */
  readonly gone: AbortSignal
  /** Whether they may still read: a session may end during a download, or a token be revoked. */
  mayRead(): Promise<boolean>
}

const readers = new WeakMap<FastifyRequest, Reader>()
const nobody: Reader = { who: null, gone: new AbortController().signal, mayRead: async () => true }
export const readerOf = (request: FastifyRequest): Reader => readers.get(request) ?? nobody

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the answer keeps busy, and for how long; `page` when it is left out. */
    readonly place?: keyof typeof places
  }
}

/**
 * Of a kind of answer: how many are given at once, how many may wait for how long, and how long a reader may take to read one. One person
 * gets a part of them only.
 */
const places = {
  page: { inAll: 40, ofOne: 8, waitingInAll: 200, waitingOfOne: 24, longestWaitMs: 10_000 },
  search: { inAll: 4, ofOne: 2, waitingInAll: 50, waitingOfOne: 6, longestWaitMs: 5_000 },
  download: { inAll: 4, ofOne: 1, waitingInAll: 8, waitingOfOne: 2, longestWaitMs: 10_000 },
} as const
const longestMs = { page: 60_000, search: 60_000, download: 600_000 }
const retrySeconds = { page: 3, search: 3, download: 10 }

export function openReadingPlaces() {
  const opened = {
    page: openPlaces(places.page),
    search: openPlaces(places.search),
    download: openPlaces(places.download),
  }
  const leaving = new WeakMap<FastifyRequest, () => void>()
  return {
    /** False when there is no place; the answer then says when to come back. */
    async enter(options: Whose, request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
      const { who, gone } = beginReading(options, request, reply)
      const kind = request.routeOptions.config.place ?? 'page'
      const leave = await opened[kind].take(who, gone)
      // Of a connection that is closed already, no end is told any more.
      if (gone.aborted) leave?.()
      if (leave === null) {
        reply.header('retry-after', retrySeconds[kind])
        return false
      }
      leaving.set(request, leave)
      const tooSlow = setTimeout(() => reply.raw.destroy(), longestMs[kind]).unref()
      reply.raw.once('close', () => {
        clearTimeout(tooSlow)
        leave()
      })
      return true
    },
    /** The answer is complete: somebody who takes it slowly keeps nobody else waiting. */
    leave: (request: FastifyRequest) => leaving.get(request)?.(),
  }
}

type Whose = Pick<Options, 'authentication' | 'isOpen'>

function beginReading(
  { authentication, isOpen }: Whose,
  request: FastifyRequest,
  { raw }: FastifyReply,
): Reader {
  const session = authentication.sessionOf(request)
  const gone = new AbortController()
  raw.once('close', () => gone.abort(new Error('the reader is gone')))
  const mayRead = async () => isOpen || (await authentication.isSignedIn(request))
  const reader = { who: session?.key ?? clientAddress(request), gone: gone.signal, mayRead }
  readers.set(request, reader)
  return reader
}
