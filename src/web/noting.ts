// Records what people do here that changes nothing: sign-ins, sign-outs, lock-outs and downloads.

import type { FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { Event } from '../operator/record-action.ts'
import { withTimeout } from '../util/waiting.ts'
import { type Authentication, clientAddress } from './auth.ts'
import { networkOf, openLimit } from './limits.ts'
import type { Role } from './sessions.ts'

/** Rejects when it cannot be recorded. */
export type Note = (event: Event) => Promise<void>
export type NoteSignIn = (
  request: FastifyRequest,
  what: {
    readonly action: 'signIn' | 'signOut' | 'lockedOut'
    readonly role: Role | null
    readonly name: string
  },
) => Promise<void>

const longestMs = 2_000

const told = {
  signIn: 'Signed in.',
  signOut: 'Signed out.',
  lockedOut:
    'Five tokens were wrong within a minute. Until it is over, whoever gave them has to wait, also with the right one.',
} as const

/** Nobody can fill the record by doing the same again: what one address does beyond this is in the log of the worker only. */
const mostOfAddress = { most: 20, withinMs: 60_000 } as const
/** A download of the same list in the same session is recorded once in this time. */
const mostOfSession = { most: 1, withinMs: 60_000 } as const
const notRecorded = 'not recorded: there were too many of these within a minute'

/** While Postgres is away people can sign in all the same: what they do is recorded when it is done, or it is not done. */
export function openSignInNotes({ note, log }: { readonly note: Note; readonly log: Logger }): NoteSignIn {
  const limit = openLimit(mostOfAddress)
  return async (request, { action, role, name }) => {
    const address = clientAddress(request)
    // Lock-outs of all addresses together: each wrong token is in the log.
    const who = action === 'lockedOut' ? action : `${action} ${role} ${networkOf(address)}`
    if (limit.waitMs(who, Date.now()) > 0) {
      return log.info({ action, role, name, address }, notRecorded)
    }
    limit.count(who, Date.now())
    await withTimeout(
      longestMs,
      note({ who: name, door: 'console', address, action, target: role ?? 'sign-in', told: told[action] }),
    ).catch((error) =>
      log.warn({ err: error, action, role, name, address }, 'a sign-in could not be recorded'),
    )
  }
}

export type NoteDownload = (
  request: FastifyRequest,
  what: { readonly target: string; readonly stream: string | null; readonly told: string },
) => Promise<void>

type Noting = {
  readonly authentication: Authentication | null
  readonly note: Note
  readonly log: Logger
  readonly now?: () => number
}

/** Rejects when it cannot be recorded: then nothing is downloaded. */
export function openDownloadNotes({ authentication, note, log, now = Date.now }: Noting): NoteDownload {
  const [ofAddress, ofSession] = [openLimit(mostOfAddress), openLimit(mostOfSession)]
  return async (request, { target, stream, told }) => {
    const session = authentication?.sessionOf(request) ?? null
    const address = clientAddress(request)
    const door = session ? ('console' as const) : ('HTTP' as const)
    const event = { who: session?.name ?? '', door, address, action: 'download', target, stream, told }
    const byAddress = JSON.stringify([networkOf(address), session?.role, target, told])
    const bySession = JSON.stringify([session?.csrfToken ?? networkOf(address), target, told])
    if (ofSession.waitMs(bySession, now()) > 0) return
    if (ofAddress.waitMs(byAddress, now()) > 0) return log.info(event, notRecorded)
    await withTimeout(longestMs, note(event))
    ofSession.count(bySession, now())
    ofAddress.count(byAddress, now())
  }
}
