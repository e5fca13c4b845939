// Sessions of the console: a signed cookie and nothing on the server, so that they hold in every worker and after a restart. The key of
// a role follows from its token: another token ends all sessions of that role.

import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

/** A viewer reads; an operator acts too. */
export type Role = 'operator' | 'viewer'
export type Tokens = Readonly<Record<Role, string | null>>

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
  readonly id: string
  readonly expiresAtMs: number
  readonly role: Role
  readonly name: string
}

export type Sessions = {
  open(role: Role, name: string): { readonly session: Session; readonly cookie: string }
  /** Null when the cookie is missing, forged, of another token or expired. */
  read(cookie: string | null): Session | null
  /** Goes into every form of the session. */
  csrfTokenOf(session: Session): string
  isCsrfToken(session: Session, given: string): boolean
  seal(session: Session, message: Message): string
  unseal(session: Session, sealed: string | null): Message | null
}

export const sessionMs = 12 * 3_600_000
const longestMessage = 600
export const longestName = 60
const cookieForm = /^([\w-]{22})\.(\d{1,16})\.(operator|viewer)\.([\w-]{0,400})\.([\w-]{43})$/

export function openSessions({
  tokens,
  now = Date.now,
}: {
  readonly tokens: Tokens
  readonly now?: () => number
}): Sessions {
  const keyOf = (token: string | null, role: Role) =>
    token === null ? null : Buffer.from(hkdfSync('sha256', token, '', `tidemark sessions ${role}`, 32))
  const keys = { operator: keyOf(tokens.operator, 'operator'), viewer: keyOf(tokens.viewer, 'viewer') }
  const sign = (role: Role, purpose: string, text: string): string | null => {
    const key = keys[role]
    return key && createHmac('sha256', key).update(`${purpose}\n${text}`).digest('base64url')
  }
  const isSigned = (role: Role, purpose: string, text: string, given: string): boolean => {
    const expected = sign(role, purpose, text)
    return expected !== null && isEqual(expected, given)
  }
  const bodyOf = ({ id, expiresAtMs, role, name }: Session) =>
    `${id}.${expiresAtMs}.${role}.${Buffer.from(name).toString('base64url')}`

  return {
    open(role, name) {
      const id = randomBytes(16).toString('base64url')
      const session = {
        id,
        expiresAtMs: now() + sessionMs,
        role,
        name: [...name].slice(0, longestName).join(''),
      }
      return { session, cookie: `${bodyOf(session)}.${sign(role, 'session', bodyOf(session))}` }
    },
    read(cookie) {
      const [, id, expires, role, name, signature] = cookieForm.exec(cookie ?? '') ?? []
      if (id === undefined || signature === undefined || (role !== 'operator' && role !== 'viewer'))
        return null
      const given = Buffer.from(name ?? '', 'base64url').toString()
      const session: Session = { id, role, expiresAtMs: Number(expires), name: given }
      const isOurs = isSigned(role, 'session', bodyOf(session), signature)
      return isOurs && session.expiresAtMs > now() ? session : null
    },
    csrfTokenOf: (session) => sign(session.role, 'form', bodyOf(session)) ?? '',
    isCsrfToken: (session, given) => isSigned(session.role, 'form', bodyOf(session), given),
    seal(session, { isGood, text }) {
      const body = `${isGood ? '+' : '-'}${Buffer.from(text.slice(0, longestMessage)).toString('base64url')}`
      return `${body}.${sign(session.role, 'message', `${session.id}\n${body}`)}`
    },
    unseal(session, sealed) {
      const [, body, signature] = /^([+-][\w-]*)\.([\w-]{43})$/.exec(sealed ?? '') ?? []
      if (body === undefined || signature === undefined) return null
      if (!isSigned(session.role, 'message', `${session.id}\n${body}`, signature)) return null
      return { isGood: body.startsWith('+'), text: Buffer.from(body.slice(1), 'base64url').toString() }
    },
  }
}

/** Compares in the same time wherever the texts differ; their lengths are no secret. */
function isEqual(expected: string, given: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(given)]
  return one.length === other.length && timingSafeEqual(one, other)
}

// Compares what a client sent with a secret, in the same time wherever they differ.
const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

export function isSecret(secret: string): (given: string) => boolean {
  const expected = digest(secret)
  return (given) => timingSafeEqual(digest(given), expected)
}
