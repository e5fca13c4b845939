// Who makes a request: its session, whether it comes from a page of this worker, and the cookies it gets back.

import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import { hashOf, tokenPattern } from '../operator/people.ts'
import { mayAs } from '../operator/roles.ts'
import { networkOf, openLimit } from './limits.ts'
import type { LookUp } from './people-store.ts'
import type { ProxyIdentity } from './proxy-identity.ts'
import type { Routes } from './server.ts'
import {
  type Beginning,
  csrfTokenOf,
  isSecret,
  openSessions,
  type Person,
  readOnlyViewer,
  type Session,
  type Viewer,
} from './sessions.ts'

export type Authentication = ReturnType<typeof openAuthentication>

/** What is taken for a token of the role, which may change; nothing: nobody can have that role by such a token. */
export type Tokens = (role: keyof typeof settingOf) => readonly string[]
const settingOf = { admin: 'ADMIN_TOKEN', viewer: 'VIEWER_TOKEN' } as const
const sharedRoles = ['admin', 'viewer'] as const

/** Browsers take the first name only over TLS and only from this very host, so no neighbouring host can set it. */
const sessionCookie = 'tidemark_session'
/** From which the tokens of forms follow for who has no session, because a proxy names them. */
const formCookie = 'tidemark_form'

/** During a long answer it is looked up so often who reads it. */
const knownMs = 2_000

type Options = {
  readonly tokens: Tokens
  readonly lookUp: LookUp
  readonly sessionMs: number
  readonly proxied: (request: FastifyRequest) => ProxyIdentity
  readonly log: Logger
  /** Once for each time that a client has to wait. */
  readonly onLockedOut: (request: FastifyRequest) => void
  readonly now?: () => number
}

export function openAuthentication(options: Options) {
  const { tokens, lookUp, sessionMs, proxied, now } = options
  const secretsOf = (who: string) =>
    sharedRoles.filter((role) => settingOf[role] === who).flatMap((role) => tokens(role))
  const sessions = openSessions({ lookUp, secretsOf, lastsMs: sessionMs, ...(now && { now }) })
  const found = new WeakMap<FastifyRequest, Session>()
  const problems = new WeakMap<FastifyRequest, string>()
  const checkToken = openTokenCheck(options)
  const sessionOf = (request: FastifyRequest) => found.get(request) ?? null
  const read = (request: FastifyRequest, knownForMs?: number) =>
    sessions.read(cookieOf(request, sessionCookie), clientAddress(request), knownForMs)

  return {
    /** Before anything else: who is signed in in the browser that makes this request. */
    async identify(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      const { person, problem } = proxied(request)
      const session = (await read(request)) ?? (person && sessionBehindProxy(request, reply, person))
      if (session) found.set(request, session)
      if (problem !== null) problems.set(request, problem)
    },
    sessionOf,
    /** Why somebody whom a proxy names has no rights here. */
    problemOf: (request: FastifyRequest) => problems.get(request) ?? null,
    /** Whether that session still goes on, or the token that the request brought is still taken. */
    async isSignedIn(request: FastifyRequest): Promise<boolean> {
      const key = sessionOf(request)?.key
      if (key === undefined) return await checkToken.isStillTaken(request)
      return key === proxied(request).person?.who || (await read(request, knownMs))?.key === key
    },
    /** What pages need to know. A message that was left for this page is forgotten with the answer. */
    viewerOf(request: FastifyRequest): Viewer {
      const session = sessionOf(request)
      const signInAt = signInFrom(request.method === 'GET' ? request.url : (pageOfForm(request) ?? '/'))
      if (session === null) return { ...readOnlyViewer, signInAt }
      const { role, who, csrfToken, key: sessionKey } = session
      // What came of an action is for the page that its form leads to, not for one that follows beside it.
      const message = request.headers['x-follows'] === undefined ? sessions.takeMessage(session) : null
      const [canAct, canAdminister] = [mayAs(role, 'operator'), mayAs(role, 'admin')]
      return {
        canAct,
        canAdminister,
        role,
        name: who,
        signInAt: canAdminister ? null : signInAt,
        sessionKey,
        csrfToken,
        message,
      }
    },
    /** Whose token this is, wherever it was given. */
    check: checkToken.check,
    /** Begins a session, in place of the one that the browser had. Rejects when it cannot begin at the moment. */
    async signIn(request: FastifyRequest, reply: FastifyReply, who: Omit<Beginning, 'address'>) {
      const address = clientAddress(request)
      const cookie = await sessions.open({ ...who, address })
      await sessions.end(cookieOf(request, sessionCookie), address)
      const maxAge = Math.ceil(sessionMs / 1000)
      addCookie(reply, { name: sessionCookie, value: cookie, maxAge, isSecure: cameByHttps(request) })
    },
    /** Ends the session of this browser, for whoever has a copy of its cookie too. */
    async signOut(request: FastifyRequest, reply: FastifyReply) {
      await sessions.end(cookieOf(request, sessionCookie), clientAddress(request))
      removeCookie(reply, sessionCookie)
    },
    isOwnForm: ({ csrfToken }: Session, given: string) => isSecret(csrfToken)(given),
    /** For the next page. */
    leaveMessage: sessions.leaveMessage,
  }
}

/** Routes for which it is looked up first who makes a request. */
export const identified =
  (authentication: Authentication, routes: readonly Routes[]): Routes =>
  (server) => {
    server.register(async (scope) => {
      scope.addHook('onRequest', (request, reply) => authentication.identify(request, reply))
      for (const add of routes) add(scope)
    })
  }

/** Nothing is kept of it: the proxy says anew with each request who it is. */
function sessionBehindProxy(request: FastifyRequest, reply: FastifyReply, person: Person): Session {
  const known = cookieOf(request, formCookie)
  const value = known ?? randomBytes(32).toString('base64url')
  if (known === null) addCookie(reply, { name: formCookie, value, isSecure: cameByHttps(request) })
  return { ...person, key: person.who, csrfToken: csrfTokenOf(`${value} ${person.who}`) }
}

/** Browsers take this only over TLS and only from this very host, so no neighbouring host can set such a cookie. */
const securePrefix = '__Host-'

export function cookieOf(
  { headers }: Pick<FastifyRequest, 'headers'>,
  name: string,
  wasSetOverTls = false,
): string | null {
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim())
  const named = (one: string) =>
    pairs.find((pair) => pair.startsWith(`${one}=`))?.slice(one.length + 1) ?? null
  return named(securePrefix + name) ?? (wasSetOverTls ? null : named(name))
}

type Cookie = {
  readonly name: string
  readonly value: string
  readonly isSecure: boolean
  /** In seconds; left out: until the browser is closed. */
  readonly maxAge?: number
  /** `Lax`: it comes along when a link of another site leads here. */
  readonly sameSite?: 'Strict' | 'Lax'
}

/** Fastify collects several of these. */
export function addCookie(
  reply: FastifyReply,
  { name, value, isSecure, maxAge, sameSite = 'Strict' }: Cookie,
): void {
  const end = maxAge === undefined ? '' : `; Max-Age=${maxAge}`
  const [prefix, secure] = isSecure ? [securePrefix, '; Secure'] : ['', '']
  reply.header(
    'set-cookie',
    `${prefix}${name}=${value}${end}; Path=/; HttpOnly; SameSite=${sameSite}${secure}`,
  )
}

export function removeCookie(reply: FastifyReply, name: string): void {
  for (const isSecure of [false, true]) addCookie(reply, { name, value: '', isSecure, maxAge: 0 })
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

/** Only places of this worker, whatever a browser makes of an address. */
export function destinationOf(wanted: string | null): string {
  const here = 'http://here.invalid'
  if (wanted === null || !URL.canParse(wanted, here)) return '/'
  const { protocol, origin, pathname, search } = new URL(wanted, here)
  // `blob:` has the origin of what follows.
  return protocol === 'http:' && origin === here && !pathname.startsWith('//') ? `${pathname}${search}` : '/'
}

/** Leads back to that page of this worker. */
export const signInFrom = (page: string): string => `/sign-in?${new URLSearchParams({ to: page })}`

/** The page whose form sent this. Null: the browser does not say. */
export function pageOfForm({ headers: { referer } }: Pick<FastifyRequest, 'headers'>): string | null {
  if (referer === undefined || !URL.canParse(referer)) return null
  const { pathname, search } = new URL(referer)
  return destinationOf(`${pathname}${search}`)
}

/** Whose token it is; or how the answer refuses it. How long to wait is in a header of the answer already. */
export type Verdict =
  | Omit<Beginning, 'address'>
  | { readonly status: 401 | 429 | 503; readonly problem: string }

const mostOfClient = { most: 5, withinMs: 60_000 }
/** Hardly ever reached by clients that the proxy tells apart: it takes 120 who guess as fast as they may. */
const mostOfProxy = { most: 10, withinMs: 1_000 }

/**
 * How often something may fail for a client. Behind a proxy that is not in TRUSTED_PROXIES everybody has its address. There clients are told
 * apart by what the proxy says, so that who fails locks out nobody else. But a client may have made that up, and each time anew. So it may
 * fail only so often a second for all clients of such an address together.
 */
export function openClientLimit(ofClient: Parameters<typeof openLimit>[0]) {
  const [ofClients, ofProxies] = [openLimit(ofClient), openLimit(mostOfProxy)]
  const namesOf = (request: FastifyRequest) => {
    const network = networkOf(clientAddress(request))
    const forwardedFor = unprovenAddress(request)
    return forwardedFor === null
      ? { client: network, proxy: null }
      : { client: `${network} for ${networkOf(forwardedFor)}`, proxy: network }
  }
  return {
    waitMs(request: FastifyRequest, nowMs: number): number {
      const { client, proxy } = namesOf(request)
      return Math.max(ofClients.waitMs(client, nowMs), proxy === null ? 0 : ofProxies.waitMs(proxy, nowMs))
    },
    /** Whether this was the last time that it may fail for this client. */
    count(request: FastifyRequest, nowMs: number): boolean {
      const { client, proxy } = namesOf(request)
      ofClients.count(client, nowMs)
      if (proxy !== null) ofProxies.count(proxy, nowMs)
      return ofClients.waitMs(client, nowMs) > 0
    },
  }
}

// Checks a token, wherever it is given. After five wrong ones within a minute no token of that client is looked at, not even a right one:
// otherwise a guesser could go on, and would only miss the answers to the wrong ones.
function openTokenCheck({ tokens, lookUp, log, onLockedOut, now = Date.now }: Options) {
  const limit = openClientLimit(mostOfClient)
  const whose = openWhose(tokens, lookUp)
  const taken = new WeakMap<FastifyRequest, { readonly token: string; readonly atMs: number }>()
  const check = async (request: FastifyRequest, reply: FastifyReply, token: string): Promise<Verdict> => {
    const waitMs = limit.waitMs(request, now())
    if (waitMs > 0) {
      const waitSeconds = Math.ceil(waitMs / 1000)
      reply.header('retry-after', waitSeconds)
      return { status: 429, problem: tooManyWrong(waitSeconds) }
    }
    const address = clientAddress(request)
    const found = await whose(token, address).catch(() => 'unknown' as const)
    if (found === 'unknown') return { status: 503, problem: notLookedUp }
    if (found !== null) {
      taken.set(request, { token, atMs: now() })
      return found
    }
    const forwardedFor = unprovenAddress(request)
    log.warn({ address, ...(forwardedFor !== null && { forwardedFor }) }, 'somebody gave a wrong token')
    if (limit.count(request, now())) onLockedOut(request)
    return {
      status: 401,
      problem:
        'The token that was sent is not taken: it is wrong, has ended or was revoked. Sign in, or send another one as `Authorization: Bearer …`.',
    }
  }
  return {
    check,
    /** While Postgres is away, what was known last counts, as for sessions. */
    async isStillTaken(request: FastifyRequest): Promise<boolean> {
      const known = taken.get(request)
      if (known === undefined || Math.abs(now() - known.atMs) < knownMs) return known !== undefined
      const found = await whose(known.token, clientAddress(request)).catch(() => 'unknown' as const)
      if (found !== null) taken.set(request, { ...known, atMs: now() })
      return found !== null
    },
  }
}

/** Null: nobody's. Rejects when it cannot be looked up. */
const openWhose =
  (tokens: Tokens, lookUp: LookUp) =>
  async (given: string, address: string): Promise<Omit<Beginning, 'address'> | null> => {
    const [role] = sharedRoles.filter(
      (one) => tokens(one).filter((token) => isSecret(token)(given)).length > 0,
    )
    if (role !== undefined) return { role, who: settingOf[role], secret: given }
    if (!tokenPattern.test(given)) return null
    const found = await lookUp(address, (store) => store.useToken(hashOf(given)))
    return found && { role: found.role, who: `token:${found.name}`, token: found }
  }

export const notLookedUp =
  'Postgres does not answer, so tokens of single people and programs cannot be checked. Try again, or use ADMIN_TOKEN or VIEWER_TOKEN.'
const tooManyWrong = (waitSeconds: number): string =>
  `Too many wrong tokens came from your address. No token is taken from there for ${waitSeconds} s, not even the right one. Then try again.`
