// Sessions of the console: a signed cookie and nothing on the server, so that they hold in every worker and after a restart.
// The key follows from ADMIN_TOKEN: another token ends them all.

import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'

// Who looks at a page, as far as pages care.
export type Viewer = {
  readonly canAct: boolean
  /** Goes into each form; null when the viewer cannot act. */
  readonly csrfToken: string | null
  readonly canSignIn: boolean
  /** What came of the action before this page. */
  readonly message: Message | null
}
export type Message = { readonly isGood: boolean; readonly text: string }

export const readOnlyViewer: Viewer = { canAct: false, csrfToken: null, canSignIn: false, message: null }

export type Session = { readonly id: string; readonly expiresAtMs: number }

export type Sessions = {
  open(): { readonly session: Session; readonly cookie: string }
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

export function openSessions({
  adminToken,
  now = Date.now,
}: {
  readonly adminToken: string
  readonly now?: () => number
}): Sessions {
  const key = Buffer.from(hkdfSync('sha256', adminToken, '', 'tidemark sessions', 32))
  const sign = (purpose: string, text: string) =>
    createHmac('sha256', key).update(`${purpose}\n${text}`).digest('base64url')
  const isSigned = (purpose: string, text: string, given: string) => isEqual(sign(purpose, text), given)
  const bodyOf = ({ id, expiresAtMs }: Session) => `${id}.${expiresAtMs}`

  return {
    open() {
      const session = { id: randomBytes(16).toString('base64url'), expiresAtMs: now() + sessionMs }
      return { session, cookie: `${bodyOf(session)}.${sign('session', bodyOf(session))}` }
    },
    read(cookie) {
      const [, id, expires, signature] = /^([\w-]{22})\.(\d{1,16})\.([\w-]{43})$/.exec(cookie ?? '') ?? []
      if (id === undefined || expires === undefined || signature === undefined) return null
      const session = { id, expiresAtMs: Number(expires) }
      return isSigned('session', bodyOf(session), signature) && session.expiresAtMs > now() ? session : null
    },
    csrfTokenOf: (session) => sign('form', bodyOf(session)),
    isCsrfToken: (session, given) => isSigned('form', bodyOf(session), given),
    seal(session, { isGood, text }) {
      const body = `${isGood ? '+' : '-'}${Buffer.from(text.slice(0, longestMessage)).toString('base64url')}`
      return `${body}.${sign('message', `${session.id}\n${body}`)}`
    },
    unseal(session, sealed) {
      const [, body, signature] = /^([+-][\w-]*)\.([\w-]{43})$/.exec(sealed ?? '') ?? []
      if (body === undefined || signature === undefined) return null
      if (!isSigned('message', `${session.id}\n${body}`, signature)) return null
      return { isGood: body.startsWith('+'), text: Buffer.from(body.slice(1), 'base64url').toString() }
    },
  }
}

/** Takes the same time wherever they differ; their lengths are no secret. */
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
