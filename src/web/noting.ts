// Records what people do here that changes nothing: sign-ins, sign-outs, lock-outs and downloads.

import type { FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { Event } from '../operator/record-action.ts'
import { withTimeout } from '../util/waiting.ts'
import { type Authentication, clientAddress } from './auth.ts'
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

/** Many addresses that guess cannot fill the record: the log of the worker has each wrong token. */
const mostLockOuts = { many: 20, withinMs: 60_000 } as const

/** While Postgres is away people can sign in all the same: what they do is recorded when it is done, or it is not done. */
export function openSignInNotes({ note, log }: { readonly note: Note; readonly log: Logger }): NoteSignIn {
  let lockOuts: readonly number[] = []
  return async (request, { action, role, name }) => {
    if (action === 'lockedOut') {
      lockOuts = lockOuts.filter((at) => at > Date.now() - mostLockOuts.withinMs)
      if (lockOuts.length >= mostLockOuts.many) return
      lockOuts = [...lockOuts, Date.now()]
    }
    const address = clientAddress(request)
    await withTimeout(
      longestMs,
      note({ who: name, door: 'console', address, action, target: role ?? 'sign-in', told: told[action] }),
    ).catch((error) =>
      log.warn({ err: error, action, role, name, address }, 'a sign-in could not be recorded'),
    )
  }
}

export const noteDownload = (
  { authentication, note }: { readonly authentication: Authentication | null; readonly note: Note },
  request: FastifyRequest,
  { target, stream = null, told }: Pick<Event, 'target' | 'stream' | 'told'>,
): Promise<void> => {
  const session = authentication?.sessionOf(request) ?? null
  return note({
    ...{ who: session?.name ?? '', door: session ? 'console' : 'HTTP', address: clientAddress(request) },
    ...{ action: 'download', target, stream, told },
  })
}
