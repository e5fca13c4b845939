// The look-back run: reads the recent past again, for versions that became visible after higher ones had been read, and
// notices when the upstream was restored from a backup. It never moves the position.

import { type ChangesStream, versionedBy } from '../../streams/catalog.ts'
import { readRecords } from '../../streams/record.ts'
import { formatDuration } from '../../util/text.ts'
import { confirmEmpty, performRun, type RunOutcome } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type {
  Arrival,
  Belief,
  LateArrival,
  PositionHistory,
  Run,
  Store,
  StreamState,
} from '../ports/store.ts'
import { usable } from './hypotheses.ts'
import { type ChangesContext, readRange } from './read-changes.ts'

// How far back the look-back run reads, and how late a version was that it found: twice the worst lateness seen, shrinking
// slowly, never below its floor. Pure.
export type Lookback = { readonly lookbackMs: number; readonly reason: string }

const growth = 2
const shrinkPerRun = 0.98

export function currentLookback(stored: number | null, floorMs: number): number {
  return Math.max(floorMs, stored ?? floorMs)
}

/** Null when what is stored stays right. */
export function nextLookback(
  stored: number | null,
  floorMs: number,
  late: readonly LateArrival[],
): Lookback | null {
  const currentMs = currentLookback(stored, floorMs)
  const worst = late.toSorted((a, b) => b.lateMs - a.lateMs)[0]
  if (worst && growth * worst.lateMs > currentMs)
    return {
      lookbackMs: Math.ceil(growth * worst.lateMs),
      reason: `twice the ${formatDuration(worst.lateMs)} that version ${worst.version} came late`,
    }
  const lookbackMs = worst ? currentMs : Math.max(floorMs, Math.floor(currentMs * shrinkPerRun))
  if (lookbackMs === stored) return null
  return {
    lookbackMs,
    reason: lookbackMs === floorMs ? 'the configured least' : 'shrinking: nothing came that late again',
  }
}

/**
 * Where the recent past begins. A version is found when it is late by no more than half a look-back, also when the reading
 * before this one was long ago: what was hidden then may have come at any time since.
 */
export function recentPast(now: Date, lookbackMs: number, lastReadAt: Date | null): Date {
  const asEver = now.getTime() - lookbackMs
  return new Date(lastReadAt ? Math.min(asEver, lastReadAt.getTime() - lookbackMs / 2) : asEver)
}

/**
 * How late a version came that was passed at one time and found now. It came between two readings, so the middle between them
 * is taken: if it were the later one, each look-back would make the next one longer.
 */
export function latenessMs(passedAt: Date, now: Date, lastReadAt: Date | null): number {
  const latest = now.getTime()
  const earliest = lastReadAt ? Math.max(passedAt.getTime(), lastReadAt.getTime()) : latest
  return Math.max(0, (earliest + latest) / 2 - passedAt.getTime())
}

// Most of what comes late comes soon, so a short look-back is due much oftener than one that reaches all the way.
const shortEveryMs = 45_000
const shortMs = 150_000

/** A look-back run is due this long after the one before. */
export const lookbackIntervalMs = (lookbackMs: number): number => Math.min(lookbackMs / 2, shortEveryMs)

/** Whether it has to reach all the way: the last one that did is half a look-back ago. */
const isWholeDue = (now: Date, lookbackMs: number, lastWholeAt: Date | null): boolean =>
  lookbackMs <= shortMs || lastWholeAt === null || now.getTime() - lastWholeAt.getTime() >= lookbackMs / 2

export type LookbackContext = ChangesContext & {
  readonly lookbackFloorMs: number
  /** All the way back, although that is not due yet. */
  readonly isWhole?: boolean
}

/** Of the rows with the highest versions, one that is still there tells whether the upstream went back. */
const rowsToLookAt = 5
/** After this many the measure is taken; the rest are counted. */
export const mostRecorded = 1000

export function readLookback(context: LookbackContext): Promise<RunOutcome> {
  const { store, stream, now, signal } = context
  return performRun({ ...context, kind: 'lookback' }, async (run, source) => {
    const { position, lastLookbackAt } = run.state
    if (position === 0n) return { note: null, isComplete: true, yielded: false }
    // What is missing then is not late.
    if (run.state.isLocallyChanged)
      return { note: 'waits: the table was changed in Postgres', isComplete: false, yielded: false }
    const lookbackMs = currentLookback(run.state.lookbackMs, context.lookbackFloorMs)
    const isWhole = context.isWhole || isWholeDue(now(), lookbackMs, lastLookbackAt)
    const past = isWhole ? recentPast(now(), lookbackMs, lastLookbackAt) : new Date(now().getTime() - shortMs)
    const held = await heldAt(store.history, stream.name, past, run.state.beliefs)
    const arrivals: Arrival[] = []
    let lateCount = 0
    const reading = await readRange(
      {
        ...context,
        source,
        run,
        onWritten(written, progress) {
          const late = written.arrivals.filter(({ version }) => version !== null && version <= position)
          lateCount += late.length
          arrivals.push(...late.slice(0, mostRecorded - arrivals.length))
          context.onWritten?.(written, progress)
        },
      },
      {
        // From below the position: an upstream that went on as it was serves at least the position's own record.
        from: held < position ? held : position - 1n,
        until: position,
        maxPasses: 3,
        movesPosition: false,
      },
    )
    const isThere =
      (reading.highestServed !== null && reading.highestServed >= position) ||
      (await lookForRewind({ store, source, stream, run, signal, highestServed: reading.highestServed })) ||
      (await showsAnything(source, signal))
    const late = await measureLateness(store.history, stream.name, arrivals, run.state, now())
    if (late.length > 0) await run.findings.recordLateArrivals(late)
    // A short look-back that finds nothing says nothing about what comes later than it reaches.
    const mayShrink = isWhole || late.length > 0
    const next = mayShrink ? nextLookback(run.state.lookbackMs, context.lookbackFloorMs, late) : null
    if (next) await run.findings.setLookback(next.lookbackMs, next.reason)
    const note = lateCount > 0 ? `${lateCount} late` : null
    // The next reading has to go back as far as this one did.
    return isThere
      ? { ...reading, isComplete: reading.isComplete && isWhole, note, isHidden: false }
      : { ...reading, isComplete: false, note: note ?? showsNothing, isHidden: true }
  })
}

/**
 * The position that was held at a time. Of a first load, what was there when it began counts from then: whether it is late does not
 * depend on when the position got there.
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

/** Asked only when it shows nothing of the recent past: those records may be deleted. */
async function showsAnything(source: Source, signal: AbortSignal): Promise<boolean> {
  const fetchAnswer = () => source.changes({ since: 0n, page: 1, pageSize: 1, sorts: null }, signal)
  const answer = await confirmEmpty(fetchAnswer)
  return 'refused' in answer || answer.records.length > 0
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

/**
 * Nothing as high as the position is served any more: deleted, or has the upstream gone back to an older state? Returns false when
 * it shows nothing of the recent past.
 */
async function lookForRewind(look: {
  readonly store: Store
  readonly source: Source
  readonly stream: ChangesStream
  readonly run: Run<'lookback'>
  readonly signal: AbortSignal
  readonly highestServed: bigint | null
}): Promise<boolean> {
  const { store, source, stream, run, signal, highestServed } = look
  if (!source.lookup) return highestServed !== null
  const newest = await store.history.highestRows(stream.name, run.state.position, rowsToLookAt)
  for (const { key, version } of newest) {
    const answer = await source.lookup(key, signal)
    if (answer === 'gone' || answer === 'unclear') continue
    const { keyFields, versionFields } = versionedBy(stream, run.state.versionField)
    const found = readRecords([answer.found], keyFields, versionFields).rows[0]?.version ?? null
    if (found === null || found >= version) return highestServed !== null
    const reason = `UPSTREAM_RESTORED: record ${key} has version ${found} there and ${version} here, and nothing above ${highestServed ?? run.state.position} is served: the upstream was restored from an older state. Nothing was changed. When that is so, run \`tidemark rewind ${stream.name} --to-version ${highestServed ?? found} --reason "restored from backup"\` and then \`tidemark verify ${stream.name} --repair\`.`
    await run.findings.stopStream(reason)
    throw new Error(reason)
  }
  return highestServed !== null || newest.length === 0
}
