// Reconciles and polls that were missed are made up for: no worker ran, the upstream was away, or the worker that owed one was killed (P8).

import type { Config } from '../config/load.ts'
import { lastSlot, type Schedule } from '../config/parsers.ts'
import { scheduleOf } from '../config/stream-variables.ts'
import type { Pool } from '../context.ts'
import { readRestingPolls, streamsLackingReconcile } from '../store/book/due.ts'
import type { RunRequest, Stream } from '../streams/catalog.ts'
import { longestReplicaLagMs } from '../sync/changes/pinned-records.ts'

// A reconcile comes once a night. Neither several workers nor one that is started again and again take one that was missed more than once.
type Reconciles = {
  readonly pool: Pool
  readonly schedule: Schedule
  readonly lookbackMs: number
}

/** A missed reconcile is left alone for so long: a worker that owes it tries it again sooner, and a slot that just came is under way. */
export const restMs = 15 * 60_000

export async function askForMissed(
  reconciles: Reconciles,
  streams: readonly string[],
  requestRun: (request: RunRequest) => Promise<void>,
  now: Date,
): Promise<void> {
  const slot = lastSlot(reconciles.schedule, new Date(now.getTime() - restMs))
  for (const stream of await streamsLackingReconcile(reconciles.pool, streams, {
    ...reconciles,
    slot,
    restMs,
    replicaLagMs: longestReplicaLagMs,
  }))
    await requestRun({ stream, kind: 'reconcile', cause: 'again' })
}

/** So much later than its schedule a stream is read when ticks come as they should. */
const slackMs = 60_000
const triedMs = 5 * 60_000

/**
 * Asks for polls that are overdue by what Postgres says, whatever the queue knows: its schedules may be those of a database that is no
 * more, and the next tick of an hourly list an hour away.
 */
export async function askForOverdue(
  { pool, schedules }: { readonly pool: Pool; readonly schedules: Config['schedules'] },
  streams: readonly Stream[],
  requestRun: (request: RunRequest) => Promise<void>,
  now: Date,
): Promise<void> {
  const resting = await readRestingPolls(
    pool,
    streams.map(({ name }) => name),
    triedMs,
  )
  for (const { stream: name, readThroughAt } of resting) {
    const stream = streams.find((one) => one.name === name)
    if (stream === undefined) continue
    const slot = lastSlot(scheduleOf({ schedules }, stream), new Date(now.getTime() - slackMs))
    if (readThroughAt === null || readThroughAt < slot)
      await requestRun({ stream: name, kind: 'incremental', cause: 'again' })
  }
}

/** Whether a reconcile that this worker asked for again was done by another one meanwhile. */
export async function isTaken(reconciles: Reconciles, request: RunRequest, now: Date): Promise<boolean> {
  if (request.kind !== 'reconcile' || request.cause !== 'again') return false
  const slot = lastSlot(reconciles.schedule, now)
  const owed = { ...reconciles, slot, restMs: 0, replicaLagMs: longestReplicaLagMs }
  return (await streamsLackingReconcile(reconciles.pool, [request.stream], owed)).length === 0
}
