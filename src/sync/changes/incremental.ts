// The incremental run of a changes stream: everything above the position, which moves as far as it is proven complete.

import { performRun, type RunOutcome } from '../perform-run.ts'
import type { Run, StreamState } from '../ports/store.ts'
import { largestAnswerBelief, learnt, news } from './hypotheses.ts'
import { type ChangesContext, readRange } from './read-changes.ts'
import type { Learnt } from './state.ts'

/** The position waits when this many passes in a row were disturbed. */
export const maxPasses = 5
/** Of the highest rows, those that are looked for, one after the other, when the records of those before are gone. */
const ranksToAnchor = [1, 2, 4, 8, 16, 32]

export function readIncremental(context: ChangesContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'incremental' }, async (run, source) => {
    const { beliefs } = run.state
    const { from, restsFrom, told } = await takeBackFallen(run)
    const highest = await context.store.history.anchors(context.stream.name, from, ranksToAnchor.at(-1) ?? 1)
    const anchors = ranksToAnchor.flatMap((rank) => highest[rank - 1] ?? [])
    const reading = await readRange(
      { ...context, source, run },
      {
        ...{ from, restsFrom, until: null, maxPasses, movesPosition: true, anchors, mayFindField: true },
        onTakenBack: (why, to) => told.push(takenBackNote(why, to)),
      },
    )
    const largest = largestAnswerBelief(beliefs, reading.largestAnswer, context.now())
    const confirmed = news(beliefs, fieldConfirmed(run.state, from, reading.highestServed), context.now())
    await run.findings.learn([...confirmed, ...(largest ? [largest] : [])])
    const isNothing = reading.isComplete && reading.highestServed === null && anchors.length === 0
    if (isNothing && (await context.store.history.hasRows(context.stream.name)))
      return { ...reading, ...showsNothing }
    return { ...reading, note: [...told, reading.note].filter(Boolean).join('; ') || null }
  })
}

/** No record was below what was asked for. */
const fieldConfirmed = (
  { versionField }: Pick<StreamState, 'versionField'>,
  from: bigint,
  highest: bigint | null,
): readonly Learnt[] =>
  versionField === null || highest === null
    ? []
    : [
        learnt(
          'version_field',
          versionField,
          `asked for changes from version ${from} on, neworchanged served none below it, up to ${highest}`,
        ),
      ]

/**
 * A run of another kind may have found that answers are not sorted by row version, or cut before they are. Then the position goes back
 * to where it was before the first run that relied on that. What is settled was confirmed by the list, and stays.
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

/** From below all rows, an answer without a record is no proof that there are none (P11). */
const showsNothing = {
  isComplete: false,
  isInconclusive: true,
  note: 'the upstream showed no record, although rows are stored: nothing was proven',
} as const
