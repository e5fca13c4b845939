// The runs that the worker does by itself: which kinds there are, when each is due, which of them were missed, how a pause ends one,
// and what a failure in one says about the others.

import type { Config } from '../config/load.ts'
import { lastSlot, type Schedule } from '../config/parsers.ts'
import type { Pool, ReadOptions, SyncContext } from '../context.ts'
import { isDiskFull } from '../problems/parts.ts'
import {
  isProbeDue,
  readLookbackState,
  readRestingPolls,
  streamsLackingReconcile,
} from '../store/book/due.ts'
import { pausedStreams } from '../store/book/streams.ts'
import { type RunKind, type RunRequest, kinds as runKinds, type Stream } from '../streams/catalog.ts'
import { probeStream } from '../sync/beliefs/probe-run.ts'
import { runNextBackfill } from '../sync/changes/backfill.ts'
import { currentLookback, lookbackIntervalMs, shortEveryMs } from '../sync/changes/lookback.ts'
import { longestReplicaLagMs } from '../sync/changes/pinned-records.ts'
import { findDeletions } from '../sync/deletions/find-deletions.ts'
import type { RunOutcome } from '../sync/perform-run.ts'
import { RunFenced } from '../sync/ports/store.ts'
import { reconcileStream } from '../sync/reconcile/reconcile.ts'
import { UpstreamError, type UpstreamErrorCode } from '../upstream/http/errors.ts'
import { backoff } from '../util/backoff.ts'
import { errorOf, messageOf } from '../util/errors.ts'
import { isPassingFailure } from './availability.ts'
import type { FailureScope } from './queue/circuit-breaker.ts'
import type { Tick, Wanted } from './queue/schedules.ts'

/** Null when there is nothing to do. */
type ReadKind = (stream: Stream, options: ReadOptions) => Promise<RunOutcome | null>

/** How each kind is read; one that is missing here is not scheduled. */
export const readers = (context: SyncContext): Partial<Record<RunKind, ReadKind>> => ({
  incremental: (stream, options) => context.read(stream, 'incremental', options),
  lookback: lookbackReader(context),
  ...auditReaders(context),
  ...(context.related.length > 0 && { related: (_stream, options) => context.readRelated(options) }),
})

/** While versions come late, look-backs come so often that most of them have to be brief. */
export function lookbackReader(context: Pick<SyncContext, 'read'>): ReadKind {
  const notBriefAtMs = new Map<string, number>()
  return async (stream, options) => {
    const lastMs = notBriefAtMs.get(stream.name)
    const isBrief = lastMs !== undefined && performance.now() - lastMs < shortEveryMs
    const outcome = await context.read(stream, 'lookback', { ...options, reach: isBrief ? 'brief' : 'short' })
    if (!isBrief && outcome.status === 'done') notBriefAtMs.set(stream.name, performance.now())
    return outcome
  }
}

/** Reconciles on their schedule, backfills as they are asked for. */
export const auditReaders = (
  context: Pick<SyncContext, 'contextOf'>,
): Readonly<Record<'reconcile' | 'backfill' | 'deletions' | 'probe', ReadKind>> => ({
  async reconcile(stream, { signal }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} is listed whole by every poll`)
    return await reconcileStream({ ...context.contextOf(stream), signal, approved: 0 })
  },
  async deletions(stream, { signal }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} is listed whole by every poll`)
    return await findDeletions({ ...context.contextOf(stream), signal })
  },
  async probe(stream, { signal }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} has no row versions`)
    return await probeStream({ ...context.contextOf(stream), signal })
  },
  async backfill(stream, { signal, shouldYield }) {
    if (stream.kind === 'list') throw new Error(`${stream.name} has no earlier versions to read again`)
    // Null when somebody else was faster.
    return await runNextBackfill({
      ...context.contextOf(stream),
      signal,
      ...(shouldYield && { shouldYield }),
    })
  },
})

const shortestLookMs = 1_000
const longestLookMs = 5_000
const relatedEveryMs = 10_000
const backfillEveryMs = 5_000
const probeLookMs = 600_000
/** Less than a day, after which beliefs are doubted. */
const probeEveryMs = 20 * 3_600_000

export function wantedSchedules(
  config: Pick<Config, 'schedules' | 'scheduleReconcile' | 'scheduleDeletions' | 'lookbackMs'>,
  streams: readonly Stream[],
  kinds: Partial<Record<RunKind, ReadKind>>,
): readonly Wanted[] {
  // Whether the look-back run is due depends on what is stored; this is how often that is looked at.
  const everyMs = Math.round(Math.min(longestLookMs, Math.max(shortestLookMs, config.lookbackMs / 20)))
  return streams.flatMap((stream): Wanted[] => {
    const isChanges = stream.kind === 'changes'
    const schedules: Partial<Record<RunKind, Schedule | undefined>> = {
      incremental: config.schedules[stream.name],
      ...(isChanges && {
        lookback: { everyMs },
        reconcile: config.scheduleReconcile,
        deletions: config.scheduleDeletions,
        probe: { everyMs: probeLookMs },
        // An operator asks for backfills: this is how often the worker looks for them.
        backfill: { everyMs: backfillEveryMs },
      }),
      ...(stream.name === 'assignment' && { related: { everyMs: relatedEveryMs } }),
    }
    return runKinds.flatMap((kind): Wanted[] => {
      const schedule = schedules[kind]
      return schedule && kinds[kind] ? [{ stream: stream.name, kind, schedule }] : []
    })
  })
}

export async function isRunDue(context: SyncContext, lookbackFloorMs: number, tick: Tick): Promise<boolean> {
  if ((await pausedStreams(context.database.pool)).has(tick.stream)) return false
  if (tick.kind === 'backfill') return (await context.store.nextBackfill(tick.stream)) !== null
  if (tick.kind === 'related') return await context.isRelatedDue()
  if (!['lookback', 'deletions', 'probe'].includes(tick.kind)) return true
  const state = await readLookbackState(context.database.pool, tick.stream)
  // While the first load goes on, most of what the list shows is not here yet.
  if (tick.kind === 'deletions') return state?.isLoaded ?? false
  // A look-back meanwhile would read again what was read just now; the list is compared when the load is over.
  if (!state?.hasPosition || state.isLoading) return false
  if (tick.kind === 'probe')
    return state.isLoaded && (await isProbeDue(context.database.pool, tick.stream, probeEveryMs))
  const lookbackMs = currentLookback(state.lookbackMs, lookbackFloorMs)
  const intervalMs = lookbackIntervalMs(lookbackMs, state.isRecentlyLate)
  return state.sinceLastMs === null || state.sinceLastMs >= intervalMs
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

const aboutSignIn: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_SIGN_IN',
  'UPSTREAM_SIGN_IN_AWAY',
  'UPSTREAM_UNAUTHORIZED',
  'UPSTREAM_SIGN_IN_ASKS_LATER',
  'UPSTREAM_TOKEN_REPEATED',
])
const aboutNetwork: ReadonlySet<UpstreamErrorCode> = new Set([
  'UPSTREAM_UNREACHABLE',
  'UPSTREAM_TIMEOUT',
  'UPSTREAM_ASKS_LATER',
])
const statusesOfServices: readonly (number | null)[] = [429, 502, 503, 504]

/** `isRecorded`: its failure is in the table of runs. When not even that could be written, the failure is Postgres's. */
export function failureScopeOf(thrown: unknown, isRecorded: boolean): FailureScope | null {
  if (thrown instanceof RunFenced) return null
  const [message, error] = [messageOf(thrown), errorOf(thrown)]
  const common = { notBefore: null, policy: backoff.circuit, level: 'warn', message, error } as const
  // That Postgres is away is logged with the state of the parts.
  if (!isRecorded) return { ...common, scope: 'database', level: isPassingFailure(error) ? 'debug' : 'warn' }
  if (isDiskFull(error)) return { ...common, scope: 'database' }
  if (!(error instanceof UpstreamError)) return { ...common, scope: 'stream' }
  const isOfService =
    aboutSignIn.has(error.code) || aboutNetwork.has(error.code) || statusesOfServices.includes(error.status)
  return { ...common, notBefore: error.notBefore, scope: isOfService ? 'service' : 'stream' }
}

// A reconcile comes once a night. One that was missed is made up for: no worker ran, the upstream was away, or the worker that owed it
// was killed (P8). Neither several workers nor one that is started again and again take it more than once.
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
  streams: readonly string[],
  requestRun: (request: RunRequest) => Promise<void>,
  now: Date,
): Promise<void> {
  for (const { stream, readThroughAt } of await readRestingPolls(pool, streams, triedMs)) {
    const schedule = schedules[stream]
    if (schedule === undefined) continue
    const slot = lastSlot(schedule, new Date(now.getTime() - slackMs))
    if (readThroughAt === null || readThroughAt < slot)
      await requestRun({ stream, kind: 'incremental', cause: 'again' })
  }
}

/** Whether a reconcile that this worker asked for again was done by another one meanwhile. */
export async function isTaken(reconciles: Reconciles, request: RunRequest, now: Date): Promise<boolean> {
  if (request.kind !== 'reconcile' || request.cause !== 'again') return false
  const slot = lastSlot(reconciles.schedule, now)
  const owed = { ...reconciles, slot, restMs: 0, replicaLagMs: longestReplicaLagMs }
  return (await streamsLackingReconcile(reconciles.pool, [request.stream], owed)).length === 0
}

// Keeps the worker's own runs off streams that an operator has paused. What an operator asks for by hand is done all the same.
type Hooks = { readonly signal: AbortSignal }

const lookEveryMs = 1_000

/** Does the run unless its stream is paused, and ends it between two pages when the stream is paused meanwhile. */
export async function runUnlessPaused<RunHooks extends Hooks>(
  request: RunRequest,
  hooks: RunHooks,
  isPaused: (stream: string) => Promise<boolean>,
  run: (hooks: RunHooks) => Promise<RunOutcome | null>,
): Promise<RunOutcome | null> {
  const { stream, kind, cause } = request
  if (await isPaused(stream)) return cause === 'operator' ? await run(hooks) : leftAlone(stream, kind)
  const paused = new AbortController()
  let isLooking = false
  const look = async () => {
    if (isLooking) return
    isLooking = true
    // While the database does not answer, the run finds that out by itself.
    if (await isPaused(stream).catch(() => false)) paused.abort(new Error(`${stream} was paused`))
    isLooking = false
  }
  const looking = setInterval(look, lookEveryMs)
  try {
    return await run({ ...hooks, signal: AbortSignal.any([hooks.signal, paused.signal]) })
  } finally {
    clearInterval(looking)
  }
}

const leftAlone = (stream: string, kind: RunKind): RunOutcome => ({
  stream,
  kind,
  status: 'stopped',
  runId: null,
  note: 'the stream is paused',
  error: null,
  tally: { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 0, bytes: 0 },
  isComplete: false,
  yielded: false,
})
