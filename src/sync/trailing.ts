// The trailing lane: reads the recent past again, for versions that became visible after higher ones had been read, and
// notices when the upstream was restored from a backup. It never moves the position.

import { readRecords } from '../record.ts'
import type { ChangesStream } from '../streams.ts'
import { doubtNothing } from './doubt-nothing.ts'
import { currentLookBack, latenessMs, nextLookBack, recentPast } from './look-back.ts'
import type { Arrival, LateArrival, Mirror, Run, Source, StreamState } from './ports.ts'
import { type ChangesContext, readRange } from './read-range.ts'
import { type LaneOutcome, runLane } from './run-lane.ts'

export type TrailingContext = ChangesContext & { readonly lookbackFloorMs: number }

/** Of the rows with the highest versions, one that is still there tells whether the upstream went back. */
const rowsToLookAt = 5
/** After this many the measure is taken; the rest are counted. */
const mostRecorded = 1000

export function readTrailing(context: TrailingContext): Promise<LaneOutcome> {
  const { mirror, stream, now, signal } = context
  return runLane({ ...context, lane: 'trailing', collectArrivals: true }, async (run, source) => {
    const { position, lastTrailingAt } = run.state
    if (position === 0n) return { note: null, isComplete: true, gaveWay: false }
    const lookbackMs = currentLookBack(run.state.lookbackMs, context.lookbackFloorMs)
    const past = recentPast(now(), lookbackMs, lastTrailingAt)
    const held = (await mirror.positionAt(stream.name, past)) ?? 0n
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
      (await lookForRewind({ mirror, source, stream, run, signal, highestServed: reading.highestServed })) ||
      (await showsAnything(source, signal))
    const late = await measureLateness(mirror, stream.name, arrivals, run.state, now())
    if (late.length > 0) await run.recordLateArrivals(late)
    const next = nextLookBack(run.state.lookbackMs, context.lookbackFloorMs, late)
    if (next) await run.setLookback(next.lookbackMs, next.reason)
    const note = lateCount > 0 ? `${lateCount} late` : null
    // The next reading has to go back as far as this one did.
    return isThere
      ? { ...reading, note, isHidden: false }
      : { ...reading, isComplete: false, note: note ?? showsNothing, isHidden: true }
  })
}

const showsNothing =
  'the upstream shows no changes at all, although there are rows: does it know this CLIENT_GUID, and what the user may read?'

/** Asked only when it shows nothing of the recent past: those records may be deleted. */
async function showsAnything(source: Source, signal: AbortSignal): Promise<boolean> {
  const fetchAnswer = () => source.changes({ since: 0n, page: 1, pageSize: 1, sorts: null }, signal)
  const answer = await doubtNothing(fetchAnswer)
  return 'refused' in answer || answer.records.length > 0
}

/** How late versions came that became visible after the position had passed them. */
export async function measureLateness(
  mirror: Mirror,
  stream: string,
  arrivals: readonly Arrival[],
  { position, lastTrailingAt }: Pick<StreamState, 'position' | 'lastTrailingAt'>,
  now: Date,
): Promise<readonly LateArrival[]> {
  const late: LateArrival[] = []
  for (const { key, version } of arrivals) {
    if (version === null) continue
    const passedAt = await mirror.reachedAt(stream, version)
    const lateMs = passedAt ? latenessMs(passedAt, now, lastTrailingAt) : 0
    late.push({ key, version, distance: position - version, lateMs })
  }
  return late
}

/**
 * Nothing as high as the position is served any more: deleted, or has the upstream gone back to an older state? Returns false when
 * it shows nothing of the recent past.
 */
async function lookForRewind(look: {
  readonly mirror: Mirror
  readonly source: Source
  readonly stream: ChangesStream
  readonly run: Run
  readonly signal: AbortSignal
  readonly highestServed: bigint | null
}): Promise<boolean> {
  const { mirror, source, stream, run, signal, highestServed } = look
  if (!source.lookup) return highestServed !== null
  const newest = await mirror.highestRows(stream.name, run.state.position, rowsToLookAt)
  for (const { key, version } of newest) {
    const answer = await source.lookup(key, signal)
    if (answer === 'gone' || answer === 'unclear') continue
    const found = readRecords([answer.found], stream.keyFields, stream.versionFields).rows[0]?.version ?? null
    if (found === null || found >= version) return highestServed !== null
    const reason = `UPSTREAM_REWOUND: record ${key} has version ${found} there and ${version} here, and nothing above ${highestServed ?? run.state.position} is served: the upstream was restored from an older state. Nothing was changed. When that is so, run \`tidemark rewind ${stream.name} --to-version ${highestServed ?? found} --reason "restored from backup"\` and then \`tidemark verify ${stream.name} --repair\`.`
    await run.stopStream(reason)
    throw new Error(reason)
  }
  return highestServed !== null || newest.length === 0
}
