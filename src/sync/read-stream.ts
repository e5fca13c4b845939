// One reading of any stream in the lanes that are read on a schedule.

import type { Stream } from '../streams.ts'
import { readHead } from './head.ts'
import { pollList } from './list-stream.ts'
import type { Mirror, Source, Written } from './ports.ts'
import type { Progress } from './read-changes.ts'
import type { LaneOutcome } from './run-lane.ts'
import { readTrailing } from './trailing.ts'

export type ScheduledLane = 'head' | 'trailing'

export type ReadStreamContext = {
  readonly mirror: Mirror
  readonly source: Source
  readonly stream: Stream
  readonly lane: ScheduledLane
  readonly pageSize: number
  readonly lookbackFloorMs: number
  /** The operator's choice of a list stream's key. */
  readonly keyField: string | null
  readonly now: () => Date
  readonly signal: AbortSignal
  readonly shouldGiveWay?: () => boolean
  /** List streams have no position. */
  readonly onWritten?: (written: Written, progress: Progress | null) => void
}

export function readStream({ onWritten, ...context }: ReadStreamContext): Promise<LaneOutcome> {
  const { stream } = context
  if (stream.kind === 'list')
    return pollList({
      ...context,
      stream,
      ...(onWritten && { onWritten: (written) => onWritten(written, null) }),
    })
  const changes = { ...context, stream, ...(onWritten && { onWritten }) }
  return context.lane === 'trailing' ? readTrailing(changes) : readHead(changes)
}
