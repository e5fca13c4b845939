// The backfill of a changes stream: a part of the past read again, beside the live reading. It moves a position of
// its own, so that it goes on after a kill where it was (P8), and never the stream's.

import { performRun, type RunOutcome } from '../perform-run.ts'
import { type Backfill, BackfillCancelled } from '../ports/store.ts'
import { largestAnswerBelief } from './hypotheses.ts'
import { type ChangesContext, readRange } from './read-changes.ts'

/** Works on the stream's oldest unfinished backfill; null when there is none. */
export async function runNextBackfill(context: ChangesContext): Promise<RunOutcome | null> {
  const { store, stream } = context
  for (;;) {
    const backfill = await store.nextBackfill(stream.name)
    if (!backfill) return null
    try {
      return await runBackfill(context, backfill)
    } catch (error) {
      // Over since it was looked up.
      if (!(error instanceof BackfillCancelled)) throw error
    }
  }
}

function runBackfill(context: ChangesContext, { id, to }: Backfill): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'backfill', id }, async (run, source) => {
    const { start } = run.position
    if (start >= to) return { isComplete: true, yielded: false, note: null }
    try {
      return await readRange(
        { ...context, source, run },
        { from: start, until: to, maxPasses, movesPosition: true },
      )
    } catch (error) {
      if (!(error instanceof BackfillCancelled)) throw error
      return { isComplete: false, yielded: false, note: 'cancelled' }
    }
  })
}

// The incremental run of a changes stream: everything above the position, which moves as far as it is proven complete.
/** The position waits when this many passes in a row were disturbed. */
const maxPasses = 5
/** Of the highest rows, those that are looked for, one after the other, when the records of those before are gone. */
const ranksToAnchor = [1, 2, 4, 8, 16, 32]

export function readIncremental(context: ChangesContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'incremental' }, async (run, source) => {
    const { beliefs } = run.state
    const from = run.position.start
    const highest = await context.store.history.anchors(context.stream.name, from, ranksToAnchor.at(-1) ?? 1)
    const anchors = ranksToAnchor.flatMap((rank) => highest[rank - 1] ?? [])
    const reading = await readRange(
      { ...context, source, run },
      { from, until: null, maxPasses, movesPosition: true, anchors, mayFindField: true },
    )
    const largest = largestAnswerBelief(beliefs, reading.largestAnswer, context.now())
    if (largest) await run.findings.learn([largest])
    return reading
  })
}
