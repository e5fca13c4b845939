// How long to leave alone what does not work: longer after each failure, up to a bound. Pure; time is an argument.

export type Outage = {
  readonly sinceMs: number
  readonly failures: number
  readonly lastFailureMs: number
  /** Not to be tried before. */
  readonly untilMs: number
}

export type Failure = {
  readonly nowMs: number
  /** When the attempt that failed began. */
  readonly startedMs: number
  /** What the other side asked for. */
  readonly notBeforeMs: number | null
  /** The most that it is left alone for. */
  readonly longestDelayMs: number
  /** From 0 to 1. */
  readonly random: number
}

const firstDelayMs = 5_000

export function afterFailure(outage: Outage | null, failure: Failure): Outage {
  const { nowMs, startedMs, notBeforeMs, longestDelayMs, random } = failure
  // Attempts that were under way together fail together: that is one failure.
  const isAnother = outage === null || startedMs >= outage.lastFailureMs
  const failures = (outage?.failures ?? 0) + (isAnother ? 1 : 0)
  const delayMs = Math.min(longestDelayMs, firstDelayMs * 2 ** Math.min(failures - 1, 10))
  // A quarter of it is random, so that many workers do not come back together.
  const untilMs = isAnother ? nowMs + delayMs * (0.75 + 0.25 * random) : (outage?.untilMs ?? nowMs)
  return {
    sinceMs: outage?.sinceMs ?? nowMs,
    failures,
    lastFailureMs: isAnother ? nowMs : (outage?.lastFailureMs ?? nowMs),
    untilMs: Math.max(untilMs, notBeforeMs ?? 0),
  }
}
