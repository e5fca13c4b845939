// Sessions of the console. They are kept in Postgres, so they outlive a worker, every worker knows them, and one that was ended is over for
// every copy of its cookie. The cookie is a random text, of which only the hash is kept. While Postgres is away, a worker goes on with the
// sessions that it knows, and writes down those that begin then as soon as it is back.

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Role } from '../operator/roles.ts'
import type { KeptSession } from '../store/book/people.ts'
import type { Mistake } from './form-fields.ts'
import { bounded } from './limits.ts'
import type { LookUp } from './people-store.ts'

export type Person = {
  readonly role: Role
  /** As it is recorded: `token:` with its name, `oidc:` or `proxy:` with that of a person, `ADMIN_TOKEN` … */
  readonly who: string
}

// Who looks at a page, as far as pages care.
export type Viewer = {
  readonly canAct: boolean
  /** They may also do what only admins may. */
  readonly canAdminister: boolean
  /** Null for who is not signed in. */
  readonly role: Role | null
  readonly name: string
  /** Of the session by which they look. */
  readonly sessionKey?: string
  /** Goes into each form; null for who is not signed in. */
  readonly csrfToken: string | null
  /** Where to sign in and come back to this page; null where that could not give them more rights. */
  readonly signInAt: string | null
  /** What came of the action before this page. */
  readonly message: Message | null
}
export type Message = {
  readonly isGood: boolean
  readonly text: string
  /** In the form by which it was sent. */
  readonly mistake?: Mistake
}

export const readOnlyViewer: Viewer = {
  canAct: false,
  canAdminister: false,
  role: null,
  name: '',
  csrfToken: null,
  signInAt: '/sign-in',
  message: null,
}

export type Session = Person & {
  /** The same as long as it is the same session. */
  readonly key: string
  /** Goes into every form of the session. */
  readonly csrfToken: string
}

/** Of whom it is. */
export type Beginning = Person & {
  readonly address: string
  /** The named token with which it begins. */
  readonly token?: { readonly name: string; readonly endsAt: Date | null }
  /** The value of ADMIN_TOKEN or VIEWER_TOKEN with which it begins. */
  readonly secret?: string
}

const longestMessage = 600
/** What is remembered here, of each kind (P10). */
const mostHeld = 1_000

type Held = { readonly kept: KeptSession; readonly isSaved: boolean; readonly readAtMs: number }
type Options = {
  readonly lookUp: LookUp
  /** Whether this is still the value of the setting that has this name. */
  readonly secretsOf: (who: string) => readonly string[]
  readonly lastsMs: number
  readonly now?: () => number
}

/** It ends with its token at the latest. */
function keptSession(
  { role, who, address, token, secret }: Beginning,
  cookie: string,
  latestMs: number,
): KeptSession {
  const endsAtMs = Math.min(latestMs, token?.endsAt?.getTime() ?? Number.POSITIVE_INFINITY)
  return {
    hash: hashOf(cookie),
    role,
    who,
    address,
    endsAt: new Date(endsAtMs),
    token: token?.name ?? null,
    proof: secret === undefined ? null : proofOf(cookie, secret),
  }
}

export function openSessions({ lookUp, secretsOf, lastsMs, now = Date.now }: Options) {
  const held = bounded<Held>(mostHeld)
  const messages = bounded<Message>(mostHeld)
  /** Those that ended while Postgres was away. */
  const ended = bounded<string>(mostHeld)

  async function endNow(hash: string, address: string): Promise<void> {
    held.delete(hash)
    ended.set(hash, address)
    await lookUp(address, (store) => store.endSession(hash))
    ended.delete(hash)
  }
  async function find(hash: string, address: string, knownForMs: number): Promise<KeptSession | null> {
    const known = held.get(hash)
    if (ended.has(hash)) return null
    if (known && Math.abs(now() - known.readAtMs) < knownForMs) return known.kept
    try {
      for (const [one, from] of ended.all()) await endNow(one, from)
      if (known && !known.isSaved) await lookUp(address, (store) => store.saveSession(known.kept))
      const kept = await lookUp(address, (store) => store.readSession(hash))
      if (kept === null) held.delete(hash)
      else held.set(hash, { kept, isSaved: true, readAtMs: now() })
      return kept
    } catch {
      return known?.kept ?? null
    }
  }
  /** A session ends with the secret by which it began. Without the cookie nobody can guess that from what is kept. */
  const isProven = ({ who, proof }: KeptSession, cookie: string): boolean =>
    proof === null || secretsOf(who).some((secret) => isSecret(proof)(proofOf(cookie, secret)))

  return {
    /** Returns the cookie. */
    async open(beginning: Beginning): Promise<string> {
      const { address, token } = beginning
      const cookie = randomBytes(32).toString('base64url')
      const kept = keptSession(beginning, cookie, now() + lastsMs)
      const isSaved = await lookUp(address, (store) => store.saveSession(kept)).then(
        () => true,
        (error) => {
          // It must end together with its token.
          if (token !== undefined) throw error
          return false
        },
      )
      held.set(kept.hash, { kept, isSaved, readAtMs: now() })
      return cookie
    },
    /** Null when the cookie is missing or unknown, or its session is over. What was looked up less than `knownForMs` ago still counts. */
    async read(cookie: string | null, address: string, knownForMs = 0): Promise<Session | null> {
      if (cookie === null) return null
      const hash = hashOf(cookie)
      const kept = await find(hash, address, knownForMs)
      if (kept === null || kept.endsAt.getTime() <= now() || !isProven(kept, cookie)) return null
      return { role: kept.role, who: kept.who, key: hash, csrfToken: csrfTokenOf(cookie) }
    },
    async end(cookie: string | null, address: string): Promise<void> {
      if (cookie !== null) await endNow(hashOf(cookie), address).catch(() => {})
    },
    /** For the next page of the session. */
    leaveMessage({ key }: Session, { text, ...message }: Message): void {
      messages.set(key, { ...message, text: text.slice(0, longestMessage) })
    },
    takeMessage({ key }: Session): Message | null {
      const message = messages.get(key) ?? null
      messages.delete(key)
      return message
    },
  }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
const hashOf = (cookie: string): string => digest(cookie).toString('hex')
const proofOf = (cookie: string, secret: string): string =>
  createHmac('sha256', cookie).update(secret).digest('base64url')
/** Follows from the cookie, so that it need not be kept, and tells nothing of it. */
export const csrfTokenOf = (cookie: string): string => digest(`form ${cookie}`).toString('base64url')

/** Compares what a client sent with a secret, in the same time wherever they differ. */
export function isSecret(secret: string): (given: string) => boolean {
  const expected = digest(secret)
  return (given) => timingSafeEqual(digest(given), expected)
}
