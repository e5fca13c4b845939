// What every run has around its reading: the lane is taken, the upstream's answers are counted, and the end is written into the
// ledger, whatever the end is.

import type { Lane } from '../streams.ts'
import type { Mirror, Run, Source } from './ports.ts'

export type LaneOutcome = {
  readonly stream: string
  readonly lane: Lane
  readonly status: 'done' | 'failed' | 'skipped' | 'stopped'
  readonly runId: string | null
  readonly note: string | null
  readonly error: Error | null
  readonly gaveWay: boolean
}
export type LaneReading = { readonly note: string | null; readonly gaveWay: boolean }

export type LaneContext = {
  readonly mirror: Mirror
  readonly source: Source
  readonly stream: string
  readonly lane: Lane
  readonly collectArrivals: boolean
  readonly signal: AbortSignal
}

export async function runLane(
  context: LaneContext,
  read: (run: Run, source: Source) => Promise<LaneReading>,
): Promise<LaneOutcome> {
  const { mirror, stream, lane, signal } = context
  const run = await mirror.startRun(stream, lane, { collectArrivals: context.collectArrivals })
  const ended = { stream, lane, error: null, gaveWay: false }
  if ('busy' in run) return { ...ended, status: 'skipped', runId: null, note: run.busy }
  const { source, counts } = counted(context.source)
  try {
    if (run.state.stoppedReason !== null) {
      const error = new StreamStopped(stream, run.state.stoppedReason)
      await run.finish({ ...counts, status: 'failed', error: error.message, note: null })
      return { ...ended, status: 'failed', runId: run.id, note: null, error }
    }
    const reading = await read(run, source)
    await run.finish({ ...counts, status: 'done', error: null, note: reading.note })
    return { ...ended, ...reading, status: 'done', runId: run.id }
  } catch (cause) {
    const error = cause instanceof Error ? cause : new Error(String(cause))
    if (signal.aborted) {
      await run.finish({ ...counts, status: 'done', error: null, note: 'stopped between two pages' })
      return { ...ended, status: 'stopped', runId: run.id, note: 'stopped between two pages' }
    }
    await run.finish({ ...counts, status: 'failed', error: error.message, note: null })
    return { ...ended, status: 'failed', runId: run.id, note: null, error }
  }
}

/** The stream waits for a person; the reason says what to do. */
export class StreamStopped extends Error {
  override readonly name = 'StreamStopped'
  constructor(stream: string, reason: string) {
    super(`${stream} is stopped: ${reason}`)
  }
}

function counted(source: Source): {
  readonly source: Source
  readonly counts: { requests: number; bytes: number }
} {
  const counts = { requests: 0, bytes: 0 }
  const count = async <Result extends object>(answering: Promise<Result>): Promise<Result> => {
    counts.requests += 1
    const answer = await answering
    if ('bytes' in answer && typeof answer.bytes === 'number') counts.bytes += answer.bytes
    return answer
  }
  const { lookup } = source
  return {
    counts,
    source: {
      changes: (request, signal) => count(source.changes(request, signal)),
      list: (request, signal) => count(source.list(request, signal)),
      lookup:
        lookup &&
        ((key, signal) => {
          counts.requests += 1
          return lookup(key, signal)
        }),
    },
  }
}
