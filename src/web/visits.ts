// Who makes a request: its session, whether it comes from a page of this worker, and the cookies it gets back.

import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isSecret } from './secrets.ts'
import { openSessions, type Session, sessionMs } from './sessions.ts'
import { readOnlyViewer, type Viewer } from './viewer.ts'

export type Visits = {
  /** What pages need to know. A message that was left for this page is forgotten with the answer. */
  viewerOf(request: FastifyRequest, reply: FastifyReply): Viewer
  sessionOf(request: FastifyRequest): Session | null
  isAdminToken(given: string): boolean
  signIn(request: FastifyRequest, reply: FastifyReply): void
  signOut(reply: FastifyReply): void
  isOwnForm(session: Session, csrf: string): boolean
  /** Leaves a message for the next page. */
  tell(
    session: Session,
    request: FastifyRequest,
    reply: FastifyReply,
    told: NonNullable<Viewer['told']>,
  ): void
}

const sessionCookie = 'tidemark_session'
const toldCookie = 'tidemark_told'
const toldSeconds = 60

/** Null without a token: then nobody can sign in. */
export function openVisits(adminToken: string | null, now?: () => number): Visits | null {
  if (adminToken === null) return null
  const sessions = openSessions({ adminToken, ...(now && { now }) })
  const isAdminToken = isSecret(adminToken)
  const sessionOf = (request: FastifyRequest) => sessions.read(cookieOf(request, sessionCookie))

  return {
    viewerOf(request, reply) {
      const session = sessionOf(request)
      if (session === null) return { ...readOnlyViewer, canSignIn: true }
      const told = sessions.unseal(session, cookieOf(request, toldCookie))
      if (told) addCookie(reply, toldCookie, '', { seconds: 0, isSecure: false })
      return { canAct: true, canSignIn: false, csrfToken: sessions.csrfTokenOf(session), told }
    },
    sessionOf,
    isAdminToken,
    signIn(request, reply) {
      const { cookie } = sessions.open()
      addCookie(reply, sessionCookie, cookie, { seconds: sessionMs / 1000, isSecure: cameByHttps(request) })
    },
    signOut(reply) {
      for (const name of [sessionCookie, toldCookie])
        addCookie(reply, name, '', { seconds: 0, isSecure: false })
    },
    isOwnForm: (session, csrf) => sessions.isCsrfToken(session, csrf),
    tell(session, request, reply, told) {
      const isSecure = cameByHttps(request)
      addCookie(reply, toldCookie, sessions.seal(session, told), { seconds: toldSeconds, isSecure })
    },
  }
}

function cookieOf(request: FastifyRequest, name: string): string | undefined {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim())
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1)
}

function addCookie(
  reply: FastifyReply,
  name: string,
  value: string,
  { seconds, isSecure }: { readonly seconds: number; readonly isSecure: boolean },
): void {
  // Fastify collects several of these.
  reply.header(
    'set-cookie',
    `${name}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}${isSecure ? '; Secure' : ''}`,
  )
}

/**
 * By what the browser or the proxy says. Whoever lies about it only loses the own cookie, so everybody is believed; PUBLIC_URL
 * says nothing about it, because the page is often looked at from inside, where there is no TLS.
 */
const cameByHttps = ({ headers }: FastifyRequest): boolean =>
  headers.origin?.startsWith('https://') === true ||
  /^https\s*(?:,|$)/i.test(String(headers['x-forwarded-proto'] ?? ''))

/** What a proxy on this machine says of it may be anything, and is recorded: only addresses are taken from it. */
export const clientAddress = ({ ip, socket }: Pick<FastifyRequest, 'ip' | 'socket'>): string =>
  isIP(ip) ? ip : (socket.remoteAddress ?? 'nowhere')

/** False when the browser says that another site made the request. */
export function isFromHere({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  const site = headers['sec-fetch-site']
  if (site !== undefined) return site === 'same-origin'
  const { origin, host } = headers
  if (origin === undefined) return true
  // A form of another site can set neither of these headers.
  const hosts = [host, headers['x-forwarded-host']]
  return URL.canParse(origin) && hosts.includes(new URL(origin).host)
}
