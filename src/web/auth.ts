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
  viewerOf(request: FastifyRequest, reply: FastifyReply): Viewer
  sessionOf(request: FastifyRequest): Session | null
  /** Whose token this is; null: nobody's. */
  roleOf(given: string): Role | null
  signIn(
    request: FastifyRequest,
    reply: FastifyReply,
    who: { readonly role: Role; readonly name: string },
  ): void
  signOut(reply: FastifyReply): void
  isOwnForm(session: Session, csrf: string): boolean
  /** For the next page. */
  leaveMessage(session: Session, request: FastifyRequest, reply: FastifyReply, message: Message): void
}

const sessionCookie = 'tidemark_session'
const messageCookie = 'tidemark_message'
const messageSeconds = 60

/** Null without a token: then nobody can sign in. */
export function openAuthentication(tokens: Tokens, now?: () => number): Authentication | null {
  if (tokens.operator === null && tokens.viewer === null) return null
  const sessions = openSessions({ tokens, ...(now && { now }) })
  const isToken = (['operator', 'viewer'] as const).flatMap((role) => {
    const token = tokens[role]
    return token === null ? [] : [[role, isSecret(token)] as const]
  })
  const sessionOf = (request: FastifyRequest) => sessions.read(cookieOf(request, sessionCookie))

  return {
    viewerOf(request, reply) {
      const session = sessionOf(request)
      if (session === null) return { ...readOnlyViewer, canSignIn: true }
      const message = sessions.unseal(session, cookieOf(request, messageCookie))
      if (message) addCookie(reply, messageCookie, '', { seconds: 0, isSecure: false })
      const { role, name } = session
      const canAct = role === 'operator'
      const canSignIn = !canAct && tokens.operator !== null
      return { canAct, role, name, canSignIn, csrfToken: sessions.csrfTokenOf(session), message }
    },
    sessionOf,
    roleOf: (given) => isToken.find(([, isIt]) => isIt(given))?.[0] ?? null,
    signIn(request, reply, { role, name }) {
      const { cookie } = sessions.open(role, name)
      addCookie(reply, sessionCookie, cookie, { seconds: sessionMs / 1000, isSecure: cameByHttps(request) })
    },
    signOut(reply) {
      for (const name of [sessionCookie, messageCookie])
        addCookie(reply, name, '', { seconds: 0, isSecure: false })
    },
    isOwnForm: (session, csrf) => sessions.isCsrfToken(session, csrf),
    leaveMessage(session, request, reply, message) {
      const isSecure = cameByHttps(request)
      addCookie(reply, messageCookie, sessions.seal(session, message), { seconds: messageSeconds, isSecure })
    },
  }
}

function cookieOf(request: FastifyRequest, name: string): string | null {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim())
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1) ?? null
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
 * Whether the request came over HTTPS, as the browser or the proxy says. Everybody is believed: who lies about it only loses their own
 * cookie. PUBLIC_URL does not tell, because people often open the page from inside, where there is no TLS.
 */
const cameByHttps = ({ headers }: FastifyRequest): boolean =>
  headers.origin?.startsWith('https://') === true ||
  /^https\s*(?:,|$)/i.test(String(headers['x-forwarded-proto'] ?? ''))

/** The client's address, which is recorded. A proxy on this machine may send any text for it, so only real addresses are taken from it. */
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

// Limits how often a sign-in may fail: a few times a minute from one address. People who guess lock out only themselves, and a token of
// 16 characters cannot be found in this way, however many guess. When too many addresses have failed, the one that failed longest ago is
// forgotten, so memory stays bounded (P10). Pure; time is an argument.
export type Attempts = {
  /** How long this address has to wait before it may try; 0: now. */
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

// Checks a token, wherever it is given. Wrong ones are counted and logged. After too many, even the right one has to wait: otherwise
// guessing could go on.
/** How long to wait is in a header of the answer already. */
export type Verdict = Role | 'wrong' | { readonly waitSeconds: number }
export type TokenCheck = (request: FastifyRequest, reply: FastifyReply, token: string) => Verdict

type Options = {
  readonly authentication: Pick<Authentication, 'roleOf'>
  readonly attempts: Attempts
  readonly log: Logger
  readonly now?: () => number
}

export const openTokenCheck =
  ({ authentication, attempts, log, now = Date.now }: Options): TokenCheck =>
  (request, reply, token) => {
    const address = clientAddress(request)
    const waitMs = attempts.waitMs(address, now())
    if (waitMs > 0) {
      const waitSeconds = Math.ceil(waitMs / 1000)
      reply.header('retry-after', waitSeconds)
      return { waitSeconds }
    }
    const role = authentication.roleOf(token)
    if (role !== null) return role
    attempts.failed(address, now())
    log.warn({ address }, 'somebody gave a wrong token')
    return 'wrong'
  }
