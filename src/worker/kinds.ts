// The kinds of runs that the worker does by itself: how each is read, when it is scheduled, and whether it is due when its schedule ticks.

import type { Config } from '../config/load.ts'
import type { Schedule } from '../config/parsers.ts'
import { scheduleOf } from '../config/stream-variables.ts'
import type { Pool, ReadOptions, SyncContext } from '../context.ts'
import { isProbeDue, type LookbackState, readLookbackState } from '../store/book/due.ts'
import { pausedStreams } from '../store/book/streams.ts'
import {
  type ChangesStream,
  type RunKind,
  type RunRequest,
  kinds as runKinds,
  type Stream,
} from '../streams/catalog.ts'
import { probeStream } from '../sync/beliefs/probe-run.ts'
import { runNextBackfill } from '../sync/changes/backfill.ts'
import { currentLookback, lookbackIntervalMs, shortEveryMs } from '../sync/changes/lookback.ts'
import { findDeletions } from '../sync/deletions/find-deletions.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { reconcileStream } from '../sync/reconcile/reconcile.ts'
import type { Tick, Wanted } from './queue/schedules.ts'

type KindOfRun = {
  /** Null when there is nothing to do. */
  readonly read: (stream: Stream, options: ReadOptions) => Promise<RunOutcome | null>
  /** Undefined: the stream has no such runs. */
  readonly schedule: (stream: Stream) => Schedule | undefined
  /** Left out: whenever its schedule ticks. */
  readonly isDue?: (stream: string) => Promise<boolean>
}
export type ScheduledKinds = Partial<Record<RunKind, KindOfRun>>

const shortestLookMs = 1_000
const longestLookMs = 5_000
const relatedEveryMs = 10_000
const backfillEveryMs = 5_000
const probeLookMs = 600_000
/** Less than a day, after which beliefs are doubted. */
const probeEveryMs = 20 * 3_600_000

export function scheduledKinds(
  context: SyncContext,
  config: Pick<Config, 'schedules' | 'scheduleReconcile' | 'scheduleDeletions' | 'lookbackMs'>,
) {
  const { pool } = context.database
  const ofChanges = (schedule: Schedule) => (stream: Stream) =>
    stream.kind === 'changes' ? schedule : undefined
  const contextOf = (stream: Stream) => context.contextOf(asChanges(stream))
  // Whether a look-back is due depends on what is stored; this is how often that is looked at.
  const lookMs = Math.round(Math.min(longestLookMs, Math.max(shortestLookMs, config.lookbackMs / 20)))
  return {
    incremental: {
      read: (stream, options) => context.read(stream, 'incremental', options),
      schedule: (stream) => scheduleOf(config, stream),
    },
    lookback: {
      read: lookbackReader(context),
      schedule: ofChanges({ everyMs: lookMs }),
      async isDue(stream) {
        const state = await quietState(pool, stream)
        if (state === null) return false
        const lookbackMs = currentLookback(state.lookbackMs, config.lookbackMs)
        const intervalMs = lookbackIntervalMs(lookbackMs, state.isRecentlyLate)
        return state.sinceLastMs === null || state.sinceLastMs >= intervalMs
      },
    },
    deletions: {
      read: (stream, { signal }) => findDeletions({ ...contextOf(stream), signal }),
      schedule: ofChanges(config.scheduleDeletions),
      // While the first load goes on, most of what the list shows is not here yet.
      isDue: async (stream) => (await readLookbackState(pool, stream))?.isLoaded ?? false,
    },
    probe: {
      read: (stream, { signal }) => probeStream({ ...contextOf(stream), signal }),
      schedule: ofChanges({ everyMs: probeLookMs }),
      async isDue(stream) {
        const state = await quietState(pool, stream)
        return state?.isLoaded === true && (await isProbeDue(pool, stream, probeEveryMs))
      },
    },
    reconcile: {
      read: (stream, { signal }) => reconcileStream({ ...contextOf(stream), signal, approved: 0 }),
      schedule: ofChanges(config.scheduleReconcile),
    },
    backfill: {
      // Null when somebody else was faster.
      read: (stream, { signal, shouldYield }) =>
        runNextBackfill({ ...contextOf(stream), signal, ...(shouldYield && { shouldYield }) }),
      // An operator asks for backfills: this is how often the worker looks for them.
      schedule: ofChanges({ everyMs: backfillEveryMs }),
      isDue: async (stream) => (await context.store.nextBackfill(stream)) !== null,
    },
    related: {
      read: (_stream, options) => context.readRelated(options),
      schedule: ({ name }) =>
        name === 'assignment' && context.related.length > 0 ? { everyMs: relatedEveryMs } : undefined,
      isDue: () => context.isRelatedDue(),
    },
  } satisfies ScheduledKinds
}

function asChanges(stream: Stream): ChangesStream {
  if (stream.kind === 'changes') return stream
  throw new Error(`${stream.name} is listed whole by every poll, and has no row versions`)
}

/** Null while a first load goes on: a look-back would read again what was read just now. The list is compared when the load is over. */
async function quietState(pool: Pool, stream: string): Promise<LookbackState | null> {
  const state = await readLookbackState(pool, stream)
  return state?.hasPosition && !state.isLoading ? state : null
}

/** While versions come late, look-backs come so often that most of them have to be brief. */
export function lookbackReader(context: Pick<SyncContext, 'read'>): KindOfRun['read'] {
  const notBriefAtMs = new Map<string, number>()
  return async (stream, options) => {
    const lastMs = notBriefAtMs.get(stream.name)
    const isBrief = lastMs !== undefined && performance.now() - lastMs < shortEveryMs
    const outcome = await context.read(stream, 'lookback', { ...options, reach: isBrief ? 'brief' : 'short' })
    if (!isBrief && outcome.status === 'done') notBriefAtMs.set(stream.name, performance.now())
    return outcome
  }
}

export const wantedSchedules = (kinds: ScheduledKinds, streams: readonly Stream[]): readonly Wanted[] =>
  streams.flatMap((stream) =>
    runKinds.flatMap((kind): Wanted[] => {
      const schedule = kinds[kind]?.schedule(stream)
      return schedule ? [{ stream: stream.name, kind, schedule }] : []
    }),
  )

export async function isRunDue(kinds: ScheduledKinds, pool: Pool, { stream, kind }: Tick): Promise<boolean> {
  if ((await pausedStreams(pool)).has(stream)) return false
  return (await kinds[kind]?.isDue?.(stream)) ?? true
}

/**
 * A late row that a look-back brings may have hidden a record that vanished: one was missing here and one there, so both counts were
 * equal. So a search for deletions follows. A search that found many missing is followed by a reconcile.
 */
export const whatFollows = (
  { stream, kind }: RunRequest,
  { tally, wantsReconcile }: Pick<RunOutcome, 'tally' | 'wantsReconcile'>,
): RunRequest | null => {
  if (kind === 'lookback' && tally.inserted > 0) return { stream, kind: 'deletions', cause: 'again' }
  return wantsReconcile ? { stream, kind: 'reconcile', cause: 'again' } : null
}
