// The head lane of a changes stream: everything above the position, which moves as far as it is proven complete.

import type { ChangesStream } from '../streams.ts'
import { knownFacts, largestAnswerFact } from './facts.ts'
import type { Mirror, Source, Written } from './ports.ts'
import { type Progress, readChanges } from './read-changes.ts'
import { type LaneOutcome, runLane } from './run-lane.ts'

export type ChangesContext = {
  readonly mirror: Mirror
  readonly source: Source
  readonly stream: ChangesStream
  readonly pageSize: number
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly shouldGiveWay?: () => boolean
  readonly onWritten?: (written: Written, progress: Progress) => void
}

/** The position waits when this many passes in a row were disturbed. */
const maxPasses = 5

export const largePageSize = (pageSize: number): number => Math.max(pageSize, Math.min(10 * pageSize, 10_000))

export function readHead(context: ChangesContext): Promise<LaneOutcome> {
  const { mirror, stream, pageSize, now, signal } = context
  const lane = {
    mirror,
    source: context.source,
    stream: stream.name,
    lane: 'head',
    collectArrivals: false,
    signal,
  } as const
  return runLane(lane, async (run, source) => {
    const { state } = run
    const reading = await readChanges(
      {
        ...context,
        source,
        run,
        keyFields: stream.keyFields,
        versionFields: stream.versionFields,
        movesPosition: true,
      },
      {
        ...knownFacts(state.facts, now()),
        from: state.position,
        until: null,
        pageSize,
        largePageSize: largePageSize(pageSize),
        maxPasses,
      },
    )
    const largest = largestAnswerFact(state.facts, reading.largestAnswer, now())
    if (largest) await run.learn([largest])
    return reading
  })
}
