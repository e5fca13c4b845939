// The kinds of runs that the worker does by itself: how each is read, what its schedule is, and what makes it due beside that.

import { lookbackOf, scheduleOf } from '../config/dynamic-settings.ts'
import type { Config } from '../config/load.ts'
import type { Schedule } from '../config/parsers.ts'
import type { ReadOptions, SyncContext } from '../context.ts'
import { isProbeDue, type StreamDue } from '../store/book/due.ts'
import {
  type ChangesStream,
  type RunKind,
  type RunRequest,
  kinds as runKinds,
  type Stream,
} from '../streams/catalog.ts'
import { isAssignments } from '../streams/names.ts'
import { probeStream } from '../sync/beliefs/test-beliefs.ts'
import { runNextBackfill } from '../sync/changes/backfill.ts'
import { currentLookback, lookbackIntervalMs, shortEveryMs } from '../sync/changes/lookback.ts'
import { findDeletions } from '../sync/deletions/find-deletions.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { reconcileStream } from '../sync/reconcile/reconcile.ts'
import type { Place, Scheduled } from './queue/plan.ts'

type KindOfRun = {
  /** Null when there is nothing to do. */
  readonly read: (stream: Stream, options: ReadOptions) => Promise<RunOutcome | null>
  readonly isOf: (stream: Stream) => boolean
  /** As far as what is known of the stream changes it. Left out: it comes when it is asked for. */
  readonly schedule?: (
    stream: Stream,
    known: Pick<StreamDue, 'lookbackMs' | 'isRecentlyLate' | 'stoodMs'>,
  ) => Schedule
  /** Whether a stream is so far that such runs make sense. Left out: always. */
  readonly isPossible?: (known: StreamDue) => boolean
  /** Asked when its schedule says that it is due. Left out: it is. */
  readonly isDue?: (stream: string) => Promise<boolean>
}
type ScheduledKinds = Partial<Record<RunKind, KindOfRun>>
/** Of the source of a stream: each is read as its own settings say. */
export type KindsOf = (stream: string) => ScheduledKinds

const probeLookMs = 600_000
/** Less than a day, after which beliefs are doubted. */
const probeEveryMs = 20 * 3_600_000
const shortestEveryMs = 1_000
const relatedEveryMs = 15_000

export function scheduledKinds(context: SyncContext, { dynamic }: Pick<Config, 'dynamic'>) {
  const { pool } = context.database
  const contextOf = (stream: Stream) => context.contextOf(asChanges(stream))
  const isChanges = ({ kind }: Stream) => kind === 'changes'
  return {
    incremental: {
      read: (stream, options) => context.read(stream, 'incremental', options),
      isOf: () => true,
      schedule: (stream) => scheduleOf(dynamic.now(), stream),
    },
    lookback: {
      read: lookbackReader(context),
      isOf: isChanges,
      schedule(stream, known) {
        const floorMs = lookbackOf(dynamic.now(), stream)
        const lookbackMs = currentLookback(known.lookbackMs, floorMs)
        return { everyMs: Math.max(shortestEveryMs, lookbackIntervalMs({ lookbackMs, floorMs }, known)) }
      },
      // While a first load goes on, it would read again what was read just now. The list is compared when the load is over.
      isPossible: ({ isQuiet }) => isQuiet,
    },
    deletions: {
      read: (stream, { signal }) => findDeletions({ ...contextOf(stream), signal }),
      isOf: isChanges,
      schedule: () => dynamic.now().scheduleDeletions,
      // While the first load goes on, most of what the list shows is not here yet.
      isPossible: ({ isLoaded }) => isLoaded,
    },
    probe: {
      read: (stream, { signal }) => probeStream({ ...contextOf(stream), signal }),
      isOf: isChanges,
      schedule: () => ({ everyMs: probeLookMs }),
      isPossible: ({ isLoaded, isQuiet }) => isLoaded && isQuiet,
      isDue: (stream) => isProbeDue(pool, stream, probeEveryMs),
    },
    reconcile: {
      read: (stream, { signal }) => reconcileStream({ ...contextOf(stream), signal, approved: 0 }),
      isOf: isChanges,
      schedule: () => dynamic.now().scheduleReconcile,
    },
    backfill: {
      // Null when somebody else was faster.
      read: (stream, { signal, shouldYield }) =>
        runNextBackfill({ ...contextOf(stream), signal, ...(shouldYield && { shouldYield }) }),
      isOf: isChanges,
    },
    related: {
      read: ({ name }, options) => context.readRelated(options, name),
      isOf: ({ name }) => isAssignments(name) && context.related.length > 0,
      schedule: () => ({ everyMs: relatedEveryMs }),
      isDue: (stream) => context.isRelatedDue(stream),
    },
  } satisfies ScheduledKinds
}

function asChanges(stream: Stream): ChangesStream {
  if (stream.kind === 'changes') return stream
  throw new Error(`${stream.name} is listed whole by every poll, and has no row versions`)
}

/** While versions come late, look-backs come so often that most of them have to be brief. At rest they are so rare that each reaches all the way. */
export function lookbackReader(context: Pick<SyncContext, 'read'>): KindOfRun['read'] {
  const notBriefAtMs = new Map<string, number>()
  return async (stream, options) => {
    const [startedMs, lastMs] = [performance.now(), notBriefAtMs.get(stream.name)]
    const agoMs = lastMs === undefined ? shortEveryMs : startedMs - lastMs
    const isBrief = agoMs < shortEveryMs - slackMs
    const reach = isBrief ? 'brief' : agoMs > 2 * shortEveryMs ? 'whole' : 'short'
    const outcome = await context.read(stream, 'lookback', { ...options, reach })
    if (!isBrief && outcome.status === 'done') notBriefAtMs.set(stream.name, startedMs)
    return outcome
  }
}

/** One may begin a little later than its schedule says, and the next one in time. */
const slackMs = 5_000
const nothingKnown = { lookbackMs: null, isRecentlyLate: false, stoodMs: null }

export const schedulesOf = (
  kindsOf: KindsOf,
  streams: readonly Stream[],
  knownOf: (stream: string) => Parameters<NonNullable<KindOfRun['schedule']>>[1] = () => nothingKnown,
): readonly Scheduled[] =>
  streams.flatMap((stream) =>
    runKinds.flatMap((name): Scheduled[] => {
      const kind = kindsOf(stream.name)[name]
      if (!kind?.schedule || !kind.isOf(stream)) return []
      return [{ stream: stream.name, kind: name, schedule: kind.schedule(stream, knownOf(stream.name)) }]
    }),
  )

export const isRunDue = async (kindsOf: KindsOf, { stream, kind }: Place): Promise<boolean> =>
  (await kindsOf(stream)[kind]?.isDue?.(stream)) ?? true

/**
 * A late row that a look-back brings may have hidden a record that vanished: one was missing here and one there, so both counts were
 * equal. So a search for deletions follows. A search that found many missing is followed by a reconcile. What brought rows may have
 * brought assignments whose related records are to be read.
 */
export const whatFollows =
  (hasRelated: boolean) =>
  (
    { stream, kind }: RunRequest,
    { tally, wantsReconcile }: Pick<RunOutcome, 'tally' | 'wantsReconcile'>,
  ): readonly RunRequest[] => {
    const follows = (next: RunKind): RunRequest => ({ stream, kind: next, cause: 'again' })
    const isOfRelated = hasRelated && isAssignments(stream) && kind !== 'related'
    return [
      ...(kind === 'lookback' && tally.inserted > 0 ? [follows('deletions')] : []),
      ...(wantsReconcile ? [follows('reconcile')] : []),
      ...(isOfRelated && tally.inserted + tally.updated > 0 ? [follows('related')] : []),
    ]
  }
