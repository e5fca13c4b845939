// A census comes once a night. One that was missed is made up for: no worker ran, the upstream was away, or the worker that owed it
// was killed (P8). Neither several workers nor one that is started again and again take it more than once.

import type { Pool } from 'pg'
import type { RunRequest } from '../jobs/run-queue.ts'
import { hasCensusSince, streamsLackingCensus } from '../mirror/census-state.ts'
import type { Schedule } from '../variable-schemas.ts'
import { lastSlot } from './slots.ts'

type Options = {
  readonly pool: Pool
  readonly schedule: Schedule
}

/** Whoever owes one tries it again sooner than that; a slot that has only just come is still under way. */
export const restMs = 15 * 60_000

export async function askForMissed(
  { pool, schedule }: Options,
  streams: readonly string[],
  nudge: (request: RunRequest) => Promise<void>,
  now: Date,
): Promise<void> {
  const slot = lastSlot(schedule, new Date(now.getTime() - restMs))
  for (const stream of await streamsLackingCensus(pool, streams, slot, restMs))
    await nudge({ stream, lane: 'census', cause: 'again' })
}

/** Asked for again by one worker, and taken by another meanwhile. */
export async function isTaken({ pool, schedule }: Options, request: RunRequest, now: Date): Promise<boolean> {
  if (request.lane !== 'census' || request.cause !== 'again') return false
  return await hasCensusSince(pool, request.stream, lastSlot(schedule, now))
}
