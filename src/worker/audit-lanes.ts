// The lanes of audit and repair as the worker reads them: the census on its schedule, backfills as they are asked for.

import type { Lane, Stream } from '../streams.ts'
import { runNextBackfill } from '../sync/backfill.ts'
import { takeCensus } from '../sync/census.ts'
import type { LaneOutcome } from '../sync/run-lane.ts'
import type { ReadOptions, Workplace } from '../workplace.ts'

type ReadLane = (stream: Stream, options: ReadOptions) => Promise<LaneOutcome>

export const auditLanes = (
  workplace: Pick<Workplace, 'contextOf'>,
): Readonly<Record<'census' | 'backfill', ReadLane>> => ({
  async census(stream, { signal }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} is listed whole by every poll`)
    return await takeCensus({ ...workplace.contextOf(stream), signal, release: false })
  },
  async backfill(stream, { signal, shouldGiveWay }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} has no past to read again`)
    const context = { ...workplace.contextOf(stream), signal, ...(shouldGiveWay && { shouldGiveWay }) }
    return (await runNextBackfill(context)) ?? nothingToDo(stream.name, 'backfill')
  },
})

/** Somebody else was faster. */
const nothingToDo = (stream: string, lane: Lane): LaneOutcome => ({
  stream,
  lane,
  status: 'skipped',
  runId: null,
  note: 'nothing is left to do',
  error: null,
  tally: { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 0, bytes: 0 },
  isComplete: false,
  gaveWay: false,
})
