// Whether a token that somebody gives is ADMIN_TOKEN, wherever it is given. Wrong ones are counted and told, and after too many even
// the right one has to wait, or guessing would go on.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../log.ts'
import type { Attempts } from './attempts.ts'
import { clientAddress, type Visits } from './visits.ts'

/** How long to wait is in a header of the answer already. */
export type Verdict = 'right' | 'wrong' | { readonly waitSeconds: number }
export type TokenCheck = (request: FastifyRequest, reply: FastifyReply, token: string) => Verdict

type Options = {
  readonly visits: Pick<Visits, 'isAdminToken'>
  readonly attempts: Attempts
  readonly log: Logger
  readonly now?: () => number
}

export const openTokenCheck =
  ({ visits, attempts, log, now = Date.now }: Options): TokenCheck =>
  (request, reply, token) => {
    const address = clientAddress(request)
    const waitMs = attempts.waitMs(address, now())
    if (waitMs > 0) {
      const waitSeconds = Math.ceil(waitMs / 1000)
      reply.header('retry-after', waitSeconds)
      return { waitSeconds }
    }
    if (visits.isAdminToken(token)) return 'right'
    attempts.failed(address, now())
    log.warn({ address }, 'somebody tried to act with a wrong token')
    return 'wrong'
  }
