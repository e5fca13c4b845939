// The look-back run: reads the recent past again, for versions that became visible after higher ones had been read, and
// looks at pinned records, by which it notices that the upstream went back. It never moves the position.

import { versionedBy } from '../../streams/catalog.ts'
import { formatDuration, plural } from '../../util/text.ts'
import { type Detected, detected, learn, usable } from '../capabilities.ts'
import { confirmEmpty } from '../lists/page-ends.ts'
import { performRun, type ReadingContext, type RunOutcome } from '../perform-run.ts'
import type { Arrival } from '../ports/audits.ts'
import type { Source } from '../ports/source.ts'
import type { Belief, LateArrival, PositionHistory, StreamState } from '../ports/store.ts'
import { causeOf } from './causes.ts'
import { lookAtPinned } from './pinned-records.ts'
import { readRange } from './read.ts'
import { findVolatile, volatileNote } from './volatile.ts'

// How far back the look-back run reads: twice the worst lateness seen. It shrinks slowly, and never below its floor. And how late a
// version was that the run found. Pure.
export type Lookback = { readonly lookbackMs: number; readonly reason: string }

const growth = 2
const shrinkPerRun = 0.98
/** The nightly reconcile finds a late row within a day. If one is later than that, something else is wrong, and reaching back is no cure. */
const mostLookbackMs = 24 * 3_600_000

export function currentLookback(stored: number | null, floorMs: number): number {
  return Math.max(floorMs, stored ?? floorMs)
}

/** Null: the stored look-back stays as it is. */
export function nextLookback(
  stored: number | null,
  floorMs: number,
  late: readonly LateArrival[],
): Lookback | null {
  const currentMs = currentLookback(stored, floorMs)
  const worst = late.toSorted((a, b) => b.lateMs - a.lateMs)[0]
  const longestMs = Math.max(floorMs, mostLookbackMs)
  const wantedMs = worst ? Math.min(longestMs, Math.ceil(growth * worst.lateMs)) : 0
  if (worst && wantedMs > currentMs)
    return {
      lookbackMs: wantedMs,
      reason: `${wantedMs === longestMs ? 'the longest, less than twice' : 'twice'} the ${formatDuration(worst.lateMs)} that version ${worst.version} came late`,
    }
  const lookbackMs = worst ? currentMs : Math.max(floorMs, Math.floor(currentMs * shrinkPerRun))
  if (lookbackMs === stored) return null
  return {
    lookbackMs,
    reason: lookbackMs === floorMs ? 'the configured least' : 'shrinking: nothing came that late again',
  }
}

/**
 * Where the recent past begins: one look-back ago. If the last reading was long ago, half a look-back before that one, because a
 * version that was still hidden then may have become visible at any time since.
 */
export function recentPast(now: Date, lookbackMs: number, lastReadAt: Date | null): Date {
  const asEver = now.getTime() - lookbackMs
  return new Date(lastReadAt ? Math.min(asEver, lastReadAt.getTime() - lookbackMs / 2) : asEver)
}

/**
 * How late a version came: the position passed it at `passedAt`, and a run found it now. It became visible between the last reading
 * and this one, so the middle is taken. If the time of this reading were taken, each look-back would make the next one longer.
 */
export function latenessMs(passedAt: Date, now: Date, lastReadAt: Date | null): number {
  const latest = now.getTime()
  const earliest = lastReadAt ? Math.max(passedAt.getTime(), lastReadAt.getTime()) : latest
  return Math.max(0, (earliest + latest) / 2 - passedAt.getTime())
}

// Most late versions are only a little late. So a short look-back runs much more often than one that reaches all the way back. A brief
// one runs more often still, but only while late versions come: as they do wherever people work at the upstream.
export const shortEveryMs = 45_000
const shortMs = 150_000
const briefEveryMs = 12_000
const briefMs = 60_000

/** `whole`: all the way back, even if that is not due yet. `brief`: the last minute, unless a longer one is due. */
export type WantedReach = 'whole' | 'short' | 'brief'

/**
 * From when on a look-back run reads, and whether that is all the way back. Once the look-back has grown, runs of the configured length
 * (`floorMs`) go on at their old pace, so that a slightly late version is found as soon as before. Nothing is stored about them: one is
 * due when the clock has entered another slot of half that length since the last run.
 */
export function reach(
  now: Date,
  lookback: { readonly lookbackMs: number; readonly floorMs: number },
  last: { readonly wholeAt: Date | null; readonly runAt: Date | null },
  wanted: WantedReach = 'short',
): { readonly past: Date; readonly isWhole: boolean } {
  const { lookbackMs, floorMs } = lookback
  if (wanted === 'whole' || isWholeDue(now, lookbackMs, last.wholeAt))
    return { past: recentPast(now, lookbackMs, last.wholeAt), isWhole: true }
  const slotOf = (time: Date) => Math.floor(time.getTime() / (floorMs / 2))
  const isConfiguredDue = lookbackMs > floorMs && (last.runAt === null || slotOf(now) !== slotOf(last.runAt))
  const reachMs = isConfiguredDue ? Math.max(shortMs, floorMs) : wanted === 'brief' ? briefMs : shortMs
  return { past: new Date(now.getTime() - reachMs), isWhole: false }
}

/** A look-back run is due this long after the one before. `stoodMs`: for how long the position has stood; null: not known. */
export function lookbackIntervalMs(
  { lookbackMs, floorMs }: { readonly lookbackMs: number; readonly floorMs: number },
  { isRecentlyLate, stoodMs }: { readonly isRecentlyLate: boolean; readonly stoodMs: number | null },
): number {
  if (isRecentlyLate) return Math.min(lookbackMs / 2, briefEveryMs)
  // A short one would ask for what is above the same position as each poll does. Those that reach all the way come when they are due.
  const isAtRest = stoodMs !== null && stoodMs > (lookbackMs > floorMs ? Math.max(shortMs, floorMs) : shortMs)
  return isAtRest ? Math.max(shortEveryMs, lookbackMs / 2) : Math.min(lookbackMs / 2, shortEveryMs)
}

/** Whether it has to reach all the way: the last one that did is half a look-back ago. */
const isWholeDue = (now: Date, lookbackMs: number, lastWholeAt: Date | null): boolean =>
  lookbackMs <= shortMs || lastWholeAt === null || now.getTime() - lastWholeAt.getTime() >= lookbackMs / 2

type RunTimes = Pick<StreamState, 'startedAt' | 'lastLookbackAt' | 'lastRunAt'>

/** The runs before this one. Where the clock of Postgres was put back, one may lie in the future: then nobody knows when it was. */
function lastOf({ startedAt, lastLookbackAt, lastRunAt }: RunTimes) {
  const known = (time: Date | null) => (time !== null && time <= startedAt ? time : null)
  return { wholeAt: known(lastLookbackAt), runAt: known(lastRunAt) }
}

export type LookbackContext = ReadingContext & {
  readonly lookbackFloorMs: number
  readonly reach?: WantedReach
}

/** At most this many records with other content at the same version are looked at again, to find volatile fields. */
const mostSilent = 3
/** At most this many late versions are measured and recorded; the rest are only counted. */
export const mostRecorded = 1000

export function readLookback(context: LookbackContext): Promise<RunOutcome> {
  const { store, stream, now, signal } = context
  return performRun({ ...context, kind: 'lookback' }, async (run, source) => {
    const { position } = run.state
    if (position === 0n) return { isComplete: true }
    // A row that somebody deleted here would come again and be taken for a late one.
    if (run.state.isLocallyChanged)
      return { note: 'waits: the table was changed in Postgres', isComplete: false }
    const floorMs = context.lookbackFloorMs
    const lookbackMs = currentLookback(run.state.lookbackMs, floorMs)
    const { past, isWhole } = reach(now(), { lookbackMs, floorMs }, lastOf(run.state), context.reach)
    const onlyUndecided = context.reach === 'brief'
    const pinned = await lookAtPinned({ ...context, run, source, onlyUndecided })
    if (pinned.beginsAnew) return { note: pinned.note, isComplete: false }
    const held = await heldAt(store.history, stream.name, past, run.state.beliefs)
    const arrivals: Arrival[] = []
    const silent: string[] = []
    let lateCount = 0
    const reading = await readRange(
      {
        ...context,
        source,
        run,
        onWritten(written, progress) {
          // Only a version that was never stored is late (P16). None is while the upstream may have gone back.
          const late = pinned.isWaiting
            ? []
            : written.arrivals.filter((arrival) => causeOf(arrival, position) === 'late')
          for (const arrival of written.arrivals)
            if (silent.length < mostSilent && causeOf(arrival, position) === 'silent')
              silent.push(arrival.key)
          lateCount += late.length
          arrivals.push(...late.slice(0, mostRecorded - arrivals.length))
          context.onWritten?.(written, progress)
        },
      },
      {
        // From below the position, so that an upstream in its usual state serves at least the record at the position.
        from: held < position ? held : position - 1n,
        until: position,
        maxPasses: 3,
        movesPosition: false,
      },
    )
    const isThere = reading.highestServed !== null || (await showsAnything(source, signal))
    const late = await measureLateness(store.history, stream.name, arrivals, run.state, now())
    if (late.length > 0) await run.findings.recordLateArrivals(late)
    // A short look-back that finds nothing does not show that versions come less late than before.
    const mayShrink = isWhole || late.length > 0
    const next = mayShrink ? nextLookback(run.state.lookbackMs, context.lookbackFloorMs, late) : null
    if (next) await run.findings.setLookback(next.lookbackMs, next.reason, run.state.lookbackMs)
    if (isWhole && reading.isComplete) await learn(run, [latenessFound(lookbackMs, late)], now())
    const named = await findVolatile(
      { ...context, source, run, stream: versionedBy(stream, run.state.versionField) },
      silent,
    )
    const parts = [
      lateCount > 0 ? `${lateCount} late` : null,
      pinned.note,
      named.length > 0 ? volatileNote(named.map(({ field }) => field)) : null,
    ]
    const note = parts.filter(Boolean).join('; ') || null
    // If the upstream showed nothing at all, this reading does not count: the next one has to go back as far.
    return isThere
      ? { ...reading, isComplete: reading.isComplete && isWhole, note, isHidden: false }
      : { ...reading, isComplete: false, note: note ?? showsNothing, isHidden: true }
  })
}

/**
 * The position that was held at a time. What existed when a first load began counts as read from then on: it is not late only because
 * the load took long to get there.
 */
async function heldAt(
  history: Pick<PositionHistory, 'positionAt' | 'reachedAt'>,
  stream: string,
  time: Date,
  beliefs: readonly Belief[],
): Promise<bigint> {
  const held = (await history.positionAt(stream, time)) ?? 0n
  const began = usable(beliefs, 'first_top', time)
  if (!began || began.testedAt > time) return held
  const top = BigInt(began.value)
  const [reachedAt = null] = await history.reachedAt(stream, [top])
  const wasLoading = reachedAt === null || reachedAt > time
  return wasLoading && top > held ? top : held
}

const showsNothing =
  'the upstream shows no changes at all, although there are rows: does it know this CLIENT_GUID, and what the user may read?'

/** Asked only when nothing of the recent past was shown: perhaps those records were deleted, and older ones are still shown. */
async function showsAnything(source: Source, signal: AbortSignal): Promise<boolean> {
  const fetchAnswer = () => source.changes({ since: 0n, page: 1, pageSize: 1, sorts: null }, signal)
  const answer = await confirmEmpty(fetchAnswer)
  return 'refused' in answer || answer.records.length > 0
}

/** After a look-back that reached all the way: was anything later than it is long? */
function latenessFound(lookbackMs: number, late: readonly LateArrival[]): Detected {
  const worstMs = Math.max(0, ...late.map(({ lateMs }) => lateMs))
  const found =
    late.length === 0
      ? 'nothing late'
      : `${plural(late.length, 'late row')}, the worst by ${formatDuration(worstMs)},`
  return detected(
    'lateness',
    worstMs <= lookbackMs ? 'holds' : 'later',
    `${found} in a look-back of ${formatDuration(lookbackMs)}`,
  )
}

/** How late versions came that became visible after the position had passed them. */
export async function measureLateness(
  history: Pick<PositionHistory, 'reachedAt'>,
  stream: string,
  arrivals: readonly Arrival[],
  { position, lastLookbackAt }: Pick<StreamState, 'position' | 'lastLookbackAt'>,
  now: Date,
): Promise<readonly LateArrival[]> {
  const versioned = arrivals.flatMap(({ key, version }) => (version === null ? [] : [{ key, version }]))
  if (versioned.length === 0) return []
  const passedAt = await history.reachedAt(
    stream,
    versioned.map(({ version }) => version),
  )
  return versioned.map(({ key, version }, index) => {
    const passed = passedAt[index] ?? null
    const lateMs = passed ? latenessMs(passed, now, lastLookbackAt) : 0
    return { key, version, distance: position - version, lateMs }
  })
}
