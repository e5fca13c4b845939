// The head lane of a changes stream: everything above the position, which moves as far as it is proven complete.

import { largestAnswerFact } from './facts.ts'
import { type ChangesContext, readRange } from './read-range.ts'
import { type LaneOutcome, runLane } from './run-lane.ts'

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
