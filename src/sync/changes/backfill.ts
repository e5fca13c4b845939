// The backfill of a changes stream: reads a part of the past again while live reading goes on. It has a position of its own, so that
// it continues where it was after a kill (P8), and it never moves the stream's.

import { performRun, type ReadingContext, type RunOutcome } from '../perform-run.ts'
import { type Backfill, BackfillCancelled } from '../ports/store.ts'
import { maxPasses } from './incremental.ts'
import { readRange } from './read.ts'

/** Works on the stream's oldest unfinished backfill; null when there is none. */
export async function runNextBackfill(context: ReadingContext): Promise<RunOutcome | null> {
  const { store, stream } = context
  for (;;) {
    const backfill = await store.nextBackfill(stream.name)
    if (!backfill) return null
    try {
      return await runBackfill(context, backfill)
    } catch (error) {
      // It was cancelled or finished after it was looked up: take the next one.
      if (!(error instanceof BackfillCancelled)) throw error
    }
  }
}

function runBackfill(context: ReadingContext, { id, from, to }: Backfill): Promise<RunOutcome> {
  return performRun({ ...context, kind: 'backfill', id }, async (run, source) => {
    const { start } = run.position
    if (start >= to) return { isComplete: true }
    try {
      return await readRange(
        { ...context, source, run },
        { from: start, restsFrom: from, until: to, maxPasses, movesPosition: true },
      )
    } catch (error) {
      if (!(error instanceof BackfillCancelled)) throw error
      return { isComplete: false, note: 'cancelled' }
    }
  })
}
