// What Postgres says of the moment: which streams may be read, what their schedules are now, what was asked for, and what was missed: no
// worker ran, the upstream was away, the worker that owed a run was killed, or the queue remembers another database (P8).

import { type DynamicValues, lookbackOf, scheduleOf } from '../config/dynamic-settings.ts'
import { lastSlot, type Schedule } from '../config/parsers.ts'
import type { Pool } from '../context.ts'
import { readDueState, readRestingPolls, type StreamDue, streamsLackingReconcile } from '../store/book/due.ts'
import type { RunRequest, Stream } from '../streams/catalog.ts'
import { longestReplicaLagMs } from '../sync/changes/pinned-records.ts'
import { type KindsOf, schedulesOf } from './kinds.ts'
import type { Wanted } from './queue/plan.ts'
import { askedAgain, type Look } from './queue/planner.ts'

type Looking = {
  readonly pool: Pool
  /** Of the source of a stream, as they are now. */
  readonly settingsOf: (stream: string) => DynamicValues
  readonly streams: readonly Stream[]
  readonly kindsOf: KindsOf
}

export async function lookAtDue({ pool, settingsOf, streams, kindsOf }: Looking): Promise<Look> {
  const names = streams.map(({ name }) => name)
  const changes = streams.flatMap(({ name, kind }) => (kind === 'changes' ? [name] : []))
  const state = await readDueState(pool, names)
  const known = new Map(state.streams.map((one) => [one.name, one]))
  const read = streams.filter(({ name }) => known.get(name)?.isPaused === false)
  const wanted = schedulesOf(kindsOf, read, (name) => known.get(name) as StreamDue).flatMap(
    (one): Wanted[] => {
      const stream = known.get(one.stream) as StreamDue
      if (kindsOf(one.stream)[one.kind]?.isPossible?.(stream) === false) return []
      return [{ ...one, doneMs: doneMs(one.kind, stream, state.nowMs) }]
    },
  )
  const now = new Date(state.nowMs)
  const missed: string[] = []
  // Most sources have the same schedule.
  const alike = Map.groupBy(changes, (stream) => JSON.stringify(settingsOf(stream).scheduleReconcile))
  for (const names of alike.values())
    missed.push(...(await missedReconciles(reconcilesOf(names[0] ?? '', settingsOf, pool), names, now)))
  return {
    ...state,
    wanted,
    asked: [
      ...missed.map((stream) => askedAgain({ stream, kind: 'reconcile' }, state.nowMs)),
      // Somebody wanted just this. Of a paused stream it waits until that is resumed.
      ...state.asked
        .filter(({ stream }) => known.get(stream)?.isPaused === false)
        .map(({ askedAt, ...one }) =>
          askedAt === null
            ? { ...one, cause: 'again' as const }
            : { ...one, askedAt, cause: 'operator' as const },
        ),
    ],
    overdue: await overduePolls({ pool, settingsOf }, read, state.streams, now),
    loading: new Set(state.streams.flatMap(({ name, isLoaded }) => (isLoaded ? [] : [name]))),
  }
}

/** A reconcile that is missed is found by `missedReconciles`. */
const doneMs = (kind: Wanted['kind'], { readThroughMs }: StreamDue, nowMs: number): number | null =>
  kind === 'reconcile' ? nowMs : kind === 'incremental' ? readThroughMs : null

// A reconcile comes once a night. Neither several workers nor one that is started again and again take one that was missed more than once.
type Reconciles = {
  readonly pool: Pool
  readonly schedule: Schedule
  readonly lookbackMs: (stream: string) => number
}

/** By the schedule of a stream, which others may share. */
export const reconcilesOf = (stream: string, settingsOf: Looking['settingsOf'], pool: Pool): Reconciles => ({
  pool,
  schedule: settingsOf(stream).scheduleReconcile,
  lookbackMs: (name) => lookbackOf(settingsOf(name), { name }),
})

/** A missed reconcile is left alone for so long: a worker that owes it tries it again sooner, and a slot that just came is under way. */
export const restMs = 15 * 60_000

export const missedReconciles = (
  reconciles: Reconciles,
  streams: readonly string[],
  now: Date,
): Promise<readonly string[]> =>
  streamsLackingReconcile(reconciles.pool, streams, {
    ...reconciles,
    slot: lastSlot(reconciles.schedule, new Date(now.getTime() - restMs)),
    restMs,
    replicaLagMs: longestReplicaLagMs,
  })

/** Whether a reconcile that was asked for again was done by another worker meanwhile. */
export async function isTaken(reconciles: Reconciles, request: RunRequest, now: Date): Promise<boolean> {
  if (request.kind !== 'reconcile' || request.cause !== 'again') return false
  const slot = lastSlot(reconciles.schedule, now)
  const owed = { ...reconciles, slot, restMs: 0, replicaLagMs: longestReplicaLagMs }
  return (await streamsLackingReconcile(reconciles.pool, [request.stream], owed)).length === 0
}

/** So much later than its schedule a stream is read when all goes well. */
const slackMs = 60_000
const triedMs = 5 * 60_000

/**
 * Streams that are overdue by what Postgres says, whatever the queue knows: its last plan may be that of a database as it was before a
 * restore, and the next reading of an hourly list an hour away.
 */
export async function overduePolls(
  { pool, settingsOf }: Pick<Looking, 'pool' | 'settingsOf'>,
  streams: readonly Stream[],
  known: readonly Pick<StreamDue, 'name' | 'readThroughMs'>[],
  now: Date,
): Promise<readonly string[]> {
  const readMsOf = new Map(known.map(({ name, readThroughMs }) => [name, readThroughMs]))
  const overdue = streams.flatMap((stream) => {
    const slot = lastSlot(scheduleOf(settingsOf(stream.name), stream), new Date(now.getTime() - slackMs))
    const readMs = readMsOf.get(stream.name) ?? null
    return readMs === null || readMs < slot.getTime() ? [stream.name] : []
  })
  return overdue.length === 0 ? [] : await readRestingPolls(pool, overdue, triedMs)
}
