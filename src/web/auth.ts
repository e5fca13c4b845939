// Who makes a request: its session, whether it comes from a page of this worker, and the cookies it gets back.

import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
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
  if (tokens.operator === null && tokens.viewer === null) return null
  const sessions = openSessions(now && { now })
  const isToken = (['operator', 'viewer'] as const).flatMap((role) => {
    const token = tokens[role]
    return token === null ? [] : [[role, isSecret(token)] as const]
  })
  const sessionOf = (request: FastifyRequest) => sessions.read(cookieOf(request))

  return {
    viewerOf(request) {
      const session = sessionOf(request)
      if (session === null) return { ...readOnlyViewer, canSignIn: true }
      const { role, name, csrfToken } = session
      const canAct = role === 'operator'
      const canSignIn = !canAct && tokens.operator !== null
      return { canAct, role, name, canSignIn, csrfToken, message: sessions.takeMessage(session) }
    },
    sessionOf,
    roleOf: (given) => isToken.filter(([, isIt]) => isIt(given))[0]?.[0] ?? null,
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
export function clientAddress({ ip, socket }: Pick<FastifyRequest, 'ip' | 'socket'>): string {
  // Some proxies add the port.
  const [, v6, v4] = /^(?:\[([\da-f:.]+)\]|([\d.]+))(?::\d+)?$/i.exec(ip) ?? []
  const address = v6 ?? v4 ?? ip
  return isIP(address) ? address : (socket.remoteAddress ?? 'nowhere')
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

// Counts how often each address failed to sign in within a minute. When too many addresses have failed, the one that failed longest ago is
// forgotten, so memory stays bounded (P10). Pure; time is an argument.
export type Attempts = {
  /** How long this address has too many failures; 0: it has not. */
  waitMs(address: string, nowMs: number): number
  failed(address: string, nowMs: number): void
}

const windowMs = 60_000
const mostOfOne = 5
const mostAddresses = 10_000

export function openAttempts(): Attempts {
  /** When each network failed last, the one that failed longest ago first. */
  const failures = new Map<string, readonly number[]>()

  return {
    waitMs(address, nowMs) {
      const oldest = failures.get(networkOf(address))?.at(-mostOfOne)
      return oldest === undefined ? 0 : Math.max(0, oldest + windowMs - nowMs)
    },
    failed(address, nowMs) {
      const network = networkOf(address)
      const known = failures.get(network) ?? []
      failures.delete(network)
      failures.set(network, [...known, nowMs].slice(-mostOfOne))
      const [oldest] = failures.keys()
      if (failures.size > mostAddresses && oldest !== undefined) failures.delete(oldest)
    },
  }
}

/** The network of an address: somebody who has one IPv6 address has 2^64 of them. */
function networkOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=[\d.]+$)/i, '')
  if (isIP(plain) !== 6) return plain
  const [before = '', after] = address.split('%', 1).join('').split('::')
  const groups = before.split(':').filter(Boolean)
  const later = (after ?? '').split(':').filter(Boolean)
  const zeros = after === undefined ? 0 : Math.max(0, 8 - groups.length - later.length)
  return [...groups, ...Array.from({ length: zeros }, () => '0'), ...later]
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':')
}

// Checks a token, wherever it is given. Wrong ones are counted by address, and after too many they are only told to wait and not logged. A
// right one is always taken: behind a proxy that is not in TRUSTED_PROXIES everybody has one address, and who guesses must not lock out
// all others for as long as they like. What keeps guessing from success is the length of the tokens.
/** How long to wait is in a header of the answer already. */
export type Verdict = Role | 'wrong' | { readonly waitSeconds: number }
export type TokenCheck = (request: FastifyRequest, reply: FastifyReply, token: string) => Verdict

type Options = {
  readonly authentication: Pick<Authentication, 'roleOf'>
  readonly attempts: Attempts
  readonly log: Logger
  /** Once for each time that an address has to wait. */
  readonly onLockedOut: (request: FastifyRequest) => void
  readonly now?: () => number
}

export const openTokenCheck =
  ({ authentication, attempts, log, onLockedOut, now = Date.now }: Options): TokenCheck =>
  (request, reply, token) => {
    const role = authentication.roleOf(token)
    if (role !== null) return role
    const address = clientAddress(request)
    const waitMs = attempts.waitMs(address, now())
    if (waitMs === 0) {
      attempts.failed(address, now())
      log.warn({ address }, 'somebody gave a wrong token')
      if (attempts.waitMs(address, now()) > 0) onLockedOut(request)
      return 'wrong'
    }
    const waitSeconds = Math.ceil(waitMs / 1000)
    reply.header('retry-after', waitSeconds)
    return { waitSeconds }
  }
