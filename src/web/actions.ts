// The actions over HTTP. A browser is sent back to its page, which shows the result in one line; a script that brings the token gets
// JSON. What an action does is in src/operator/actions.ts.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { type ActionName, allReceivers, NotNow, type Order, type Outcome } from '../operator/actions.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { type Authentication, clientAddress, isFromHere, type TokenCheck, tooManyWrong } from './auth.ts'
import { fieldsOf, type Routes, withForms } from './server.ts'

/** Does an action. Rejects with a UsageError when the order is wrong, with NotNow when it cannot be done at the moment. */
export type Perform = (name: ActionName, order: Order) => Promise<Outcome>

/** Name, route, and the page that shows what came of it. */
const routes = [
  ['sync', '/streams/:target/sync', '/streams/:target'],
  ['pause', '/streams/:target/pause', '/streams/:target'],
  ['resume', '/streams/:target/resume', '/streams/:target'],
  ['acknowledge', '/streams/:target/acknowledge', '/streams/:target'],
  ['probe', '/streams/:target/probe', '/upstream'],
  ['approve', '/streams/:target/approve', '/streams/:target'],
  ['reject', '/streams/:target/reject', '/streams/:target'],
  ['lookAgain', '/streams/:target/look-again', '/streams/:target'],
  ['backfill', '/streams/:target/backfill', '/backfills'],
  ['rewind', '/streams/:target/rewind', '/streams/:target'],
  ['cancelBackfill', '/backfills/:target/cancel', '/backfills'],
  ['retryQuarantine', '/quarantine/:target/retry', '/quarantine'],
  ['dropQuarantine', '/quarantine/:target/drop', '/quarantine'],
  ['testAlert', '/alerts/test', '/problems'],
  ['testAlert', '/alerts/:target/test', '/problems'],
  ['muteAlerts', '/alerts/mute', '/problems'],
  ['unmuteAlerts', '/alerts/unmute', '/problems'],
  ['acknowledgeProblem', '/alerts/acknowledge', '/problems'],
  ['setSetting', '/settings/set', '/settings'],
  ['unsetSetting', '/settings/unset', '/settings'],
  ['endSessions', '/sessions/end', '/sign-in?to=/actions&ended=all'],
] as const satisfies readonly (readonly [ActionName, string, string])[]

/** Of actions that can be done to one thing only. Others say it in a field. */
const onlyTargets: Readonly<Partial<Record<ActionName, string>>> = {
  testAlert: allReceivers,
  endSessions: 'all sessions',
}

/** Null without a token: then nobody can act. */
export type Rights = {
  readonly authentication: Authentication | null
  readonly checkToken: TokenCheck | null
}
type Options = Rights & {
  readonly streams: readonly string[]
  readonly perform: Perform
  readonly log: Logger
}

export const actionRoutes =
  (options: Options): Routes =>
  (server) => {
    const { authentication } = options
    if (authentication === null) return
    withForms(server, (scope) => {
      for (const [name, url, page] of routes)
        scope.post<{ Params: { target?: string } }>(
          url,
          {
            onRequest: async (request, reply) => refuseStrangers(options, request, reply),
          },
          async (request, reply) => {
            const session = bearerOf(request) === null ? authentication.sessionOf(request) : null
            const { csrf = '', target: said, ...fields } = fieldsOf(request)
            const { target = onlyTargets[name] ?? said ?? '' } = request.params
            if (target.includes('\0')) return reply.callNotFound()
            if (!mayAct(authentication, request, csrf)) {
              const text = 'That form was out of date, and nothing was done. This page has a new one.'
              if (!session || !wantsPage(request)) return reply.code(403).send({ error: text })
              authentication.leaveMessage(session, { isGood: false, text })
              return reply.redirect(pageOf(page, target), 303)
            }
            if (url.startsWith('/streams/') && !options.streams.includes(target))
              return reply.code(404).send({ error: 'There is no such stream.', streams: options.streams })
            const address = clientAddress(request)
            const by = session
              ? { who: session.name, door: 'console' as const }
              : { who: '', door: 'HTTP' as const }
            const { status, text, json } = await answer(options, name, {
              target,
              fields,
              by: inWords({ ...by, address }),
              ...by,
              address,
            })
            if (!session) return reply.code(status).send(json)
            authentication.leaveMessage(session, { isGood: status < 300, text })
            return reply.redirect(pageOf(page, target), 303)
          },
        )
    })
  }

/** Who acts, in the words in which it is recorded. */
const inWords = ({ who, door, address }: Pick<Order, 'who' | 'door' | 'address'>): string =>
  who === '' ? `${door}, ${address}` : `${who} (${door}, ${address})`

const pageOf = (page: string, target: string): string => page.replace(':target', encodeURIComponent(target))

type Answer = { readonly status: number; readonly text: string; readonly json: object }

async function answer({ perform, log }: Options, name: ActionName, order: Order): Promise<Answer> {
  try {
    const { text, json, isUnderWay = false }: Outcome = await perform(name, order)
    log.info({ action: name, target: order.target, by: order.by }, text)
    return { status: isUnderWay ? 202 : 200, text, json }
  } catch (error) {
    const status = error instanceof UsageError ? 400 : error instanceof NotNow ? 503 : 500
    if (status === 500)
      log.warn({ err: error, action: name, target: order.target, by: order.by }, `the action ${name} failed`)
    const text = status === 500 ? 'It failed. The log of the worker says why.' : messageOf(error)
    return { status, text, json: { error: text } }
  }
}

/** Whether a script brought the token, or the form belongs to this session. */
export function mayAct(authentication: Authentication, request: FastifyRequest, csrf: string): boolean {
  if (bearerOf(request) !== null) return true
  const session = authentication.sessionOf(request)
  return session?.role === 'operator' && authentication.isOwnForm(session, csrf)
}

/** Before the body is read. Returning a reply ends the request. */
export async function refuseStrangers(
  { authentication, checkToken }: Rights,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const bearer = bearerOf(request)
  if (authentication === null || checkToken === null) return reply.code(404).send({ error: 'not found' })
  const verdict = bearer === null ? 'wrong' : checkToken(request, reply, bearer)
  if (verdict === 'operator') return
  if (verdict === 'viewer') return reply.code(403).send({ error: viewersLook })
  if (verdict !== 'wrong') return reply.code(429).send({ error: tooManyWrong(verdict) })
  const session = bearer === null ? authentication.sessionOf(request) : null
  if (session !== null) {
    if (session.role !== 'operator') return reply.code(403).send({ error: viewersLook })
    if (isFromHere(request)) return
    return reply.code(403).send({ error: 'Another site sent this form, so nothing was done.' })
  }
  if (bearer === null && wantsPage(request)) return reply.redirect('/sign-in', 303)
  return reply
    .code(401)
    .header('www-authenticate', 'Bearer')
    .send({ error: 'Sign in, or send the token as `Authorization: Bearer …`.' })
}

const viewersLook = 'You are signed in as a viewer, who cannot do this. Sign in with ADMIN_TOKEN.'

/** Whether a browser asks, which shows a page; all others get JSON. */
const wantsPage = ({ headers }: FastifyRequest): boolean => headers.accept?.includes('text/html') === true

/** The bearer token. Null: there is none, and the cookie counts. Any other content of the header is meant for a proxy. */
export function bearerOf({ headers }: FastifyRequest): string | null {
  const { authorization = '' } = headers
  if (!/^Bearer\b/i.test(authorization)) return null
  return /^Bearer\s+(\S+)$/i.exec(authorization)?.[1] ?? ''
}
