// The backfill lane of a changes stream: a part of the past read again, beside the live reading. It moves a position of
// its own, so that it goes on after a kill where it was (P8), and never the stream's.

import { performRun, type RunOutcome } from '../perform-run.ts'
import { type Backfill, BackfillCancelled, type Backfills } from '../ports/store.ts'
import { largestAnswerBelief } from './hypotheses.ts'
import { type ChangesContext, readRange } from './read-changes.ts'

export type BackfillContext = Omit<ChangesContext, 'store'> & { readonly store: Backfills }

/** Works on the stream's oldest unfinished backfill; null when there is none. */
export async function runNextBackfill(context: BackfillContext): Promise<RunOutcome | null> {
  const { store, stream } = context
  for (;;) {
    const backfill = await store.nextBackfill(stream.name)
    if (!backfill) return null
    try {
      const outcome = await runBackfill(context, backfill)
      if (outcome.error) await store.noteBackfillError(backfill.id, outcome.error.message)
      return outcome
    } catch (error) {
      // Over since it was looked up.
      if (!(error instanceof BackfillCancelled)) throw error
    }
  }
}

async function runBackfill(context: BackfillContext, backfill: Backfill): Promise<RunOutcome> {
  const { store, stream } = context
  const taking = { startRun: () => store.startBackfill(stream.name, backfill.id) }
  return await performRun({ ...context, store: taking, kind: 'backfill' }, async (run, source) => {
    const { position } = run.state
    try {
      const reading =
        position < backfill.to
          ? await readRange(
              { ...context, source, run },
              { from: position, until: backfill.to, maxPasses, movesPosition: true },
            )
          : { isComplete: true, yielded: false, note: null }
      if (!reading.yielded) await run.endBackfill(reading.isComplete, reading.note)
      return reading
    } catch (error) {
      if (!(error instanceof BackfillCancelled)) throw error
      return { isComplete: false, yielded: false, note: 'cancelled' }
    }
  })
}

// The incremental run of a changes stream: everything above the position, which moves as far as it is proven complete.
/** The position waits when this many passes in a row were disturbed. */
const maxPasses = 5

export function readIncremental(context: ChangesContext): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'incremental' }, async (run, source) => {
    const { position, beliefs } = run.state
    const reading = await readRange(
      { ...context, source, run },
      { from: position, until: null, maxPasses, movesPosition: true },
    )
    const largest = largestAnswerBelief(beliefs, reading.largestAnswer, context.now())
    if (largest) await run.learn([largest])
    return reading
  })
}
