// Tokens of people and programs are made and revoked, and sessions of browsers ended.

import { createHash, randomBytes } from 'node:crypto'
import { addToken, endSessions, removeToken } from '../store/book/people.ts'
import { parseInt64 } from '../streams/record.ts'
import { NotThere, UsageError } from '../util/errors.ts'
import { parseDuration, plural, utcMinute } from '../util/text.ts'
import type { MirrorContext, Order, Outcome } from './mirror-actions.ts'
import { timeIn } from './positions.ts'
import { roles } from './roles.ts'

/** Recognized by programs that look for secrets in files. */
const prefix = 'tidemark_'
export const tokenPattern = new RegExp(`^${prefix}[\\w-]{43}$`)

/** A token has 256 random bits: its hash needs neither salt nor a slow function. */
export const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')

/** The token is in the answer, and nowhere else: what is recorded is the text. */
async function createToken({ pool }: MirrorContext, { target, fields, by }: Order): Promise<Outcome> {
  const name = nameIn(target)
  const role = roles.find((one) => one === fields.role)
  if (role === undefined)
    throw new UsageError(`Nothing was made: the role is one of ${roles.join(', ')}.`, { field: 'role' })
  const until = endIn(fields, new Date())
  const token = `${prefix}${randomBytes(32).toString('base64url')}`
  const added = { name, hash: hashOf(token), role, createdBy: by, endsAt: until }
  if (!(await addToken(pool, added)))
    throw new UsageError(
      `Nothing was made: there is a token ${name}. Revoke it first (\`tidemark token revoke ${name}\`), or take another name.`,
      { field: 'target' },
    )
  const end = until === null ? 'until it is revoked' : `until ${utcMinute(until)}`
  return {
    text: `The token ${name} was made. It is taken ${end}, with the rights of the role ${role}.`,
    json: { name, role, until, token },
  }
}

async function revokeToken({ pool }: MirrorContext, { target }: Order): Promise<Outcome> {
  if (!(await removeToken(pool, target)))
    throw new NotThere(
      `There is no token ${target.slice(0, 60)}. \`tidemark token list\` shows those that there are.`,
    )
  return {
    text: `The token ${target} is revoked: it is refused from now on, and the sessions that began with it have ended.`,
    json: { name: target, revoked: true },
  }
}

export const allSessions = 'all sessions'

async function end({ pool }: MirrorContext, { target }: Order): Promise<Outcome> {
  if (target === allSessions) {
    const ended = await endSessions(pool, null)
    return {
      text: `${plural(ended, 'session')} ended. Whoever was signed in has to sign in again.`,
      json: { ended },
    }
  }
  const id = parseInt64(target)
  const ended = id === null ? 0 : await endSessions(pool, id.toString())
  if (ended === 0)
    throw new NotThere(
      `There is no session ${target.slice(0, 20)}. \`tidemark sessions list\` shows those that there are.`,
    )
  return { text: `Session ${target} ended.`, json: { ended } }
}

export const peopleActions = { createToken, revokeToken, endSessions: end }

/** What stands in the record is one word that is no role, no setting, and no name that a provider says. */
function nameIn(text: string): string {
  if (/^[a-z0-9](?:[a-z0-9._@-]{0,58}[a-z0-9])?$/.test(text)) return text
  throw new UsageError(
    'Nothing was made: the name of a token has up to 60 small letters, digits, and . _ @ - between them, such as ola or nightly-report.',
    { field: 'target' },
  )
}

const leastMs = 60_000

function endIn({ for: span, until }: Order['fields'], now: Date): Date | null {
  if (span === undefined && until === undefined) return null
  const mistake = (what: string) =>
    new UsageError(
      `Nothing was made: ${what} Say when the token ends, such as after 90d (for) or at 2026-12-31 (until), or leave both out.`,
      { field: until === undefined ? 'for' : 'until' },
    )
  if (span !== undefined && until !== undefined) throw mistake('its end was given twice.')
  const spanMs = span === undefined ? 0 : parseDuration(span)
  if (spanMs === null) throw mistake(`"${span?.slice(0, 40)}" is no time.`)
  const end = until === undefined ? new Date(now.getTime() + spanMs) : timeIn(until, 'until')
  if (Number.isNaN(end.getTime()) || end.getUTCFullYear() > 9999) throw mistake('that is too late.')
  if (end.getTime() - now.getTime() < leastMs) throw mistake('that time is over, or nearly.')
  return end
}
