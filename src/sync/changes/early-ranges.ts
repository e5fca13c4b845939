// Ranges that are begun on suspicion, beside the question that decides whether they are to be read.

import { isDeepStrictEqual } from 'node:util'
import { type RangesContext, type RangesOutcome, readInRanges } from './read-ranges.ts'
import type { Action, Reading } from './state.ts'

type ReadRanges = Extract<Action, { kind: 'ranges' }>

export function openRanges(contextOf: (base: Reading) => RangesContext) {
  let begun: {
    readonly action: ReadRanges
    readonly certainty: PromiseWithResolvers<void>
    readonly outcome: Promise<RangesOutcome>
  } | null = null
  /** Drops what was begun and is not to be read. */
  const leave = () => {
    begun?.certainty.reject(new Error('these ranges are not to be read'))
    begun = null
  }
  return {
    /** Begins to ask before it is certain that these ranges are to be read. */
    begin(base: Reading, action: ReadRanges) {
      const certainty = Promise.withResolvers<void>()
      const outcome = readInRanges({ ...contextOf(base), whenCertain: certainty.promise }, base, action)
      // `read` reports a failure. Until then it must not count as an unhandled rejection.
      outcome.catch(() => {})
      begun = { action, certainty, outcome }
    },
    async read(base: Reading, action: ReadRanges): Promise<RangesOutcome> {
      if (!isDeepStrictEqual(begun?.action, action)) leave()
      const outcome = begun?.outcome ?? readInRanges(contextOf(base), base, action)
      begun?.certainty.resolve()
      begun = null
      return await outcome
    },
    leave,
  }
}
