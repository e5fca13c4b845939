// Which lanes the worker reads, when each is due, and what a failure in one says about the others.

import type { Config } from '../config.ts'
import type { Tick, Wanted } from '../jobs/schedules.ts'
import type { Blame } from '../jobs/troubles.ts'
import { pausedStreams } from '../mirror/pauses.ts'
import { readTrailingState } from '../mirror/trailing-state.ts'
import type { Lane, Stream } from '../streams.ts'
import { currentLookBack, trailingIntervalMs } from '../sync/look-back.ts'
import { RunFenced } from '../sync/ports.ts'
import type { LaneOutcome } from '../sync/run-lane.ts'
import { UpstreamError, type UpstreamErrorCode } from '../upstream/upstream-error.ts'
import type { ReadOptions, Workplace } from '../workplace.ts'
import { auditLanes } from './audit-lanes.ts'
import { isPassingTrouble } from './open-patiently.ts'

/** Null when there is nothing to do. */
type ReadLane = (stream: Stream, options: ReadOptions) => Promise<LaneOutcome | null>

/** How each lane is read; one that is missing here is not scheduled. */
export const laneTable = (workplace: Workplace): Partial<Record<Lane, ReadLane>> => ({
  head: (stream, options) => workplace.read(stream, 'head', options),
  trailing: (stream, options) => workplace.read(stream, 'trailing', options),
  ...auditLanes(workplace),
  ...(workplace.related.length > 0 && { related: (_stream, options) => workplace.readRelated(options) }),
})

const shortestLookMs = 1_000
const longestLookMs = 30_000
const relatedEveryMs = 10_000
const backfillEveryMs = 5_000

export function wantedSchedules(
  config: Pick<Config, 'schedules' | 'scheduleCensus' | 'lookbackMs'>,
  streams: readonly Stream[],
  lanes: Partial<Record<Lane, ReadLane>>,
): readonly Wanted[] {
  // Whether the trailing lane is due depends on what is stored; this is how often that is looked at.
  const everyMs = Math.round(Math.min(longestLookMs, Math.max(shortestLookMs, config.lookbackMs / 20)))
  return streams.flatMap((stream): Wanted[] => {
    const schedule = config.schedules[stream.name]
    const isChanges = stream.kind === 'changes'
    return [
      ...(schedule ? [{ stream: stream.name, lane: 'head' as const, schedule }] : []),
      ...(isChanges ? [{ stream: stream.name, lane: 'trailing' as const, schedule: { everyMs } }] : []),
      ...(isChanges && lanes.census
        ? [{ stream: stream.name, lane: 'census' as const, schedule: config.scheduleCensus }]
        : []),
      // Asked for by an operator; this is how often that is looked at.
      ...(isChanges && lanes.backfill
        ? [{ stream: stream.name, lane: 'backfill' as const, schedule: { everyMs: backfillEveryMs } }]
        : []),
      ...(stream.name === 'assignment' && lanes.related
        ? [{ stream: stream.name, lane: 'related' as const, schedule: { everyMs: relatedEveryMs } }]
        : []),
    ]
  })
}

export async function isLaneDue(workplace: Workplace, lookbackFloorMs: number, tick: Tick): Promise<boolean> {
  if ((await pausedStreams(workplace.database.pool)).has(tick.stream)) return false
  if (tick.lane === 'backfill') return (await workplace.mirror.nextBackfill(tick.stream)) !== null
  if (tick.lane === 'related') return await workplace.isRelatedDue()
  if (tick.lane !== 'trailing') return true
  const state = await readTrailingState(workplace.database.pool, tick.stream)
  if (!state?.hasPosition) return false
  const lookbackMs = currentLookBack(state.lookbackMs, lookbackFloorMs)
  return state.sinceLastMs === null || state.sinceLastMs >= trailingIntervalMs(lookbackMs)
}

const aboutSignIn: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_SIGN_IN_AWAY',
  'UPSTREAM_UNAUTHORIZED',
  'UPSTREAM_TOKEN_REPEATED',
])
const aboutNetwork: ReadonlySet<UpstreamErrorCode> = new Set(['UPSTREAM_UNREACHABLE', 'UPSTREAM_TIMEOUT'])
const statusesOfServices: readonly (number | null)[] = [429, 502, 503, 504]

const longestBackOffMs = 300_000

/** `isWrittenDown`: the ledger has the run's failure. When it could not be told even that, Postgres is the trouble. */
export function blameFor(thrown: unknown, isWrittenDown: boolean): Blame | null {
  if (thrown instanceof RunFenced) return null
  const error = thrown instanceof Error ? thrown : new Error(String(thrown))
  const common = {
    notBefore: null,
    longestDelayMs: longestBackOffMs,
    level: 'warn',
    message: error.message,
    error,
  } as const
  // That Postgres is away is told by whoever watches it.
  if (!isWrittenDown)
    return { ...common, scope: 'database', level: isPassingTrouble(error) ? 'debug' : 'warn' }
  if (!(error instanceof UpstreamError)) return { ...common, scope: 'stream' }
  const isOfService =
    aboutSignIn.has(error.code) || aboutNetwork.has(error.code) || statusesOfServices.includes(error.status)
  return { ...common, notBefore: error.notBefore, scope: isOfService ? 'service' : 'stream' }
}
