// Records what people do here that changes nothing: sign-ins, sign-outs, lock-outs and downloads.

import type { FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { Event } from '../operator/record-action.ts'
import { withTimeout } from '../util/waiting.ts'
import { personOf } from './actions.ts'
import { type Authentication, clientAddress } from './auth.ts'
import { networkOf, openLimit } from './limits.ts'
import type { Person } from './sessions.ts'

/** Rejects when it cannot be recorded. */
export type Note = (event: Event) => Promise<void>
export type NoteSignIn = (
  request: FastifyRequest,
  what: {
    readonly action: 'signIn' | 'signOut' | 'lockedOut'
    /** Null: nobody in particular. */
    readonly person: Person | null
    /** How they proved who they are, if there is more to say of it. */
    readonly how?: string
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
/** A download of the same list in the same session, or by the same person or program at one address, is recorded once in this time. */
const mostOfSession = { most: 1, withinMs: 60_000 } as const
const notRecorded = 'not recorded: there were too many of these within a minute'

/** While Postgres is away people can sign in all the same: what they do is recorded when it is done, or it is not done. */
export function openSignInNotes({ note, log }: { readonly note: Note; readonly log: Logger }): NoteSignIn {
  const limit = openLimit(mostOfAddress)
  return async (request, { action, person, how }) => {
    const [role, who] = [person?.role ?? 'sign-in', person?.who ?? '']
    const address = clientAddress(request)
    // Lock-outs of all addresses together: each wrong token is in the log.
    const same = action === 'lockedOut' ? action : `${action} ${role} ${networkOf(address)}`
    if (limit.waitMs(same, Date.now()) > 0) return log.info({ action, role, who, address }, notRecorded)
    limit.count(same, Date.now())
    await withTimeout(
      longestMs,
      note({ who, door: 'console', address, action, target: role, told: how ?? told[action] }),
    ).catch((error) =>
      log.warn({ err: error, action, role, who, address }, 'a sign-in could not be recorded'),
    )
  }
}

export type NoteDownload = (
  request: FastifyRequest,
  what: { readonly target: string; readonly stream: string | null; readonly told: string },
) => Promise<void>

export type Noting = {
  readonly authentication: Authentication
  readonly note: Note
  readonly log: Logger
  readonly now?: () => number
}

/** Rejects when it cannot be recorded: then nothing is downloaded. */
export function openDownloadNotes({ authentication, note, log, now = Date.now }: Noting): NoteDownload {
  const [ofAddress, ofSession] = [openLimit(mostOfAddress), openLimit(mostOfSession)]
  return async (request, { target, stream, told }) => {
    const session = authentication.sessionOf(request)
    const person = personOf(authentication, request)
    const address = clientAddress(request)
    const door = session ? ('console' as const) : ('HTTP' as const)
    const event = { who: person?.who ?? '', door, address, action: 'download', target, stream, told }
    const byAddress = JSON.stringify([networkOf(address), person?.role, target, told])
    const same = session ? [session.key] : [networkOf(address), event.who]
    const bySession = JSON.stringify([...same, target, told])
    if (ofSession.waitMs(bySession, now()) > 0) return
    if (ofAddress.waitMs(byAddress, now()) > 0) return log.info(event, notRecorded)
    await withTimeout(longestMs, note(event))
    ofSession.count(bySession, now())
    ofAddress.count(byAddress, now())
  }
}
