// The incremental run of a changes stream: everything above the position, which moves as far as it is proven complete.

import { type Detected, detected, largestAnswerBelief, toRecord, usable } from '../capabilities.ts'
import { performRun, type ReadingContext, type RunOutcome } from '../perform-run.ts'
import type { Run, StreamState } from '../ports/store.ts'
import { currentLookback, type LookbackContext } from './lookback.ts'
import { pinFallen } from './pinned-records.ts'
import { type ReadOutcome, readRange } from './read.ts'

/** After this many disturbed passes in a row the run ends, and the position waits. */
export const maxPasses = 5
/** Which of the highest rows serve as anchors. If the record of one is gone, the next is looked for. */
const ranksToAnchor = [1, 2, 4, 8, 16, 32]

type IncrementalContext = ReadingContext & Partial<Pick<LookbackContext, 'lookbackFloorMs'>>

export function readIncremental(context: IncrementalContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'incremental' }, async (run, source) => {
    const { beliefs } = run.state
    const { from, restsFrom, told } = await takeBackFallen(run)
    const { anchors: highest, hasAbove } = await context.store.history.known(
      context.stream.name,
      from,
      ranksToAnchor.at(-1) ?? 1,
    )
    const anchors = ranksToAnchor.flatMap((rank) => highest[rank - 1] ?? [])
    const reading = await readRange(
      { ...context, source, run },
      {
        from,
        restsFrom,
        until: null,
        maxPasses,
        movesPosition: true,
        anchors,
        hasAbove,
        mayFindField: true,
        onTakenBack: (why, to) => told.push(takenBackNote(why, to)),
        onFallen: (anchor) => pinFallen(run, anchor),
      },
    )
    const largest = largestAnswerBelief(beliefs, reading.largestAnswer, context.now())
    const confirmed = toRecord(beliefs, fieldConfirmed(run.state, from, reading.highestServed), context.now())
    await run.findings.learn([...confirmed, ...(largest ? [largest] : [])])
    const isNothing = reading.isComplete && reading.highestServed === null && anchors.length === 0
    if (isNothing && (await context.store.history.hasRows(context.stream.name)))
      return { ...reading, ...showsNothing }
    const wantsReconcile = reading.isComplete && from > 0n && mayHideLate(context, run.state, from, reading)
    if (wantsReconcile) await run.findings.wantReconcile()
    return {
      ...reading,
      wantsReconcile,
      note: [...told, reading.note].filter(Boolean).join('; ') || null,
    }
  })
}

/**
 * A reading in ranges reads high versions long before the position gets there. If it took longer than a look-back is long, no look-back goes
 * back to what became visible behind it meanwhile.
 */
function mayHideLate(
  { now, lookbackFloorMs = 0 }: IncrementalContext,
  state: StreamState,
  from: bigint,
  { position, inRanges = false }: Pick<ReadOutcome, 'position' | 'inRanges'>,
): boolean {
  const top = usable(state.beliefs, 'first_top', now())
  // One that an earlier run began is through now.
  const isThrough = top !== null && from < BigInt(top.value) && BigInt(top.value) <= position
  const beganAt = isThrough ? top.testedAt : inRanges ? state.startedAt : null
  return (
    beganAt !== null &&
    now().getTime() - beganAt.getTime() > currentLookback(state.lookbackMs, lookbackFloorMs)
  )
}

/** Evidence for the version field: no answer held a record below the version that was asked for. */
const fieldConfirmed = (
  { versionField }: Pick<StreamState, 'versionField'>,
  from: bigint,
  highest: bigint | null,
): readonly Detected[] =>
  versionField === null || highest === null
    ? []
    : [
        detected(
          'version_field',
          versionField,
          `asked for changes from version ${from} on, neworchanged served none below it, up to ${highest}`,
        ),
      ]

/**
 * A run of another kind may have found that answers are not sorted by row version, or that they are cut before they are sorted. Then the
 * position goes back to where it was before the first run that relied on the order. What is settled stays: the list has confirmed it.
 */
async function takeBackFallen(run: Run<'incremental'>) {
  const { beliefs, settledThrough } = run.state
  const { start } = run.position
  const sorting = beliefs.find(({ name }) => name === 'sorting')
  const reliedFrom = sorting?.restsFrom ?? start
  const proven = settledThrough !== null && settledThrough > reliedFrom ? settledThrough : reliedFrom
  const restsFrom = proven < start ? proven : start
  const told: string[] = []
  const cut = beliefs.find(({ name, value }) => name === 'sorted_before_cut' && value === 'no')
  const fallen = sorting?.value === 'ignored' ? sorting : cut
  if (!fallen || sorting?.restsFrom === null || sorting?.restsFrom === undefined)
    return { from: start, restsFrom, told }
  await run.position.retreat(fallen.evidence, restsFrom)
  if (restsFrom < start) told.push(takenBackNote(fallen.evidence, restsFrom))
  return { from: restsFrom, restsFrom, told }
}

const takenBackNote = (why: string, to: bigint): string =>
  `${why}: what relied on the order is read again, from version ${to}`

/** Rows are stored, and a request from below all of them brought nothing. That does not prove that the records are gone (P11). */
const showsNothing = {
  isComplete: false,
  isInconclusive: true,
  note: 'the upstream showed no record, although rows are stored: nothing was proven',
} as const
