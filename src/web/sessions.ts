// Sessions of the console. They are kept in this worker and nowhere else, so that one that was ended is over for every copy of its cookie;
// a restart, and with it another token, ends them all. The cookie is a random text, of which only the hash is kept.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** A viewer reads; an operator acts too. */
export type Role = 'operator' | 'viewer'
/** What is taken for a token of the role, which may change; nothing: nobody can have that role. */
export type Tokens = (role: Role) => readonly string[]

// Who looks at a page, as far as pages care.
export type Viewer = {
  readonly canAct: boolean
  /** Null for who is not signed in. */
  readonly role: Role | null
  /** As they gave it for the record; empty when they did not. */
  readonly name: string
  /** Goes into each form; null for who is not signed in. */
  readonly csrfToken: string | null
  /** There is a token for more than this viewer may do. */
  readonly canSignIn: boolean
  /** What came of the action before this page. */
  readonly message: Message | null
}
export type Message = { readonly isGood: boolean; readonly text: string }

export const readOnlyViewer: Viewer = {
  canAct: false,
  role: null,
  name: '',
  csrfToken: null,
  canSignIn: false,
  message: null,
}

export type Session = {
  readonly role: Role
  readonly name: string
  /** Of the client that signed in. */
  readonly address: string
  readonly expiresAtMs: number
  /** Goes into every form of the session. */
  readonly csrfToken: string
}

export type Sessions = {
  /** Returns the cookie. */
  open(who: Pick<Session, 'role' | 'name' | 'address'>): string
  /** Null when the cookie is missing or unknown, or its session is over. */
  read(cookie: string | null): Session | null
  end(cookie: string | null): void
  /** Returns how many there were. */
  endAll(): number
  isCsrfToken(session: Session, given: string): boolean
  /** For the next page of the session. */
  leaveMessage(session: Session, message: Message): void
  takeMessage(session: Session): Message | null
}

export const sessionMs = 12 * 3_600_000
const longestMessage = 600
export const longestName = 60
/** Of each role (P10). The one that gives way is the oldest from the address that has most: one client ends no sessions of others. */
const mostSessions = 1_000

export function openSessions({ now = Date.now }: { readonly now?: () => number } = {}): Sessions {
  /** By the hash of the cookie, the oldest first. */
  const sessions = new Map<string, Session>()
  const messages = new WeakMap<Session, Message>()
  const keyOf = (cookie: string) => digest(cookie).toString('base64')
  const makeRoom = (role: Role) => {
    for (const [key, { expiresAtMs }] of sessions) if (expiresAtMs <= now()) sessions.delete(key)
    const ofRole = [...sessions].filter(([, session]) => session.role === role)
    if (ofRole.length < mostSessions) return
    const byAddress = Object.groupBy(ofRole, ([, { address }]) => address)
    const [busiest = []] = Object.values(byAddress).toSorted((a = [], b = []) => b.length - a.length)
    sessions.delete(busiest[0]?.[0] ?? '')
  }

  return {
    open({ role, name, address }) {
      makeRoom(role)
      const cookie = randomBytes(32).toString('base64url')
      sessions.set(keyOf(cookie), {
        role,
        address,
        name: [...name].slice(0, longestName).join(''),
        expiresAtMs: now() + sessionMs,
        csrfToken: randomBytes(32).toString('base64url'),
      })
      return cookie
    },
    read(cookie) {
      const session = cookie === null ? undefined : sessions.get(keyOf(cookie))
      return session && session.expiresAtMs > now() ? session : null
    },
    end(cookie) {
      if (cookie !== null) sessions.delete(keyOf(cookie))
    },
    endAll() {
      const living = [...sessions.values()].filter(({ expiresAtMs }) => expiresAtMs > now())
      sessions.clear()
      return living.length
    },
    isCsrfToken: ({ csrfToken }, given) => isSecret(csrfToken)(given),
    leaveMessage(session, { isGood, text }) {
      messages.set(session, { isGood, text: text.slice(0, longestMessage) })
    },
    takeMessage(session) {
      const message = messages.get(session) ?? null
      messages.delete(session)
      return message
    },
  }
}

// Compares what a client sent with a secret, in the same time wherever they differ.
const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

export function isSecret(secret: string): (given: string) => boolean {
  const expected = digest(secret)
  return (given) => timingSafeEqual(digest(given), expected)
}
