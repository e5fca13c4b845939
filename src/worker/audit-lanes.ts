// The lanes of audit and repair as the worker reads them: the census on its schedule, backfills as they are asked for.

import type { Stream } from '../streams.ts'
import { runNextBackfill } from '../sync/backfill.ts'
import { takeCensus } from '../sync/census.ts'
import type { LaneOutcome } from '../sync/run-lane.ts'
import type { ReadOptions, Workplace } from '../workplace.ts'

type ReadLane = (stream: Stream, options: ReadOptions) => Promise<LaneOutcome | null>

export const auditLanes = (
  workplace: Pick<Workplace, 'contextOf'>,
): Readonly<Record<'census' | 'backfill', ReadLane>> => ({
  async census(stream, { signal }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} is listed whole by every poll`)
    return await takeCensus({ ...workplace.contextOf(stream), signal, release: 0 })
  },
  async backfill(stream, { signal, shouldGiveWay }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} has no past to read again`)
    const context = { ...workplace.contextOf(stream), signal, ...(shouldGiveWay && { shouldGiveWay }) }
    // Null when somebody else was faster.
    return await runNextBackfill(context)
  },
})
