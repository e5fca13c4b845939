// Keeps the worker's own runs off streams that an operator has paused, and ends those of a source that is closed. What an operator asks for
// by hand is done all the same.

import type { RunKind } from '../streams/catalog.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import type { QueuedRun } from './queue/requests.ts'
import type { DoRun } from './queue/run-worker.ts'

type Hooks = { readonly signal: AbortSignal }

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
export async function runUnlessPaused<RunHooks extends Hooks>(
  request: QueuedRun,
  hooks: RunHooks,
  isPaused: (stream: string) => Promise<boolean>,
  run: (hooks: RunHooks) => ReturnType<DoRun>,
): ReturnType<DoRun> {
  const { stream, kind, cause, askedAt } = request
  // What was asked for in Postgres waits there.
  const isByHand = cause === 'operator' && askedAt === undefined
  if (await isPaused(stream)) return isByHand ? await run(hooks) : leftAlone(stream, kind)
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

/** Does the run, and ends it when its source is closed meanwhile: if that is open again, with other settings, another run goes on. */
export async function runUntilClosed<RunHooks extends Hooks>(
  hooks: RunHooks,
  closing: AbortSignal | null,
  run: (hooks: RunHooks) => Promise<RunOutcome | null>,
): ReturnType<DoRun> {
  if (closing === null) return await run(hooks)
  const outcome = await run({ ...hooks, signal: AbortSignal.any([hooks.signal, closing]) })
  return outcome && { ...outcome, isPutOff: outcome.status === 'stopped' && closing.aborted }
}

const leftAlone = (stream: string, kind: RunKind): RunOutcome => ({
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
