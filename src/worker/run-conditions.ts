// What stands between a request and its run. A stream that an operator has paused is left alone, but for what is asked for by hand; a source
// that is closed ends its runs; and a run that somebody asked for in Postgres (`tidemark.due`) is due until it was done once for all requests
// that were there when it began, whichever of them it was handed out for (P8).

import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import { lastAskedAt, settleDue } from '../store/book/due.ts'
import { sourceIn } from '../streams/names.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { isLong, type QueuedRun } from './queue/requests.ts'
import type { DoRun, RunHooks } from './queue/run-worker.ts'

const lookEveryMs = 1_000
const sharedMs = 250

/** Runs that begin together ask once. */
export function openPauseLook(
  pausedStreams: () => Promise<ReadonlySet<string>>,
): (stream: string) => Promise<boolean> {
  let [asked, askedMs]: [Promise<ReadonlySet<string>> | null, number] = [null, 0]
  return async (stream) => {
    if (asked === null || performance.now() - askedMs >= sharedMs)
      [asked, askedMs] = [pausedStreams(), performance.now()]
    return (await asked).has(stream)
  }
}

/** Does the run unless its stream is paused, and ends it between two pages when the stream is paused meanwhile. */
export async function runUnlessPaused(
  request: QueuedRun,
  hooks: RunHooks,
  isPaused: (stream: string) => Promise<boolean>,
  run: (hooks: RunHooks) => ReturnType<DoRun>,
): ReturnType<DoRun> {
  const { stream, cause, askedAt } = request
  // What was asked for in Postgres waits there.
  const isByHand = cause === 'operator' && askedAt === undefined
  if (await isPaused(stream)) return isByHand ? await run(hooks) : leftAlone(request)
  const paused = new AbortController()
  let isLooking = false
  const look = async () => {
    if (isLooking) return
    isLooking = true
    // While the database does not answer, the run finds that out by itself.
    if (await isPaused(stream).catch(() => false)) paused.abort(new Error(`${stream} was paused`))
    isLooking = false
  }
  const looking = setInterval(look, lookEveryMs)
  try {
    return await run({ ...hooks, signal: AbortSignal.any([hooks.signal, paused.signal]) })
  } finally {
    clearInterval(looking)
  }
}

type OpenSources = {
  /** Null: no source that is open has such a stream, or reads it in this way. */
  readerOf(request: QueuedRun): ((hooks: RunHooks) => Promise<RunOutcome | null>) | null
  /** Aborted when the source is closed; null: it is never closed. */
  closingOf(source: string): AbortSignal | null
}

/** Reads by the source that is open when it begins: by then another one may be open than a moment before, or none. It ends when that one is closed. */
export const runBySource =
  ({ readerOf, closingOf }: OpenSources, request: QueuedRun) =>
  async (hooks: RunHooks): ReturnType<DoRun> => {
    const [read, closing] = [readerOf(request), closingOf(sourceIn(request.stream))]
    if (read === null || closing === null) return read && (await read(hooks))
    const outcome = await read({ ...hooks, signal: AbortSignal.any([hooks.signal, closing]) })
    return outcome && { ...outcome, isPutOff: outcome.status === 'stopped' && closing.aborted }
  }

const leftAlone = ({ stream, kind }: QueuedRun): RunOutcome => ({
  stream,
  kind,
  status: 'stopped',
  runId: null,
  note: 'the stream is paused',
  error: null,
  tally: { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 0, bytes: 0 },
  isComplete: false,
  yielded: false,
})

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
