// The backfill lane of a changes stream: a part of the past read again, beside the live reading. It moves a position of
// its own, so that it goes on after a kill where it was (P8), and never the stream's.

import { type Backfill, BackfillCancelled, type Backfills } from '../ports/store.ts'
import { type LaneOutcome, runLane } from '../run-lane.ts'
import { largestAnswerFact } from './hypotheses.ts'
import { type ChangesContext, readRange } from './read-changes.ts'

export type BackfillContext = Omit<ChangesContext, 'mirror'> & { readonly mirror: Backfills }

/** Works on the stream's oldest unfinished backfill; null when there is none. */
export async function runNextBackfill(context: BackfillContext): Promise<LaneOutcome | null> {
  const { mirror, stream } = context
  for (;;) {
    const backfill = await mirror.nextBackfill(stream.name)
    if (!backfill) return null
    try {
      const outcome = await runBackfill(context, backfill)
      if (outcome.error) await mirror.noteBackfillError(backfill.id, outcome.error.message)
      return outcome
    } catch (error) {
      // Over since it was looked up.
      if (!(error instanceof BackfillCancelled)) throw error
    }
  }
}

async function runBackfill(context: BackfillContext, backfill: Backfill): Promise<LaneOutcome> {
  const { mirror, stream } = context
  const taking = { startRun: () => mirror.startBackfill(stream.name, backfill.id) }
  return await runLane({ ...context, mirror: taking, lane: 'backfill' }, async (run, source) => {
    const { position } = run.state
    try {
      const reading =
        position < backfill.to
          ? await readRange(
              { ...context, source, run },
              { from: position, until: backfill.to, maxPasses, movesPosition: true },
            )
          : { isComplete: true, gaveWay: false, note: null }
      if (!reading.gaveWay) await run.endBackfill(reading.isComplete, reading.note)
      return reading
    } catch (error) {
      if (!(error instanceof BackfillCancelled)) throw error
      return { isComplete: false, gaveWay: false, note: 'cancelled' }
    }
  })
}

// The head lane of a changes stream: everything above the position, which moves as far as it is proven complete.
/** The position waits when this many passes in a row were disturbed. */
const maxPasses = 5

export function readHead(context: ChangesContext): Promise<LaneOutcome> {
  return runLane({ ...context, lane: 'head' }, async (run, source) => {
    const { position, facts } = run.state
    const reading = await readRange(
      { ...context, source, run },
      { from: position, until: null, maxPasses, movesPosition: true },
    )
    const largest = largestAnswerFact(facts, reading.largestAnswer, context.now())
    if (largest) await run.learn([largest])
    return reading
  })
}
