// `/queues`: the insides of the queues by bull-board, for those who are signed in. What it wants from elsewhere is cut out of its page,
// and the page may do no more than it needs.

import { createBullBoard } from '@bull-board/api'
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
import { FastifyAdapter } from '@bull-board/fastify'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { Assets } from './assets.ts'
import { type Authentication, isFromHere } from './auth.ts'
import { html } from './html.ts'
import { sendPage } from './page-routes.ts'
import { layout } from './pages/layout.ts'
import type { Routes } from './server.ts'

type BoardQueue = ConstructorParameters<typeof BullMQAdapter>[0]

type Options = {
  readonly authentication: Authentication | null
  /** Null while there are none, or while what they live in does not answer. */
  readonly queues: () => readonly BoardQueue[] | null
  readonly assets: Pick<Assets, 'urlOf'>
  readonly log: Logger
}

const place = '/queues'
const mostBytes = 65_536
const timeoutMs = 5_000
const reloadSeconds = 3

const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'none'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
].join('; ')

export const queueBoard =
  ({ authentication, queues, assets, log }: Options): Routes =>
  (server) => {
    if (authentication === null) return
    const adapter = new FastifyAdapter().setBasePath(place)
    const board = createBullBoard({
      queues: [],
      serverAdapter: adapter,
      options: { uiConfig: { boardTitle: 'Queues of Tidemark', hideDocsLink: true, hideRedisDetails: true } },
    })
    adapter.setErrorHandler((error) => {
      log.warn({ err: error }, 'the page of the queues could not be shown')
      return { status: 500, body: { error: 'The queue did not answer. The log of the worker says why.' } }
    })
    let shown: readonly BoardQueue[] | null = null

    async function admit(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> {
      const isRead = request.method === 'GET' || request.method === 'HEAD'
      const isPage = isRead && !request.url.startsWith(`${place}/api/`)
      const viewer = authentication?.viewerOf(request, reply)
      if (!viewer?.canAct)
        return isPage
          ? reply.redirect(`/sign-in?to=${place}`, 303)
          : reply.code(401).send({ error: 'Sign in first.' })
      // Its requests carry no token: the browser must say where they come from.
      const { origin, 'sec-fetch-site': site } = request.headers
      if (!isRead && !((origin ?? site) !== undefined && isFromHere(request)))
        return reply.code(403).send({ error: 'Another site sent this request, so nothing was done.' })
      const current = queues()
      if (current === null) {
        if (!isPage) return reply.code(503).send({ error: 'The queue does not answer at the moment.' })
        const body = html`<p class="note warn">The queue does not answer at the moment. This page reloads by itself.</p>`
        const page = { title: 'Queues', path: place, viewer, assets, problems: null, body, reloadSeconds }
        return sendPage(reply, layout(page), 503)
      }
      if (current !== shown) board.replaceQueues(current.map((queue) => new BullMQAdapter(queue)))
      shown = current
    }

    server.register(
      async (scope) => {
        const parse = scope.getDefaultJsonParser('error', 'error')
        const limits = { parseAs: 'string', bodyLimit: mostBytes } as const
        scope.addContentTypeParser('application/json', limits, (request, body, done) =>
          parse(request, String(body), done),
        )
        // A queue that went away just now answers never.
        scope.addHook('onRoute', (route) => {
          route.handlerTimeout = timeoutMs
        })
        scope.addHook('onRequest', admit)
        scope.addHook('onSend', async (_request, reply, payload) => {
          if (reply.hasHeader('content-security-policy')) return payload
          reply.headers({
            'content-security-policy': contentPolicy,
            'x-content-type-options': 'nosniff',
            'referrer-policy': 'same-origin',
          })
          const isPage = String(reply.getHeader('content-type')).startsWith('text/html')
          return isPage && typeof payload === 'string' ? withoutUnwanted(payload) : payload
        })
        scope.register(adapter.registerPlugin())
      },
      { prefix: place },
    )
  }

/** A font from another company; and styles in the markup, which only dress up the moment before its script has begun. */
const unwanted = [/<link\b[^>]*href="https?:[^>]*>/g, /<style>.*?<\/style>/gs, / style="[^"]*"/g]

const withoutUnwanted = (page: string): string =>
  unwanted.reduce((text, pattern) => text.replaceAll(pattern, ''), page)
