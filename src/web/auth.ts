// Who makes a request: its session, whether it comes from a page of this worker, and the cookies it gets back.

import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { networkOf, openLimit } from './limits.ts'
import {
  isSecret,
  type Message,
  openSessions,
  type Role,
  readOnlyViewer,
  type Session,
  sessionMs,
  type Tokens,
  type Viewer,
} from './sessions.ts'

export type Authentication = {
  /** What pages need to know. A message that was left for this page is forgotten with the answer. */
  viewerOf(request: FastifyRequest): Viewer
  sessionOf(request: FastifyRequest): Session | null
  /** Whose token this is; null: nobody's. */
  roleOf(given: string): Role | null
  /** Begins a session, in place of the one that the browser had. */
  signIn(
    request: FastifyRequest,
    reply: FastifyReply,
    who: { readonly role: Role; readonly name: string },
  ): void
  /** Ends the session of this browser, for whoever has a copy of its cookie too. */
  signOut(request: FastifyRequest, reply: FastifyReply): void
  /** Ends the sessions of everybody, and returns how many there were. */
  endSessions(): number
  isOwnForm(session: Session, csrf: string): boolean
  /** For the next page. */
  leaveMessage(session: Session, message: Message): void
}

/** Browsers take the first name only over TLS and only from this very host, so no neighbouring host can set it. */
const cookieNames = { secure: '__Host-tidemark_session', plain: 'tidemark_session' }

/** Null without a token: then nobody can sign in. */
export function openAuthentication(tokens: Tokens, now?: () => number): Authentication | null {
  const roles = (['operator', 'viewer'] as const).filter((role) => tokens(role).length > 0)
  if (roles.length === 0) return null
  const sessions = openSessions(now && { now })
  const sessionOf = (request: FastifyRequest) => sessions.read(cookieOf(request))

  return {
    viewerOf(request) {
      const session = sessionOf(request)
      if (session === null) return { ...readOnlyViewer, canSignIn: true }
      const { role, name, csrfToken } = session
      const canAct = role === 'operator'
      const canSignIn = !canAct && roles.includes('operator')
      // What came of an action is for the page that its form leads to, not for one that follows beside it.
      const message = request.headers['x-follows'] === undefined ? sessions.takeMessage(session) : null
      return { canAct, role, name, canSignIn, csrfToken, message }
    },
    sessionOf,
    roleOf: (given) =>
      roles.filter((role) => tokens(role).filter((token) => isSecret(token)(given)).length > 0)[0] ?? null,
    signIn(request, reply, { role, name }) {
      sessions.end(cookieOf(request))
      const cookie = sessions.open({ role, name, address: clientAddress(request) })
      const kind = cameByHttps(request) ? 'secure' : 'plain'
      addCookie(reply, kind, `${cookie}; Max-Age=${sessionMs / 1000}`)
    },
    signOut(request, reply) {
      sessions.end(cookieOf(request))
      addCookie(reply, 'plain', '; Max-Age=0')
      addCookie(reply, 'secure', '; Max-Age=0')
    },
    endSessions: sessions.endAll,
    isOwnForm: sessions.isCsrfToken,
    leaveMessage: sessions.leaveMessage,
  }
}

function cookieOf(request: FastifyRequest): string | null {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim())
  const named = (name: string) =>
    pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1) ?? null
  return named(cookieNames.secure) ?? named(cookieNames.plain)
}

/** Fastify collects several of these. */
function addCookie(reply: FastifyReply, kind: keyof typeof cookieNames, value: string): void {
  const secure = kind === 'secure' ? '; Secure' : ''
  reply.header('set-cookie', `${cookieNames[kind]}=${value}; Path=/; HttpOnly; SameSite=Strict${secure}`)
}

/**
 * Whether the request came over HTTPS, as the browser or the proxy says. Everybody is believed: who lies about it only loses their own
 * cookie. PUBLIC_URL does not tell, because people often open the page from inside, where there is no TLS.
 */
const cameByHttps = ({ headers }: Pick<FastifyRequest, 'headers'>): boolean =>
  headers.origin?.startsWith('https://') === true ||
  /^https\s*(?:,|$)/i.test(String(headers['x-forwarded-proto'] ?? ''))

/** The client's address, which is recorded. A trusted proxy may send any text for it, so only real addresses are taken from it. */
export const clientAddress = ({ ip, socket }: Pick<FastifyRequest, 'ip' | 'socket'>): string =>
  addressIn(ip) ?? socket.remoteAddress ?? 'nowhere'

function addressIn(text: string): string | null {
  // Some proxies add the port.
  const [, v6, v4] = /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d+)?$/i.exec(text) ?? []
  const address = v6 ?? v4 ?? text
  return isIP(address) ? address : null
}

/** The address that a proxy names which is not in TRUSTED_PROXIES. Null: there is no such proxy, and `clientAddress` is the client's. */
function unprovenAddress({ ips = [], headers }: Pick<FastifyRequest, 'ips' | 'headers'>): string | null {
  const forwarded = headers['x-forwarded-for']
  if (forwarded === undefined || ips.length > 1) return null
  // What stands before the last one, the client may have written.
  return addressIn(String(forwarded).split(',').at(-1)?.trim() ?? '') ?? 'nowhere'
}

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

// Checks a token, wherever it is given. After five wrong ones within a minute no token of that client is looked at, not even a right one:
// otherwise a guesser could go on, and would only miss the answers to the wrong ones. Behind a proxy that is not in TRUSTED_PROXIES
// everybody has its address. There clients are told apart by what the proxy says, so that who guesses locks out nobody else. But a client
// may have made that up, and each time anew. So tokens from such an address may be wrong only so often a second, all together.
/** How long to wait is in a header of the answer already. */
export type Verdict = Role | 'wrong' | { readonly waitSeconds: number }
export type TokenCheck = (request: FastifyRequest, reply: FastifyReply, token: string) => Verdict

const mostOfClient = { most: 5, withinMs: 60_000 }
/** Hardly ever reached by clients that the proxy tells apart: it takes 120 who guess as fast as they may. */
const mostOfProxy = { most: 10, withinMs: 1_000 }

type Options = {
  readonly authentication: Pick<Authentication, 'roleOf'>
  readonly log: Logger
  /** Once for each time that a client has to wait. */
  readonly onLockedOut: (request: FastifyRequest) => void
  readonly now?: () => number
}

export function openTokenCheck({ authentication, log, onLockedOut, now = Date.now }: Options): TokenCheck {
  const [ofClients, ofProxies] = [openLimit(mostOfClient), openLimit(mostOfProxy)]
  return (request, reply, token) => {
    const address = clientAddress(request)
    const forwardedFor = unprovenAddress(request)
    const network = networkOf(address)
    const client = forwardedFor === null ? network : `${network} for ${networkOf(forwardedFor)}`
    const clientWaitMs = ofClients.waitMs(client, now())
    const waitMs = Math.max(clientWaitMs, forwardedFor === null ? 0 : ofProxies.waitMs(network, now()))
    if (waitMs > 0) {
      const waitSeconds = Math.ceil(waitMs / 1000)
      reply.header('retry-after', waitSeconds)
      return { waitSeconds }
    }
    const role = authentication.roleOf(token)
    if (role !== null) return role
    ofClients.count(client, now())
    if (forwardedFor !== null) ofProxies.count(network, now())
    log.warn({ address, ...(forwardedFor !== null && { forwardedFor }) }, 'somebody gave a wrong token')
    if (ofClients.waitMs(client, now()) > 0) onLockedOut(request)
    return 'wrong'
  }
}

/** For whoever has to wait. */
export const tooManyWrong = ({ waitSeconds }: { readonly waitSeconds: number }): string =>
  `Too many wrong tokens came from your address. No token is taken from there for ${waitSeconds} s, not even the right one. Then try again.`
