// What can be asked for over HTTP, and how it is answered: pages are sent back to with one line about what came of it, scripts that
// bring the token get JSON. What an action does is told from outside.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { UsageError } from '../util/errors.ts'
import { type Authentication, clientAddress, isFromHere, type TokenCheck } from './auth.ts'
import { type Fields, fieldsOf, type Routes, withForms } from './server.ts'

export type Order = {
  /** A stream, or the id of what is meant. */
  readonly target: string
  readonly fields: Fields
  /** Who gives it, for what is recorded. */
  readonly by: string
}
export type Outcome = {
  /** In one line. */
  readonly text: string
  readonly json: object
  /** What was asked for goes on after the answer. */
  readonly isUnderWay?: boolean
}
type Action = (order: Order) => Promise<Outcome>
export type Actions = Readonly<Record<(typeof routes)[number][0], Action>>

/** Nothing is wrong with what was asked; it cannot be done at the moment. */
export class NotNow extends Error {
  override readonly name = 'NotNow'
}

/** Name, route, and the page that shows what came of it. */
const routes = [
  ['sync', '/streams/:target/sync', '/'],
  ['pause', '/streams/:target/pause', '/'],
  ['resume', '/streams/:target/resume', '/'],
  ['acknowledge', '/streams/:target/acknowledge', '/'],
  ['approve', '/streams/:target/approve', '/'],
  ['backfill', '/streams/:target/backfill', '/checkpoints'],
  ['cancelBackfill', '/backfills/:target/cancel', '/checkpoints'],
  ['retryQuarantine', '/quarantine/:target/retry', '/quarantine'],
  ['dropQuarantine', '/quarantine/:target/drop', '/quarantine'],
] as const

type Options = {
  readonly authentication: Authentication | null
  readonly checkToken: TokenCheck | null
  readonly streams: readonly string[]
  /** Null while the worker waits for what it needs. */
  readonly actions: () => Actions | null
  readonly log: Logger
}

export const actionRoutes =
  ({ authentication, checkToken, streams, actions, log }: Options): Routes =>
  (server) => {
    if (authentication === null || checkToken === null) return
    withForms(server, (scope) => {
      for (const [name, url, page] of routes)
        scope.post<{ Params: { target: string } }>(
          url,
          {
            onRequest: async (request, reply) => refuseStrangers(authentication, checkToken, request, reply),
          },
          async (request, reply) => {
            const session = bearerOf(request) === null ? authentication.sessionOf(request) : null
            const { csrf = '', ...fields } = fieldsOf(request)
            if (bearerOf(request) === null && !(session && authentication.isOwnForm(session, csrf))) {
              const text = 'that form was no longer valid; this one is'
              if (!session || !wantsPage(request)) return reply.code(403).send({ error: text })
              authentication.tell(session, request, reply, { isGood: false, text })
              return reply.redirect(page, 303)
            }
            const { target } = request.params
            if (url.startsWith('/streams/') && !streams.includes(target))
              return reply.code(404).send({ error: 'no such stream', streams })
            const by = `${session ? 'status page' : 'HTTP'}, ${clientAddress(request)}`
            const { status, text, json } = await answer(() => perform(name, { target, fields, by }))
            if (!session) return reply.code(status).send(json)
            authentication.tell(session, request, reply, { isGood: status < 300, text })
            return reply.redirect(page, 303)
          },
        )
    })

    async function perform(name: keyof Actions, order: Order): Promise<Outcome> {
      const there = actions()
      if (!there) throw new NotNow('the worker is starting: it waits for its database or its queue')
      const outcome = await there[name](order)
      log.info({ action: name, target: order.target, by: order.by }, outcome.text)
      return outcome
    }

    type Answer = { readonly status: number; readonly text: string; readonly json: object }
    async function answer(work: () => Promise<Outcome>): Promise<Answer> {
      try {
        const { text, json, isUnderWay = false } = await work()
        return { status: isUnderWay ? 202 : 200, text, json }
      } catch (error) {
        const status = error instanceof UsageError ? 400 : error instanceof NotNow ? 503 : 500
        if (status === 500) log.warn({ err: error }, 'an action of an operator failed')
        const text =
          status === 500 || !(error instanceof Error) ? 'it failed; the log says why' : error.message
        return { status, text, json: { error: text } }
      }
    }
  }

/** Before the body is read. Returning a reply ends the request. */
async function refuseStrangers(
  authentication: Authentication,
  checkToken: TokenCheck,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const bearer = bearerOf(request)
  const verdict = bearer === null ? 'wrong' : checkToken(request, reply, bearer)
  if (verdict === 'right') return
  if (verdict !== 'wrong')
    return reply
      .code(429)
      .send({ error: `too many wrong tokens: try again in ${verdict.waitSeconds} seconds` })
  if (bearer === null && authentication.sessionOf(request) !== null) {
    if (isFromHere(request)) return
    return reply.code(403).send({ error: 'the form was sent by another site' })
  }
  if (bearer === null && wantsPage(request)) return reply.redirect('/login', 303)
  return reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'not signed in' })
}

/** A browser shows what it gets; others read it. */
const wantsPage = ({ headers }: FastifyRequest): boolean => headers.accept?.includes('text/html') === true

/** Null without one; then the cookie counts. What else is in the header is for a proxy that knows its users. */
function bearerOf({ headers }: FastifyRequest): string | null {
  const { authorization = '' } = headers
  if (!/^Bearer\b/i.test(authorization)) return null
  return /^Bearer\s+(\S+)$/i.exec(authorization)?.[1] ?? ''
}
