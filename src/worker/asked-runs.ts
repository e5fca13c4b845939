// Runs that somebody asked for in Postgres (`tidemark.due`): done once for all requests that were there when they began, whichever of them
// they were handed out for, and due until then (P8).

import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import { lastAskedAt, settleDue } from '../store/book/due.ts'
import { isLong, type QueuedRun } from './queue/requests.ts'
import type { DoRun } from './queue/run-worker.ts'

type Options = {
  readonly pool: Pool
  /** A request of what only other workers read is left to them. */
  readonly isOurs: (request: QueuedRun) => boolean
  readonly log: Logger
}

export const settlingWhatIsAsked =
  ({ pool, isOurs, log }: Options, run: DoRun): DoRun =>
  async (request, hooks) => {
    const isHandedOut = request.askedAt !== undefined
    // A short run that takes the place of one that is asked for is done twice rather than looked up each time.
    const askedAt = isHandedOut || isLong(request) ? await lastAskedAt(pool, request) : null
    const asked = askedAt === null ? request : askedFor(request, askedAt)
    // Done by the run that was under way when it was handed out again.
    const outcome = isHandedOut && askedAt === null ? null : await run(asked, hooks)
    const hasEnded = outcome === null || outcome.status === 'done' || outcome.status === 'inconclusive'
    if (isOurs(request) && hasEnded && !outcome?.yielded)
      await settleDue(pool, { ...asked, ...(askedAt !== null && { askedAt }) }).catch((error) =>
        log.debug({ err: error, ...request }, 'it could not be noted that a run is no longer due'),
      )
    return outcome
  }

/** What somebody does by hand stays that, also where the stream is paused. */
const askedFor = (request: QueuedRun, askedAt: string): QueuedRun =>
  request.cause === 'operator' && request.askedAt === undefined
    ? request
    : { ...request, cause: 'operator', askedAt }
