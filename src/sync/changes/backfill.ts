// The backfill of a changes stream: a part of the past read again, beside the live reading. It moves a position of
// its own, so that it goes on after a kill where it was (P8), and never the stream's.

import { performRun, type RunOutcome } from '../perform-run.ts'
import { type Backfill, BackfillCancelled } from '../ports/store.ts'
import { maxPasses } from './incremental.ts'
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

function runBackfill(context: ChangesContext, { id, from, to }: Backfill): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'backfill', id }, async (run, source) => {
    const { start } = run.position
    if (start >= to) return { isComplete: true, yielded: false, note: null }
    try {
      return await readRange(
        { ...context, source, run },
        { from: start, restsFrom: from, until: to, maxPasses, movesPosition: true },
      )
    } catch (error) {
      if (!(error instanceof BackfillCancelled)) throw error
      return { isComplete: false, yielded: false, note: 'cancelled' }
    }
  })
}
