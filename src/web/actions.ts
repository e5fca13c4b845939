// The actions over HTTP. A browser is sent back to its page, which shows the result in one line; a script that brings the token gets
// JSON. What an action does is in src/operator/actions.ts.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { type ActionName, allReceivers, NotNow, type Order, type Outcome } from '../operator/actions.ts'
import { allSessions } from '../operator/people.ts'
import { mayAs, neededRole, type Role } from '../operator/roles.ts'
import { sourceIn } from '../streams/names.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { formName } from './action-forms.ts'
import type { Assets } from './assets.ts'
import { type Authentication, clientAddress, isFromHere, pageOfForm } from './auth.ts'
import { mistakeOf } from './form-fields.ts'
import { sendPage } from './pages/layout.ts'
import { tokenPage } from './pages/people.ts'
import { fieldsOf, type Routes, wantsHtml, withForms } from './server.ts'
import type { Person } from './sessions.ts'

/** Does an action. Rejects with a UsageError when the order is wrong, with NotNow when it cannot be done at the moment. */
export type Perform = (name: ActionName, order: Order) => Promise<Outcome>

/** Name, route, and the page that shows what came of it. */
export const actionPaths = [
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
  ['testAlert', '/alerts/test', '/alerts'],
  ['testAlert', '/alerts/:target/test', '/alerts'],
  ['setReceiver', '/alerts/receivers/set', '/alerts'],
  ['setRule', '/alerts/rules/set', '/alerts'],
  ['removeAlerting', '/alerts/remove', '/alerts'],
  ['undoAlerting', '/alerts/undo', '/alerts'],
  ['muteAlerts', '/alerts/mute', '/problems'],
  ['unmuteAlerts', '/alerts/unmute', '/problems'],
  ['acknowledgeProblem', '/alerts/acknowledge', '/problems'],
  ['setSetting', '/settings/set', '/settings'],
  ['unsetSetting', '/settings/unset', '/settings'],
  ['endSessions', '/sessions/end', '/sign-in?to=/people&ended=all'],
  ['endSessions', '/sessions/:target/end', '/people'],
  ['createToken', '/tokens/create', '/people'],
  ['revokeToken', '/tokens/:target/revoke', '/people'],
] as const satisfies readonly (readonly [ActionName, string, string])[]

/** Of actions that can be done to one thing only. Others say it in a field. */
export const onlyTargets: Readonly<Partial<Record<ActionName, string>>> = {
  testAlert: allReceivers,
  endSessions: allSessions,
}

export type ActionOptions = {
  readonly authentication: Authentication
  readonly streams: () => readonly string[]
  readonly perform: Perform
  readonly assets: Assets
  readonly log: Logger
}

export const actionRoutes =
  (options: ActionOptions): Routes =>
  (server) => {
    const { authentication } = options
    withForms(server, (scope) => {
      for (const [name, url, page] of actionPaths)
        scope.post<{ Params: { target?: string } }>(
          url,
          forRole(authentication, neededRole[name]),
          async (request, reply) => {
            const session = bearerOf(request) === null ? authentication.sessionOf(request) : null
            const { csrf = '', form = '', ...sent } = fieldsOf(request)
            const { target: said, ...fields } = sent
            const { target = onlyTargets[name] ?? said ?? '' } = request.params
            if (target.includes('\0')) return reply.callNotFound()
            if (!hasOwnForm(authentication, request, csrf)) {
              const text = 'That form was out of date, and nothing was done. This page has a new one.'
              if (!session || !wantsHtml(request)) return reply.code(403).send({ error: text })
              authentication.leaveMessage(session, { isGood: false, text })
              return reply.redirect(pageOf(page, target), 303)
            }
            if (url.startsWith('/streams/') && !options.streams().includes(target))
              return reply.code(404).send({ error: 'There is no such stream.', streams: options.streams() })
            const order = orderBy(authentication, request, { target, fields })
            const { status, text, field, json } = await answer(options, name, order)
            if (!session) return reply.code(status).send(json)
            if ('token' in json)
              return sendPage(
                reply,
                tokenPage({ ...options, viewer: authentication.viewerOf(request) }, text, String(json.token)),
              )
            if (status < 300) {
              authentication.leaveMessage(session, { isGood: true, text })
              // Settings stand on the page of their stream or source as well.
              const back = page === '/settings' ? pageOfForm(request) : null
              return reply.redirect(back ?? pageOf(page, target), 303)
            }
            const mistake = mistakeOf(formName(request.url, form), sent, { text, field })
            authentication.leaveMessage(session, { isGood: false, text, mistake })
            return reply.redirect(pageOfForm(request) ?? pageOf(page, target), 303)
          },
        )
    })
  }

/** By whoever was let in. */
export function orderBy(
  authentication: Pick<Authentication, 'sessionOf'>,
  request: FastifyRequest,
  what: Pick<Order, 'target' | 'fields'>,
): Order {
  const address = clientAddress(request)
  const isInConsole = bearerOf(request) === null && authentication.sessionOf(request) !== null
  const by = {
    who: personOf(authentication, request)?.who ?? '',
    door: isInConsole ? ('console' as const) : ('HTTP' as const),
  }
  return { ...what, by: inWords({ ...by, address }), ...by, address }
}

/** Who acts, in the words in which it is recorded. */
const inWords = ({ who, door, address }: Pick<Order, 'who' | 'door' | 'address'>): string =>
  who === '' ? `${door}, ${address}` : `${who} (${door}, ${address})`

/** Settings of a source that has a name are on a page of their own. */
function pageOf(page: string, target: string): string {
  const source = page === '/settings' ? sourceIn(target) : ''
  return `${page.replace(':target', encodeURIComponent(target))}${source === '' ? '' : `?source=${encodeURIComponent(source)}`}`
}

type Answer = {
  readonly status: number
  readonly text: string
  /** The one that is wrong; null: no single one. */
  readonly field: string | null
  readonly json: object
}

export async function performLogged(
  { perform, log }: Pick<ActionOptions, 'perform' | 'log'>,
  name: ActionName,
  order: Order,
): Promise<Outcome> {
  const outcome = await perform(name, order)
  log.info({ action: name, target: order.target, by: order.by }, outcome.text)
  return outcome
}

async function answer(options: ActionOptions, name: ActionName, order: Order): Promise<Answer> {
  const { log } = options
  try {
    const { text, json, isUnderWay = false } = await performLogged(options, name, order)
    return { status: isUnderWay ? 202 : 200, text, field: null, json }
  } catch (error) {
    const status = error instanceof UsageError ? 400 : error instanceof NotNow ? 503 : 500
    if (status === 500)
      log.warn({ err: error, action: name, target: order.target, by: order.by }, `the action ${name} failed`)
    const text = status === 500 ? 'It failed. The log of the worker says why.' : messageOf(error)
    const field = error instanceof UsageError ? error.field : null
    return { status, text, field, json: { error: text } }
  }
}

/** Whether a program brought a token, or the form belongs to this session. */
export function hasOwnForm(authentication: Authentication, request: FastifyRequest, csrf: string): boolean {
  if (bearerOf(request) !== null) return true
  const session = authentication.sessionOf(request)
  return session !== null && authentication.isOwnForm(session, csrf)
}

const bearers = new WeakMap<FastifyRequest, Person>()
/** Who was let in by `refuseStrangers` or `admit`. Null: the pages are open to everybody, and this is nobody in particular. */
export const personOf = (
  authentication: Pick<Authentication, 'sessionOf'>,
  request: FastifyRequest,
): Person | null => bearers.get(request) ?? authentication.sessionOf(request)

/** By the token that the request brings. Null: it brings none. */
export async function bearerIn(authentication: Authentication, request: FastifyRequest, reply: FastifyReply) {
  const bearer = bearerOf(request)
  const verdict = bearer === null ? null : await authentication.check(request, reply, bearer)
  if (verdict !== null && !('problem' in verdict)) bearers.set(request, verdict)
  return verdict
}

type Guard = {
  readonly authentication: Authentication
  /** The least role that may do this. */
  readonly needed: Role
}

/** Before the body is read. Returning a reply ends the request. */
export async function refuseStrangers(
  { authentication, needed }: Guard,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const bearer = await bearerIn(authentication, request, reply)
  if (bearer !== null && 'problem' in bearer) return refuse(reply, bearer)
  const session = bearer === null ? authentication.sessionOf(request) : null
  const person = bearer ?? session
  if (person === null)
    return wantsHtml(request)
      ? reply.redirect('/sign-in', 303)
      : refuse(reply, { status: 401, problem: signInFirst })
  if (!mayAs(person.role, needed)) return reply.code(403).send({ error: notEnough(person, needed) })
  if (session === null || isFromHere(request)) return
  return reply.code(403).send({ error: 'Another site sent this form, so nothing was done.' })
}

export const forRole = (authentication: Authentication, needed: Role) => ({
  onRequest: (request: FastifyRequest, reply: FastifyReply) =>
    refuseStrangers({ authentication, needed }, request, reply),
})

const notEnough = ({ who, role }: Person, needed: Role): string =>
  `You are signed in as ${who} with the role ${role}, and this needs the role ${needed}. Sign in with a token that has it, or ask an admin.`
export const signInFirst = 'Sign in, or send a token as `Authorization: Bearer …`.'

export function refuse(
  reply: FastifyReply,
  { status, problem }: { readonly status: number; readonly problem: string },
): FastifyReply {
  if (status === 401) reply.header('www-authenticate', 'Bearer')
  return reply.code(status).send({ error: problem })
}

/** The bearer token. Null: there is none, and the cookie counts. Any other content of the header is meant for a proxy. */
export function bearerOf({ headers }: FastifyRequest): string | null {
  const { authorization = '' } = headers
  if (!/^Bearer\b/i.test(authorization)) return null
  return /^Bearer\s+(\S+)$/i.exec(authorization)?.[1] ?? ''
}
